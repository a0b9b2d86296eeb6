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
from inferl.errors import CheckpointMismatchError, DataError, SettingError
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
    chunk = joined(table(log, policy=target, **(BY_STATE | options)))
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
        np.testing.assert_array_equal(joined(table(LOG, policy=target, **BY_VECTOR)).ratios, EXPECTED)


@pytest.mark.parametrize("form", ["pyarrow", "csv", "jsonl"])
def test_actions_may_have_names(form: str, tmp_path: Path) -> None:
    log = FORMATS[form](LOG, tmp_path / "log")
    for target in (Classifier("stay", "treat"), pandas.DataFrame(LAW, columns=["stay", "treat"])):
        np.testing.assert_array_equal(ratios(target, log, action="word"), EXPECTED)
    with pytest.raises(DataError, match=r"row \d+, column 'word': 'treat' is no action of the target policy"):
        ratios(Classifier("stay", "wait"), log, action="word")


@pytest.mark.parametrize("form", ["pyarrow", "csv", "jsonl"])
def test_actions_may_be_flags_or_negative(form: str, tmp_path: Path) -> None:
    log = LOG.append_column("treated", pa.array(ACTIONS == 1)).append_column("side", pa.array(2 * ACTIONS - 1))
    log = FORMATS[form](log, tmp_path / "log")
    for action, names in (("treated", [False, True]), ("side", [-1, 1])):
        listed = [(s, names[a], LAW[s, a]) for s in range(3) for a in range(2)]
        rows = pandas.DataFrame(listed, columns=["s", action, "probability"])
        for target in (Classifier(*names), pandas.DataFrame(LAW, columns=names), rows):
            np.testing.assert_array_equal(ratios(target, log, action=action), EXPECTED)
    with pytest.raises(DataError, match=r"column 'side': '?-1'? is no action of the target policy"):
        ratios(Classifier(-2, 1), log, action="side")


def test_a_classifier_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    features = np.column_stack([STATES, np.ones(N)]).astype(float)
    model = linear_model.LogisticRegression().fit(features, np.array(["stay", "treat"])[ACTIONS])
    expected = model.predict_proba(features)[np.arange(N), ACTIONS] / 0.5
    chunk = joined(table(LOG, policy=model, action="word", **BY_VECTOR))
    np.testing.assert_allclose(chunk.ratios, expected[: N - 1], rtol=1e-12)


def test_rows_that_do_not_add_up_to_one_are_named() -> None:
    short = LAW.copy()
    short[1] = [0.4, 0.4]
    for target in (short, pandas.DataFrame(short)):
        with pytest.raises(DataError, match=r"row 1 of the policy is not a distribution: its sum is 0.8"):
            ratios(target)
    first = int(np.flatnonzero(STATES == 1)[0]) + 1
    for target in (policies.Probabilities(lambda states: short[states], batched=True), _Short(short)):
        with pytest.raises(DataError, match=rf"row {first}, column 'action': .* not a distribution: its sum is 0.8"):
            ratios(target)
        source = table(LOG, policy=target, **BY_STATE, skip_bad=N)
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
        list(table(LOG, policy=policies.Table(LAW), **BY_VECTOR))
    with pytest.raises(SettingError, match="has no probabilities; give a table or Probabilities"):
        ratios(_Coin())
    with pytest.raises(DataError, match=r"row \d+, column 'action': . has no probability under .* has no row"):
        ratios(LAW[:2])
    with pytest.raises(SettingError, match=r"names its actions \('stay', ...\), and the log holds int64"):
        ratios(pandas.DataFrame(LAW, columns=["stay", "treat"]))
    with pytest.raises(SettingError, match="reset its index"):
        table(LOG, policy=pandas.DataFrame(LAW, index=[3, 4, 5]), **BY_STATE)
    with pytest.raises(DataError, match=r"row \d+, column 'action': 1 is no action of the target policy, which has 1"):
        ratios(np.ones((3, 1)))


class _Coin(policies.Policy):
    def batch(self, observations: Any, uniforms: Any) -> Any:
        return (uniforms > 0.5).astype(int)


def test_a_deterministic_policy_has_probability_one_of_its_action(tmp_path: Path) -> None:
    expected = 2.0 * (ACTIONS == STATES % 2)[: N - 1]
    words = np.array(["stay", "treat"])
    for form in ("pyarrow", "csv"):
        log = FORMATS[form](LOG, tmp_path / "log")
        np.testing.assert_array_equal(ratios(policies.Deterministic(lambda state: state % 2), log), expected)
        named = policies.Deterministic(lambda states: words[states % 2], batched=True)
        np.testing.assert_array_equal(ratios(named, log, action="word"), expected)
    pairs = LOG.append_column("pair", pa.array([[float(a), 1.0] for a in ACTIONS]))
    vector = policies.Deterministic(lambda state: np.array([state % 2, 1.0]))
    np.testing.assert_array_equal(ratios(vector, pairs, action="pair"), expected)
    with pytest.raises(SettingError, match=r"have the shape \(\), and those of the log \(2,\)"):
        ratios(policies.Deterministic(lambda state: 0), pairs, action="pair")


