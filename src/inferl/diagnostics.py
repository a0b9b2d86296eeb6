"""Diagnostics: the checks that show whether an interval can be trusted, as pure functions.

A check passes, fails, or is not available; a check that cannot be computed never counts as passed. Failed checks become
notes of the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.algorithms import Algorithm, AverageReward, DoublyRobust, EmphaticTD, Field, Linear, Stack
from inferl.data.arrays import Bools
from inferl.data.constants import ConstantFit
from inferl.data.invariants import demand
from inferl.data.ratios import RatioSummary
from inferl.interval import Interval, unseen_share
from inferl.variance.episodes import EpisodeSummary
from inferl.variance.long_run import CHANGE
from inferl.variance.score_blocks import ScoreBlocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inferl.methods.base import Reading
    from inferl.methods.least_squares import LeastSquaresReading
    from inferl.methods.misfit import Misfit

__all__ = [
    *("Check", "Report", "checks_of_data", "checks_of_scores", "divergence", "notes_of", "overflow"),
    *("signed", "together", "unseen"),
]

FEWEST_BLOCKS = 16  # blocks of one length that a variance estimate needs
FEWEST_STEPS = 250  # with fewer, dependence cannot be ruled out
MANY = 1000  # effective sample sizes above are not reported exactly
FEWEST_EFFECTIVE = 200  # smallest effective sample size that passes; docs/method.md says why
MANY_VARIANCE_ESS = 100  # larger values are too inaccurate to report
FEWEST_VARIANCE_ESS = 5  # steps behind a variance: the rule of thumb for counts, which behave like such variances
SMALLEST_EFFECTIVE_SHARE = 0.10
LARGEST_SHARE = 0.01
UNIDENTIFIED = 1e-3
MATTERS = 0.5  # bias in standard errors that is tolerated: the coverage of 95 % intervals is then 92 %
BEYOND = 0.02  # share of a start's discounted weight that may lie beyond the data
WRONG_RATIOS = 4  # standard errors of the mean ratio from 1; t with 31 degrees of freedom exceeds it once in 2,800
ALARM, WALD_ALARM = 2.576, 9.21  # 1 % of the normal law, and of chi-squared with two degrees of freedom

EVERY = "every estimand"
FITTED = "what the features alone say"
# The estimands that a check is about; a check that is not named here is about every one.
CONCERNS = {
    "mean ratio": "every estimand, off-policy",
    "ratios": "every estimand, off-policy",
    "features": FITTED,
    "intercept": f"{FITTED} of the starts",
    "ends": "every value",
    "dropped rewards": "every value",
    "range": "every value",
}


@dataclass(frozen=True)
class Check:
    """The result of a check: its name, ``"passed"``, ``"failed"`` or ``"not available"``, the reason, and a remedy.

    >>> check = Check("range", "failed", "values are 0 to 1, and the estimate is 3", remedy="collect more data")
    >>> print(check)
    !! range: values are 0 to 1, and the estimate is 3; collect more data
    >>> check.concerns
    'every value'
    """

    name: str
    status: str
    message: str
    value: float | None = None
    remedy: str = ""

    def verify(self) -> None:
        """Raise for a status that no check of a file can have."""
        demand(self.status in ("passed", "failed", "not available"), f"a check has the status {self.status!r:.40}")

    @property
    def concerns(self) -> str:
        """The estimands that this check is about."""
        return CONCERNS.get(self.name, EVERY)

    @property
    def failed(self) -> bool:
        """Whether the interval should not be trusted as it is."""
        return self.status == "failed"

    @property
    def sentence(self) -> str:
        """Name, message and remedy in one line."""
        return f"{self.name}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")

    def __str__(self) -> str:
        mark = {"passed": "ok", "failed": "!!", "not available": "--"}[self.status]
        return f"{mark} {self.sentence}"


@dataclass(frozen=True)
class Report:
    """An interval with its estimand, facts about the data, and all checks; `print` shows it.

    Attributes
    ----------
    interval
        The interval.
    checks
        The results of the checks.
    facts
        Lines about the data and the method.

    Examples
    --------
    >>> from inferl import TD, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> report = Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9)).report(0)
    >>> print(report.interval)
    5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
    >>> print(report.checks[2])
    ok dependence: blocks of 2 steps show a standard error 1.02 times that of single steps; the interval accounts
    for dependence
    """

    interval: Interval
    checks: tuple[Check, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON."""
        return {
            "interval": self.interval.to_dict(),
            "checks": [asdict(check) | {"concerns": check.concerns} for check in self.checks],
            "facts": dict(self.facts),
        }

    def _repr_html_(self) -> str:
        from inferl.display import block, checks, facts, headline

        return block(headline(self.interval), checks(self.checks), facts(self.facts))

    def plot(self, axes: Axes | None = None, names: Sequence[str] = (), reference: float | None = None) -> Axes:
        """Draw the interval, as `Interval.plot` does."""
        return self.interval.plot(axes, names, reference)

    def __str__(self) -> str:
        width = max((len(name) for name in self.facts), default=0)
        facts = [f"  {name:<{width}}  {value}" for name, value in self.facts.items()]
        bare = Interval(**{**self.interval.__dict__, "notes": ()})
        return "\n".join([str(bare), *facts, "checks", *(f"  {check}" for check in self.checks)])


