"""Design: how the categories of a formula are coded, so that its matrix has full rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

from inferl.sources.logs.features.formula import Factor, Formula

__all__ = ["Coded", "coded_terms"]

Coded = tuple[tuple[Factor, bool], ...]
"""The product of some factors; for a category, whether it has a column for each level or for all but the first."""


def coded_terms(formula: Formula, categories: Collection[Factor], intercept: bool) -> list[Coded]:
    """Say how the categories of each term are coded.

    A category `a` with a column for each level spans a constant and, apart from it, what a column for all levels but
    the first spans. So a product of categories spans the products of all its subsets, and what earlier terms span is
    left out.

    >>> from inferl.sources.logs.features.formula import parse
    >>> ward, hr = Factor("ward"), Factor("hr")
    >>> coded_terms(parse("ward"), {ward}, intercept=True) == [((ward, False),)]  # all levels but the first
    True
    >>> coded_terms(parse("ward"), {ward}, intercept=False) == [((ward, True),)]
    True
    >>> coded_terms(parse("hr:ward"), {ward}, intercept=True) == [((hr, False), (ward, True))]
    True
    """
    spanned: set[tuple[frozenset[Factor], frozenset[Factor]]] = {(frozenset(), frozenset())} if intercept else set()
    found: list[Coded] = []
    for term in formula.terms:
        numeric = frozenset(factor for factor in term if factor not in categories)
        own = [factor for factor in term if factor in categories]
        subsets = [frozenset(some) for size in range(len(own) + 1) for some in combinations(own, size)]
        new = [some for some in subsets if (numeric, some) not in spanned]
        spanned |= {(numeric, some) for some in new}
        for reduced, full in _merged(new):
            kept = [factor for factor in term if factor in numeric | reduced | full]
            found.append(tuple((factor, factor in full) for factor in kept))
    return found


def _merged(subsets: Iterable[frozenset[Factor]]) -> list[tuple[frozenset[Factor], frozenset[Factor]]]:
    """Join S and S + {a} into one term in which `a` has all levels; return (reduced, full) factors of each term."""
    terms = [(some, frozenset[Factor]()) for some in subsets]
    joined = True
    while joined:
        joined = False
        for shorter, longer in ((s, t) for s in terms for t in terms):
            more = longer[0] - shorter[0]
            if len(more) == 1 and shorter[0] <= longer[0] and shorter[1] == longer[1]:
                place = terms.index(shorter)
                terms[place] = (shorter[0], shorter[1] | more)
                terms.remove(longer)
                joined = True
                break
    return sorted(terms, key=lambda term: len(term[0] | term[1]))
