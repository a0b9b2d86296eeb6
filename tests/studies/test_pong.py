"""The Pong study: games and their files, transitions, the figures' pictures; and, with the atari extra, a tiny run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from inferl.errors import MissingExtraError, SettingError
from studies.pages import render
from studies.paper import games, overview, page, pong, pong_page
from studies.paper.__main__ import main
from studies.paper.drawing import draw
from studies.paper.tables import picture

ROOT = Path(__file__).parents[2]
TINY = pong.Pong(
    epsilons=(0.9, 1.0),
    batches=1,
    games=2,
    runs=2,
    n_replicas=5,
    return_batches=1,
    return_games=2,
    horizon=100,
    starts=3,
)


def some_games() -> list[games.Game]:
    """Three games of 4, 6 and 5 steps, the second cut off."""
    random = np.random.default_rng(0)
    return [
        games.Game(random.random((n + 1, 512)).astype(np.float16), random.integers(-1, 2, size=n) / 1.0, ended)
        for n, ended in ((4, True), (6, False), (5, True))
    ]


def test_games_come_back_from_their_file(tmp_path: Path) -> None:
    games.save(some_games(), tmp_path / "deep" / "games.npz")
    for game, again in zip(some_games(), games.load(tmp_path / "deep" / "games.npz"), strict=True):
        np.testing.assert_array_equal(game.features, again.features)
        np.testing.assert_array_equal(game.rewards, again.rewards)
        assert game.terminated == again.terminated
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["games.npz"]


@pytest.mark.parametrize("scaling", pong.SCALINGS)
def test_a_game_that_ends_is_worth_nothing_behind_its_end_and_one_that_is_cut_goes_on(
    scaling: str, tmp_path: Path
) -> None:
    settings = pong.Pong(batches=1, games=3)
    games.save(some_games(), tmp_path / "games-001.npz")  # of the second policy
    chunks = list(pong.transitions(tmp_path, settings, 1, scaling))
    assert [chunk.discounts.tolist() for chunk in chunks] == [[0.99] * 3 + [0], [0.99] * 6, [0.99] * 4 + [0]]
    for chunk, game in zip(chunks, some_games(), strict=True):
        assert np.flatnonzero(chunk.last).tolist() == [len(chunk) - 1]
        np.testing.assert_allclose(chunk.rewards, 0.1 * game.rewards)
        np.testing.assert_array_equal(chunk.features[1:], chunk.next_features[:-1])
        norms = np.linalg.norm(game.features.astype(float), axis=1)
        np.testing.assert_allclose(
            np.linalg.norm(chunk.features, axis=1), norms[:-1] if scaling == "raw" else np.ones(len(chunk))
        )


def test_a_run_has_the_games_of_its_own_place(tmp_path: Path) -> None:
    settings = pong.Pong(epsilons=(0.0,), batches=2, games=3, runs=3)
    for batch in range(2):
        games.save(some_games(), tmp_path / f"games-{batch:03d}.npz")
    whole = list(pong.transitions(tmp_path, settings, 0, "raw"))
    parts = [
        list(pong.transitions(tmp_path, settings, 0, "raw", slice(2 * run, 2 * run + settings.run_games)))
        for run in range(settings.runs)
    ]
    assert [[len(game) for game in part] for part in parts] == [[4, 6], [5, 4], [6, 5]]
    joined = [game for part in parts for game in part]
    for one, other in zip(whole, joined, strict=True):
        np.testing.assert_array_equal(one.features, other.features)


def test_a_policy_has_at_least_ten_runs_and_its_variance_is_that_of_their_estimates() -> None:
    assert pong.Pong().runs >= 10
    assert pong.Pong().runs * pong.Pong().run_games == pong.Pong().episodes
    random = np.random.default_rng(1)
    settings, found = pong.Pong(epsilons=(0.5, 1.0)), list[dict[str, Any]]()
    for run in range(20):
        estimates = {name: {"estimate": random.normal(), "standard_error": 2.0} for name in pong.RUN_METHODS}
        lost = {name: None if run == 3 else one for name, one in estimates.items()}
        found.append({"unit": estimates, "raw": lost})
    rows = pong._variances(settings, found)
    assert len(rows) == 2 * 2 * 3
    first = [result["unit"]["bootstrap"]["estimate"] for result in found[:10]]
    (row,) = [one for one in rows if (one["epsilon"], one["features"], one["method"]) == (0.5, "unit", "bootstrap")]
    assert row["variance"] == pytest.approx(np.var(first, ddof=1), rel=1e-5)
    assert row["ratio"] == pytest.approx(4 / np.var(first, ddof=1), rel=1e-5)
    # The interval of a normal law's variance, 10 values: 0.473 to 3.333 times what is found.
    np.testing.assert_allclose(np.divide(row["variance_95"], row["variance"]), [0.4731, 3.3329], rtol=1e-3)
    assert [one["diverged"] for one in rows if one["features"] == "raw"] == [1] * 3 + [0] * 3


@pytest.mark.parametrize(("factor", "words"), [(0.1, "agrees"), (1.0, "not decided"), (10.0, "**does not agree**")])
def test_the_verdict_on_the_variance_is_that_of_the_runs(factor: float, words: str) -> None:
    settings, found = pong.Pong(epsilons=(0.0, 0.5, 1.0)), list[dict[str, Any]]()
    generator = np.random.default_rng(2)
    drawn = generator.standard_normal(settings.runs)  # the same for all policies: their variances are as told
    for spread in (1.0, factor, factor):
        for x in drawn:
            one = {name: {"estimate": float(spread * x), "standard_error": 0.5} for name in pong.RUN_METHODS}
            found.append({"unit": one, "raw": one})
    content = {
        "settings": {"runs": settings.runs, "episodes": settings.episodes},
        "variances": pong._variances(settings, found),
    }
    shown, verdict = overview._variance(content)
    assert verdict == f"{words}; bootstrap: {words}; as printed: {words}"
    assert "10 runs of 10 games" in shown
    greedy, *_ = pong_page.over_runs(content, "raw", "bootstrap")
    low, high = np.sqrt(9 / chi2.ppf([0.975, 0.025], 9)) * drawn.std(ddof=1)
    assert pong_page.deviation(greedy) == f"{drawn.std(ddof=1):.4f} [{low:.4f}, {high:.4f}]"


def test_intervals_are_read_after_the_first_and_the_last_game() -> None:
    assert pong.Pong().checkpoints[0] == 1
    assert pong.Pong().checkpoints[-1] == pong.Pong().episodes == 100
    assert TINY.checkpoints == [1, 2]


def test_repeats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no repeats"):
        pong.run(tmp_path, repeats=3)


def test_without_ale_py_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingExtraError, match=r"ale-py is not installed: pip install 'inferl\[atari\]'"):
        pong.run(tmp_path)
    monkeypatch.setattr(sys, "argv", ["studies.paper", "pong", "--quick", "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.count("\n") == 1


def test_the_reported_run_has_what_was_asked_for() -> None:
    content = json.loads((ROOT / "docs" / "results" / "pong.json").read_text())
    assert [row["games"] for row in content["games"]] == [100] * 5
    assert all(line["met"] for line in page.criteria(content))
    picture = games.unpacked(content["views"]["screen"])
    assert picture.shape == (210, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3


def test_a_growth_of_the_iid_interval_is_explained_only_where_there_is_one() -> None:
    content = json.loads((ROOT / "docs" / "results" / "pong.json").read_text())
    section = render("pong", picture=picture, **pong_page.facts(content))
    assert "A later game leaves their path" in section
    for row in content["example"]:  # the same widths after any number of games
        row |= {"lower": 0.0, "upper": 1.0}
    section = render("pong", picture=picture, **pong_page.facts(content))
    assert "A later game leaves their path" not in section
    assert "\n\n\n" not in section


@pytest.mark.atari
def test_a_tiny_run_writes_all_files_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    content = pong.run(tmp_path, settings=TINY)
    draw(content, tmp_path)
    figures = [
        f"pong-{name}.{end}" for name in ("blocks", "example", "policies", "widths") for end in ("png", "svg", "csv")
    ]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(["pong.json", *figures])
    assert json.loads((tmp_path / "pong.json").read_text()) == json.loads(json.dumps(content))
    assert "<" not in page.page(tmp_path).replace("<!--", "")
    # The games and the returns are there: only the values are read again, and give the same numbers.
    kept = (tmp_path / "games" / "games-000.npz").stat().st_mtime_ns
    (tmp_path / "repeats" / "values.repeats.jsonl").unlink()
    assert pong.run(tmp_path, settings=TINY)["values"] == content["values"]
    assert {len(row["estimates"]) for row in content["variances"]} == {2}
    assert (tmp_path / "games" / "games-000.npz").stat().st_mtime_ns == kept


@pytest.mark.atari
def test_returns_are_those_of_the_games() -> None:
    (game, other), seed = games.play(1.0, 2, [7, 1]), [7, 1]
    returns = games.discounted_returns(1.0, 2, seed, 0.9, horizon=300)
    expected = [one.rewards[:300] @ 0.9 ** np.arange(300) for one in (game, other)]
    np.testing.assert_allclose(returns, expected)
    assert all(returns < 0)  # nobody wins at random
    assert game.terminated
    assert game.rewards.sum() < -10
    assert game.features.shape == (len(game.rewards) + 1, 512)


@pytest.mark.atari
def test_starts_look_alike() -> None:
    features, number = games.starts(5, [3])
    assert number.sum() == 5
    assert features.shape == (len(number), 512)
