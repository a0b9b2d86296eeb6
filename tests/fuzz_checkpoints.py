"""Checkpoints and run files, damaged and forged, read and used: `python tests/fuzz_checkpoints.py --inputs 100000`.

An input is a pure function of its seed and number, so that whatever is found can be looked at again (`--show 1234`).
Inputs are read in a process of their own, with little memory: one that kills its reader, or never ends, is counted.

There are three sorts. *Damage*: bytes of a file are changed, cut off or moved; the checksum tells. *Forgery*: values,
types, shapes and fields are changed, and the checksum is made again. *Places*: the same, aimed at the whole numbers by
which compiled code finds its way. What is accepted must be usable: rows go in, an interval and a report come out, and
it is saved again.
"""

from __future__ import annotations

import io
import json
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from fuzzing import Judgement, Lost, ask_worker, command, serve

from inferl import (
    GTD2,
    TD,
    AverageReward,
    BlockClock,
    DoublyRobust,
    Evaluator,
    Increments,
    LeastSquares,
    Linear,
    Multipliers,
    NStepTD,
    OnlineBootstrap,
    Polynomial,
    Stack,
    Transitions,
    Window,
    merge,
)
from inferl.errors import CheckpointCorruptError, InferlError
from inferl.runs import Run
from inferl.sources import Source
from inferl.sources import table as log_table
from inferl.storage import checkpoint

__all__ = ["BAD", "OUTCOMES", "campaign"]

BAD = ("damage not found", "foreign exception", "too much memory", "died", "hung")
OUTCOMES = ("refused", "refused in use", "used", *BAD)
SORTS = ("damage", "forgery", "places")
MEMORY = 1 << 30  # bytes that a reader may map beyond what it has after its imports

Generator = np.random.Generator


# Files to begin with.


@dataclass(frozen=True)
class Sample:
    """A sound file, and how it is used when it has been read."""

    content: bytes
    more: Transitions | Increments
    target: Any
    is_run: bool = False
    source: Callable[[], Source] | None = None  # makes the source that a run is resumed with


def _transitions(n: int, tabular: bool, policies: int = 0, streams: int = 2) -> Transitions:
    rng = np.random.default_rng(n)
    states = rng.integers(5, size=(2, n))
    features = states if tabular else np.stack([np.ones((2, n)), states / 5, rng.normal(size=(2, n))], axis=2)
    ratios = rng.choice([0.5, 1.0, 1.5], size=(n, policies)) if policies else np.ones(n)
    discounts = np.where(rng.random(n) < 0.1, 0.0, 0.9)
    return Transitions(
        features[0], rng.normal(size=n), features[1], discounts, ratios, stream=rng.integers(streams, size=n)
    )


def _saved(evaluator: Evaluator | Run, folder: Path) -> bytes:
    evaluator.save(folder / "file")
    return (folder / "file").read_bytes()


