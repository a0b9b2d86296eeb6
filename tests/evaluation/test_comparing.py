"""compare: differences by hand, joint validity, matched episodes, verdicts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import KindError, LevelError, SettingError, TargetError
from inferl.evaluation.comparison import FAIL, INCONCLUSIVE, PASS, Comparison
from inferl.interval import Interval
from inferl.runs import Run


class Game(gymnasium.Env[Any, Any]):
    """One step that pays the action, and luck that depends on the seed alone, twice as much for action 3."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.luck = float(self.np_random.normal())
        return int(self.luck > 0), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, action + self.luck * (2 if action == 3 else 1), True, False, {}


def play(action: Any, seed: int = 0, episodes: int = 100, **options: Any) -> inferl.Result:
    policy = action if callable(action) else (lambda _: action)
    return inferl.evaluate_policy(Game, policy, seed=seed, episodes=episodes, **options)


def earned(returns: Any) -> inferl.Evaluator:
    """An evaluator that knows nothing but these returns."""
    return inferl.Evaluator(inferl.DoublyRobust(1)).update(inferl.Transitions.from_returns(np.asarray(returns, float)))


def test_two_independent_results_are_subtracted_as_welch_does() -> None:
    one, other = play(3, seed=1, episodes=80), play(1, seed=2, episodes=200)
    found = inferl.compare({"a": one, "b": other}, level=0.9)
    assert one.returns is not None
    assert other.returns is not None
    by_hand = stats.ttest_ind(one.returns, other.returns, equal_var=False).confidence_interval(0.9)
    apart = found.difference("a", "b")
    assert (found.pairing, found.kind, found.level) == ("independent", "normal", 0.9)
    assert (apart.lower, apart.upper) == pytest.approx((by_hand.low, by_hand.high), rel=2e-3)  # df of heavy tails
    assert found.policies["a"].lower == one.run.interval(level=0.9).lower


def test_equal_seeds_are_matched_episode_by_episode() -> None:
    one, other = play(3), play(1)
    assert one.returns is not None
    assert other.returns is not None
    found = inferl.compare({"a": one, "b": other})
    apart, by_hand = found.difference("a", "b"), stats.ttest_rel(one.returns, other.returns).confidence_interval(0.95)
    assert found.pairing == "matched"
    assert (apart.lower, apart.upper) == pytest.approx((by_hand.low, by_hand.high), rel=2e-3)
    independent = inferl.compare({"a": one, "b": play(1, seed=1)}).difference("a", "b")
    assert apart.width < 0.6 * independent.width  # luck cancels, by a half


def test_returns_are_those_of_the_episodes_in_order(tmp_path: Path) -> None:
    lean = lambda pole: int(pole[2] > 0)  # noqa: E731
    result = inferl.evaluate_policy("CartPole-v1", lean, episodes=30, discount=0.9, num_envs=3)
    assert result.returns is not None
    for k in (0, 7, 29):
        path = Transitions.join(list(inferl.sources.rollout("CartPole-v1", lean).take(episodes=k + 1)))
        assert path.episode is not None
        lengths = np.bincount(path.episode)
        assert result.returns[k] == pytest.approx((1 - 0.9 ** lengths[k]) / 0.1)
    assert result.interval.estimate == pytest.approx(result.returns.mean())
    result.save(tmp_path / "pole.run")
    again = Run.load(tmp_path / "pole.run")
    assert again.returns is not None
    assert again.returns.ended.tolist() == result.returns.tolist()


def test_matched_results_are_compared_on_the_episodes_that_they_share() -> None:
    one, few = play(3, episodes=150), play(1, episodes=60)
    assert one.returns is not None
    assert few.returns is not None
    apart = inferl.compare({"a": one, "b": few}).difference("a", "b")
    assert apart.estimate == pytest.approx(np.mean(one.returns[:60] - few.returns))
    both = inferl.compare({"a": one, "b": few, "c": play(0, seed=9)})
    assert both.pairing == "partly matched"
    assert both.difference("a", "b").estimate == pytest.approx(apart.estimate)
    total = both.difference("a", "b").estimate + both.difference("b", "c").estimate
    assert total == pytest.approx(both.difference("a", "c").estimate)
    assert both.episodes == {"a": 150, "b": 60, "c": 100}


