"""The timeline picture: every span once, on its lane; the same bytes twice; formats and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import pyplot

from lockstep.base.errors import BadInput
from lockstep.show.views.parts.figure import is_dark, save_figure
from lockstep.show.views.parts.timelines import PALETTE, draw_timeline, plot_timeline
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder, Timeline


def timeline() -> Timeline:
    builder = ProgramBuilder(2)
    for rank in range(2):
        builder.compute(rank, 2e-3, label="F0")
        builder.compute(rank, 3e-3, label="B $0 <&")
    builder.message(0, 1, 8.0, duration_s=1e-3, after=0)
    builder.collective(range(2), "all-reduce", 8.0, duration_s=1e-3, after=(1, 3))
    return simulate(builder.build())


def test_spans_are_drawn_at_their_times_and_lanes() -> None:
    shown = timeline()
    figure, axes = pyplot.subplots()
    draw_timeline(shown, axes, shown.lanes)
    boxes = []
    for collection in axes.collections:
        boxes += [path.get_extents() for path in collection.get_paths()]
    drawn = sorted((box.x0, box.x1) for box in boxes)
    spans = sorted(zip(shown.start_s.tolist(), shown.end_s.tolist(), strict=True))
    assert [x for box in drawn for x in box] == pytest.approx([1e3 * x for span in spans for x in span])
    assert axes.get_xlabel() == "time, milliseconds"
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"rank {r} {s}" for r, s in shown.lanes]
    pyplot.close(figure)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_equal_timelines_give_identical_files(tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        save_figure(plot_timeline(timeline()), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size > 3000


def test_an_unknown_plot_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot write the plot"):
        save_figure(plot_timeline(timeline()), tmp_path / "a.nonsense")


def test_an_empty_timeline_can_be_drawn(tmp_path: Path) -> None:
    save_figure(plot_timeline(simulate(ProgramBuilder(1).build())), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").exists()


@pytest.mark.parametrize(
    ("colour", "dark"),
    [("#000000", True), ("#FFFFFF", False), ("#FF0000", True), ("#00FF00", False), ("#0000FF", True),
     ("#8B8B8B", True), ("#8C8C8C", False), ("#00C300", True), ("#00C400", False), ("#FFB900", False)],
)  # fmt: skip
def test_labels_are_white_on_colours_with_luminance_below_140(colour: str, dark: bool) -> None:
    """Weights of ITU-R BT.709: green counts 0.7152, so that 140 / 0.7152 = 195.7 lies between 0xC3 and 0xC4."""
    assert is_dark(colour) == dark


def test_odd_ranks_have_a_grey_background_and_equal_names_one_colour() -> None:
    builder = ProgramBuilder(4)
    for rank in range(4):
        builder.compute(rank, 1e-3, label="F0")
        builder.compute(rank, 1e-3, label=f"B{rank}")
    shown = simulate(builder.build())
    figure, axes = pyplot.subplots()
    assert draw_timeline(shown, axes, shown.lanes) == 1e-3
    bands = sorted((band.get_y(), band.get_y() + band.get_height()) for band in axes.patches)
    assert bands == [(0.5, 1.5), (2.5, 3.5)]
    spans = [(path.get_extents(), one) for one in axes.collections for path in one.get_paths()]
    assert {round((box.y0 + box.y1) / 2, 6) for box, _ in spans} == {0, 1, 2, 3}
    assert all(box.y1 - box.y0 == pytest.approx(0.84) for box, _ in spans)
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.texts] == ["F", "B"]
    colours = [handle.get_color() for handle in legend.legend_handles]
    assert colours == list(PALETTE[:2])
    written = {(text.get_text(), text.get_position()) for text in axes.texts}
    assert written == {("F0", (0.5, row)) for row in range(4)} | {(f"B{row}", (1.5, row)) for row in range(4)}
    pyplot.close(figure)


def test_labels_are_drawn_only_where_they_fit() -> None:
    """About 150 letters fit into the width: three of them into a fiftieth of it, four not."""
    builder = ProgramBuilder(1)
    for label, lasts_s in (("abc", 0.021), ("abcd", 0.021), ("rest", 0.958)):
        builder.compute(0, lasts_s, label=label)
    figure, axes = pyplot.subplots()
    shown = simulate(builder.build())
    draw_timeline(shown, axes, shown.lanes)
    assert [text.get_text() for text in axes.texts] == ["abc", "rest"]
    pyplot.close(figure)


@pytest.mark.parametrize(
    ("lasts_s", "unit"),
    [
        (1.0, "seconds"),
        (0.9, "milliseconds"),
        (1e-3, "milliseconds"),
        (9e-4, "microseconds"),
        (1e-6, "microseconds"),
        (9e-7, "nanoseconds"),
        (1e-12, "nanoseconds"),
    ],
)
def test_the_time_axis_uses_the_largest_fitting_unit(lasts_s: float, unit: str) -> None:
    builder = ProgramBuilder(1)
    builder.compute(0, lasts_s, label="F")
    shown = simulate(builder.build())
    figure, axes = pyplot.subplots()
    factor = draw_timeline(shown, axes, shown.lanes)
    assert axes.get_xlabel() == f"time, {unit}"
    assert factor == {"seconds": 1, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}[unit]
    assert axes.get_xlim() == (0, pytest.approx(lasts_s / factor))
    pyplot.close(figure)


def test_a_plot_shows_up_to_64_lanes_and_the_selected_streams() -> None:
    builder = ProgramBuilder(65, ["compute", "comm"])
    for rank in range(65):
        builder.compute(rank, 1e-3, label="F")
        builder.compute(rank, 1e-3, label="G", stream="comm")
    shown = simulate(builder.build())
    for streams, count in ((None, 5), (["comm"], 5), ([], 0)):
        figure = plot_timeline(shown, streams=streams, max_lanes=5)
        names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        assert len([name for name in names if name]) == count
        assert all(name.endswith("comm") for name in names if streams)
    assert len(plot_timeline(shown).axes[0].get_yticks()) == 64


def test_a_long_timeline_is_drawn_at_both_ends() -> None:
    builder = ProgramBuilder(2)
    for step in range(200):
        builder.compute(0, 1e-3, label=f"{'FB'[step % 2]}{step}")
    builder.compute(1, 1e-3, label="G0")
    shown = simulate(builder.build())
    first, last = plot_timeline(shown).axes
    assert first.get_xlim() == (0, pytest.approx(48))
    assert last.get_xlim() == (pytest.approx(152), pytest.approx(200))
    for axes, rank_1 in ((first, 1), (last, 0)):
        spans = [path.get_extents() for one in axes.collections for path in one.get_paths()]
        assert len(spans) == 48 + rank_1
        assert min(box.x0 for box in spans) >= axes.get_xlim()[0]
        assert max(box.x1 for box in spans) <= axes.get_xlim()[1] + 1e-9
    colour = {axes: axes.collections[0].get_facecolor().tolist() for axes in (first, last)}
    assert colour[first] == colour[last]