def checks_of_scores(
    reading: Reading, interval: Interval, allowed_for: bool, scores: ScoreBlocks | None = None
) -> tuple[Check, ...]:
    """Make the checks that need least-squares scores: of the method itself, or of a companion.

    `allowed_for` says whether the interval accounts for dependence; `scores` are those of a nonlinear recursion.
    """
    solved = reading.solved
    return (
        dependence(solved if scores is None else scores, allowed_for),
        length(interval, reading, solved),
        rarity(solved),
        identification(solved),
    )


def together(earlier: Iterable[Check], later: Iterable[Check]) -> tuple[Check, ...]:
    """Join the checks of two sources of one evaluator; of each name, the later counts, unless only the earlier failed.

    >>> one, other = Check("dropped rewards", "failed", "of May"), Check("dropped rewards", "passed", "of June")
    >>> [check.message for check in together([one], [other])]
    ['of May']
    """
    found = {check.name: check for check in earlier}
    for check in later:
        known = found.get(check.name)
        if known is None or check.failed or not known.failed:
            found[check.name] = check
    return tuple(found.values())


def notes_of(source: Any) -> tuple[str, ...]:
    """Return the failed checks that a source makes of its data, as notes of an interval."""
    made = source.checks() if hasattr(source, "checks") else ()
    return tuple(check.sentence for check in made if check.failed)


def checks_of_data(
    algorithm: Algorithm,
    about: str,
    interval: Interval,
    ratio_summary: RatioSummary,
    episodes: EpisodeSummary,
    misfit: Misfit | None,
    constant: ConstantFit,
) -> tuple[Check, ...]:
    """Make the checks that all methods share: ratios, features, ends of episodes, the range of values.

    `about` is the kind of target (see `Targets`), because a problem of one estimand may not affect another.
    """
    # These use products of ratios, and features after truncations.
    by_returns = about in ("value", "values", "known start", "observed value", "gap")
    visits = _visits(algorithm)
    carried = episodes if by_returns and not visits else None
    beyond = episodes.share_of_visits if visits else episodes.share_beyond
    made: list[Check | None] = [
        mean_ratio(ratio_summary),
        ratios(ratio_summary, isinstance(algorithm, EmphaticTD), carried),
    ]
    if not isinstance(algorithm, AverageReward | Field | Linear):  # whose solution is not a value
        made.append(features(misfit, beyond if by_returns else None))
        if misfit is None and about in ("fitted", "observed"):  # otherwise the returns tell more
            made.append(intercept(interval, constant))
        if not visits or episodes.closed:
            made.append(ends(episodes, beyond if by_returns else None))
        made.append(possible_range(interval, episodes, about))
    return tuple(check for check in made if check is not None)


def _visits(algorithm: Algorithm) -> bool:
    """Whether visits to a state count as starts, so that episodes are irrelevant."""
    parts = algorithm.parts if isinstance(algorithm, Stack) else (algorithm,)
    return any(isinstance(part, DoublyRobust) and part.start is not None for part in parts)


