"""Comparison: the answer to which policy is best, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from inferl.data.arrays import is_number, short
from inferl.errors import SettingError
from inferl.interval import Interval, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FAIL", "INCONCLUSIVE", "PASS", "Comparison", "check_margin", "implied", "unbeaten"]

PASS, FAIL, INCONCLUSIVE = "PASS", "FAIL", "INCONCLUSIVE"

PAIRINGS = {
    "matched": "matched episodes",
    "independent": "independent data",
    "partly matched": "partly matched episodes",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The answer of `compare` and `race`; `print` shows it as a small table.

    The intervals of the differences hold jointly: with the probability of their level, *all* of them contain the true
    difference. So any of them may be looked at, the largest included. The interval of a policy holds for that policy.

    A verdict is about one claim: *the first is at most `margin` worse than the second*. It is PASS if the interval of
    first minus second says so (lower >= -margin), FAIL if it excludes it (upper < -margin), and INCONCLUSIVE otherwise,
    also while a check fails. What several intervals imply together counts, too: if a is at least 3 better than b, and b
    at least 2 better than c, then a is at least 5 better than c. A margin of 0 means *not worse*, and a margin of -5
    means *at least 5 better*.

    Attributes
    ----------
    quantity
        What was estimated, such as ``CartPole-v1: mean return``.
    policies
        The interval of each policy, by name.
    episodes
        Number of episodes of each policy; 0 where the data have none.
    differences
        The interval of the first minus the second, by their names, for each pair.
    pairing
        Whether the episodes of the policies are ``"matched"``, ``"independent"``, or ``"partly matched"``.
    margin
        How much worse is still good enough; None: no verdict was asked for.

    Examples
    --------
    >>> import inferl
    >>> lean = lambda pole: int(pole[2] > 0)
    >>> swing = lambda pole: int(pole[2] + 0.005 * pole[3] > 0)
    >>> played = {"lean": lean, "swing": swing}
    >>> results = {name: inferl.evaluate_policy("CartPole-v1", policy) for name, policy in played.items()}
    >>> comparison = inferl.compare(results, margin=5)
    >>> comparison.best
    ('swing',)
    >>> comparison.verdict("swing", "lean"), comparison.verdict("lean", "swing")
    ('PASS', 'FAIL')
    """

    quantity: str
    policies: dict[str, Interval]
    episodes: dict[str, int]
    differences: dict[tuple[str, str], Interval]
    pairing: str
    margin: float | None = None

    @property
    def level(self) -> float:
        """Probability that all intervals of the differences hold at once."""
        return self._one.level

    @property
    def kind(self) -> str:
        """Kind of the intervals of the differences."""
        return self._one.kind

    @property
    def best(self) -> tuple[str, ...]:
        """The policies that may be the best, of which none is known to be worse than another policy."""
        return unbeaten(self.policies, self._least())

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each failed check, with the name of the policy or of the difference."""
        own = [f"{name}: {note}" for name, one in self.policies.items() for note in one.notes]
        of_pairs = [f"{a} - {b}: {note}" for (a, b), one in self.differences.items() for note in one.notes]
        repeated = {f"{a} - {b}: {note}" for a, b in self.differences for note in own}
        return tuple(dict.fromkeys([*own, *(note for note in of_pairs if note not in repeated)]))

    def difference(self, first: str, second: str) -> Interval:
        """Return the interval of one policy minus another, in any order.

        >>> one = Interval(5.0, 3.0, 7.0, 0.95, "normal", 1.0, 200)
        >>> comparison = Comparison("return", {"a": one, "b": one}, {}, {("a", "b"): one}, "independent")
        >>> print(comparison.difference("b", "a"))
        -5.0 [-7.0, -3.0] 95% pointwise, 200 transitions
        """
        self._known(first, second)
        if first == second:
            raise SettingError(f"{first!r} cannot be compared with itself; name two policies")
        if (first, second) in self.differences:
            return self.differences[first, second]
        one = self.differences[second, first]
        turned = {"estimate": -one.estimate, "lower": -one.upper, "upper": -one.lower}
        return Interval(**{**one.__dict__, **turned})

    def verdict(self, first: str | None = None, second: str | None = None) -> str:
        """Say whether a policy is at most `margin` worse than another: PASS, FAIL or INCONCLUSIVE.

        Parameters
        ----------
        first
            Name of a policy; default: the first.
        second
            Name of another; default: all others, of which each must pass.
        """
        if self.margin is None:
            raise SettingError("a verdict needs a margin; say how much worse is still good enough: margin=5")
        one = next(iter(self.policies)) if first is None else first
        against = [name for name in self.policies if name != one] if second is None else [second]
        self._known(one, *against)
        least = self._least()
        if all(least[one, other] >= -self.margin for other in against):
            return PASS
        return FAIL if any(least[other, one] > self.margin for other in against) else INCONCLUSIVE

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON."""
        judged = self.margin is not None
        return {
            "quantity": self.quantity,
            "level": self.level,
            "kind": self.kind,
            "pairing": self.pairing,
            "policies": {
                name: {"episodes": self.episodes.get(name, 0)} | one.to_dict() for name, one in self.policies.items()
            },
            "differences": [
                {"first": a, "second": b, "verdict": self.verdict(a, b) if judged else None} | one.to_dict()
                for (a, b), one in self.differences.items()
            ],
            "best": list(self.best),
            "margin": self.margin,
            "verdict": self.verdict() if judged else None,
            "notes": list(self.notes),
        }

    def plot(self, axes: Sequence[Axes] | None = None) -> Axes:
        """Draw the intervals of the policies, and below them those of the differences: a forest plot.

        The margin, if there is one, is a dashed line. Returns the Axes of the differences, whose figure has both.

        Parameters
        ----------
        axes
            Two Axes to draw on; None: a new figure.

        Examples
        --------
        >>> one = Interval(5.0, 3.0, 7.0, 0.95, "normal", 1.0, 200)
        >>> comparison = Comparison("return", {"a": one, "b": one}, {}, {("a", "b"): one}, "independent")
        >>> [label.get_text() for label in comparison.plot().get_yticklabels()]
        ['a - b']
        """
        from inferl.plots import PALETTE, forest, stacked

        named = {f"{a} - {b}": one for (a, b), one in self.differences.items()}
        above, below = stacked([len(self.policies), len(named)]) if axes is None else axes
        forest(self.policies, above)
        forest(named, below, reference=0.0)
        together = " jointly" if len(named) > 1 else ""
        anytime = " anytime" if self.kind == "anytime" else ""
        for panel, title in ((above, self.quantity), (below, f"differences, {self.level * 100:g}%{anytime}{together}")):
            panel.set_title(title, fontsize=8, loc="left")
            panel.set_xlabel("")
        if self.margin is not None:
            below.axvline(-self.margin, color=PALETTE["vermillion"], linestyle="--", linewidth=0.8, zorder=0)
        return below

    def _repr_html_(self) -> str:
        from inferl.display import block, intervals, notes, paragraph

        named = {f"{a} - {b}": one for (a, b), one in self.differences.items()}
        values, apart = self._heads()
        said = [paragraph(text) for text in self.conclusions]
        tables = [paragraph(values), intervals(self.policies), paragraph(apart), intervals(named, reference=0.0)]
        return block(*tables, *said, notes(self.notes))

    def __str__(self) -> str:
        values, apart = self._heads()
        played = [
            (name, brief(one.estimate, one.lower, one.upper), self._amount(name)) for name, one in self.policies.items()
        ]
        pairs = [
            (f"{a} - {b}", brief(one.estimate, one.lower, one.upper), self._said(a, b))
            for (a, b), one in self.differences.items()
        ]
        wide, numbers = (max(len(row[i]) for row in (*played, *pairs)) for i in (0, 1))
        lines = [
            [f"  {name:<{wide}}  {text:<{numbers}}  {end}" for name, text, end in rows] for rows in (played, pairs)
        ]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([values, *lines[0], apart, *lines[1], *self.conclusions, *notes])

    @property
    def _one(self) -> Interval:
        return next(iter(self.differences.values()))

    def _known(self, *names: str) -> None:
        for name in names:
            if name not in self.policies:
                raise SettingError(f"there is no policy {name!r}; there are {', '.join(self.policies)}")

    def _least(self) -> dict[tuple[str, str], float]:
        return implied(self.policies, self.differences)

    def _heads(self) -> tuple[str, str]:
        """Return what stands above the policies, and above their differences."""
        kinds = {one.kind for one in self.policies.values()}
        level = f"{self.level * 100:g}%"
        each = " anytime" if kinds == {"anytime"} else ""
        anytime = " anytime" if self.kind == "anytime" else ""
        number = len(self.differences)
        several = "difference" if number == 1 else "differences"
        at_once = "" if number == 1 else f" for all {number} at once"
        return f"{self.quantity}, {level}{each}", f"{several}, {level}{anytime}{at_once}, {PAIRINGS[self.pairing]}"

    def _amount(self, name: str) -> str:
        episodes = self.episodes.get(name, 0)
        return f"{episodes:,} episodes" if episodes else f"{self.policies[name].n:,} transitions"

    def _said(self, a: str, b: str) -> str:
        """Describe a difference in a word or two."""
        if self.margin is not None:
            return self.verdict(a, b)
        least = self._least()
        better = [one for one, other in ((a, b), (b, a)) if least[one, other] > 0]
        return f"{better[0]} is better" if better else "undecided"

    @property
    def conclusions(self) -> list[str]:
        """Which policy is best, and the verdict, in words."""
        best = self.best
        lines = [f"best: {best[0]}" if len(best) == 1 else f"may be the best: {', '.join(best)}"]
        if self.margin is not None:
            first, *others = self.policies
            verdict = self.verdict()
            which = [name for name in others if self.verdict(first, name) == verdict]
            lines.append(f"{verdict}: {first} {claimed(verdict, self.margin)} {' and '.join(which)}")
        return lines


