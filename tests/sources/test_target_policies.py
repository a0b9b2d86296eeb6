"""The target policy of a log: policies of the package, classifiers, data frames and tables give the same ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from logs import FORMATS, joined, same

from inferl import policies
from inferl.errors import DataError, SettingError
from inferl.sources import table

LAW = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
N = 40
RNG = np.random.default_rng(0)
STATES, ACTIONS = RNG.integers(3, size=N), RNG.integers(2, size=N)
LOG = pa.table(
    {
        "s": STATES,
        "action": ACTIONS,
        "word": np.array(["stay", "treat"])[ACTIONS],
        "reward": RNG.normal(size=N),
        "p": np.full(N, 0.5),
        "x": STATES.astype(float),
        "y": np.ones(N),
    }
)
BY_STATE: dict[str, Any] = {"state": "s", "n_states": 3, "behaviour_probability": "p"}
BY_VECTOR: dict[str, Any] = {"features": ["x", "y"], "behaviour_probability": "p"}
EXPECTED = (LAW[STATES, ACTIONS] / 0.5)[: N - 1]  # the last row has no next one


class Classifier:
    """What scikit-learn calls one."""

    def __init__(self, *classes: Any) -> None:
        self.classes_ = np.array(classes)

    def predict(self, observations: Any) -> Any:
        raise AssertionError("its probabilities are asked for")

    def predict_proba(self, observations: Any) -> Any:
        assert observations.ndim == 2
        law = LAW[observations[:, 0].astype(int)]
        return law[:, ::-1] if list(self.classes_) == sorted(self.classes_)[::-1] else law


def ratios(target: Any, log: Any = LOG, **options: Any) -> Any:
    chunk = joined(table(log, target_probability=target, **(BY_STATE | options)))
    return chunk.ratios


@pytest.mark.parametrize(
    "target",
    [
        LAW,
        LAW.tolist(),
        policies.Table(LAW),
        policies.Probabilities(lambda state: LAW[state]),
        policies.Probabilities(lambda states: LAW[states], batched=True),
        policies.epsilon_greedy(policies.Table(LAW), 0.0, 2),
        pandas.DataFrame(LAW),
        pandas.DataFrame(LAW, columns=["0", "1"]),
        pandas.DataFrame(LAW[:, ::-1], columns=[1, 0]),
        polars.DataFrame(LAW, schema=["0", "1"]),
        Classifier(0, 1),
        Classifier(1, 0),
        Classifier(0.0, 1.0),
        lambda states, actions: LAW[states, actions],
    ],
    ids=lambda target: type(target).__name__,
)
@pytest.mark.parametrize("form", ["pyarrow", "csv"])
def test_whatever_knows_probabilities_gives_ratios(target: Any, form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(ratios(target, FORMATS[form](LOG, tmp_path / "log")), EXPECTED)


def test_what_exploration_adds_is_counted() -> None:
    explored = 0.8 * LAW + 0.1
    np.testing.assert_allclose(ratios(policies.epsilon_greedy(LAW, 0.2, 2)), (explored[STATES, ACTIONS] / 0.5)[: N - 1])


def test_vectors_are_handed_to_the_policy_as_they_are() -> None:
    law = policies.Probabilities(lambda xs: LAW[xs[:, 0].astype(int)], batched=True)
    for target in (law, Classifier(0, 1)):
        np.testing.assert_array_equal(joined(table(LOG, target_probability=target, **BY_VECTOR)).ratios, EXPECTED)


@pytest.mark.parametrize("form", ["pyarrow", "csv", "jsonl"])
def test_actions_may_have_names(form: str, tmp_path: Path) -> None:
    log = FORMATS[form](LOG, tmp_path / "log")
    for target in (Classifier("stay", "treat"), pandas.DataFrame(LAW, columns=["stay", "treat"])):
        np.testing.assert_array_equal(ratios(target, log, action="word"), EXPECTED)
    with pytest.raises(DataError, match=r"row \d+, column 'word': 'treat' is no action of the target policy"):
        ratios(Classifier("stay", "wait"), log, action="word")


def test_a_classifier_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    features = np.column_stack([STATES, np.ones(N)]).astype(float)
    model = linear_model.LogisticRegression().fit(features, np.array(["stay", "treat"])[ACTIONS])
    expected = model.predict_proba(features)[np.arange(N), ACTIONS] / 0.5
    chunk = joined(table(LOG, target_probability=model, action="word", **BY_VECTOR))
    np.testing.assert_allclose(chunk.ratios, expected[: N - 1], rtol=1e-12)


def test_rows_that_do_not_add_up_to_one_are_named() -> None:
    short = LAW.copy()
    short[1] = [0.4, 0.4]
    for target in (short, pandas.DataFrame(short)):
        with pytest.raises(DataError, match=r"row 1 of the policy is not a distribution: its sum is 0.8"):
            table(LOG, target_probability=target, **BY_STATE)
    first = int(np.flatnonzero(STATES == 1)[0]) + 1
    for target in (policies.Probabilities(lambda states: short[states], batched=True), _Short(short)):
        with pytest.raises(DataError, match=rf"row {first}, column 'action': .* not a distribution: its sum is 0.8"):
            ratios(target)
        source = table(LOG, target_probability=target, **BY_STATE, skip_bad=N)
        list(source)
        assert source.skipped == np.sum(STATES == 1)


class _Short(Classifier):
    def __init__(self, law: Any) -> None:
        super().__init__(0, 1)
        self.law = law

    def predict_proba(self, observations: Any) -> Any:
        return self.law[observations[:, 0].astype(int)]


def test_policies_that_do_not_fit_the_log_are_refused() -> None:
    with pytest.raises(SettingError, match="needs features that are states"):
        list(table(LOG, target_probability=policies.Table(LAW), **BY_VECTOR))
    with pytest.raises(SettingError, match="has no probabilities; give a table or Probabilities"):
        ratios(policies.Deterministic(lambda state: 0))
    with pytest.raises(DataError, match=r"row \d+, column 'action': . has no probability under .* has no row"):
        ratios(LAW[:2])
    with pytest.raises(SettingError, match=r"names its actions \('stay', ...\), and the log holds int64"):
        ratios(pandas.DataFrame(LAW, columns=["stay", "treat"]))
    with pytest.raises(SettingError, match="reset its index"):
        table(LOG, target_probability=pandas.DataFrame(LAW, index=[3, 4, 5]), **BY_STATE)
    with pytest.raises(DataError, match=r"row \d+, column 'action': 1 is no action of the target policy, which has 1"):
        ratios(np.ones((3, 1)))


def test_columns_are_still_columns() -> None:
    frame = LOG.append_column("q", pa.array(LAW[STATES, ACTIONS]))
    one = joined(table(frame, target_probability="q", **BY_STATE))
    assert same(one, joined(table(frame, target_probability=["q"], **BY_STATE)))
    np.testing.assert_array_equal(one.ratios, EXPECTED)


def test_a_function_is_asked_about_sound_rows_only() -> None:
    data = {"x": [0.5, None, 0.5, 0.5], "action": [0, 1, None, 1], "reward": [0.0] * 4, "p": [0.5] * 4}

    def function(features: Any, actions: Any) -> Any:
        assert np.isfinite(features).all()
        assert actions.dtype == np.int64
        return np.where(actions == 0, 0.25, 0.75)

    options: dict[str, Any] = {"features": ["x"], "behaviour_probability": "p", "target_probability": function}
    with pytest.raises(DataError, match="row 2, column 'x': null is not a finite number"):
        list(table(pa.table(data), **options))
    with pytest.raises(DataError, match=r"1 bad rows were skipped.*row 3, column 'action': null is no action"):
        list(table(pa.table(data), **options, skip_bad=1))
