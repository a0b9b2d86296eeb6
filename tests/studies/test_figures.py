"""The pictures of docs/reproduction.md: one look a label, and nothing that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from studies.paper import figures, page
from studies.paper.drawing import draw
from studies.paper.looks import COLORS, DARK, LOOKS, ink

HAIR = 1.0  # points by which frames of texts may overlap: they are larger than their letters


@pytest.fixture(scope="module")
def drawn() -> dict[str, Figure]:
    """All figures from the published results, laid out."""
    found: dict[str, Figure] = {}

    def keep(figure: Figure, rows: Any, folder: Path, name: str) -> None:
        figure.draw_without_rendering()
        found[name] = figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "write", keep)
        for path in page.RESULTS.glob("*.json"):
            draw(json.loads(path.read_text()), Path())
    assert set(found) == {path.stem for path in page.IMAGES.glob("*.png")}
    return found


def panels(drawn: dict[str, Figure]) -> Iterator[tuple[str, Any]]:
    for name, figure in drawn.items():
        yield from ((name, axes) for axes in figure.axes)


def curves(axes: Any) -> dict[str, Any]:
    """The lines of a panel by label; the label of error bars is that of their container."""
    lines = {str(line.get_label()): line for line in axes.lines}
    lines |= {str(bars.get_label()): bars[0] for bars in axes.containers}
    return {label: line for label, line in lines.items() if not label.startswith("_")}


def texts(figure: Figure) -> list[Text]:
    """Everything that is written: names, numbers within the axes, titles, legends."""
    found: list[Any] = []
    for axes in figure.findobj(Axes):
        assert isinstance(axes, Axes)
        found += [*axes.texts, axes.title, getattr(axes, "_left_title")]  # noqa: B009 - there is no other way
        found += axes.legend_.get_texts() if axes.legend_ else []
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            numbers = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
            found += [axis.label, *(label for x, label in numbers if low <= x <= high)]
    found += [text for legend in figure.legends for text in legend.get_texts()]
    return [one for one in found if one.get_visible() and one.get_text().strip()]


def test_every_label_has_its_look(drawn: dict[str, Figure]) -> None:
    seen = set()
    for name, axes in panels(drawn):
        for label, line in curves(axes).items():
            assert label in LOOKS, (name, label)
            assert line.get_color() == LOOKS[label].color, (name, label)
            assert line.get_marker() in (LOOKS[label].marker, "", "None"), (name, label)
            seen.add(label)
    assert len(seen) > 40


def test_no_two_curves_of_a_panel_look_the_same(drawn: dict[str, Figure]) -> None:
    for name, axes in panels(drawn):
        for one, other in combinations(curves(axes), 2):
            assert LOOKS[one] != LOOKS[other], (name, one, other)


def test_a_method_has_one_colour_and_shares_it_with_none() -> None:
    assert len(set(COLORS.values()) | set(DARK.values())) == len(COLORS) + len(DARK)
    for label, look in LOOKS.items():
        method = label.partition(",")[0]
        if method in COLORS:
            assert look.color in (COLORS[method], DARK.get(method)), label
        else:  # a clock, a setting, a problem: the colours of other methods are not theirs
            others = set(COLORS.values()) - {COLORS["bootstrap"], COLORS["least squares"], COLORS["Monte Carlo"]}
            assert look.color not in others, label


def test_names_can_be_read_on_white() -> None:
    for look in LOOKS.values():
        rgb = np.array([int(ink(look.color)[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        luminance = np.array([0.2126, 0.7152, 0.0722]) @ rgb**2.2  # the curve of screens, roughly
        assert 1.05 / (luminance + 0.05) > 2.9


def test_no_text_lies_on_another_or_is_cut_off(drawn: dict[str, Figure]) -> None:
    for name, figure in drawn.items():
        frames = [(one.get_text(), one.get_window_extent().padded(-HAIR * figure.dpi / 72)) for one in texts(figure)]
        whole = figure.bbox.padded(1)
        for words, frame in frames:
            assert whole.x0 <= frame.x0 < frame.x1 <= whole.x1, (name, words)
            assert whole.y0 <= frame.y0 < frame.y1 <= whole.y1, (name, words)
        for (one, first), (other, second) in combinations(frames, 2):
            assert not first.overlaps(second), (name, one, other)


def test_legends_cover_no_curve(drawn: dict[str, Figure]) -> None:
    for name, axes in panels(drawn):
        if (legend := axes.get_legend()) is not None:
            frame = legend.get_window_extent()
            for label, line in curves(axes).items():
                at = line.get_transform().transform(np.column_stack(line.get_data()))
                fine = np.vstack([np.linspace(a, b, 50) for a, b in pairwise(at)])
                assert not frame.count_contains(fine[np.isfinite(fine).all(axis=1)]), (name, label)


def test_logarithmic_axes_have_numbers(drawn: dict[str, Figure]) -> None:
    for name, axes in panels(drawn):
        for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *axes.get_ylim())):
            if axis.get_scale() == "log":
                labels = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
                shown = [label for x, label in labels if low <= x <= high and label.get_text()]
                assert len(shown) >= 3, name
