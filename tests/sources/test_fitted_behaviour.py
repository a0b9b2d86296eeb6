"""A log without probabilities: the behaviour policy is fitted in a first pass, out of fold, whatever the batches."""

from __future__ import annotations

import io
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import FORMATS, joined, same

import inferl
from inferl.errors import CheckpointCorruptError, CheckpointMismatchError, DataError, InferlError, SettingError
from inferl.sources import table
from inferl.sources.logs.policies import propensities
from inferl.sources.logs.policies.behaviour import FOLDS, folds_of
from inferl.testing import check_source

N = 1200
RNG = np.random.default_rng(0)
EPISODE = np.arange(N) // 4
SEVERITY = RNG.normal(size=N)
WARD = np.array(["east", "west", "icu"])[RNG.integers(3, size=N)]
SCORES = np.stack([0 * SEVERITY, SEVERITY + (WARD == "icu"), -0.5 * SEVERITY], axis=1)
TRUE = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
ACTION = (RNG.random((N, 1)) > TRUE.cumsum(axis=1)[:, :-1]).sum(axis=1)
LOG = pa.table(
    {
        "episode": EPISODE,
        "severity": SEVERITY,
        "ward": WARD,
        "action": ACTION,
        "word": np.array(["wait", "treat", "move"])[ACTION],
        "reward": RNG.normal(size=N),
        "terminated": np.arange(N) % 4 == 3,
        "q": np.full(N, 1 / 3),
    }
)
FORMULA = "C(ward) + severity"
OPTIONS: dict[str, Any] = {"features": ["severity"], "target_probability": "q", "fit_behaviour": FORMULA}


def fitted(log: Any = LOG, **options: Any) -> Any:
    """The probabilities that were fitted, of the actions taken."""
    return 1 / 3 / joined(table(log, **(OPTIONS | options))).ratios


def fit_of(source: Any) -> Any:
    return source.propensities