def samples() -> dict[str, Sample]:
    """Small files of all kinds; their states have rows that wait, several streams, and the first epoch behind them."""
    bootstrap = OnlineBootstrap(Polynomial(1.0), n_replicas=8)
    solved = OnlineBootstrap(n_replicas=8, initial="solved")
    in_blocks = OnlineBootstrap(Polynomial(1.0), 8, Multipliers(clock=BlockClock()))
    dense, table, two = _transitions(700, False), _transitions(700, True), _transitions(300, False, policies=2)
    made = {
        "dense": (Evaluator(TD(3)), dense, 0),
        "table": (Evaluator(TD(5)), table, 0),
        "trace": (Evaluator(TD(3, trace=0.5)), dense, 0),
        "episodes": (Evaluator(TD(5), LeastSquares("episode")), table, 0),
        "value": (Evaluator(DoublyRobust(3)), dense, None),
        "value of a table": (Evaluator(DoublyRobust(TD(5), start=1)), table, None),
        "n steps": (Evaluator(NStepTD(3, n=4)), dense, 0),
        "n steps, bootstrap": (Evaluator(NStepTD(5, n=4), bootstrap), table, 0),
        "bootstrap": (Evaluator(TD(3), bootstrap), dense, 0),
        "bootstrap in blocks": (Evaluator(TD(5), in_blocks), table, 0),
        "gradient": (Evaluator(GTD2(3), bootstrap), dense, 0),
        "gradient, solved": (Evaluator(GTD2(3), solved), dense, 0),
        "several policies": (Evaluator(Stack(TD(3), TD(3))), two, 0),
        "average": (Evaluator(AverageReward(3)), dense, None),
        "window": (Evaluator(TD(3, trace=0.5), window=Window(2, 90)), dense, 0),
        "window of episodes": (Evaluator(DoublyRobust(5), window=Window(3, 90)), table, None),
    }
    found: dict[str, Sample] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kept in (0, 8192):  # rows of the first epoch: over, or not
            with patch("inferl.variance.first_epoch.MOST_KEPT", kept):
                for kind, (evaluator, data, target) in made.items():
                    now = Evaluator(evaluator.algorithm, evaluator.method, window=evaluator.window).update(data)
                    along = np.eye(evaluator.algorithm.n_values)[0] if target == 0 else None
                    found[f"{kind}, {kept} rows"] = Sample(_saved(now, folder), data[:150], along)
                a, b = (Evaluator(TD(5)).update(_transitions(n, True)) for n in (400, 500))
                found[f"merged, {kept} rows"] = Sample(_saved(merge(a, b), folder), table[:150], np.eye(5)[0])
        rng = np.random.default_rng(0)
        own = Increments.dense(np.eye(2) + 0.1 * rng.normal(size=(90, 2, 2)), rng.normal(size=(90, 2)))
        found["linear"] = Sample(_saved(Evaluator(Linear(2)).update(own), folder), own, np.eye(2)[0])
        logs = (("states", _log_of_states, table), ("interleaved vectors", _interleaved_log, dense))
        for kind, source, data in (*logs, ("categories", _log_of_categories, dense)):
            content = _saved(_run_of(source()), folder)
            found[f"run of a log, {kind}"] = Sample(content, data[:150], None, is_run=True, source=source)
        run = Run(Evaluator(DoublyRobust(3)), "rollout", {"env": "none", "seed": 1}, provenance={"begun": "now"})
        run.take(dense)
        found["run"] = Sample(_saved(run, folder), dense[:150], None, is_run=True)
    return found


def _log_of_states() -> Source:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = {"s": rng.integers(5, size=300), "reward": rng.normal(size=300), "terminated": rng.random(300) < 0.1}
    return log_table(pa.table(columns), state="s", n_states=5, batch=100)


def _interleaved_log() -> Source:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    names = ("x", "y", "z", "reward")
    columns = {name: rng.normal(size=300) for name in names} | {
        "episode": np.arange(300) // 60 * 3 + np.arange(300) % 3
    }
    columns["reward"][50] = np.nan
    return log_table(pa.table(columns), features="x + y + z - 1", skip_bad=3, batch=100)


