"""Formulas: which features the columns of a log give, in a small language in the manner of patsy and formulaic.

    1 + hr + bp + C(ward) + poly(age, 2) + ward:hr

Terms are added; ``a:b`` is the product of two, and ``a*b`` is ``a + b + a:b``. There is an intercept unless the formula
says ``- 1`` (or ``0``). A formula is parsed here, never evaluated by Python: it runs no code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from inferl.data.arrays import short
from inferl.errors import SettingError
from inferl.sources.logs.values import as_category

__all__ = ["Factor", "Formula", "Term", "formula_of", "parse"]

FUNCTIONS = {
    "C": "C(x) or C(x, levels=['a', 'b']): a category",
    "poly": "poly(x, 3): the powers x, x^2, x^3",
    "log": "log(x)",
    "hour": "hour(t): the time of day, as a sine and a cosine",
    "age": "age(t): the time since the first row of the episode",
}
HIGHEST = 99  # degree
MOST = 8  # terms joined by *, and factors of a product
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*(?:\.\w+)*)|(?P<quoted>`[^`]+`)|(?P<number>\d+(?:\.\d+)?)|(?P<text>'[^']*'|"[^"]*")"""
    r"""|(?P<sign>[-+*:(),=\[\]])|(?P<other>\S))"""
)
_PLAIN = re.compile(r"[^\W\d]\w*(\.\w+)*")


@dataclass(frozen=True)
class Factor:
    """A column, or a function of one.

    >>> print(Factor("ward", "C", levels=("er", "icu")), Factor("heart rate"))
    C(ward, levels=['er', 'icu']) `heart rate`
    """

    variable: str
    function: str = ""  # "" or one of FUNCTIONS
    degree: int = 1  # of poly
    levels: tuple[str, ...] = ()  # of C; none: those of the log

    def __str__(self) -> str:
        name = self.variable if _PLAIN.fullmatch(self.variable) else f"`{self.variable}`"
        more = f", {self.degree}" if self.function == "poly" else f", levels={[*self.levels]}" if self.levels else ""
        return f"{self.function}({name}{more})" if self.function else name


Term = tuple[Factor, ...]
"""The product of some factors."""


@dataclass(frozen=True)
class Formula:
    """The terms that are added; those with fewer factors first.

    >>> formula = parse("C(ward)*hr - 1")
    >>> print(formula, formula.variables)
    C(ward) + hr + C(ward):hr - 1 ('ward', 'hr')
    """

    terms: tuple[Term, ...]
    intercept: bool | None = None  # None: the formula does not say

    def __post_init__(self) -> None:
        different: dict[frozenset[Factor], Term] = {}
        for term in self.terms:
            different.setdefault(frozenset(term), term)  # a:b is b:a
        object.__setattr__(self, "terms", tuple(sorted(different.values(), key=len)))

    def __str__(self) -> str:
        terms = [":".join(map(str, term)) for term in self.terms]
        said = {None: terms, True: ["1", *terms], False: terms or ["0"]}[self.intercept]
        return " + ".join(said) + (" - 1" if self.intercept is False and terms else "")

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors, each once."""
        return tuple(dict.fromkeys(factor for term in self.terms for factor in term))

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns, each once, in the order of the formula."""
        return tuple(dict.fromkeys(factor.variable for factor in self.factors))


def formula_of(given: str | Sequence[str], columns: Sequence[str]) -> Formula:
    """Read a formula, or several, which are added; the name of a column is this column, whatever it contains.

    >>> print(formula_of("x-1", ["x", "x-1"]), "|", formula_of(["x", "C(y)"], ["x", "y"]))
    `x-1` | x + C(y)
    """
    parts = [Formula(((Factor(text),),)) if text in columns else parse(text) for text in _texts(given)]
    said = [part.intercept for part in parts if part.intercept is not None]
    return Formula(tuple(term for part in parts for term in part.terms), said[-1] if said else None)


def _texts(given: Any) -> list[str]:
    texts: list[Any] = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise SettingError(f"features is {short(given)}; expected a formula such as 'x + C(y)', or names of columns")
    return texts


