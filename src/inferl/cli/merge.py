"""``inferl merge``: one run of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferl.errors import SettingError

if TYPE_CHECKING:
    from inferl.runs import Run

__all__ = ["merge"]

LOOSE = ("file", "every", "skip_bad", "seed", "episodes", "num_envs")  # options in which merged runs may differ


def merge(
    run_files: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run files of separate data, or all parts of a plan.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The run file to write.")],
    json_lines: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the interval only.")] = False,
) -> None:
    """Merge runs of separate data into one run, with a report of all of it.

    The parts of a plan are merged in its order, whatever the order of the
    files: the answer has the same bits as that of inferl evaluate --workers.
    Other runs are merged as they are given; their data must not overlap.

    [bold]inferl evaluate 'logs/*.parquet' --features hr,bp --part 17/64 --checkpoint run/[/bold]

    [bold]inferl merge run/part-*.inferl -o all.inferl && inferl report all.inferl[/bold]

    [bold]inferl merge monday.run tuesday.run -o week.run[/bold]
    """
    from inferl.cli.answering import Answer
    from inferl.cli.building import check_writable
    from inferl.display import as_json
    from inferl.runs import Run

    check_writable(output)
    if len({file.resolve() for file in run_files}) < len(run_files):
        raise SettingError("a run file is given twice; give each once")
    heads = [Run.load(file).provenance for file in run_files]
    files, parts = _in_order(run_files, heads)
    run = _merged((Run.load(file) for file in files), parts)
    run.save(output)
    answer = Answer.of(run, output.stem)
    typer.echo(as_json(answer.content(final=True)) if json_lines else answer.brief if quiet else str(answer))


def _in_order(files: Sequence[Path], heads: Sequence[dict[str, str]]) -> tuple[list[Path], int]:
    """Return the files in the order of their parts, and how many parts the plan has; 0: they are of no plan.

    Refuse parts that are missing, that are there twice, or that do not follow each other.
    """
    said = [head.get("part") for head in heads]
    if None in said:
        if any(said):
            raise SettingError("some of these runs are parts of a plan, and others are not; merge the parts first")
        return list(files), 0
    places = [tuple(map(int, str(text).split(" of "))) for text in said]
    number = places[0][1]
    if any(of != number for _, of in places):
        raise SettingError("these are parts of different plans: " + ", ".join(sorted({f"of {of}" for _, of in places})))
    order = sorted(range(len(files)), key=lambda k: places[k])
    for one, other in itertools.pairwise(order):
        if places[one] == places[other]:
            raise SettingError(f"{files[one]} and {files[other]} are both part {said[one]}; leave the older one out")
    missing = sorted(set(range(1, number + 1)) - {place for place, _ in places})
    if missing:
        named = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise SettingError(f"of {number} parts, {len(missing)} are missing: {named}; evaluate them first")
    for one, other in itertools.pairwise(order):
        if heads[one]["to"] != heads[other]["from"]:
            raise SettingError(
                f"{files[one]} ends before {heads[one]['to']}, and {files[other]} begins with {heads[other]['from']}: "
                "the log was changed between them; evaluate the parts again"
            )
    return [files[k] for k in order], number


def _merged(runs: Iterator[Run], parts: int) -> Run:
    """Merge runs one by one, in a tree that depends on their number alone."""
    from inferl.runs import Run
    from inferl.scale.prefix import Prefix
    from inferl.scale.work import finished, merged
    from inferl.sources.logs.inputs.files import is_uri

    first = next(runs)
    options = first.options
    seen: list[Any] = []
    filled: set[int] = set()
    log = _log(options) if first.command == "evaluate" else None

    def join(runs: Sequence[Run]) -> Run:
        return Run.merge(runs) if log is None else merged(log, runs)

    prefix = Prefix(join)
    for run in (first, *runs):
        if (run.command, _fixed(run)) != (first.command, _fixed(first)):
            raise SettingError("the runs have different options, so they do not answer the same question")
        seen += [file for file in run.options.get("file", ()) if not parts]
        twice = [file for file in set(seen) if seen.count(file) > 1 and (file != "-" or is_uri(file))]
        if twice:
            raise SettingError(f"two of the runs have read {twice[0]}; give each once")
        if not parts and run.evaluator.n:
            if run.evaluator.fingerprint in filled:
                raise SettingError("two of the runs have read the same data; give each once")
            filled.add(run.evaluator.fingerprint)
        prefix.add(run)
    if parts and log is not None:
        return finished(log, prefix, parts)
    whole = prefix.whole()
    if seen:
        whole.options = whole.options | {"file": tuple(seen)}
        whole.follow(_log(whole.options).joined([whole.position]))
    return whole


def _fixed(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.options.items() if name not in LOOSE}


def _log(options: dict[str, Any]) -> Any:
    """Return the log that options describe, without the code that they name: nothing is read."""
    from inferl.cli.building import make_table, map_in

    left_out = {"policy", *(("features",) if map_in(options) else ())}
    return make_table({name: value for name, value in options.items() if name not in left_out})