def implied(names: Iterable[str], differences: Mapping[tuple[str, str], Interval]) -> dict[tuple[str, str], float]:
    """Return the largest lower bound of each policy minus each other one that all intervals together imply.

    Differences add up, so the bounds of a - b and of b - c imply one of a - c. Intervals with failed checks imply
    nothing.

    >>> one, unknown = (Interval(3.0, 3 - w, 3 + w, 0.95, "normal", w / 2, 100) for w in (1.0, 99.0))
    >>> implied("abc", {("a", "b"): one, ("b", "c"): one, ("a", "c"): unknown})["a", "c"]
    4.0
    """
    every = tuple(names)
    least = {}
    for (a, b), one in differences.items():
        least[a, b], least[b, a] = (-inf, -inf) if one.notes else (float(one.lower), -float(one.upper))
    for by in every:
        for a, b in permutations(every, 2):
            if by not in (a, b):
                least[a, b] = max(least[a, b], least[a, by] + least[by, b])
    return least


def unbeaten(names: Iterable[str], least: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    """Return the policies that none of the others is known to be better than.

    >>> unbeaten("ab", {("a", "b"): 1.0, ("b", "a"): -3.0})
    ('a',)
    """
    every = tuple(names)
    return tuple(one for one in every if not any(least[other, one] > 0 for other in every if other != one))


def claimed(verdict: str, margin: float) -> str:
    """Put a verdict on a margin into words.

    >>> claimed(PASS, 5.0), claimed(FAIL, 0), claimed(INCONCLUSIVE, -2)
    ('is at most 5 worse than', 'is worse than', 'may be less than 2 better than')
    """
    may = {PASS: "is", FAIL: "is", INCONCLUSIVE: "may be"}[verdict]
    if margin == 0:
        return f"{may} not worse than" if verdict == PASS else f"{may} worse than"
    size, worse = f"{abs(margin):g}", margin > 0
    holds = f"at most {size} worse than" if worse else f"at least {size} better than"
    not_so = f"more than {size} worse than" if worse else f"less than {size} better than"
    return f"{may} {holds if verdict == PASS else not_so}"


def check_margin(margin: Any, least: float = -inf) -> None:
    """Raise for a margin that is not a finite number, or below the least."""
    if not (is_number(margin) and least <= margin and isfinite(margin)):
        what = "a number, how much worse is still good enough" if least < 0 else "a number, 0 or more"
        raise SettingError(f"margin is {short(margin)}; give {what}")