def features(misfit: Misfit | None, beyond: float | None) -> Check:
    """Check whether the features can express the value of the starts, by comparison with the returns.

    `beyond` is the share of an answer by returns that relies on the features; None if all of it does.
    """
    name = "features"
    if misfit is None:
        message = "whether the features can express the value cannot be checked here"
        return Check(
            name,
            "not available",
            f"{message}; DoublyRobust can check it, if the data have episodes or visits to a start state",
        )
    bias, error = -misfit.gap, misfit.gap_error
    if not np.isfinite(error):
        return Check(name, "not available", "too few episode starts to estimate the bias of the features")
    off, matters = signed(bias, error), MATTERS * misfit.fitted_error
    if abs(bias) > max(ALARM * error, matters):
        message, wrong = f"the features bias the value of the start distribution by {off}", True
    elif misfit.wald > WALD_ALARM and error > matters:
        message, wrong = (
            f"the features are not exact (Wald statistic {misfit.wald:.0f}); they bias the value by {off}",
            True,
        )
    else:
        message, wrong = f"no evidence against the features; their estimated bias is {off}", False
    if beyond is not None:
        rests = "does not depend on them" if beyond <= BEYOND else "depends on them beyond the data"
        return Check(name, "passed", f"{message}; the answer {rests}", bias)
    if wrong:
        return Check(
            name,
            "failed",
            message,
            bias,
            "ask for the value of the start distribution, which does not depend on the features",
        )
    return Check(name, "passed", message, bias)


def intercept(interval: Interval, constant: ConstantFit) -> Check | None:
    """Check whether a combination of the features is constant, if a value without it would be off by too much."""
    name, residual = "intercept", constant.residual
    if residual is None:
        return None
    if residual == 0:
        return Check(name, "passed", "a combination of the features is constant", residual)
    message = f"no combination of the features is constant; the best misses 1 by {residual:.2g}, root mean square"
    if np.all(residual * np.abs(interval.estimate) <= MATTERS * np.asarray(interval.standard_error)):
        return Check(name, "passed", f"{message}, which hardly matters for this value", residual)
    remedy = "add an intercept, as features.WithIntercept does, or ask for the value of the start distribution"
    return Check(name, "failed", message, residual, remedy)


def ends(episodes: EpisodeSummary, share: float | None) -> Check | None:
    """Check whether much of the value lies beyond the data, after truncations, where it relies on the features.

    `share` is the share of a start's discounted weight there; None if the answer relies on the features anyway. Without
    episodes the check does not apply.
    """
    name = "ends"
    if episodes.steps and episodes.discounts[1] == 1 and episodes.terminated + episodes.limited == 0:
        message = "the discount is 1 and no episode has ended, so the value may be infinite"
        return Check(name, "failed", message, None, "use a discount below 1, or mark where episodes end")
    if episodes.closed == 0 and (share is None or episodes.begun == 0):
        return None
    ended = f"{_count(episodes.cut)} of {_count(episodes.closed)} episodes were truncated"
    if episodes.closed == 0:
        ended = f"none of {_count(episodes.begun)} episodes has ended"
    if episodes.limited:
        ended += f", {_count(episodes.limited)} ended at the time limit"
    if share is None:
        return Check(name, "passed", f"{ended}; after a truncation the value is bootstrapped from the features")
    message = f"{ended}; {share:.1%} of the discounted weight of a start lies beyond the data"
    if share <= BEYOND:
        return Check(name, "passed", message, share)
    return Check(
        name,
        "failed",
        f"{message}, where the answer relies on the features alone",
        share,
        'let episodes run longer, or count returns up to the limit (time_limit="ends")',
    )