def test_the_intervals_of_all_pairs_are_those_of_tukey() -> None:
    """Four independent means with equal errors: the studentized range, up to the draws of its quantile."""
    rng = np.random.default_rng(0)
    shape = rng.normal(size=200)
    results = {name: earned(shape + i) for i, name in enumerate("abcd")}  # equal errors
    found = inferl.compare(results)
    reach = stats.studentized_range.ppf(0.95, 4, 4 * 199) / np.sqrt(2)
    for one in found.differences.values():
        assert one.kind == "simultaneous"
        assert (one.upper - one.estimate) / one.standard_error == pytest.approx(reach, rel=0.02)


def test_matched_pairs_are_as_correlated_as_their_returns() -> None:
    """The reach of all pairs is the quantile of the largest of the correlated errors, drawn here by other means."""
    rng = np.random.default_rng(1)
    returns = rng.normal(size=(2000, 3)) * [1, 1, 5] + 10 * rng.normal(size=(2000, 1))
    found = inferl.compare({name: _as_run(returns[:, i]) for i, name in enumerate("abc")})
    apart = np.stack([returns[:, i] - returns[:, j] for i, j in ((0, 1), (0, 2), (1, 2))])
    drawn = rng.multivariate_normal(np.zeros(3), np.corrcoef(apart), size=100_000)
    reach = np.quantile(np.abs(drawn).max(axis=1), 0.95)
    assert found.pairing == "matched"
    for one in found.differences.values():
        assert (one.upper - one.estimate) / one.standard_error == pytest.approx(reach, rel=0.02)
    assert reach < 2.3  # below that of three independent policies, 2.34: two of the pairs are nearly the same


def _as_run(returns: Any) -> Run:
    """A run of episodes of one step with seed 0."""
    run = Run(inferl.Evaluator(inferl.DoublyRobust(1)), "evaluate_policy", {"env": "luck", "seed": 0})
    run.fold(inferl.Transitions.from_returns(np.asarray(returns, float)), _Matchable())  # type: ignore[arg-type]
    return run


class _Matchable:
    matchable = True


def test_results_that_were_stopped_by_looking_have_anytime_differences() -> None:
    one = play(3, until_width=1.0, episodes=2000)
    fixed = {seed: play(1, seed=seed, episodes=one.episodes) for seed in (0, 1)}
    for seed, pairing in ((0, "matched"), (1, "independent")):
        found = inferl.compare({"a": one, "b": fixed[seed]})
        assert (found.pairing, found.kind) == (pairing, "anytime")
        assert {interval.kind for interval in found.policies.values()} == {"anytime"}
        plain = inferl.compare({"a": play(3, episodes=one.episodes), "b": fixed[seed]})
        assert 1.5 < found.difference("a", "b").width / plain.difference("a", "b").width < 1.8
    three = inferl.compare({"a": one, "b": fixed[0], "c": fixed[1]}).difference("a", "b")
    two = inferl.compare({"a": one, "b": fixed[0]}).difference("a", "b")
    assert 1.05 < three.width / two.width < 1.3  # a third of the error probability
    assert three.level == 0.95
    with pytest.raises(KindError, match="a was stopped by looking at it"):
        inferl.compare({"a": one, "b": fixed[0]}, kind="simultaneous")
    asked = inferl.compare({"a": fixed[0], "b": fixed[1]}, kind="anytime")
    assert asked.kind == "anytime"


