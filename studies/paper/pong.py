"""Atari Pong, on-policy: the paper's section 5.2.

TD on the 512 features of a trained DQN, and the value of the start of a game, for epsilon-greedy versions of its
policy. The value is not linear in the features. An interval speaks of the projected value; what Monte Carlo finds is
another number, and stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.errors import SettingError
from inferl.interval import normal
from studies.paper import games
from studies.paper.learners.network import card
from studies.paper.learners.play import ale
from studies.paper.machinery import PACKAGES, Part, Result, run_parts, write_json
from studies.paper.summaries import LEVEL, diverged, feed, readings
from studies.provenance import provenance

__all__ = ["Pong", "run"]

DIMENSION = 512
SCALINGS = ("unit", "raw")  # features divided by their norm, or as they are
RUN_STREAM = 1_000  # added to the number of a run, so that its replicas are not those of the whole
STREAMS = {"games": 0, "returns": 1, "starts": 2, "views": 3}  # of random numbers


@dataclass(frozen=True)
class Pong:
    """Settings of the study; they were fixed before the reported run, the step sizes on games with other seeds.

    >>> Pong().episodes
    100
    """

    seed: int = 65_000
    epsilons: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    batches: int = 5  # of games, for each policy
    games: int = 20  # in a batch, played side by side and taken in one after the other
    discount: float = 0.99
    reward_scale: float = 0.1
    n_replicas: int = 200
    runs: int = 10  # that the games of a policy are split into; each estimates the value from its own games
    initials: tuple[float, ...] = (128.0, 9.0)  # of the step sizes, for each scaling of the features
    decay: float = 0.65
    cap: float = 0.5
    printed_initial: float = 1.0
    return_batches: int = 5  # of games for Monte Carlo, for each policy
    return_games: int = 40
    horizon: int = 800  # steps after which such a game is left: discount ** 800 is 0.03 %
    starts: int = 500  # whose mean features are the target

    @property
    def episodes(self) -> int:
        """Games that each policy is evaluated from."""
        return self.batches * self.games

    @property
    def run_games(self) -> int:
        """Games of a run."""
        return self.episodes // self.runs

    @property
    def checkpoints(self) -> list[int]:
        """Numbers of episodes after which intervals are read."""
        spaced = np.geomspace(1, self.episodes, min(self.episodes, 25))
        return [int(episodes) for episodes in np.unique(spaced.round())]

    def methods(self, scaling: str, number: int) -> dict[str, Any]:
        """What watches the games; the first bootstrap has the least-squares sums beside it, for the checks."""
        step_size = inferl.Polynomial(self.initials[SCALINGS.index(scaling)], self.decay, self.cap)
        seed = self.seed + number
        printed = inferl.OnlineBootstrap.as_printed(self.printed_initial, self.n_replicas, seed)
        blocks = inferl.Multipliers(clock=inferl.BlockClock())
        return {
            "bootstrap": inferl.OnlineBootstrap(step_size, self.n_replicas, seed=seed),
            "bootstrap, blocks": inferl.OnlineBootstrap(step_size, self.n_replicas, blocks, seed=seed, companion=False),
            "least squares": inferl.LeastSquares(),
            "least squares, i.i.d.": inferl.LeastSquares("none"),
            "as printed": replace(printed, companion=False),
        }


RUN_METHODS = ("least squares", "bootstrap", "as printed")
QUICK = Pong(
    epsilons=(0.0, 0.5, 1.0), batches=1, games=2, runs=2, return_batches=1, return_games=6, horizon=300, starts=50
)


def games_repeat(folder: Path, settings: Pong, number: int) -> Result:
    """Play a batch of games and keep them in a file."""
    policy, batch = divmod(number, settings.batches)
    seed = [settings.seed, STREAMS["games"], policy, batch]
    played = games.play(settings.epsilons[policy], settings.games, seed)
    games.save(played, _file(folder, number))
    return {
        "steps": [len(game.rewards) for game in played],
        "scores": [float(game.rewards.sum()) for game in played],
        "cut": sum(not game.terminated for game in played),
    }


def _file(folder: Path, number: int) -> Path:
    return folder / f"games-{number:03d}.npz"


def returns_repeat(settings: Pong, number: int) -> Result:
    """Discounted returns of a batch of other games."""
    policy, batch = divmod(number, settings.return_batches)
    seed = [settings.seed, STREAMS["returns"], policy, batch]
    found = games.discounted_returns(
        settings.epsilons[policy], settings.return_games, seed, settings.discount, settings.horizon
    )
    return {"returns": (settings.reward_scale * found).tolist()}


def values_repeat(folder: Path, settings: Pong, number: int) -> Result:
    """Evaluate a policy from its games, with one scaling of the features: intervals over episodes, and checks."""
    policy, which = divmod(number, len(SCALINGS))
    scaling = SCALINGS[which]
    target = start(settings, scaling)
    evaluators: dict[str, inferl.Evaluator | None] = {
        name: inferl.Evaluator(inferl.TD(DIMENSION), method)
        for name, method in settings.methods(scaling, number).items()
    }
    found: dict[str, list[Result]] = {name: [] for name in evaluators}
    for episodes, data in enumerate(transitions(folder, settings, policy, scaling), start=1):
        for name, evaluator in evaluators.items():
            evaluators[name] = evaluator = evaluator and feed(evaluator, data)
            if episodes in settings.checkpoints:
                kinds = settings.methods(scaling, number)[name].kinds
                kept = diverged(0.0, kinds) if evaluator is None else readings(evaluator, target, 0.0)
                found[name].append({"episodes": episodes, "estimate": kept["estimate"], "bounds": kept["bounds"]})
    reports = {
        name: evaluator.report(target, LEVEL).to_dict()["checks"]
        for name, evaluator in evaluators.items()
        if evaluator is not None
    }
    return {"readings": found, "checks": reports}


def runs_repeat(folder: Path, settings: Pong, number: int) -> Result:
    """Evaluate a policy from the games of one run alone: what varies between runs is the estimator's variance."""
    policy, which = divmod(number, settings.runs)
    first = which * settings.run_games
    found: Result = {}
    for scaling in SCALINGS:
        methods = settings.methods(scaling, RUN_STREAM + number)
        methods["bootstrap"] = replace(methods["bootstrap"], companion=False)
        evaluators: dict[str, inferl.Evaluator | None] = {
            name: inferl.Evaluator(inferl.TD(DIMENSION), methods[name]) for name in RUN_METHODS
        }
        for data in transitions(folder, settings, policy, scaling, slice(first, first + settings.run_games)):
            for name, evaluator in evaluators.items():
                evaluators[name] = evaluator and feed(evaluator, data)
        found[scaling] = {
            name: evaluator and _estimate(evaluator, start(settings, scaling)) for name, evaluator in evaluators.items()
        }
    return found