def parse(text: str) -> Formula:
    """Parse a formula.

    >>> print(parse("x + poly(age, 2) + `heart rate`:obs.sev"))
    x + poly(age, 2) + `heart rate`:obs.sev
    >>> parse("1 + hr + * bp")
    Traceback (most recent call last):
    inferl.errors.SettingError: features '1 + hr + * bp': a column or a function should stand at character 10, not '*'
    """
    parser = _Parser(text)
    intercept: bool | None = None
    terms: list[Term] = []
    sign = parser.accept("+", "-") or "+"
    while True:
        constant = parser.constant()
        if constant is not None:
            intercept = (constant == "1") == (sign == "+")
        elif sign == "-":
            raise parser.wrong("only 1 can be taken away, which leaves the intercept out; a 1")
        else:
            terms += parser.product()
        if parser.over:
            return Formula(tuple(terms), intercept)
        sign = parser.expect("+", "-")


class _Parser:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(match.lastgroup, match[match.lastgroup or 0], match.end()) for match in _TOKEN.finditer(text)]
        self.at = 0

    @property
    def over(self) -> bool:
        return self.at == len(self.tokens)

    def wrong(self, expected: str) -> SettingError:
        """Return the error that something else should stand here."""
        if self.over:
            return SettingError(f"features {self.text!r}: {expected} should stand at the end")
        _, found, end = self.tokens[self.at]
        return SettingError(
            f"features {self.text!r}: {expected} should stand at character {end - len(found) + 1}, not {found!r}"
        )

    def kind(self, *kinds: str) -> str | None:
        """Take the next token if it is of one of the kinds, and return it."""
        if self.over or self.tokens[self.at][0] not in kinds:
            return None
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, *signs: str) -> str | None:
        """Take the next token if it is one of these, and return it."""
        if self.over or self.tokens[self.at][1] not in signs:
            return None
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, *signs: str) -> str:
        """Take one of these tokens."""
        found = self.accept(*signs)
        if found is None:
            raise self.wrong(" or ".join(repr(sign) for sign in signs))
        return found

    def constant(self) -> str | None:
        return self.accept("0", "1")

    def product(self) -> list[Term]:
        """Read ``a*b:c``: all products of some of the parts."""
        parts = [self.interaction()]
        while self.accept("*"):
            parts.append(self.interaction())
        if len(parts) > MOST:
            raise SettingError(f"features {self.text!r}: * joins {len(parts)} terms; write the products that matter")
        sizes = range(1, len(parts) + 1)
        return [_joined(chosen) for size in sizes for chosen in combinations(parts, size)]

    def interaction(self) -> Term:
        factors = [self.factor()]
        while self.accept(":"):
            factors.append(self.factor())
        if len(factors) > MOST:
            raise SettingError(f"features {self.text!r}: a product of {len(factors)} factors; {MOST} are the most")
        return _joined([(factor,) for factor in factors])

    def factor(self) -> Factor:
        name = self.kind("name", "quoted")
        if name is None:
            raise self.wrong("a column or a function")
        if name.startswith("`") or not self.accept("("):
            return Factor(name.strip("`"))
        if name not in FUNCTIONS:
            self.at -= 2
            raise self.wrong(f"one of the functions {', '.join(FUNCTIONS)}, or a column in backquotes,")
        read: dict[str, Callable[[], dict[str, int | tuple[str, ...]]]] = {"C": self.levels, "poly": self.degree}
        variable = self.kind("name", "quoted")
        if variable is None:
            raise self.wrong(f"the name of a column, as in {FUNCTIONS[name]},")
        more = read[name]() if name in read else {}
        self.expect(")")
        return Factor(variable.strip("`"), name, **more)  # type: ignore[arg-type]  # degree or levels

    def degree(self) -> dict[str, int | tuple[str, ...]]:
        self.expect(",")
        number = self.kind("number")
        if number is None or not number.isdecimal() or not 1 <= float(number) <= HIGHEST:
            self.at -= number is not None
            raise self.wrong(f"the degree, a whole number from 1 to {HIGHEST},")
        return {"degree": int(number)}

    def levels(self) -> dict[str, int | tuple[str, ...]]:
        if not self.accept(","):
            return {}
        for part in ("levels", "=", "["):
            self.expect(part)
        found: list[str] = []
        while True:
            sign = self.accept("-") or ""
            level = self.kind("number") if sign else self.kind("text", "number", "name")
            if level is None:
                raise self.wrong("a level in quotes")
            found.append(str(as_category(sign + level.strip("'\""))))
            if self.expect(",", "]") == "]":
                break
        if len(set(found)) < len(found):
            raise SettingError(f"features {self.text!r}: the levels {', '.join(found)} are not all different")
        return {"levels": tuple(found)}


def _joined(parts: Sequence[Term]) -> Term:
    """Multiply terms; a factor that occurs twice counts once."""
    return tuple(dict.fromkeys(factor for part in parts for factor in part))