def by_hand(folds: Any, rows: Any = slice(None)) -> Any:
    """The same by scikit-learn, on standardised columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    columns = np.column_stack([WARD == "icu", WARD == "west", SEVERITY]).astype(float)
    standard = StandardScaler().fit(columns[rows]).transform(columns)
    found = np.zeros(N)
    for fold in range(FOLDS):
        train = np.flatnonzero(folds[rows] != fold)
        model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(standard[rows][train], ACTION[rows][train])
        found[folds == fold] = model.predict_proba(standard)[np.arange(N), ACTION][folds == fold]
    return found


def test_probabilities_are_those_of_scikit_learn_out_of_fold() -> None:
    np.testing.assert_allclose(fitted(), by_hand(folds_of(EPISODE)), rtol=1e-4)
    assert np.corrcoef(fitted(), TRUE[np.arange(N), ACTION])[0, 1] > 0.98
    by_row = fitted(episode=None)
    np.testing.assert_allclose(by_row, by_hand(folds_of(np.arange(1, N + 1))), rtol=1e-4)


def test_a_constant_column_adds_nothing() -> None:
    third = LOG.append_column("third", pa.array(np.full(N, 1e6 / 3)))
    np.testing.assert_allclose(fitted(third, fit_behaviour=f"{FORMULA} + third"), fitted(), rtol=1e-6)


def test_two_actions_and_frequencies() -> None:
    two = LOG.set_column(3, "action", pa.array(ACTION == 1))
    chance = fitted(two, fit_behaviour="1")
    for fold in range(FOLDS):
        mean = np.mean(ACTION[folds_of(EPISODE) != fold] == 1)
        here = folds_of(EPISODE) == fold
        np.testing.assert_allclose(chance[here], np.where(ACTION[here] == 1, mean, 1 - mean), rtol=1e-5)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_formats_batches_and_names_of_actions_do_not_matter(form: str, tmp_path: Path) -> None:
    expected = joined(table(LOG[:400], **OPTIONS))
    path = FORMATS[form](LOG[:400], tmp_path / "log")
    for options in ({"batch": 41}, {"batch": 41, "action": "word"}):
        found = joined(table(path, **OPTIONS, **options))
        if "action" in options:  # in another order
            np.testing.assert_allclose(found.ratios, expected.ratios, rtol=1e-4)
        else:
            assert same(found, expected)


def test_a_large_log_is_fitted_to_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensities, "ROWS", 700)
    source = table(LOG, **OPTIONS)
    expected = joined(source)
    assert 0 < fit_of(source).model.rows <= 700
    assert f"{fit_of(source).model.rows} rows (of 1,200)" in source.describe()["behaviour policy"]
    assert same(joined(table(LOG, **OPTIONS, batch=11)), expected)
    monkeypatch.setattr(propensities, "NUMBERS", 4 * 400)
    again = table(LOG, **OPTIONS)
    list(again)
    assert fit_of(again).model.rows <= 400


def test_the_report_says_what_was_fitted() -> None:
    said = describe()
    assert said.startswith(
        "fitted to 1,200 rows by logistic regression of the action on C(ward) + severity, 5 folds by"
    )
    for part in ("log-loss 0.", "of the frequencies alone 1.", "smallest probability 0.0", "a wrong formula"):
        assert part in said
    assert "row: the log labels no episodes" in describe(episode=None)


def check(log: pa.Table, formula: str) -> Any:
    source = table(log, **(OPTIONS | {"fit_behaviour": formula}))
    list(source)
    return fit_of(source).check()


def test_a_formula_that_does_not_fit_is_told() -> None:
    assert not check(LOG, FORMULA).failed
    extremes = np.where(np.abs(SEVERITY) > 0.7, RNG.random(N) < 0.8, RNG.random(N) < 0.2).astype(int)
    log = LOG.set_column(3, "action", pa.array(extremes))
    told = check(log, "severity")
    assert told.failed
    assert "the behaviour policy does not fit: in a tenth of the rows, action " in told.message
    assert told.remedy.startswith("add to fit_behaviour what the decisions depended on")
    assert not check(log, "poly(severity, 6)").failed
    assert check(log[:40], "severity").status == "not available"


def describe(**options: Any) -> str:
    source = table(LOG, **(OPTIONS | options))
    list(source)
    return source.describe()["behaviour policy"]


def test_it_resumes_bit_for_bit_without_fitting_again(monkeypatch: pytest.MonkeyPatch) -> None:
    check_source(lambda: table(LOG, **OPTIONS, batch=300))
    whole = joined(table(LOG, **OPTIONS))
    source = table(LOG, **OPTIONS, batch=300)
    first = next(iter(source))
    position = source.position
    monkeypatch.setattr(propensities, "fitted", None)
    rest = joined(table(LOG, **OPTIONS).resume(position))
    assert same(inferl.Transitions.join([first, rest]), whole)
    with pytest.raises(CheckpointMismatchError, match="the formula of the behaviour policy is not that of the run"):
        list(table(LOG, **(OPTIONS | {"fit_behaviour": "severity"})).resume(position))
    known = {name: value for name, value in OPTIONS.items() if name != "fit_behaviour"}
    with pytest.raises(InferlError):
        list(table(LOG, **known, behaviour_probability="q").resume(position))


def test_rows_that_are_appended_are_read_with_the_model_of_the_run() -> None:
    half = table(LOG[:800], **OPTIONS)
    first = joined(half)
    more = table(LOG, **OPTIONS).resume(half.open_end)
    both = inferl.Transitions.join([first, joined(more)])
    np.testing.assert_allclose(1 / 3 / both.ratios, by_hand(folds_of(EPISODE), slice(0, 800)), rtol=1e-4)
    strange = pa.concat_tables([LOG[:800], LOG[800:].set_column(3, "action", pa.array([9] * 400))])
    with pytest.raises(
        DataError, match=r"row 801, column 'action': 9 is none of the levels known from the start: 0, 1, 2"
    ):
        list(table(strange, **OPTIONS).resume(half.open_end))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.update(actions=("0", "1")),
        lambda model: model.update(actions=("0",)),
        lambda model: model.update(coefficients=model["coefficients"][:, :1]),
        lambda model: model.update(coefficients=model["coefficients"][:3]),
        lambda model: model.update(coefficients=np.full_like(model["coefficients"], np.inf)),
        lambda model: model.update(smallest=7.0),
        lambda model: model.update(log_loss=float("nan")),
        lambda model: model.update(rows="many"),
        lambda model: model.pop("rows"),
    ],
)
def test_a_forged_position_is_refused(change: Any) -> None:
    source = table(LOG, **OPTIONS, batch=300)
    next(iter(source))
    position = deepcopy(source.position)
    change(position["propensities"]["model"])
    with pytest.raises(CheckpointCorruptError):
        list(table(LOG, **OPTIONS).resume(position))


def test_what_cannot_be_fitted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="fit_behaviour needs the actions"):
        fitted(action=None)
    with pytest.raises(SettingError, match="there is no column 'age'"):
        fitted(fit_behaviour="age + severity")
    with pytest.raises(SettingError, match=r"^fit_behaviour 'C\(ward': .* at the end"):
        fitted(fit_behaviour="C(ward")
    with pytest.raises(SettingError, match="fit_behaviour is given, but no target_probability or policy"):
        fitted(target_probability=None)
    with pytest.raises(SettingError, match="both behaviour_probability and fit_behaviour are given"):
        fitted(behaviour_probability="q")
    with pytest.raises(SettingError, match="if the log does not have it, estimate it"):
        fitted(fit_behaviour=None)
    with pytest.raises(SettingError, match=r"column 'reward': .* discrete actions, and these are real numbers"):
        fitted(action="reward", reward="severity")
    with pytest.raises(SettingError, match=r"column 'pair': a column of .* cannot be a category"):
        fitted(LOG.append_column("pair", pa.array([[0, 1]] * N)), action="pair")
    with pytest.raises(DataError, match="the action is 0 in all rows"):
        fitted(LOG.set_column(3, "action", pa.array([0] * N)))
    rare = np.where(np.arange(N) == 5, 7, ACTION)
    with pytest.raises(DataError, match="action '7' occurs 1 times, in episodes of one fold only"):
        fitted(LOG.set_column(3, "action", pa.array(rare)))
    stream = io.BytesIO(b"episode,severity,ward,action,reward,q\n1,0.5,east,0,1.0,0.5\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    with pytest.raises(SettingError, match="standard input: fitting the behaviour policy takes a pass of its own"):
        fitted("-")


def test_bad_rows_are_reported_when_the_log_is_read() -> None:
    broken = LOG.set_column(1, "severity", pa.array([None if i == 6 else x for i, x in enumerate(SEVERITY)]))
    with pytest.raises(DataError, match="row 7, column 'severity': null is not a finite number"):
        fitted(broken)
    source = table(broken, **OPTIONS, skip_bad=1)
    list(source)
    assert fit_of(source).model.rows == N - 1


def test_target_policies_and_several() -> None:
    policy = {"third": lambda x, a: np.full(len(a), 1 / 3), "half": lambda x, a: np.where(a == 0, 0.5, 0.25)}
    options = {name: value for name, value in OPTIONS.items() if name != "target_probability"}
    ratios = joined(table(LOG, **options, policy=policy)).ratios
    np.testing.assert_array_equal(ratios[:, 0], joined(table(LOG, **OPTIONS)).ratios)
    np.testing.assert_allclose(ratios[:, 1] / ratios[:, 0], 3 * np.where(ACTION == 0, 0.5, 0.25))