def of(*bounds: tuple[float, float], margin: float | None = None, notes: tuple[str, ...] = ()) -> Comparison:
    """A comparison of a, b, c, ... with these bounds of the differences."""
    names = "abc"[: 2 if len(bounds) == 1 else 3]
    pairs = [(x, y) for i, x in enumerate(names) for y in names[i + 1 :]]
    found = {
        pair: Interval((low + high) / 2, low, high, 0.95, "normal", 1.0, 100, notes)
        for pair, (low, high) in zip(pairs, bounds, strict=True)
    }
    value = Interval(0.0, -1.0, 1.0, 0.95, "normal", 0.5, 100)
    return Comparison("return", dict.fromkeys(names, value), {}, found, "independent", margin)


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict", "turned"),
    [
        (-4.0, 9.0, 5.0, PASS, INCONCLUSIVE),
        (-5.0, 5.0, 5.0, PASS, PASS),  # at most 5 worse, either way
        (-6.0, 4.0, 5.0, INCONCLUSIVE, PASS),
        (-9.0, -5.0, 5.0, INCONCLUSIVE, PASS),  # 5 worse is at most 5 worse
        (-9.0, -6.0, 5.0, FAIL, PASS),
        (0.0, 0.0, 0.0, PASS, PASS),
        (0.0, 2.0, 0.0, PASS, INCONCLUSIVE),
        (1.0, 2.0, 0.0, PASS, FAIL),
        (6.0, 9.0, -5.0, PASS, FAIL),
        (4.0, 9.0, -5.0, INCONCLUSIVE, FAIL),
    ],
)
def test_a_verdict_is_about_at_most_a_margin_worse(
    low: float, high: float, margin: float, verdict: str, turned: str
) -> None:
    found = of((low, high), margin=margin)
    assert (found.verdict("a", "b"), found.verdict("b", "a")) == (verdict, turned)
    assert found.verdict() == verdict
    doubtful = of((low, high), margin=margin, notes=("length: few",))
    assert (doubtful.verdict("a", "b"), doubtful.verdict("b", "a")) == (INCONCLUSIVE, INCONCLUSIVE)
    assert doubtful.best == ("a", "b")


def test_of_several_policies_the_first_is_judged_against_all() -> None:
    assert of((1, 2), (-3, 4), (-9, 9), margin=5).verdict() == PASS
    assert of((1, 2), (-8, 4), (-9, 9), margin=5).verdict() == INCONCLUSIVE
    assert of((-8, 4), (-8, -6), (-9, 9), margin=5).verdict() == FAIL
    assert of((1, 2), (-8, 4), (-9, 9)).best == ("a", "c")


def test_bounds_add_up_along_other_policies() -> None:
    """a - c says nothing, but a is 2 better than b, and b 3 better than c."""
    found = of((2, 4), (-99, 99), (3, 5), margin=-5)
    assert found.verdict("a", "c") == PASS
    assert found.verdict("c", "a") == FAIL
    assert found.best == ("a",)


def test_it_says_what_was_found() -> None:
    found = inferl.compare({"new": play(3), "old": play(1), "other": play(0, seed=5)}, margin=1)
    lines = str(found).splitlines()
    assert lines[0] == "Game: mean return, 95%"
    assert lines[1].split()[:2] == ["new", f"{found.policies['new'].estimate:.2f}"]
    assert lines[1].endswith("100 episodes")
    assert lines[4] == "differences, 95% for all 3 at once, partly matched episodes"
    assert lines[5].endswith("PASS")
    assert lines[8:] == ["best: new", "PASS: new is at most 1 worse than old and other"]
    html = found._repr_html_()
    assert html.count("<svg") == 6
    assert "PASS: new is at most 1 worse than old and other" in html
    said = json.loads(json.dumps(found.to_dict()))
    assert (said["best"], said["verdict"], said["pairing"]) == (["new"], PASS, "partly matched")
    assert said["policies"]["old"]["episodes"] == 100
    assert [(one["first"], one["second"]) for one in said["differences"]] == list(found.differences)
    bare = inferl.compare({"new": play(3), "old": play(1)})
    assert str(bare).splitlines()[4].endswith("new is better")
    assert bare.to_dict()["verdict"] is None
    with pytest.raises(SettingError, match="a verdict needs a margin"):
        bare.verdict()
    with pytest.raises(SettingError, match="there is no policy 'third'; there are new, old"):
        bare.difference("new", "third")
    with pytest.raises(SettingError, match="cannot be compared with itself"):
        bare.difference("new", "new")


def test_it_draws_policies_and_differences() -> None:
    from inferl.plots import side_by_side

    found = inferl.compare({"new": play(3), "old": play(1)}, margin=1)
    below = found.plot()
    above = below.figure.axes[0]
    assert [label.get_text() for axes in (above, below) for label in axes.get_yticklabels()] == [
        "new",
        "old",
        "new - old",
    ]
    assert [np.asarray(line.get_xdata())[0] for line in below.lines if line.get_linestyle() == "--"] == [-1]
    mine = side_by_side(2)
    assert found.plot(mine) is mine[1]


