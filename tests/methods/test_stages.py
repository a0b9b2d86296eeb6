"""Runs of a long chunk pass their stages at once, each in a thread: with the same bits, and all or nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from inferl.algorithms import GTD2, TD, DoublyRobust, NStepTD
from inferl.algorithms.base import Carry
from inferl.data.increments import Increments
from inferl.data.parallel import ahead
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.engine import Backend, backend_named
from inferl.errors import DivergenceError
from inferl.evaluator import Evaluator
from inferl.methods import schedule
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Constant, Polynomial
from inferl.testing import assert_same_bits

D = 6


def short_runs() -> Backend:
    """A backend whose runs have 512 rows with four threads, so that a chunk of some thousand rows has several."""
    return replace(backend_named("auto"), run=128 * D)


def chunk(n: int, seed: int = 0, tabular: bool = False, size: float = 1.0) -> Transitions:
    rng = np.random.default_rng(seed)
    states = rng.integers(D, size=n + 1) if tabular else size * rng.normal(size=(n + 1, D))
    last = rng.random(n) < 0.05
    return Transitions(states[:-1], rng.normal(size=n), states[1:], np.where(last, 0.0, 0.9), stream=np.arange(n) % 3)


BOOTSTRAP = OnlineBootstrap(Polynomial(0.5), n_replicas=12)
CASES: list[tuple[Any, Any, bool]] = [
    (TD(D), BOOTSTRAP, False),
    (TD(D), BOOTSTRAP, True),
    (TD(D, trace=0.5), LeastSquares(), False),
    (GTD2(D), BOOTSTRAP, False),
    (NStepTD(D, 3), BOOTSTRAP, False),
    (DoublyRobust(D), LeastSquares("episode"), False),
    (DoublyRobust(D), LeastSquares("episode"), True),
]


@pytest.mark.parametrize(("algorithm", "method", "tabular"), CASES)
def test_stages_at_once_change_no_bit(algorithm: Any, method: Any, tabular: bool) -> None:
    data = chunk(10_000, tabular=tabular)
    alone = Evaluator(algorithm, method, threads=1).update(data[:5000]).update(data[5000:])
    together = Evaluator(algorithm, method, threads=4, backend=short_runs()).update(data)
    assert_same_bits(alone.copy(), together)
    np.testing.assert_array_equal(alone.with_pending().fingerprint, together.with_pending().fingerprint)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rows", [40, 3000])
def test_a_divergence_keeps_the_tiles_before_it(threads: int, rows: int) -> None:
    """Wherever the chunk was cut, and however far the first stage was ahead."""
    method = OnlineBootstrap(Constant(0.05, cap=None), n_replicas=4)
    data = Transitions.join([chunk(5000, size=0.1), chunk(5000, seed=1, size=20.0)])
    at_once = Evaluator(TD(D), method, threads=threads, backend=short_runs()).update(data[:rows])
    with pytest.raises(DivergenceError) as one:
        at_once.update(data[rows:])
    assert one.value.step > 5000
    sound = (one.value.step - 1) // 64 * 64
    assert at_once.n == sound
    calm = Evaluator(TD(D), method, threads=1).update(data[:sound])
    for name in ("iterate", "average_offset"):
        found, expected = (getattr(one.with_pending().method, name) for one in (at_once, calm))
        np.testing.assert_array_equal(found, expected)
    assert at_once.with_pending().episodes.steps == sound
    with pytest.raises(DivergenceError, match="diverged at step"):
        at_once.update(data[:10])


@dataclass(frozen=True)
class Raises(TD):
    """TD that raises at a row that was marked."""

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Look for the mark first."""
        assert isinstance(steps.data, Transitions)
        if (steps.data.rewards == 1e6).any():
            raise ZeroDivisionError("as arranged")
        return super().increments(steps, carry)


@pytest.mark.parametrize("method", [BOOTSTRAP, LeastSquares()])
def test_an_error_in_an_early_stage_leaves_all_as_it_was(method: Any) -> None:
    data = chunk(8000)
    rewards = data.rewards.copy()
    rewards[7000] = 1e6
    marked = Transitions(data.features, rewards, data.next_features, data.discounts, stream=data.stream)
    evaluator = Evaluator(Raises(D), method, threads=4, backend=short_runs()).update(data)
    before = evaluator.copy()
    with pytest.raises(ZeroDivisionError, match="as arranged"):
        evaluator.update(marked)
    assert evaluator.n == 8000
    assert_same_bits(before, evaluator)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("inferl-ahead")]


def test_stages_have_threads_only_where_there_are_runs_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    def counted(items: Any) -> Any:
        used.append(items)
        return ahead(items)

    monkeypatch.setattr(schedule, "ahead", counted)
    for threads, rows, expected in ((4, 6000, 2), (4, 300, 0), (3, 6000, 0)):
        used.clear()
        Evaluator(TD(D), LeastSquares(), threads=threads, backend=short_runs()).update(chunk(rows))
        assert len(used) == expected


def test_items_come_in_order_and_one_is_made_in_advance() -> None:
    made, here = [], threading.get_ident()

    def items() -> Any:
        for k in range(5):
            made.append((k, threading.get_ident()))
            yield k

    taken = []
    for item in ahead(items()):
        taken.append(item)
        assert len(made) <= item + 2
    assert taken == [k for k, _ in made] == list(range(5))
    assert {thread for _, thread in made} != {here}
    assert len({thread for _, thread in made}) == 1


def test_an_error_is_raised_where_its_item_would_have_been() -> None:
    def items() -> Any:
        yield 1
        raise KeyboardInterrupt

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(KeyboardInterrupt):
        next(coming)
