"""Answers as Python shows them: short in a prompt, whole in a notebook, as rows, as a figure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.documents.files import write_text
from lockstep.base.errors import BadInput, UnknownName, not_installed
from lockstep.base.rows import Rows
from lockstep.base.rows.files import flattened
from lockstep.base.types.brief import LONGEST as LONGEST
from lockstep.base.types.plain import Json, plain
from lockstep.show.views.parts.html import fragment, page_of, shown
from lockstep.show.views.parts.output import finite
from lockstep.show.views.parts.rows_plot import plot_rows
from lockstep.show.views.parts.rows_table import render_rows
from lockstep.show.views.parts.terminal import FileConsole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.shown import Shown

WIDTH = 100
FRAMES = ("pandas", "polars")

SHOWN: dict[str, tuple[str, str, str]] = {
    "lockstep.learn.lab.findings.Findings": ("converge", "render_findings", "plot_findings"),
    "lockstep.learn.lab.sweep.summary.Sweep": ("converge", "render_sweep", "plot_sweep"),
    "lockstep.show.verbs.converge.Experiments": ("converge", "render_experiments", ""),
    "lockstep.show.verbs.pipeline.PipelineChoices": ("pipeline", "render_choices", "plot_choices"),
    "lockstep.show.verbs.train.TrainingMethods": ("train", "render_methods", ""),
    "lockstep.simulate.collectives.crossover.Crossover": ("crossover", "render", "plot_regions"),
    "lockstep.price.layout.memory.Memory": ("memory", "render_rank", "plot_rank"),
    "lockstep.simulate.program.timeline.Timeline": ("parts.timelines", "render_timeline", "plot_timeline"),
}
"""Class -> view, and the functions that show and draw it, where these are not the verb's own."""
VIEWS: dict[str, str] = {
    "lockstep.decide.planner.result.Plan": "plan",
    "lockstep.decide.planner.estimate.Estimate": "estimate",
    "lockstep.decide.planner.comparison.Comparison": "compare",
    "lockstep.show.verbs.memory.StageMemories": "memory",
    "lockstep.decide.planner.trainable.Trainable": "memory",
    "lockstep.show.verbs.capture.CapturedMemory": "capture",
    "lockstep.decide.planner.guide.guide.Guidance": "guide",
    "lockstep.show.verbs.export.Export": "export",
    "lockstep.show.verbs.report.RunReport": "report",
    "lockstep.decide.planner.roofline.Roofline": "roofline",
    "lockstep.decide.planner.rollout.Rollout": "rollout",
    "lockstep.show.verbs.sensitivity.Advice": "sensitivity",
    "lockstep.show.verbs.trace.Trace": "trace",
    "lockstep.simulate.collectives.messages.Messages": "messages",
    "lockstep.show.verbs.collective.Collective": "collective",
    "lockstep.show.verbs.pipeline.PipelineRun": "pipeline",
    "lockstep.show.verbs.overlap.Overlap": "overlap",
    "lockstep.price.tensor_layer.TensorLayer": "tensor",
    "lockstep.simulate.parallel.expert.moe.MoeLayer": "experts",
    "lockstep.simulate.failures.checkpoint.Checkpoint": "checkpoint",
    "lockstep.decide.campaigns.campaign.Campaign": "campaign",
    "lockstep.decide.campaigns.scaling.Scaling": "scaling",
    "lockstep.decide.campaigns.speedup.SpeedUp": "speedup",
    "lockstep.show.verbs.claims.Claims": "claims",
    "lockstep.show.verbs.find.Leads": "find",
    "lockstep.show.verbs.train.Training": "train",
    "lockstep.run.reproduce.Reproduction": "reproduce",
    "lockstep.run.partings.compared.Compared": "reproduce",
    "lockstep.show.verbs.execute.Executed": "execute",
    "lockstep.run.bench.bench.CollectiveBench": "bench",
    "lockstep.run.kernels.bench.DeviceBench": "bench",
    "lockstep.show.verbs.fit.Fit": "fit",
    "lockstep.show.verbs.calibrate.Calibrated": "calibrate",
    "lockstep.explain.diagnosis.Diagnosis": "diagnose",
    "lockstep.explain.watch.answer.Watched": "watch",
    "lockstep.run.rig.result.Race": "rig",
    "lockstep.show.verbs.catalog.Catalog": "catalog",
    "lockstep.show.verbs.stack.Stacks": "stack",
    "lockstep.describe.stacks.derived.Derived": "stack",
    "lockstep.show.verbs.support.Matrix": "support",
    "lockstep.check.validation.ledger.Ledger": "validate",
    "lockstep.check.validation.report.Report": "validate",
    "lockstep.check.validation.cases.compare.Survey": "case",
    "lockstep.show.verbs.cite.References": "cite",
    "lockstep.simulate.failures.stragglers.balance.Balance": "balance",
    "lockstep.simulate.failures.stragglers.cost.StragglerCost": "stragglers",
    "lockstep.show.verbs.runs.RunList": "runs",
    "lockstep.show.verbs.ui.Served": "ui",
    "lockstep.base.store.compare.Comparison": "runs",
    "lockstep.show.verbs.sweeps.SweepList": "sweeps",
}
"""Class -> the verb whose `COMMAND` shows and draws it."""


def view_of(answer: Shown) -> tuple[Callable[[Any, Console], None], Callable[[Any], Figure] | None]:
    """What shows and what draws an answer."""
    if isinstance(answer, Rows):
        of = import_module(f"lockstep.show.views.{answer.verb}").COMMAND
        return partial(render_rows, of.figures, of.series), lambda rows: plot_rows(rows, of.figures, of.series)
    name = f"{type(answer).__module__}.{type(answer).__qualname__}"
    if name in SHOWN:
        view, render, picture = SHOWN[name]
        module = import_module(f"lockstep.show.views.{view}")
        return getattr(module, render), getattr(module, picture) if picture else None
    command = import_module(f"lockstep.show.views.{VIEWS[name]}").COMMAND
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