def test_a_function_sees_actions_of_every_kind(tmp_path: Path) -> None:
    def by_word(states: Any, actions: Any) -> Any:
        return LAW[states, (actions == "treat").astype(int)]

    for form in ("pyarrow", "csv", "jsonl"):
        np.testing.assert_array_equal(ratios(by_word, FORMATS[form](LOG, tmp_path / "log"), action="word"), EXPECTED)
    mixed = LOG.append_column("m", pa.array(["7" if a else "stay" for a in ACTIONS]))
    for batch in (1, 3, N):  # text that is a number is one, whatever stands beside it
        found = ratios(lambda s, a: LAW[s, (a == 7).astype(int)], mixed, action="m", batch=batch)
        np.testing.assert_array_equal(found, EXPECTED)
    pairs = LOG.append_column("pair", pa.array([[float(a), 1.0] for a in ACTIONS]))
    by_pair = ratios(lambda s, a: LAW[s, a[:, 0].astype(int)], pairs, action="pair")
    np.testing.assert_array_equal(by_pair, EXPECTED)


LONG = pandas.DataFrame({"state": np.repeat([0, 1, 2], 2), "action": [0, 1] * 3, "probability": LAW.ravel()})


@pytest.mark.parametrize("form", ["pyarrow", "csv"])
@pytest.mark.parametrize("key", ["state", "s"])  # the number of the state, or a column of the log
def test_tables_in_files(form: str, key: str, tmp_path: Path) -> None:
    log = FORMATS[form](LOG, tmp_path / "log")
    long = LONG.rename(columns={"state": key})
    wide = pandas.DataFrame(LAW, columns=["0", "1"])
    path = tmp_path / "policy.csv"
    for frame in (long, long[::-1], long[long.probability > 0], wide, wide.assign(**{key: [0, 1, 2]})[::-1]):
        frame.to_csv(path, index=False)
        np.testing.assert_array_equal(ratios(path, log), EXPECTED)
        np.testing.assert_array_equal(ratios(str(path), log), EXPECTED)
        if frame is not wide:
            np.testing.assert_array_equal(ratios(frame.reset_index(drop=True), log), EXPECTED)
    long.to_parquet(tmp_path / "policy.parquet")
    np.testing.assert_array_equal(ratios(tmp_path / "policy.parquet", log), EXPECTED)


def test_a_table_depends_on_columns_of_the_log() -> None:
    ward = np.array(["north", "south", "west"])[STATES]
    log = LOG.append_column("ward", pa.array(ward)).append_column("sex", pa.array(STATES % 2))
    frame = log.to_pandas()
    crossed = pandas.crosstab([frame.ward, frame.sex], frame.word, normalize="index")  # its index names the columns
    expected = [crossed.loc[(w, x), a] / 0.5 for w, x, a in zip(frame.ward, frame.sex, frame.word, strict=True)]
    chunk = joined(table(log, policy=crossed, action="word", **BY_VECTOR))
    np.testing.assert_array_equal(chunk.ratios, expected[: N - 1])
    first = int(np.flatnonzero(STATES == 2)[0]) + 1
    with pytest.raises(DataError, match=rf"row {first}, column 'word'.* no row for ward west, sex 0"):
        list(table(log, policy=crossed.drop("west"), action="word", **BY_VECTOR))


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"there is no file q .* for a column of its probabilities use target_prob"):
        ratios("q")
    with pytest.raises(SettingError, match="has a column 'doctor', which the log does not; the log has the columns s,"):
        ratios(LONG.rename(columns={"state": "doctor"}))
    with pytest.raises(SettingError, match="has no column 'action'"):
        ratios(LONG.drop(columns="action"))
    with pytest.raises(DataError, match="two probabilities of one action in one state"):
        ratios(pandas.concat([LONG, LONG], ignore_index=True))
    with pytest.raises(DataError, match="two rows are about the same state"):
        ratios(pandas.DataFrame(LAW).assign(s=[0, 0, 1]))
    with pytest.raises(DataError, match="row 2 of the policy is not a distribution: its sum is nan"):
        ratios(LONG.assign(probability=[*LONG.probability[:-1], np.nan]))
    with pytest.raises(SettingError, match="needs features that are states"):
        list(table(LOG, policy=LONG, **BY_VECTOR))
    (tmp_path / "empty.csv").write_text("state,action,probability\n")
    with pytest.raises(DataError, match="holds no probabilities"):
        ratios(tmp_path / "empty.csv")