def _log_of_categories() -> Source:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = {"ward": rng.choice(["er", "icu"], 300), "t": np.arange(300), "reward": rng.normal(size=300)}
    frame = pa.table(columns | {"episode": np.arange(300) // 60 * 3 + np.arange(300) % 3})
    return log_table(frame, features="ward + age(t) - 1", batch=100)


def _run_of(log: Source) -> Run:
    """A run that stopped before the end of its log."""
    run = Run(Evaluator(TD(3 if log.dimension == 0 else 5)), "evaluate", {"file": "log.parquet"}, provenance={})
    for chunk in islice(log, 2):
        run.take(chunk, log)
    return run


# Damage: bytes.


def damaged(rng: Generator, content: bytes) -> bytes:
    """Change bytes, cut them off, or move them."""
    new, kind = bytearray(content), rng.integers(6)
    a, b = sorted(int(i) for i in rng.integers(len(new), size=2))
    if kind == 0:
        for place in rng.integers(len(new), size=int(rng.integers(1, 9))):
            new[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        return bytes(new[:a])
    elif kind == 2:
        new[a:b] = bytes(b - a)
    elif kind == 3:
        new[a:a] = rng.bytes(int(rng.integers(1, 50)))
    elif kind == 4:
        del new[a : a + int(rng.integers(1, 50))]
    else:
        return _with_members_swapped(rng, content)
    return bytes(new)


def _with_members_swapped(rng: Generator, content: bytes) -> bytes:
    """Let two arrays change their names: the archive itself stays sound."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    one, other = rng.choice(list(members), size=2, replace=False)
    members[one], members[other] = members[other], members[one]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


# Forgery: values, with a checksum that is right.


def forged(rng: Generator, content: bytes, places: bool) -> bytes:
    """Change a few things in the tree of a file or in its arrays; with `places`, whole numbers only."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive if name != "digest"}
    header = json.loads(arrays.pop("header").tobytes())
    claimed: bytes | None = None
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        kind = rng.integers(3)
        if arrays and (kind > 0 or places):
            name = str(rng.choice(list(arrays)))
            if places and arrays[name].dtype.kind != "i":
                name = str(rng.choice([n for n in arrays if arrays[n].dtype.kind == "i"]))
            if not places and rng.random() < 0.05:
                claimed = _claim(rng, name, arrays[name])
            arrays[name] = _other_array(rng, arrays[name], places)
        else:
            _change_tree(rng, header)
    if places and rng.random() < 0.3:
        _change_number(rng, header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays["digest"] = checkpoint._digest(arrays)
    out = io.BytesIO()
    np.savez(out, **arrays)
    if claimed is None:
        return out.getvalue()
    return _with_first_member(out.getvalue(), name, claimed)


WHOLE = (-(2**63), -(2**31), -129, -2, -1, 0, 1, 2, 63, 64, 65, 127, 128, 129, 4096, 2**31, 2**53, 2**62, 2**63 - 1)
REAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e308, -1e308, 1e-308, 1e16, 0.5)


def _one_of(rng: Generator, things: list[Any]) -> Any:
    """Choose one as it is; `rng.choice` would make an array of them."""
    return things[int(rng.integers(len(things)))]


def _other_array(rng: Generator, array: Any, places: bool) -> Any:
    kind = rng.integers(3 if places else 7)
    new = np.array(array)
    if kind < 3 and new.size:
        where = tuple(int(rng.integers(size)) for size in new.shape)
        if new.dtype.kind == "i":
            near = [int(new[where]) + k for k in (-1, 1)] + [len(new), new.size, *new.shape]
            room = np.iinfo(new.dtype)
            new[where] = min(max(_one_of(rng, [*WHOLE, *near]), room.min), room.max)
        elif new.dtype.kind == "b":
            new[where] ^= True
        elif new.dtype.kind == "f":
            new[where] = rng.choice(REAL)
        return new
    if kind == 3:
        return new.astype(rng.choice(["f4", "i4", "?", "u1", ">f8", "i8", "f8", "u8", "f2"]))
    if kind == 4:  # another number of dimensions
        return [new.ravel(), new[None], new.T, new[..., None], np.array(0.0), np.zeros((0, *new.shape[1:]), new.dtype)][
            int(rng.integers(6))
        ]
    axis = int(rng.integers(max(new.ndim, 1)))
    if new.ndim == 0 or new.shape[axis] == 0:
        return np.zeros(int(rng.integers(5)), new.dtype)
    if kind == 5:
        return np.take(new, np.arange(new.shape[axis] - 1), axis)
    return np.concatenate([new, np.take(new, [0], axis)], axis)


def _claim(rng: Generator, name: str, array: Any) -> bytes:
    """Write the header of an array that is much larger than the file."""
    out = io.BytesIO()
    shape = tuple(int(size) for size in rng.choice([2**20, 2**40, 2**62, 0, -1, 3], size=int(rng.integers(1, 4))))
    np.lib.format.write_array_header_1_0(out, {"descr": array.dtype.str, "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(array.tobytes())


def _with_first_member(content: bytes, name: str, member: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {n: archive.read(n) for n in archive.namelist()} | {f"{name}.npy": member}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if len(name) % 2 else zipfile.ZIP_STORED) as archive:
        for n, bits in members.items():
            archive.writestr(n, bits)
    return out.getvalue()


def _nodes(tree: Any, parent: Any = None, key: Any = None) -> Iterator[tuple[Any, Any, Any]]:
    """All nodes with what they hang from."""
    if parent is not None:
        yield parent, key, tree
    for k, item in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from _nodes(item, tree, k)


def _change_number(rng: Generator, header: Any) -> None:
    numbers = [(p, k, v) for p, k, v in _nodes(header["content"]) if type(v) is int]
    if not numbers:
        return
    parent, key, value = _one_of(rng, numbers)
    parent[key] = _one_of(rng, [*WHOLE, value - 1, value + 1])


def _change_tree(rng: Generator, header: Any) -> None:
    nodes = list(_nodes(header["content"]))
    if not nodes:  # an earlier change left a plain value
        return
    parent, key, value = _one_of(rng, nodes)
    kind = rng.integers(7)
    odd: list[Any] = [
        None,
        True,
        False,
        "",
        "x",
        1.5,
        10**30,
        -1,
        0,
        {},
        [],
        {"dict": {}},
        {"tuple": []},
        {"array": "array0"},
    ]
    if kind == 0:
        numbers = [*(int(i) for i in WHOLE), *(float(x) for x in REAL)]
        parent[key] = _one_of(rng, numbers)
    elif kind == 1:
        parent[key] = _one_of(rng, odd)
    elif kind == 2:
        del parent[key]
    elif kind == 3 and isinstance(parent, dict):
        parent["more"] = value
    elif kind == 4:
        other_parent, other_key, other = _one_of(rng, nodes)
        parent[key], other_parent[other_key] = json.loads(json.dumps(other)), value
    elif kind == 5:
        deep: Any = value
        for _ in range(int(rng.choice([2, 40, 90]))):
            deep = {"tuple": [deep]}
        parent[key] = deep
    else:
        held = [header["content"], *(v for _, _, v in nodes if isinstance(v, dict) and "class" in v)]
        names = [str(v.get("class")) for v in held] + ["LeastSquares", "object", "Path"]
        _one_of(rng, held)["class"] = _one_of(rng, names)


# The reader.


@dataclass(frozen=True)
class Input:
    """One file, and where it comes from."""

    kind: str
    sort: str
    content: bytes
    sample: Sample


def drawn(made: dict[str, Sample], seed: int, number: int) -> Input:
    """Make the input with this number."""
    rng = np.random.default_rng([seed, number])
    kind, sort = str(rng.choice(list(made))), str(rng.choice(SORTS, p=[0.25, 0.45, 0.3]))
    sample = made[kind]
    content = damaged(rng, sample.content) if sort == "damage" else forged(rng, sample.content, sort == "places")
    return Input(kind, sort, content, sample)


def judged(one: Input, folder: Path) -> tuple[str, str]:
    """Read a file and use what came out; say what happened, and what was said."""
    path, sample = folder / "file", one.sample
    path.write_bytes(one.content)
    step = "load"
    try:
        loaded = (Run if sample.is_run else Evaluator).load(path)
        if one.sort == "damage" and _bits(one.content) != _bits(sample.content):
            return "damage not found", "it was read"
        for step in ("resume", "update", "interval", "report", "save"):
            if step == "resume":
                _resumed(loaded, sample)
            elif step == "update":
                loaded.take(sample.more) if isinstance(loaded, Run) else loaded.update(sample.more)
            elif step == "save":
                loaded.save(path)
            else:
                str(getattr(loaded, step)() if isinstance(loaded, Run) else getattr(loaded, step)(sample.target))
    except InferlError as error:
        if step == "load" and one.sort == "damage" and not isinstance(error, CheckpointCorruptError):
            return "damage not found", f"{type(error).__name__}: {error}"
        return ("refused" if step == "load" else "refused in use"), f"{step}: {error}"
    except MemoryError:
        return "too much memory", step
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "foreign exception", f"{step}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    return "used", ""


def _resumed(loaded: Evaluator | Run, sample: Sample) -> None:
    """Read the rest of the source into a run, from the position that the file holds."""
    if isinstance(loaded, Run) and sample.source is not None:
        source = sample.source().resume(loaded.position)
        for chunk in source:
            loaded.take(chunk, source)


def _bits(content: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """All that matters in a file; an archive has bytes that mean nothing."""
    with np.load(io.BytesIO(content)) as archive:
        return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in archive.items()}


def worker(seed: int) -> None:
    """Judge the inputs whose numbers come in."""
    warnings.simplefilter("ignore")  # forged numbers may overflow
    made = samples()

    def judge(number: int, folder: Path) -> list[str]:
        one = drawn(made, seed, number)
        outcome, message = judged(one, folder)
        return [one.sort, one.kind, outcome, message]

    serve(judge, MEMORY)


def campaign(numbers: Iterable[int], seed: int = 0) -> Iterator[Judgement]:
    """Judge inputs, grouped by sort; a lost one is of none."""
    for number, answer in ask_worker(__file__, numbers, seed):
        sort, kind, outcome, message = ["", "", answer.outcome, ""] if isinstance(answer, Lost) else answer
        yield Judgement(number, sort, kind, outcome, message)


def show(number: int, seed: int) -> None:
    """Read one input here, and say what was found."""
    warnings.simplefilter("ignore")
    one = drawn(samples(), seed, number)
    with tempfile.TemporaryDirectory() as folder:
        print(one.kind, one.sort, *judged(one, Path(folder)), sep=": ")


if __name__ == "__main__":
    command(__doc__, OUTCOMES, BAD, campaign, show)