def possible_range(interval: Interval, episodes: EpisodeSummary, about: str) -> Check | None:
    """Check whether estimate and bounds are values that the observed rewards and the discount allow.

    It does not apply to combinations of features, which need not be a value, nor without known limits. The observed
    returns of undiscounted episodes limit the estimate only: a policy may earn more than was ever seen.
    """
    name = "range"
    low, high = episodes.possible()
    if (
        about not in ("value", "known start", "observed value", "fitted", "observed", "state")
        or not np.isfinite([low, high]).all()
    ):
        return None
    slack = 1e-9 * max(high - low, abs(low), abs(high))
    ends = np.stack([np.atleast_1d(x) for x in (interval.estimate, interval.lower, interval.upper)], axis=1)
    ends = np.where(np.isfinite(ends), ends, ends[:, :1])  # infinite bounds claim nothing
    limits = f"the observed rewards and returns allow values from {low:.4g} to {high:.4g}"
    outside = (ends < low - slack) | (ends > high + slack)
    if outside[:, 0].any():
        estimate = float(ends[outside[:, 0], 0][0])
        remedy = "the features cannot express the value, or there are too few data"
        return Check(name, "failed", f"{limits}, and the estimate is {estimate:.4g}", estimate, remedy)
    if outside.any() and episodes.discounts[1] < 1:
        lower, upper = ends[outside.any(axis=1), 1:][0]
        message = f"{limits}, and the interval from {lower:.4g} to {upper:.4g} goes beyond"
        return Check(name, "failed", message, None, "there are too few data for such an interval; collect more")
    return Check(name, "passed", limits)


def _count(n: float) -> str:
    return f"{n:,.0f}"


def signed(value: float, error: float) -> str:
    if not np.isfinite(value) or not np.isfinite(error):
        return f"{value:+} ± {error}"
    digits = int(np.clip(1 - np.floor(np.log10(max(error, 1e-12))), 0, 12))
    return f"{value:+.{digits}f} ± {error:.{digits}f}"


def overflow(interval: Interval) -> Check | None:
    """Check for numeric overflow; without it, the check does not apply."""
    rows = np.stack([np.atleast_1d(x) for x in (interval.estimate, interval.lower, interval.upper)], axis=1)
    lost = ~np.isfinite(rows[:, 0]) | np.isnan(rows).any(axis=1)
    if not lost.any():
        return None
    return Check(
        "overflow",
        "failed",
        f"numeric overflow: {int(lost.sum())} of {len(lost)} answers are not finite",
        None,
        "look for huge features, rewards or products of ratios, and rescale them",
    )


def divergence(message: str | None) -> Check:
    """Check whether a row of the bootstrap has diverged."""
    if message is None:
        return Check("divergence", "passed", "no parameter has diverged")
    return Check("divergence", "failed", message)


def identification(reading: LeastSquaresReading | None) -> Check:
    """Check whether the data identify the whole target."""
    name = "identification"
    if reading is None:
        return Check(name, "not available", "needs least-squares sums, which are not kept here")
    share = float(reading.unidentified_fraction.max())
    facts = f"{reading.unseen} of the parameters never seen, condition number {reading.condition:.1g}"
    if share <= UNIDENTIFIED:
        return Check(name, "passed", f"the data identify the target ({facts})", share)
    return Check(
        name,
        "failed",
        f"{share:.2%} of the target is not identified by the data ({facts}; a state that is entered and never left "
        "counts too)",
        share,
        "choose a target that the data cover, or collect data there",
    )


def dependence(reading: LeastSquaresReading | ScoreBlocks | None, allowed_for: bool) -> Check:
    """Check whether scores depend on each other over time more than the interval accounts for.

    Every block length with enough blocks is tested, not only the one that the interval uses: noise can hide a slow
    growth from the rule that chooses it. For a nonlinear recursion the scores of every parameter are tested.
    """
    from scipy.special import ndtr, ndtri

    name = "dependence"
    if isinstance(reading, ScoreBlocks):
        blocks, rate, unit = reading.blocks, reading.rate(), "steps"
        length, final, apart = 2.0 ** np.arange(len(blocks)), False, 0.0
        noisy: Bools | bool = True
        many = -float(ndtri(ndtr(-3.0) / len(reading.pilot)))  # one test per parameter
    elif reading is None or reading.levels is None:
        return Check(name, "not available", "needs block sums, which are not kept here")
    else:
        blocks, rate, unit = reading.levels.blocks, reading.levels.rate, reading.unit
        length, final = reading.levels.length, reading.levels.final
        apart = float(np.max(reading.levels.between, initial=0.0))
        noisy, many = reading.standard_error > 0, 3.0
    if not len(blocks) or blocks[0] < FEWEST_BLOCKS:
        return Check(name, "not available", f"fewer than {FEWEST_BLOCKS} {unit} so far")
    tested = blocks >= FEWEST_BLOCKS
    at_zero = np.where((rate[0] > 0) & noisy, rate[0], np.inf)  # no dependence without noise
    ratio = np.sqrt(rate[tested] / at_zero)  # (levels, targets)
    excess = ratio / (1 + many / np.sqrt(2 * blocks[tested]))[:, None]
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    value = float(ratio[worst])
    what = "whole streams" if final and worst[0] == len(length) - 1 else "blocks"
    seen = f"{what} of {length[worst[0]]:.0f} {unit} show a standard error {value:.2f} times that of single {unit}"
    if worst[0] == 0:
        seen = f"longer blocks show no larger standard error than single {unit}"
    if apart > CHANGE:
        message = "the streams differ by more than the variation within them explains, so the interval is too narrow"
        return Check(name, "failed", message, value, "evaluate each stream by itself, or collect at least six streams")
    if allowed_for:
        return Check(name, "passed", f"{seen}; the interval accounts for dependence", value)
    if excess[worst] <= 1:
        return Check(name, "passed", seen, value)
    return Check(
        name,
        "failed",
        f"{seen}: the interval is too narrow",
        value,
        "use multipliers with BlockClock() as their clock"
        + ("" if isinstance(reading, ScoreBlocks) else ', or LeastSquares("dyadic")'),
    )