def test_a_classifier_fitted_on_a_frame_sees_the_same_columns(tmp_path: Path) -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    log = LOG.append_column("ward", pa.array(np.array(["north", "south", "west"])[STATES]))
    frame = log.to_pandas()[["ward", "x"]]
    encode = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(frame, ACTIONS)
    expected = model.predict_proba(frame)[np.arange(N), ACTIONS] / 0.5
    for form in ("pyarrow", "csv"):
        source = table(FORMATS[form](log, tmp_path / "log"), policy=model, features=["y"], behaviour_probability="p")
        np.testing.assert_allclose(joined(source).ratios, expected[: N - 1], rtol=1e-12)
    with pytest.raises(SettingError, match="the target policy looks at a column 'ward'; the log has the columns s,"):
        list(table(LOG, policy=model, **BY_VECTOR))
    changed = log.set_column(log.column_names.index("ward"), "ward", pa.array(["east", *frame.ward[1:]]))
    with pytest.raises(DataError, match=r"row 1, column 'action'.*Pipeline cannot take it: .*unknown categories"):
        list(table(changed, policy=model, **BY_VECTOR))


def test_a_classifier_sees_digits_as_the_text_that_they_are(tmp_path: Path) -> None:
    """Codes of wards, say; only in CSV they cannot be told from numbers."""

    class Wards(Classifier):
        feature_names_in_ = np.array(["ward"], object)

        def predict_proba(self, observations: Any) -> Any:
            return LAW[[["10", "11", "12"].index(ward) for ward in observations["ward"]]]

    log = LOG.append_column("ward", pa.array(np.array(["10", "11", "12"])[STATES]))
    for form in ("pyarrow", "parquet", "jsonl"):
        source = table(FORMATS[form](log, tmp_path / "log"), policy=Wards(0, 1), **BY_VECTOR)
        np.testing.assert_array_equal(joined(source).ratios, EXPECTED)


@pytest.mark.torch
def test_a_torch_module() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        law = module(torch.tensor(np.column_stack([STATES, np.ones(N)]))).softmax(1).numpy()
    chunk = joined(table(LOG, policy=policies.Logits(module), **BY_VECTOR))
    np.testing.assert_allclose(chunk.ratios, law[np.arange(N), ACTIONS][: N - 1] / 0.5)
    with pytest.raises(SettingError, match=r"use Logits\(module\)"):
        table(LOG, policy=module, **BY_VECTOR)


def test_several_policies_have_names() -> None:
    source = table(LOG, policy={"new": LAW, "old": lambda s, a: np.full(len(s), 0.5)}, **BY_STATE)
    np.testing.assert_array_equal(joined(source).ratios, np.stack([EXPECTED, np.ones(N - 1)], axis=1))
    assert list(source.policies) == ["new", "old"]
    for wrong in ({}, {1: LAW}):
        with pytest.raises(SettingError, match="give the name of each policy"):
            table(LOG, policy=wrong, **BY_STATE)


def test_a_run_goes_on_with_the_same_probabilities_only() -> None:
    source = table(LOG, policy=LAW, batch=10, **BY_STATE)
    first = next(iter(source))
    rest = joined(table(LOG, policy=LAW.tolist(), **BY_STATE).resume(source.position))
    np.testing.assert_array_equal(rest.ratios, EXPECTED[len(first) :])
    with pytest.raises(CheckpointMismatchError, match="of the target policy are not those of the run"):
        list(table(LOG, policy=LAW[:, ::-1], **BY_STATE).resume(source.position))


def test_states_that_a_log_numbers_itself_are_not_mistaken_for_those_of_a_policy() -> None:
    log = LOG.append_column("from one", pa.array(STATES + 1))
    options: dict[str, Any] = {"state": "from one", "behaviour_probability": "p"}
    by_name = pandas.DataFrame(LAW, index=pandas.Index([1, 2, 3], name="from one"))
    for policy in (by_name, LAW, policies.Table(LAW)):  # as many rows as states: in their order
        np.testing.assert_array_equal(joined(table(log, policy=policy, **options)).ratios, EXPECTED)
    four = np.vstack([[0.5, 0.5], LAW])
    for policy in (four, policies.Table(four), pandas.DataFrame(four)):
        with pytest.raises(SettingError, match="has 4 states, and the log has 3, from one=1 and so on; give its"):
            list(table(log, policy=policy, **options))


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

    options: dict[str, Any] = {"features": ["x"], "behaviour_probability": "p", "policy": function}
    with pytest.raises(DataError, match="row 2, column 'x': null is not a finite number"):
        list(table(pa.table(data), **options))
    with pytest.raises(DataError, match=r"1 bad rows were skipped.*row 3, column 'action': null is no action"):
        list(table(pa.table(data), **options, skip_bad=1))


def test_tables_with_whole_numbers_written_with_decimals(tmp_path: Path) -> None:
    """A table in CSV says 1.0 where a log in Parquet holds the number."""
    rows = [(float(state), action, LAW[state, action]) for state in range(len(LAW)) for action in range(2)]
    pandas.DataFrame(rows, columns=["grade", "action", "probability"]).to_csv(tmp_path / "new.csv", index=False)
    log = LOG.append_column("grade", pa.array(STATES.astype(float)))
    np.testing.assert_array_equal(ratios(tmp_path / "new.csv", log), ratios(LAW))
