"""The timeline picture: every span once, on its lane; the same bytes twice; formats and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import pyplot

from lockstep.errors import BadInput
from lockstep.program import ProgramBuilder, Timeline
from lockstep.report.timeline_plot import draw_timeline, plot_timeline
from lockstep.simulate import simulate


def timeline() -> Timeline:
    builder = ProgramBuilder(2)
    for rank in range(2):
        builder.compute(rank, 2e-3, label="F0")
        builder.compute(rank, 3e-3, label="B $0 <&")
    builder.message(0, 1, 8.0, duration_s=1e-3, after=0)
    builder.collective(range(2), "all-reduce", 8.0, duration_s=1e-3, after=(1, 3))
    return simulate(builder.build())


def test_spans_are_drawn_where_they_are() -> None:
    shown = timeline()
    figure, axes = pyplot.subplots()
    draw_timeline(shown, axes, shown.lanes)
    boxes = []
    for collection in axes.collections:
        boxes += [path.get_extents() for path in collection.get_paths()]
    drawn = sorted((box.x0, box.x1) for box in boxes)
    spans = sorted(zip(shown.start_s.tolist(), shown.end_s.tolist(), strict=True))
    assert [x for box in drawn for x in box] == pytest.approx([1e3 * x for span in spans for x in span])
    assert axes.get_xlabel() == "time [ms]"
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"rank {r} {s}" for r, s in shown.lanes]
    pyplot.close(figure)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_same_timeline_same_file(tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        plot_timeline(timeline(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size > 3000


def test_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot write the plot"):
        plot_timeline(timeline(), tmp_path / "a.nonsense")


def test_nothing_to_draw(tmp_path: Path) -> None:
    plot_timeline(simulate(ProgramBuilder(1).build()), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").exists()
