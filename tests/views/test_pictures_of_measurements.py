"""Pictures of fits, races and kept runs: measured and predicted numbers in the units of the axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.store import RunStore
from lockstep.run.fit import Point, Points, fit_link
from lockstep.show.views.fit import plot_fit
from lockstep.show.views.parts.figure import save_figure
from lockstep.show.views.rig import plot_race
from lockstep.show.views.runs import plot_series
from lockstep.simulate.play import star_topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Look = Callable[..., "Axes"]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """The panel of a picture, which can be written."""

    def panel(plot: Callable[[Any], Figure], answer: object) -> Axes:
        figure = plot(answer)
        save_figure(figure, tmp_path / "picture.svg")
        (axes,) = figure.axes
        return axes

    return panel


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def near(pairs: Any) -> Any:
    return [pytest.approx(pair) for pair in pairs]


def test_the_fit_plot_shows_times_line_and_excluded_points(look: Look) -> None:
    """20 us and 5 GB/s exactly, but for one time of ten that is tenfold."""
    sizes_B = [2.0**power for power in range(10, 20)]
    times_s = [20e-6 + size_B / 5e9 for size_B in sizes_B]
    measured_s = [time_s * (10 if place == 4 else 1) for place, time_s in enumerate(times_s)]
    rows = [Point("send-recv", "", 2, size_B, time_s) for size_B, time_s in zip(sizes_B, measured_s, strict=True)]
    found = fit_link(Points(tuple(reversed(rows)), "test", ""))
    assert len(found.outliers) == 1
    axes = look(plot_fit, SimpleNamespace(found=found, tables=(found,)))
    drawn = {str(line.get_label()): points(line) for line in axes.lines}
    all_us = [(size_B, 1e6 * time_s) for size_B, time_s in zip(sizes_B, times_s, strict=True)]
    assert drawn["fitted"] == near(all_us)
    assert drawn["send-recv"] == near(all_us[:4] + all_us[5:])
    assert drawn["outlier"] == near([(sizes_B[4], 1e6 * measured_s[4])])
    assert len(axes.lines) == 3 + len(found.segments) - 1


def race(sizes_B: tuple[int, ...]) -> Any:
    laps = []
    for size_B in sizes_B:
        for name, unit_s in (("ring", 1e-6 * size_B), ("tree", 3e-6 * size_B)):
            times_s = {
                "predicted_s": unit_s,
                "measured_s": 2 * unit_s,
                "fastest_s": 1.5 * unit_s,
                "slowest_s": 4 * unit_s,
            }
            laps.append(SimpleNamespace(algorithm=name, size_B=size_B, error_frac=-0.5, **times_s))
    return SimpleNamespace(laps=laps, topology=star_topology(4, 12.5e6, 5e-3), op="all-reduce", ranks=4)


def test_bars_of_a_race_are_milliseconds_with_whiskers_and_the_slowest_first(look: Look) -> None:
    axes = look(plot_race, race((1000,)))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["tree", "ring"]
    predicted, measured = [[bar.get_width() for bar in bars] for bars in axes.containers if len(bars) == 2][:2]
    assert predicted == pytest.approx([3, 1])
    assert measured == pytest.approx([6, 2])
    tops = [{bar.get_y() for bar in bars} | {bar.get_y() + bar.get_height() for bar in bars}
            for bars in axes.containers if len(bars) == 2]  # fmt: skip
    assert min(tops[0]) == pytest.approx(max(tops[1]) - 1), "the two touch in the middle of a row"
    (whiskers,) = [one for one in axes.collections if hasattr(one, "get_segments")]
    assert [(low[0], high[0]) for low, high in whiskers.get_segments()] == near([(4.5, 12), (1.5, 4)])
    assert [note.get_text() for note in axes.texts] == ["-50.0 %"] * 2
    assert [note.xy for note in axes.texts] == near([(12, 0), (4, 1)])


def test_lines_of_a_race_are_predictions_and_dots_measurements(look: Look) -> None:
    axes = look(plot_race, race((1000, 4000)))
    dashed = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    for slow, line, dot in zip((1, 3), dashed, dots, strict=True):
        assert points(line) == near([(1000, slow), (4000, 4 * slow)])
        assert points(dot) == near([(1000, 2 * slow), (4000, 8 * slow)])
        assert line.get_color() == dot.get_color()
    assert [str(dot.get_label()) for dot in dots] == ["ring", "tree"]
    assert axes.get_xticks().tolist() == [1000, 4000]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def kept(root: Path, **series: float) -> None:
    with RunStore(root).start("train", {}) as writer:
        for step in range(3):
            writer.record(step=step, **{name: value + step for name, value in series.items()})
        writer.finish({})


@pytest.mark.parametrize(
    ("series", "drawn"),
    [({"accuracy": 1.0, "loss": 2.0}, "loss"), ({"accuracy": 1.0, "time_s": 2.0}, "time_s"),
     ({"other": 3.0, "accuracy": 1.0}, "accuracy"), ({"other": 3.0}, "other")],
)  # fmt: skip
def test_two_runs_are_compared_by_their_most_informative_series(
    series: dict[str, float], drawn: str, tmp_path: Path, look: Look
) -> None:
    for more in (0.0, 10.0):
        kept(tmp_path, **{name: value + more for name, value in series.items()})
    second, first = [one.id for one in lockstep.runs(root=tmp_path).rows]
    axes = look(plot_series, lockstep.runs("compare", first, second, root=tmp_path))
    assert axes.get_ylabel() == drawn
    lines = [[y for _, y in points(line)] for line in axes.lines]
    assert lines == [[series[drawn] + more + step for step in range(3)] for more in (0.0, 10.0)]
    assert [str(line.get_label()) for line in axes.lines] == [first, second]


def test_runs_without_a_series_in_common_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        plot_series(SimpleNamespace(series={}))  # type: ignore[arg-type]
    assert caught.value.where == "--plot"