def _estimate(evaluator: inferl.Evaluator, target: Floats) -> Result:
    interval = evaluator.interval(target, LEVEL, "normal")
    error = float(interval.standard_error)
    return {"estimate": float(interval.estimate), "standard_error": error if np.isfinite(error) else None}


@cache
def start(settings: Pong, scaling: str) -> Floats:
    """The target: mean features of the starts of games."""
    features, number = games.starts(settings.starts, [settings.seed, STREAMS["starts"]])
    target: Floats = number @ scaled(features, scaling) / number.sum()
    return target


def scaled(features: games.Halves, scaling: str) -> Floats:
    """Features as an evaluator gets them."""
    phi = features.astype(np.float64)
    return phi if scaling == "raw" else phi / np.maximum(np.linalg.norm(phi, axis=1, keepdims=True), 1e-12)


def transitions(
    folder: Path, settings: Pong, policy: int, scaling: str, which: slice = slice(None)
) -> Iterator[inferl.Transitions]:
    """The games of a policy, or some of them, one after the other."""
    batches = range(policy * settings.batches, (policy + 1) * settings.batches)
    played = (game for batch in batches for game in games.load(_file(folder, batch)))
    for game in islice(played, which.start, which.stop):
        phi, n = scaled(game.features, scaling), len(game.rewards)
        discounts, last = np.full(n, settings.discount), np.arange(n) == n - 1
        discounts[-1] *= not game.terminated
        yield inferl.Transitions(phi[:-1], settings.reward_scale * game.rewards, phi[1:], discounts, last=last)