def length(interval: Interval, reading: Reading, solved: LeastSquaresReading | None) -> Check:
    """Check whether the stream is long enough, by its effective sample size."""
    name, n = "length", interval.n
    if n == 0:
        return Check(name, "not available", "no transitions so far")
    fewest = float(np.min(reading.df))
    if (solved is None or solved.levels is None) and fewest < FEWEST_BLOCKS:
        message = (
            f"only {fewest:.0f} blocks or episodes to estimate the variance from; at least {FEWEST_BLOCKS} are needed"
        )
        return Check(name, "failed", message, fewest, "collect more data")
    by_episodes = solved is not None and solved.unit == "episodes"
    if by_episodes and solved is not None and solved.levels is not None and solved.levels.blocks[0] < FEWEST_BLOCKS:
        seen = float(solved.levels.blocks[0])
        message = f"only {seen:.0f} episodes to estimate the variance from; at least {FEWEST_BLOCKS} are needed"
        remedy = "collect more episodes; in a stream without episodes, name a start state whose visits count as starts"
        return Check(name, "failed", message, seen, remedy)
    if n < FEWEST_STEPS and not by_episodes:
        message = f"{n} transitions are too few to estimate their autocorrelation"
        return Check(name, "failed", message, float(n), f"collect {FEWEST_STEPS} or more")
    if np.any(np.asarray(interval.standard_error) == 0):
        missed = f"; {unseen(solved.units)}" if by_episodes and solved is not None else ""
        return Check(
            name,
            "failed",
            f"nothing has varied so far, so a width of 0 does not account for what has not happened yet{missed}",
            0.0,
            "if nothing is random here, the value is exact; otherwise collect more data",
        )
    if solved is None:
        return Check(name, "not available", "needs least-squares sums, which are not kept here")
    if by_episodes:
        return Check(name, "passed", f"effective sample size {solved.effective:.0f} episodes", solved.effective)
    effective = min(solved.effective, float(n))
    if effective >= FEWEST_EFFECTIVE:
        size = f"{effective:.0f}" if effective < MANY else f"above {MANY:,}"
        return Check(name, "passed", f"effective sample size {size}", effective)
    return Check(
        name,
        "failed",
        f"slow mixing: {n} steps have an effective sample size of {effective:.0f}, below {FEWEST_EFFECTIVE}, so the "
        "interval may be too narrow",
        effective,
        "collect more data",
    )


def unseen(episodes: int) -> str:
    """Say what equal episodes cannot exclude."""
    return f"what happens in up to {unseen_share(episodes, 0.05):.1%} of the episodes may have been missed"