def test_where_nothing_is_random_the_difference_is_exact() -> None:
    def fixed(reward: float, seed: int) -> inferl.Result:
        class Fixed(Game):
            def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
                return 0, reward, True, False, {}

            def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
                return 0, {}

        return inferl.evaluate_policy(Fixed, lambda _: 0, seed=seed)

    for seed in (0, 1):
        found = inferl.compare({"a": fixed(3.0, 0), "b": fixed(1.0, seed)}, margin=0)
        apart = found.difference("a", "b")
        assert (apart.lower, apart.upper, found.notes, found.verdict()) == (2.0, 2.0, (), PASS)


def test_equal_returns_in_random_episodes_prove_nothing() -> None:
    found = inferl.compare({"a": play(1), "b": play(1)}, margin=5)
    assert found.difference("a", "b").width == 0
    assert found.verdict() == INCONCLUSIVE
    assert found.notes[0].startswith("a - b: length: nothing has varied so far")


def test_evaluators_and_runs_are_compared_too() -> None:
    rng = np.random.default_rng(0)
    one, other = earned(rng.normal(size=100) + 3), earned(rng.normal(size=100))
    found = inferl.compare({"a": one, "b": other, "game": play(1).run})
    assert found.best == ("a",)
    assert found.episodes == {"a": 100, "b": 100, "game": 100}
    assert found.quantity == "Game: the value of the start distribution"


def vector(number: int) -> Any:
    return gymnasium.make_vec("CartPole-v1", num_envs=number)


def test_what_cannot_be_matched_and_is_not_independent_is_refused() -> None:
    class Other(Game):
        pass

    first = play(1, seed=4)
    poles = [
        inferl.evaluate_policy(env, lambda _: 1, seed=seed, episodes=30)
        for env, seed in (("CartPole-v1", 4), (vector(3), 2), (vector(3), 5))  # seeds 4; 2, 3 and 4; 5, 6 and 7
    ]
    assert poles[1].returns is None
    with pytest.raises(SettingError, match=r"b has no returns of whole episodes .* with another seed"):
        inferl.compare({"a": poles[0], "b": poles[1]})
    assert inferl.compare({"a": poles[1], "b": poles[2]}).pairing == "independent"
    elsewhere = inferl.evaluate_policy(Other, lambda _: 1, seed=4)
    with pytest.raises(SettingError, match="two environments, Game and Other; evaluate one of them with another seed"):
        inferl.compare({"a": first, "b": elsewhere})
    with pytest.raises(SettingError, match=r"the discounts differ|a is about"):
        inferl.compare(
            {
                "a": inferl.evaluate_policy("CartPole-v1", lambda _: 0, discount=0.9),
                "b": inferl.evaluate_policy("CartPole-v1", lambda _: 0, seed=1),
            }
        )
    with pytest.raises(SettingError, match="a and b saw the same data"):
        inferl.compare({"a": first.evaluator, "b": first.evaluator.copy()})


@pytest.mark.parametrize(
    ("results", "options", "error", "message"),
    [
        ({"a": 1}, {}, SettingError, "two or more policies by name"),
        ([1, 2], {}, SettingError, "two or more policies by name"),
        ({"a": 1, "b": 2}, {}, SettingError, "a is 1; give a Result"),
        ({1: None, "b": 2}, {}, SettingError, "a policy has the name 1"),
        (None, {"level": 95}, LevelError, "level is 95"),
        (None, {"margin": "five"}, SettingError, "margin is 'five'"),
        (None, {"margin": np.nan}, SettingError, "margin is nan"),
        (None, {"kind": "percentile"}, KindError, "kind is 'percentile'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    results: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    if results is None:
        results = {"a": earned(np.arange(20)), "b": earned(np.arange(20) ** 2)}
    with pytest.raises(error, match=message):
        inferl.compare(results, **options)


def test_an_evaluator_without_a_default_target_is_refused() -> None:
    zero = np.zeros(100, np.int64)
    bare = [
        inferl.Evaluator(inferl.TD(1)).update(Transitions(zero, np.random.default_rng(i).normal(size=100), zero, 0.5))
        for i in range(2)
    ]
    with pytest.raises(TargetError):
        inferl.compare({"a": bare[0], "b": bare[1]})
