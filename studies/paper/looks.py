"""How each curve of each figure is drawn: one table, so that a method, a clock or a setting looks the same in all.

A method has a colour of its own. What else a label says (the kind of interval, the clock of the multipliers, the data)
changes the marker, the line and the shade.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from inferl import plots

__all__ = ["COLORS", "LOOKS", "Look", "ink"]

COLORS = {  # of Okabe and Ito, and two of Tol, who chose them with colour-blind readers in mind
    "least squares": plots.PALETTE["blue"],
    "bootstrap": plots.PALETTE["vermillion"],
    "GTD2": "#882255",
    "TDC": plots.PALETTE["purple"],
    "GTD": plots.PALETTE["sky"],
    "SAVE": plots.PALETTE["green"],
    "law alone": plots.PALETTE["orange"],
    "as printed": "#7F7F7F",
    "Monte Carlo": plots.PALETTE["black"],
    "θ*": "#332288",
}
DARK = {"bootstrap": "#7F3800", "law alone": "#8A5F00"}  # a second shade, where curves of one method overlap
LARGER, SMALLER, SMALL, SMALLEST = DARK["bootstrap"], "#E98E4D", "#EFAD7F", "#F4C8A8"  # bootstraps by their step sizes
CONTRAST = 3.0  # of names to white paper


class Look(NamedTuple):
    """How a curve is drawn."""

    color: str
    marker: str
    line: str = "-"
    open: bool = False  # markers

    @property
    def style(self) -> dict[str, Any]:
        """Keywords of `Axes.plot`."""
        inside = "white" if self.open else self.color
        return {"color": self.color, "marker": self.marker, "linestyle": self.line, "markerfacecolor": inside}


def _of(method: str, marker: str, line: str = "-", hollow: bool = False, dark: bool = False) -> Look:
    return Look((DARK if dark else COLORS)[method], marker, line, hollow)


def _kinds(method: str, marker: str) -> dict[str, Look]:
    return {
        f"{method}, percentile": _of(method, marker),
        f"{method}, basic": _of(method, "d", ":", hollow=True, dark=True),
        f"{method}, normal": _of(method, marker, "--", hollow=True),
    }


CLOCKS = {  # of the multipliers of the bootstrap
    "by step": _of("bootstrap", "o"),
    "by episode": _of("bootstrap", "v", "--", hollow=True),
    "by block": _of("bootstrap", "s", ":", hollow=True, dark=True),
    "by block, small steps": _of("bootstrap", "^", "-.", dark=True),
}
LOOKS: dict[str, Look] = {
    "least squares": _of("least squares", "s"),
    "least squares, i.i.d.": _of("least squares", "s", ":", hollow=True),
    "bootstrap": _of("bootstrap", "o"),
    "bootstrap, offline": _of("bootstrap", "o", "--", hollow=True),
    **_kinds("bootstrap", "o"),
    **CLOCKS,
    **{f"bootstrap, {clock}": look for clock, look in CLOCKS.items()},
    "law alone": _of("law alone", "p"),
    **_kinds("law alone", "p"),
    "as printed": _of("as printed", "d"),
    "Monte Carlo": _of("Monte Carlo", "D", "--"),
    "GTD2": _of("GTD2", "o"),
    "GTD2, offline": _of("GTD2", "o", "--", hollow=True),
    "GTD2, percentile": _of("GTD2", "o"),
    "GTD2, normal": _of("GTD2", "o", "--", hollow=True),
    "GTD2, estimated": _of("GTD2", "o", "--", hollow=True),
    "GTD2, rule of thumb": _of("GTD2", "o", ":", hollow=True),
    "TDC": _of("TDC", "^"),
    "TDC, offline": _of("TDC", "^", "--", hollow=True),
    "TDC, percentile": _of("TDC", "^"),
    "GTD": _of("GTD", "v"),
    "GTD, offline": _of("GTD", "v", "--", hollow=True),
    "SAVE": _of("SAVE", "P"),
    "SAVE, of the value": _of("SAVE", "P"),
    "SAVE, of its fixed point": _of("SAVE", "P", "--", hollow=True),
    "θ*, estimated": _of("θ*", "D", "--", hollow=True),
    # Step sizes of the bootstrap: the darker, the larger. The one in the middle is that of all other figures.
    "$\\alpha_0$ = 1": Look(SMALLEST, "v"),
    "$\\alpha_0$ = 10": Look(SMALL, "^"),
    "$\\alpha_0$ = 30": Look(SMALLER, "D"),
    "$\\alpha_0$ = 100": _of("bootstrap", "o"),
    "$\\alpha_0$ = 300": Look(LARGER, "s"),
    "$\\eta$ = 0.55": Look(LARGER, "s"),
    "$\\eta$ = 0.65": _of("bootstrap", "o"),
    "$\\eta$ = 0.75": Look(SMALLER, "D"),
    "$\\eta$ = 0.9": Look(SMALL, "^"),
    # The recursion, its replicas, and what the lemma says of their averages.
    "iterate": _of("bootstrap", "o"),
    "perturbed iterate": _of("bootstrap", "s", ":", hollow=True, dark=True),
    "average, (4.6)": _of("bootstrap", "o"),
    "perturbed, (4.5)": _of("bootstrap", "s", ":", hollow=True, dark=True),
    "difference, (4.7)": _of("bootstrap", "^", "-.", dark=True),
    # Least squares on different problems.
    "constant": _of("least squares", "s"),
    "switches": _of("least squares", "^", "--"),
    "learns": _of("least squares", "D", "-."),
    "switches, wrong ratios": _of("least squares", "^", ":", hollow=True),
    "learns, wrong ratios": _of("least squares", "D", ":", hollow=True),
    "linear target": _of("least squares", "s"),
    "mixture": _of("least squares", "^", "--"),
    "greedy": _of("least squares", "D", "-.", hollow=True),
    # What curves are compared with.
    "exact": Look("#000000", "", "--"),
    "$t^{-1/2}$": Look("#000000", "", "--"),
    "$t^{-1}$": Look("#000000", "", "-."),
    "$t^{-\\eta/2}$": Look("#000000", "", "-."),
    "$t^{-(\\eta - 1/2)}$": Look("#000000", "", "--"),
}
"""Every label that a figure may draw."""


def ink(color: str) -> str:
    """A colour for the name of a curve: darker, where the curve's own is too pale to be read.

    >>> ink("#0072B2"), ink("#FFFF00")
    ('#0072B2', '#9A9A00')
    """
    rgb = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    while 1.05 / (_luminance(rgb) + 0.05) < CONTRAST:
        rgb = [0.98 * x for x in rgb]
    return "#" + "".join(f"{round(255 * x):02X}" for x in rgb)


def _luminance(rgb: list[float]) -> float:
    linear = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in rgb)
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