def rarity(reading: LeastSquaresReading | None) -> Check:
    """Check whether the variance estimate rests on more than a few rare steps with large scores."""
    name = "rarity"
    if reading is not None and reading.n == 0:
        return Check(name, "not available", "no transitions so far")
    if reading is None or reading.levels is None:
        return Check(name, "not available", "needs block sums, which are not kept here")
    known = reading.variance_ess[~np.isnan(reading.variance_ess) & (reading.standard_error > 0)]
    if not len(known):
        message = "too few blocks, or too little variation, to estimate the kurtosis of the scores"
        return Check(name, "not available", message)
    fewest, steps = float(np.min(known)), int(reading.levels.blocks[0])
    if fewest >= FEWEST_VARIANCE_ESS:
        message = f"about {fewest:.0f}" if fewest < MANY_VARIANCE_ESS else f"more than {MANY_VARIANCE_ESS}"
        return Check(name, "passed", f"the variance estimate rests on {message} {reading.unit}", fewest)
    return Check(
        name,
        "failed",
        f"the variance estimate rests on about {fewest:.0f} of the {steps} {reading.unit} it is computed from, fewer "
        f"than {FEWEST_VARIANCE_ESS}: rare events have hardly been seen yet, and the interval may be too narrow",
        fewest,
        "collect more data",
    )


def mean_ratio(summary: RatioSummary) -> Check | None:
    """Check whether the ratios of each policy average 1, as those of right probabilities do; on-policy, they are 1."""
    if summary.on_policy:
        return None
    name, distance = "mean ratio", summary.distance_from_one
    several, worst = len(distance) > 1, int(np.argmax(distance))
    means = [
        (f"of policy {i + 1} " if several else "") + f"is {mean:.3f}, {away:.1f} standard errors from 1"
        for i, (mean, away) in enumerate(zip(summary.mean, distance, strict=True))
    ]
    wrong = np.flatnonzero(distance > WRONG_RATIOS)
    unseen = "large ratios have not been seen yet, or " if summary.mean[worst] < 1 else ""
    if not wrong.size:
        return Check(name, "passed", f"the mean ratio {means[worst]}", float(distance[worst]))
    return Check(
        name,
        "failed",
        f"the mean ratio {', '.join(means[i] for i in wrong)}: {unseen}these are not the importance ratios of this log",
        float(distance[worst]),
        "check the probabilities of both policies: in each state they must sum to 1 over the actions; do not clip",
    )


def ratios(summary: RatioSummary, emphatic: bool = False, episodes: EpisodeSummary | None = None) -> Check:
    """Check whether a few transitions with large ratios dominate.

    With `episodes`, the estimate uses products of ratios: whether these average 1, and whether a few episodes dominate.
    """
    name = "ratios"
    growth = float(np.max(summary.squares)) / max(summary.n, 1) * summary.discount**2
    if emphatic and growth > 1:
        return Check(
            name,
            "failed",
            f"the emphasis has infinite variance here (mean squared ratio times squared discount is {growth:.2f}, "
            "above 1), so no interval is valid",
            growth,
            "use GTD2, TDC or LeastSquares on TD",
        )
    if summary.n == 0:
        return Check(name, "not available", "no transitions with ratios so far")
    if episodes is not None and episodes.closed and not summary.on_policy:
        carried, (mean, distance) = episodes.effective, episodes.mean_weight
        message = (
            f"the importance weights of {_count(episodes.closed)} episodes average {mean:.3f}; effective sample size "
            f"{_count(carried)}"
        )
        if carried < FEWEST_VARIANCE_ESS:
            closer = "evaluate a policy closer to the behaviour policy, or collect more episodes"
            return Check(name, "failed", f"{message}: a few episodes dominate", carried, closer)
        if distance <= ALARM:
            return Check(name, "passed", message, carried)
        cause = (
            "large weights have not been seen yet, or the ratios are wrong" if mean < 1 else "the ratios may be wrong"
        )
        return Check(
            name,
            "failed",
            f"{message}: that is {distance:.1f} standard errors from 1, so {cause}",
            distance,
            "evaluate a policy closer to the behaviour policy, or collect more episodes",
        )
    effective, share = float(np.min(summary.effective)), float(np.max(summary.largest_share))
    message = f"effective sample size {effective:.1%} of the transitions, largest share of one {share:.2%}"
    # With few transitions one of them always has a large share; so compare it with equal shares.
    if effective >= SMALLEST_EFFECTIVE_SHARE and share <= max(LARGEST_SHARE, 10 / summary.n):
        return Check(name, "passed", message, effective)
    return Check(
        name,
        "failed",
        f"{message}: a few transitions dominate",
        effective,
        "evaluate a policy closer to the behaviour policy, or collect more data",
    )
