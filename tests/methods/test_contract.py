"""Every registered method keeps the contract, and the contract tells those that do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from mdps import small_problem

import inferl
from inferl.methods.base import Method
from inferl.methods.registry import registered
from inferl.testing import check_method

WALK = inferl.OnlineBootstrap(inferl.Polynomial(0.5, cap=0.1), n_replicas=20, seed=3)
METHODS: dict[str, Method] = {
    "least squares": inferl.LeastSquares(),
    "least squares, episodes": inferl.LeastSquares("episode"),
    "least squares, no blocks": inferl.LeastSquares("none"),
    "bootstrap": WALK,
    "bootstrap, alone": replace(WALK, companion=False),
    "bootstrap, blocks": replace(WALK, multipliers=inferl.Multipliers("two-point", clock=inferl.BlockClock())),
    "bootstrap, episodes": replace(WALK, multipliers=inferl.Multipliers(clock="episode"), average="uniform"),
    "bootstrap, automatic": replace(WALK, step_size="auto", initial="solved"),
}
ALGORITHMS = {"TD": inferl.TD, "GTD2": inferl.GTD2, "windows": inferl.NStepTD}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("tabular", [False, True], ids=["vectors", "table"])
def test_contract(method: Method, algorithm: Any, tabular: bool) -> None:
    check_method(method, algorithm(4 if tabular else 2), small_problem().sample(330, seed=1, tabular=tabular))


def test_all_that_ship_are_checked() -> None:
    ours = {cls for cls in registered() if cls.__module__.startswith("inferl")}
    assert ours == {type(method) for method in METHODS.values()}


@dataclass(frozen=True)
class Forgetful(inferl.LeastSquares):
    """Its state depends on how the stream was cut."""

    def prepare(self, algorithm: Any, state: Any, steps: Any, increments: Any, clock: Any) -> Any:
        return (state, None) if len(steps) < 64 else super().prepare(algorithm, state, steps, increments, clock)

    def commit(self, state: Any, work: Any) -> None:
        super().commit(state, work)
        state.epoch_end += 0 if work is None else len(work[0])


@dataclass(frozen=True)
class Boastful(inferl.LeastSquares):
    """Its covariance is not that of its intervals."""

    def interval(self, reading: Any, level: float, kind: str | None = None) -> inferl.Interval:
        found = super().interval(reading, level, kind)
        return replace(found, standard_error=np.asarray(found.standard_error) / 2)


@dataclass(frozen=True)
class Restless(inferl.LeastSquares):
    """Asking changes it."""

    def estimate(self, algorithm: Any, state: Any, rows: Any) -> Any:
        state.pilot += 1.0
        return super().estimate(algorithm, state, rows)


@dataclass(frozen=True)
class Careless(inferl.LeastSquares):
    """It changes the state that it was given, which `copy` does not copy."""

    def copy(self, state: Any) -> Any:
        return state


@dataclass(frozen=True)
class Greedy(inferl.LeastSquares):
    """What it merges is a part of the first state."""

    def merge(self, states: Any) -> Any:
        states[0].n += sum(state.n for state in states[1:])
        return states[0]


@pytest.mark.parametrize("broken", [Forgetful, Boastful, Restless, Careless, Greedy])
def test_the_contract_can_be_broken(broken: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("inferl.methods.registry").methods.registry._REGISTERED, "broken", broken)
        patch.setattr("inferl.variance.first_epoch.MOST_KEPT", 0)
        with pytest.raises(AssertionError):
            check_method(broken(), inferl.TD(2), small_problem().sample(384, seed=1))
