"""Pictures are drawn without a screen, whatever backend was chosen before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from lockstep.show.views.execute import plot_execution
from lockstep.show.views.parts.figure import make_figure, save_figure
from lockstep.show.views.parts.timelines import plot_timeline
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder, Timeline


def timeline(lasts_s: float, lanes: int = 2) -> Timeline:
    builder = ProgramBuilder(lanes)
    for rank in range(lanes):
        builder.compute(rank, lasts_s, label="F0")
    return simulate(builder.build())


def executed(what: str = "all-reduce", lanes: int = 2) -> Any:
    predicted, measured = timeline(1.0, lanes), timeline(2.0, lanes)
    run = SimpleNamespace(
        predicted=predicted,
        measured=measured,
        program=predicted.program,
        difference=SimpleNamespace(makespan_frac=-0.5),
    )
    return SimpleNamespace(execution=run, what=what, algorithm="ring")


DRAW: dict[str, Callable[[], Figure]] = {
    "figure": lambda: make_figure("title", lambda axes: None),
    "timeline": lambda: plot_timeline(timeline(1.0)),
    "execution": lambda: plot_execution(executed()),
}


@pytest.fixture
def another() -> Iterator[None]:
    """Another backend than the one without a screen."""
    before = matplotlib.get_backend()
    matplotlib.use("svg")
    yield
    matplotlib.use(before)


@pytest.mark.usefixtures("another")
@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_needs_no_screen(name: str, ending: str, tmp_path: Path) -> None:
    opened = pyplot.get_fignums()
    save_figure(DRAW[name](), tmp_path / f"picture.{ending}")
    assert matplotlib.get_backend().lower() == "svg", "what was chosen stays"
    assert pyplot.get_fignums() == opened


@pytest.mark.parametrize(("lanes", "shown"), [(2, 2), (33, 32)])
def test_an_execution_shows_prediction_above_measurement_on_one_scale(lanes: int, shown: int) -> None:
    figure = plot_execution(executed(lanes=lanes))
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim() == (0, 2)
    assert [axes.get_title(loc="left").rpartition(": ")[2] for axes in (above, below)] == ["1 s", "2 s"]
    assert [len(axes.get_yticks()) for axes in (above, below)] == [shown] * 2
    assert f"on {lanes} ranks: prediction 50 % below the measurement" in figure.get_suptitle()
