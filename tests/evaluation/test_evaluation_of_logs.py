"""evaluate_log: one call, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from logs import small_log
from pyarrow import csv, parquet
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.errors import LevelError, SettingError
from inferl.runs import Run


def shop(episodes: int = 400, seed: int = 0) -> pandas.DataFrame:
    """Five steps each; the action was chosen by a coin and pays 1 with probability 0.3 or 0.6."""
    rng, n = np.random.default_rng(seed), 5 * episodes
    action = rng.integers(2, size=n)
    paid = (rng.random(n) < 0.3 + 0.3 * action).astype(float)
    columns = {"visit": np.arange(n) // 5, "x": rng.normal(size=n), "reward": paid, "p": 0.5}
    return pandas.DataFrame(columns | {"q": np.where(action, 0.8, 0.2), "r": np.where(action, 0.6, 0.4)})


RETURNS: dict[str, Any] = {"episode": "visit", "discount": 1, "episodes_end": True}


def test_on_policy_it_is_the_mean_return() -> None:
    frame = shop()
    result = inferl.evaluate_log(frame, **RETURNS)
    by_hand = frame.groupby("visit")["reward"].sum()
    assert result.interval.estimate == pytest.approx(by_hand.mean())
    assert result.interval.standard_error == pytest.approx(by_hand.std() / 20, rel=1e-6)
    assert (result.quantity, result.episodes, result.steps, result.truncated) == ("mean return", 400, 2000, 0)
    assert (result.smallest, result.largest) == (by_hand.min(), by_hand.max())
    assert result.deviation == pytest.approx(by_hand.std(), rel=1e-6)
    assert (result.names, result.differences) == ((), None)


@pytest.mark.parametrize(
    "columns",
    [{"features": "x"}, {"features": "x", "behaviour_probability": "p", "target_probability": ("q", "r")}],
    ids=["one policy", "two policies"],
)
def test_it_answers_as_the_shell_does(columns: dict[str, Any], tmp_path: Path) -> None:
    shop().to_parquet(tmp_path / "log.parquet")
    result = inferl.evaluate_log(tmp_path / "log.parquet", episode="visit", discount=0.9, episodes_end=True, **columns)
    words = ["evaluate", str(tmp_path / "log.parquet"), "--episode", "visit", "--discount", "0.9", "--episodes-end"]
    for name, value in columns.items():
        words += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else ",".join(value)]
    done = CliRunner().invoke(app, [*words, "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    said, own = json.loads(done.stdout), result.to_dict()
    assert own["interval"]["estimate"] == said["interval"]["estimate"]
    assert own["interval"]["upper"] == said["interval"]["upper"]
    assert own["names"] == said["interval"]["names"]
    assert (own["differences"] or {}).get("lower") == (said["differences"] or {}).get("lower")
    assert [check["name"] for check in own["checks"]] == [check["name"] for check in said["checks"]]


def test_several_policies_have_names_and_differences() -> None:
    both: dict[str, Any] = {"behaviour_probability": "p", "target_probability": ["q", "r"]}
    result = inferl.evaluate_log(shop(), **RETURNS, **both)
    about, q, r, apart = str(result).splitlines()
    assert about == "the pandas DataFrame: mean return, 95%, 400 episodes"
    assert [line.split(":")[0] for line in (q, r, apart)] == ["  q", "  r", "  r - q"]
    assert (result.names, len(result.interval)) == (("q", "r"), 2)
    assert result.differences is not None
    assert result.differences.estimate[0] == pytest.approx(np.diff(result.interval.estimate)[0])
    assert np.isnan([result.smallest, result.largest, result.deviation]).all()  # of another policy
    html = result._repr_html_()
    assert all(f">{name}<" in html for name in ("q", "r", "r - q"))
    assert [label.get_text() for label in result.plot().get_yticklabels()] == ["q", "r"]
    named = inferl.evaluate_log(
        shop().assign(action=lambda frame: (frame["q"] == 0.8).astype(int)),
        **RETURNS,
        behaviour_probability="p",
        state="p",
        policy={"careful": np.array([[0.2, 0.8]]), "bold": np.array([[0.4, 0.6]])},
    )
    assert named.names == ("careful", "bold")
    assert named.interval.estimate == pytest.approx(result.interval.estimate)


def test_what_it_prints() -> None:
    frame = shop(100)
    assert ": discounted return " in str(inferl.evaluate_log(frame, **RETURNS | {"discount": 0.9}, time_limit="ends"))
    frame["truncated"], frame["terminated"] = frame.index % 10 == 4, frame.index % 10 == 9
    limited = str(inferl.evaluate_log(frame, episode="visit", discount=1))
    assert limited.endswith(", 95%, 100 episodes, 50% truncated at the limit")
    cut = str(inferl.evaluate_log(frame, episode="visit", discount=0.5))
    assert cut.splitlines()[0].endswith(", 95%, 100 episodes, 50% truncated")
    stream = inferl.evaluate_log(frame[["x", "reward"]], features="x", discount=0.5)
    assert str(stream).splitlines()[0].endswith(", 95%, 499 transitions")
    assert (stream.quantity, stream.episodes) == ("value", 0)
    assert "fixed point" in stream.interval.estimand


def test_a_source_is_read_as_it_is() -> None:
    source = inferl.sources.table(shop(), **RETURNS)
    assert inferl.evaluate_log(source).to_dict() == inferl.evaluate_log(shop(), **RETURNS).to_dict()
    with pytest.raises(SettingError, match="discount: the log is a Table already"):
        inferl.evaluate_log(source, discount=0.9)
    endless = inferl.sources.rollout("CartPole-v1", lambda _: 0)
    with pytest.raises(SettingError, match="never ends"):
        inferl.evaluate_log(endless)
    endless.close()


def test_checks_of_the_log_are_checks_of_the_result() -> None:
    result = inferl.evaluate_log(shop(), episode="visit", discount=0.9)
    assert "dropped rewards" in {check.name for check in result.checks if check.failed}
    assert "note: dropped rewards: " in str(result)
    assert result.report.facts["log"] == "the pandas DataFrame, 2,000 rows"


def test_a_result_is_kept_and_read_by_others(tmp_path: Path) -> None:
    logs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for seed, path in enumerate(logs):
        shop(seed=seed).to_parquet(path)
    one, other = (inferl.evaluate_log(path, **RETURNS) for path in logs)
    one.save(tmp_path / "one.run")
    again = Run.load(tmp_path / "one.run")
    assert again.report().to_dict()["interval"] == one.interval.to_dict()
    assert again.complete
    assert len(again.readings) > 3
    assert np.isfinite(inferl.compare({"a": again, "b": other}).differences["a", "b"].width)
    with pytest.raises(SettingError, match="saw the same data"):
        inferl.compare({"a": again, "b": inferl.evaluate_log(logs[0], features="x", **RETURNS)})
    one.to_html(tmp_path / "one.html")
    assert "one.parquet" in (tmp_path / "one.html").read_text("utf-8")


def test_the_display_shows_the_interval_and_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = small_log(3000)
    parquet.write_table(frame, tmp_path / "log.parquet")
    csv.write_csv(frame, tmp_path / "log.csv")
    options: dict[str, Any] = {"state": "s", "n_states": 3, "discount": 0.9, "progress": True, "batch": 500}
    inferl.evaluate_log(tmp_path / "log.parquet", **options)
    assert "3,000 of 3,000 rows" in " ".join(capsys.readouterr().err.split())
    inferl.evaluate_log(frame.to_reader(500), **options)  # can be read once, so its length is not known
    assert ", 3,000 rows" in " ".join(capsys.readouterr().err.split())
    inferl.evaluate_log(tmp_path / "log.csv", **options | {"progress": None})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"episod": "visit"}, SettingError, "no option 'episod'; did you mean episode?"),
        ({"zz": 1}, SettingError, "no option 'zz'; there are features, state"),
        ({"level": 95}, LevelError, "level is 95"),
        ({"progress": "yes"}, SettingError, "say True or False"),
        ({"episode": "patient"}, SettingError, "patient"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        inferl.evaluate_log(shop(), **options)
    with pytest.raises(SettingError, match="there is no transition"):
        inferl.evaluate_log(shop(0), **RETURNS)
