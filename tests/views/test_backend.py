"""Pictures are drawn without a screen, whatever backend was chosen before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot

from lockstep.program import ProgramBuilder, Timeline
from lockstep.simulate import simulate
from lockstep.views.execute import plot_execution
from lockstep.views.parts.figure import write_figure
from lockstep.views.parts.timelines import plot_timeline


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


WRITE: dict[str, Callable[[Path], None]] = {
    "figure": lambda path: write_figure(path, "title", lambda axes: None),
    "timeline": lambda path: plot_timeline(timeline(1.0), path),
    "execution": lambda path: plot_execution(executed(), path),
}


@pytest.fixture
def another() -> Iterator[None]:
    """Another backend than the one without a screen."""
    before = matplotlib.get_backend()
    matplotlib.use("svg")
    yield
    matplotlib.use(before)


@pytest.mark.usefixtures("another")
@pytest.mark.parametrize("name", WRITE)
def test_a_picture_needs_no_screen(name: str, tmp_path: Path) -> None:
    opened = pyplot.get_fignums()
    WRITE[name](tmp_path / "picture.png")
    assert matplotlib.get_backend().lower() == "agg"
    assert pyplot.get_fignums() == opened, "and is closed when it is written"


@pytest.mark.parametrize(("lanes", "shown"), [(2, 2), (33, 32)])
def test_an_execution_shows_prediction_above_measurement_on_one_scale(
    lanes: int, shown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(pyplot, "close", kept.append)
        plot_execution(executed(lanes=lanes), tmp_path / "a.svg")
    (figure,) = kept
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim() == (0, 2)
    assert [axes.get_title(loc="left").rpartition(": ")[2] for axes in (above, below)] == ["1 s", "2 s"]
    assert [len(axes.get_yticks()) for axes in (above, below)] == [shown] * 2
    assert f"on {lanes} ranks: prediction 50 % below the measurement" in figure.get_suptitle()
    pyplot.close("all")
