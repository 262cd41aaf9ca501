"""Answers as Python shows them: short in a prompt, whole in a notebook, as rows, as a figure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.documents.files import write_text
from lockstep.errors import BadInput, UnknownName, not_installed
from lockstep.rows import Rows
from lockstep.rows.files import flattened
from lockstep.types.brief import LONGEST as LONGEST
from lockstep.types.plain import Json, plain
from lockstep.views.parts.html import fragment, page_of, shown
from lockstep.views.parts.output import finite
from lockstep.views.parts.rows_plot import plot_rows
from lockstep.views.parts.rows_table import render_rows
from lockstep.views.parts.terminal import FileConsole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.types.shown import Shown

WIDTH = 100
FRAMES = ("pandas", "polars")

SHOWN: dict[str, tuple[str, str, str]] = {
    "lockstep.lab.findings.Findings": ("converge", "render_findings", "plot_findings"),
    "lockstep.lab.sweep.summary.Sweep": ("converge", "render_sweep", "plot_sweep"),
    "lockstep.verbs.converge.Experiments": ("converge", "render_experiments", ""),
    "lockstep.verbs.pipeline.PipelineChoices": ("pipeline", "render_choices", "plot_choices"),
    "lockstep.verbs.train.TrainingMethods": ("train", "render_methods", ""),
    "lockstep.collectives.crossover.Crossover": ("crossover", "render", "plot_regions"),
    "lockstep.layout.memory.Memory": ("memory", "render_rank", "plot_rank"),
    "lockstep.program.timeline.Timeline": ("parts.timelines", "render_timeline", "plot_timeline"),
}
"""Class -> view, and the functions that show and draw it, where these are not the verb's own."""
VIEWS: dict[str, str] = {
    "lockstep.planner.result.Plan": "plan",
    "lockstep.planner.estimate.Estimate": "estimate",
    "lockstep.planner.comparison.Comparison": "compare",
    "lockstep.verbs.memory.StageMemories": "memory",
    "lockstep.planner.guide.guide.Guidance": "guide",
    "lockstep.verbs.export.Export": "export",
    "lockstep.verbs.report.RunReport": "report",
    "lockstep.planner.roofline.Roofline": "roofline",
    "lockstep.verbs.sensitivity.Advice": "sensitivity",
    "lockstep.verbs.trace.Trace": "trace",
    "lockstep.collectives.messages.Messages": "messages",
    "lockstep.verbs.collective.Collective": "collective",
    "lockstep.verbs.pipeline.PipelineRun": "pipeline",
    "lockstep.verbs.overlap.Overlap": "overlap",
    "lockstep.parallel.tensor.answer.TensorLayer": "tensor",
    "lockstep.parallel.expert.moe.MoeLayer": "experts",
    "lockstep.failures.checkpoint.Checkpoint": "checkpoint",
    "lockstep.campaigns.campaign.Campaign": "campaign",
    "lockstep.campaigns.scaling.Scaling": "scaling",
    "lockstep.campaigns.speedup.SpeedUp": "speedup",
    "lockstep.verbs.claims.Claims": "claims",
    "lockstep.verbs.train.Training": "train",
    "lockstep.measure.reproduce.Reproduction": "reproduce",
    "lockstep.verbs.execute.Executed": "execute",
    "lockstep.measure.bench.bench.CollectiveBench": "bench",
    "lockstep.measure.kernels.bench.DeviceBench": "bench",
    "lockstep.verbs.fit.Fit": "fit",
    "lockstep.verbs.calibrate.Calibrated": "calibrate",
    "lockstep.diagnosis.diagnosis.Diagnosis": "diagnose",
    "lockstep.measure.rig.result.Race": "rig",
    "lockstep.verbs.catalog.Catalog": "catalog",
    "lockstep.verbs.stack.Stacks": "stack",
    "lockstep.verbs.support.Matrix": "support",
    "lockstep.validation.report.Report": "validate",
    "lockstep.validation.cases.compare.Survey": "case",
    "lockstep.verbs.cite.References": "cite",
    "lockstep.failures.stragglers.balance.Balance": "balance",
    "lockstep.failures.stragglers.cost.StragglerCost": "stragglers",
    "lockstep.verbs.runs.RunList": "runs",
    "lockstep.verbs.ui.Served": "ui",
    "lockstep.store.compare.Comparison": "runs",
    "lockstep.verbs.sweeps.SweepList": "sweeps",
}
"""Class -> the verb whose `COMMAND` shows and draws it."""


