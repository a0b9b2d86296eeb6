"""Plots: which artists are drawn, and where; appearance is not tested."""

import io
import sys
from itertools import combinations
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from PIL import Image

from inferl import plots
from inferl.errors import MissingExtraError, ShapeError
from inferl.interval import Interval

EPISODES = [10, 20, 50, 100, 200, 500, 1000]


def reading(episodes: int, estimate: float, reach: float, *notes: str) -> tuple[int, Interval]:
    return episodes, Interval(estimate, estimate - reach, estimate + reach, 0.9, "normal", reach / 2, episodes, notes)


def readings(noted: int = 0) -> dict[str, list[tuple[int, Interval]]]:
    """A method that rises from 0, with notes on the first `noted` readings, and one centred at the truth."""
    rising = [
        reading(n, 0.4 * (1 - 10 / n), 1 / np.sqrt(n), *(["doubt"] if i < noted else []))
        for i, n in enumerate(EPISODES)
    ]
    return {"rising": rising, "centred": [reading(n, 0.41, 0.5 / np.sqrt(n)) for n in EPISODES]}


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_band_goes_from_bound_to_bound() -> None:
    axes = plots.new_axes()
    assert plots.band(axes, [1, 2], [0.5, 0.6], [0.1, 0.4], [0.9, 0.7], "name", "#0072B2") is axes
    assert axes.lines[0].get_ydata() == pytest.approx([0.5, 0.6])
    assert axes.lines[0].get_label() == "name"
    assert to_hex(axes.lines[0].get_color()).upper() == "#0072B2"
    corners = np.asarray(axes.collections[0].get_paths()[0].vertices).tolist()
    assert all(corner in corners for corner in ([1, 0.1], [1, 0.9], [2, 0.4], [2, 0.7]))


def test_an_infinite_bound_is_a_gap() -> None:
    bounds = np.array([np.inf, 1.0, 1.0])
    axes = plots.band(plots.new_axes(), [1, 2, 3], [0.0, 0.0, 0.0], -bounds, bounds, "name", "black")
    corners = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    assert corners[:, 0].min() == 2


def test_readings_with_notes_are_drawn_pale_up_to_the_first_sound_one() -> None:
    axes = plots.closing_bands(readings(noted=3), truth=0.41)
    pale, sound, other, _ = axes.lines  # and the truth
    assert (pale.get_linestyle(), sound.get_linestyle(), other.get_linestyle()) == (":", "-", "-")
    assert np.isfinite(np.asarray(pale.get_ydata(), float)).tolist() == [True] * 4 + [False] * 3
    assert np.isfinite(np.asarray(sound.get_ydata(), float)).tolist() == [False] * 3 + [True] * 4
    assert "dotted while a check fails" in texts(axes)


def test_a_doubt_in_between_leaves_no_hole() -> None:
    doubted = readings()
    doubted["rising"][3] = reading(100, 0.36, 0.1, "doubt")
    pale, sound, *_ = plots.closing_bands(doubted, truth=0.41).lines
    assert np.flatnonzero(np.isfinite(np.asarray(pale.get_ydata(), float))).tolist() == [2, 3, 4]
    assert np.flatnonzero(np.isfinite(np.asarray(sound.get_ydata(), float))).tolist() == [0, 1, 2, 4, 5, 6]


def test_without_notes_nothing_is_pale() -> None:
    axes = plots.closing_bands(readings(), truth=0.41)
    assert [line.get_linestyle() for line in axes.lines] == ["-", "-", "-"]
    assert sorted(texts(axes)) == ["centred", "exact\n0.41", "rising"]


@pytest.mark.parametrize("noted", [0, 3, 7])
def test_names_lie_within_the_picture_and_apart(noted: int) -> None:
    axes = plots.closing_bands(readings(noted), truth=0.41)
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts if isinstance(text, Annotation)]
    boxes += [tick.get_window_extent() for tick in axes.get_xticklabels()]
    for box in boxes:
        assert figure.bbox.containsx(box.x0)
        assert figure.bbox.containsx(box.x1)
        assert figure.bbox.containsy(box.y0)
        assert figure.bbox.containsy(box.y1)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_axes_speak_of_episodes_and_the_level() -> None:
    axes = plots.closing_bands(readings(), truth=0.41)
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == (10, 1000)
    assert axes.get_ylabel() == "value and its 90% interval"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "20", "50", "100", "200", "500", "1,000"]


def test_it_draws_into_given_axes() -> None:
    axes = Figure().subplots()
    assert plots.closing_bands(readings(), truth=0.41, axes=axes) is axes


def test_infinite_intervals_do_not_spoil_the_picture() -> None:
    wild = readings()
    wild["centred"][0] = reading(10, 0.41, np.inf)
    low, high = plots.closing_bands(wild, truth=0.41).get_ylim()
    assert -1 < low < high < 2


@pytest.mark.parametrize("bad", [{}, {"a": [reading(1, 0, 1)] * 2}, {"a": [], "b": []}])
def test_what_cannot_be_drawn_is_refused(bad: dict[str, list[tuple[int, Interval]]]) -> None:
    with pytest.raises(ShapeError):
        plots.closing_bands(bad, truth=0.0)


def test_a_saved_picture_has_the_size_of_a_column() -> None:
    file = io.BytesIO()
    plots.save(plots.closing_bands(readings(), truth=0.41), file)
    with Image.open(file) as image:
        assert image.size == (1050, 780)


def test_the_style_stays_within_its_context() -> None:
    before = mpl.rcParams.copy()
    with plots.style():
        assert mpl.rcParams["font.size"] == 8
    plots.closing_bands(readings(), truth=0.41)
    assert mpl.rcParams == before


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"inferl\[plot\]"):
        plots.closing_bands(readings(), truth=0.41)


def test_a_forest_has_a_row_for_each_interval() -> None:
    sound, doubtful = reading(10, 0.4, 0.1)[1], reading(10, 0.6, 0.2, "doubt")[1]
    axes = plots.forest({"sound": sound, "doubtful": doubtful}, reference=0.5)
    spans = {tuple(np.ravel(line.get_xdata())): line.get_linestyle() for line in axes.lines}
    assert spans[(sound.lower, sound.upper)] == "-"
    assert spans[(doubtful.lower, doubtful.upper)] == ":"
    assert spans[(0.5, 0.5)] == "-"
    assert texts(axes) == ["0.40 [0.30, 0.50]", "0.60 [0.40, 0.80]"]
    assert axes.get_ylim() == (1.5, -0.5)  # the first at the top


def test_an_interval_draws_itself_on_given_axes() -> None:
    axes = plots.new_axes()
    two = Interval(np.array([0.1, 0.2]), np.zeros(2), np.ones(2), 0.9, "normal", np.ones(2), 10)
    assert two.plot(axes, names=["a", "b"]) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_xlabel() == "estimate and its 90% interval"
    with pytest.raises(ShapeError, match="2 targets and 1 names"):
        two.plot(names=["a"])
    with pytest.raises(ShapeError, match="no interval"):
        plots.forest({})


def test_bounds_that_are_not_finite_are_left_out_of_a_forest() -> None:
    axes = plots.forest({"early": Interval(0.4, -np.inf, np.inf, 0.9, "normal", np.inf, 1)})
    plots.save(axes, io.BytesIO())
    assert np.isnan(axes.lines[0].get_xdata()).all()


def test_a_notebook_shows_the_axes() -> None:
    axes: Any = plots.new_axes()
    picture, size = axes._repr_png_()
    assert Image.open(io.BytesIO(picture)).size == (1050, 780)
    assert size == {"width": 490, "height": 364}
