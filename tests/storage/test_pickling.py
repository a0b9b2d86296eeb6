"""What goes to another process comes back the same: by pickle, and by deepcopy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inferl import TD, DoublyRobust, Evaluator, Increments, Interval, OnlineBootstrap, Polynomial, Transitions, errors
from inferl.errors import DivergenceError, InferlError, MissingExtraError

ROUTES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "oldest pickle": lambda x: pickle.loads(pickle.dumps(x, protocol=0)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
ERRORS = sorted(
    (cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, InferlError)),
    key=lambda cls: cls.__name__,
)
OWN = {DivergenceError: ("replica 3 diverged at step 7", 7, 3), MissingExtraError: ("torch", "torch")}

pytestmark = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)


def data() -> Transitions:
    rng = np.random.default_rng(0)
    phi = np.c_[np.ones(301), rng.normal(size=301)]
    return Transitions(phi[:-1], rng.normal(size=300), phi[1:], np.where(rng.random(300) < 0.1, 0.0, 0.9))


@pytest.mark.parametrize("cls", ERRORS)
def test_errors(cls: type[InferlError], route: Callable[[Any], Any]) -> None:
    error = cls(*OWN.get(cls, ("row 3: reward is nan",)))
    error.add_note("in file log.csv")
    back = route(error)
    assert type(back) is cls
    assert str(back) == str(error)
    assert back.__dict__ == error.__dict__
    assert back.__notes__ == ["in file log.csv"]


def test_transitions(route: Callable[[Any], Any]) -> None:
    chunk = data()
    back = route(chunk)
    assert len(back) == 300
    for name in ("features", "rewards", "next_features", "discounts", "ratios", "last", "stream", "truncated"):
        assert np.array_equal(getattr(back, name), getattr(chunk, name)), name
    assert np.array_equal(back[3:5].rewards, chunk.rewards[3:5])


def test_increments(route: Callable[[Any], Any]) -> None:
    own = Increments.dense(np.ones((5, 2, 2)), np.arange(10.0).reshape(5, 2))
    assert np.array_equal(route(own).vector(), own.vector())


@pytest.mark.parametrize("targets", [np.eye(2)[0], np.eye(2)])
def test_intervals_and_reports(targets: Any, route: Callable[[Any], Any]) -> None:
    report = Evaluator(TD(2)).update(data()).report(targets)
    back = route(report)
    assert str(back) == str(report)
    assert back.to_dict() == report.to_dict()
    assert back.checks == report.checks
    interval = route(report.interval)
    assert isinstance(interval, Interval)
    assert interval.to_dict() == report.interval.to_dict()
    assert str(route(report.checks[0])) == str(report.checks[0])


@pytest.mark.parametrize("method", [None, OnlineBootstrap(Polynomial(1.0), 10)])
def test_evaluators_go_on(method: Any, route: Callable[[Any], Any]) -> None:
    chunk = data()
    whole = Evaluator(TD(2), method).update(chunk)
    half = Evaluator(TD(2), method).update(chunk[:150])
    moved = route(half)
    if route is not copy.copy:
        assert str(moved.update(chunk[150:]).report([1.0, 0.0])) == str(whole.report([1.0, 0.0]))
    assert (moved.algorithm, moved.method) == (whole.algorithm, whole.method)


def test_algorithms(route: Callable[[Any], Any]) -> None:
    assert route(DoublyRobust(TD(3), start=1)) == DoublyRobust(TD(3), start=1)