def view_of(answer: Shown) -> tuple[Callable[[Any, Console], None], Callable[[Any], Figure] | None]:
    """What shows and what draws an answer."""
    if isinstance(answer, Rows):
        of = import_module(f"lockstep.views.{answer.verb}").COMMAND
        return partial(render_rows, of.figures, of.series), lambda rows: plot_rows(rows, of.figures, of.series)
    name = f"{type(answer).__module__}.{type(answer).__qualname__}"
    if name in SHOWN:
        view, render, picture = SHOWN[name]
        module = import_module(f"lockstep.views.{view}")
        return getattr(module, render), getattr(module, picture) if picture else None
    command = import_module(f"lockstep.views.{VIEWS[name]}").COMMAND
    return command.render, command.picture


def brief(answer: Shown) -> str:
    """The lines of the verdict."""
    out = FileConsole(file=StringIO(), width=WIDTH, color_system=None)
    view_of(answer)[0](answer, out)
    text = out.file.getvalue() if isinstance(out.file, StringIO) else ""
    lines = "\n".join(line.rstrip() for line in text.strip("\n").partition("\n\n")[0].splitlines())
    return lines if len(lines) <= LONGEST else f"{lines[: LONGEST - 4]} ..."


def bundle(answer: Shown, include: Collection[str] | None, exclude: Collection[str] | None) -> Json:
    """Forms of an answer by MIME type. Front ends prefer JSON to HTML, so it comes only where it is asked for."""
    render, picture = view_of(answer)
    made: dict[str, Callable[[], Any]] = {
        "text/plain": lambda: brief(answer),
        "text/html": lambda: fragment(shown(answer, render, figures_of(answer, picture))),
        "application/json": lambda: finite(plain(answer)),
    }
    wanted = include or ("text/plain", "text/html")
    return {kind: make() for kind, make in made.items() if kind in wanted and kind not in (exclude or ())}


def figures_of(answer: Shown, picture: Callable[[Any], Figure] | None) -> list[Figure]:
    """The picture, where there is something to draw and matplotlib is installed."""
    if picture is None or find_spec("matplotlib") is None:
        return []
    try:
        return [picture(answer)]
    except BadInput:
        return []


def plot(answer: Shown) -> Figure:
    """The picture of an answer. Raises BadInput where there is none."""
    _, picture = view_of(answer)
    if picture is None:
        raise BadInput(f"{type(answer).__name__} has no picture; table() gives its rows")
    if find_spec("matplotlib") is None:
        raise not_installed("pictures need matplotlib", "plot")
    return picture(answer)


def save(answer: Shown, path: str | Path) -> None:
    """Writes the answer as a file of its own."""
    render, picture = view_of(answer)
    text = page_of(type(answer).__name__, answer, render, figures_of(answer, picture))
    write_text(path, text, "path")


def table(answer: Shown, frame: str) -> Any:
    """Rows of an answer, or a frame of them."""
    form: Json = finite(plain(answer))
    listed = (value for value in form.values() if isinstance(value, list) and value and isinstance(value[0], dict))
    rows = [flattened(row) for row in next(listed, [form])]
    if not frame:
        return rows
    if frame not in FRAMES:
        raise UnknownName("frame", frame, FRAMES)
    if find_spec(frame) is None:
        raise BadInput(f"{frame} is not installed; table() without it gives plain rows")
    return import_module(frame).DataFrame(rows)