def features_repeat(folder: Path, settings: Pong, number: int) -> Result:
    """What the features of a policy's first batch of games are like."""
    phi = np.concatenate(
        [scaled(game.features, "raw") for game in games.load(_file(folder, number * settings.batches))]
    )
    spectrum = np.linalg.eigvalsh(phi.T @ phi / len(phi))
    shares = np.maximum(spectrum, 0) / spectrum.sum()
    return {
        "norm": float(np.sqrt(np.mean((phi**2).sum(axis=1)))),
        "largest_norm": float(np.sqrt((phi**2).sum(axis=1).max())),
        "active": float((phi > 0).mean()),
        "dead": int((phi.max(axis=0) == 0).sum()),
        "effective_rank": float(1 / (shares**2).sum()),
    }


def views_repeat(settings: Pong, number: int) -> Result:
    """A moment of a game, for the first figure."""
    return games.two_views([settings.seed, STREAMS["views"]])


def _by_policy(settings: Pong, results: list[Result], each: int, summary: Callable[[list[Result]], Result]) -> Any:
    """A row for each policy, from as many results as it has."""
    rows = range(len(results) // each)
    return [{"epsilon": settings.epsilons[i]} | summary(results[i * each : (i + 1) * each]) for i in rows]


def _games(own: list[Result]) -> Result:
    steps, scores = (np.array([x for one in own for x in one[key]]) for key in ("steps", "scores"))
    return {
        "games": len(steps),
        "steps": int(steps.sum()),
        "score": float(scores.mean()),
        "score_error": float(scores.std(ddof=1) / np.sqrt(len(scores))),
        "cut": sum(one["cut"] for one in own),
    }


def _monte_carlo(own: list[Result]) -> Result:
    """The mean return with Student's interval."""
    returns = np.array([x for one in own for x in one["returns"]])
    mean, error = returns.mean(), returns.std(ddof=1) / np.sqrt(len(returns))
    lower, upper = normal(np.asarray(mean), np.asarray(error), LEVEL, float(len(returns) - 1))
    found = {"estimate": mean, "standard_error": error, "lower": lower, "upper": upper}
    distinct = len(np.unique(returns.round(12)))
    return {name: _short(x) for name, x in found.items()} | {"games": len(returns), "distinct": distinct}


def _variances(settings: Pong, results: list[Result]) -> list[Result]:
    """A row for each policy, scaling and method: the variance over runs, and what the runs' own intervals say it is.

    `ratio`: the mean of the squared standard errors over the variance. Both intervals are those of a normal law.
    """
    if not results:
        return []
    keys = [(scaling, method) for scaling in SCALINGS for method in RUN_METHODS]
    return [
        {"epsilon": epsilon, "features": scaling, "method": method}
        | _variance([result[scaling][method] for result in results[i * settings.runs : (i + 1) * settings.runs]])
        for i, epsilon in enumerate(settings.epsilons)
        for scaling, method in keys
    ]


def _variance(own: list[Result | None]) -> Result:
    from scipy.special import chdtri

    kept = [one for one in own if one is not None]  # None: the recursion diverged
    estimates = np.array([one["estimate"] for one in kept])
    errors = [one["standard_error"] for one in kept]
    n, tail = len(kept) - 1, (1 - LEVEL) / 2
    known = n > 0 and bool(estimates.std() > 0)
    variance = float(estimates.var(ddof=1)) if known else None
    return {
        "runs": len(kept),
        "diverged": len(own) - len(kept),
        "estimates": [_short(x) for x in estimates],
        "mean": _short(estimates.mean()) if kept else None,
        "variance": _short(variance),
        "variance_95": [_short(n * variance / chdtri(n, p)) for p in (tail, 1 - tail)] if variance else None,
        "ratio": _short(np.mean(np.square(errors)) / variance) if variance and None not in errors else None,
    }


def _values(settings: Pong, results: list[Result]) -> list[Result]:
    """A row for each reading: policy, scaling, method, kind, episodes."""
    return [
        {
            "epsilon": settings.epsilons[number // len(SCALINGS)],
            "features": SCALINGS[number % len(SCALINGS)],
            "method": method,
            "kind": kind,
            "episodes": reading["episodes"],
            "estimate": _short(reading["estimate"]),
            "lower": _short(lower),
            "upper": _short(upper),
        }
        for number, result in enumerate(results)
        for method, own in result["readings"].items()
        for reading in own
        for kind, (lower, upper) in reading["bounds"].items()
    ]


def _checks(settings: Pong, results: list[Result]) -> list[Result]:
    """What the checks said at the end."""
    return [
        {
            "epsilon": settings.epsilons[number // len(SCALINGS)],
            "features": SCALINGS[number % len(SCALINGS)],
            "method": method,
        }
        | check
        for number, result in enumerate(results)
        for method, checks in result["checks"].items()
        for check in checks
        if check["status"] != "not available" and check["name"] != "ratios"  # which are 1
    ]


def _short(x: Any) -> float | None:
    return None if x is None else float(f"{x:.6g}")


def run(
    output: Path,
    *,
    quick: bool = False,
    repeats: int | None = None,
    processes: int = 1,
    only: Collection[str] | None = None,
    settings: Pong | None = None,
    command: str = "python -m studies.paper pong",
) -> dict[str, Any]:
    """Run the study, or what is missing of it, and write its JSON; see `run_parts` for the parameters."""
    if repeats is not None:
        raise SettingError("pong has policies and games, and no repeats; --quick plays fewer games")
    if settings is None:
        settings = QUICK if quick else Pong()
    ale()  # if it is missing, that is said before the work
    made_by = provenance(settings.seed, command, (*PACKAGES, "ale-py"))
    policies, folder = len(settings.epsilons), output / "games"
    functions: dict[str, tuple[Callable[[Pong, int], Result], int]] = {
        "games": (partial(games_repeat, folder), policies * settings.batches),
        "returns": (returns_repeat, policies * settings.return_batches),
        "values": (partial(values_repeat, folder), policies * len(SCALINGS)),
        "runs": (partial(runs_repeat, folder), policies * settings.runs),
        "features": (partial(features_repeat, folder), policies),
        "views": (views_repeat, 1),
    }
    # What is small in a quick run are the settings.
    parts = [Part(name, function, count, count) for name, (function, count) in functions.items()]
    found, counts = run_parts(parts, settings, output / "repeats", quick=quick, processes=processes, only=only)
    values = _values(settings, found["values"])
    content = {
        "experiment": "pong",
        "provenance": made_by,
        "settings": asdict(settings) | {"level": LEVEL, "episodes": settings.episodes},
        "repeats": counts,
        "network": {key: card()[key] for key in ("model", "greedy_score", "sha256")},
        "games": _by_policy(settings, found["games"], settings.batches, _games),
        "monte_carlo": _by_policy(settings, found["returns"], settings.return_batches, _monte_carlo),
        "features": _by_policy(settings, found["features"], 1, lambda own: own[0]),
        "variances": _variances(settings, found["runs"]),
        "values": [row for row in values if row["episodes"] == settings.episodes],
        "example": [row for row in values if row["epsilon"] == settings.epsilons[0]],
        "checks": _checks(settings, found["values"]),
        "views": found["views"][0],
    }
    write_json(output / "pong.json", content)
    return content
