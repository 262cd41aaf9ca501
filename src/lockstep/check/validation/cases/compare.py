"""A study's published numbers beside the predicted ones, with signed errors: `compare`, and `survey` of all studies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_count, format_flops, format_frac, format_size, format_time
from lockstep.check.validation.cases.predict import Predicted, Prediction, pace_factor, predict
from lockstep.check.validation.cases.schema import names, study
from lockstep.check.validation.cases.study import DURATIONS, PLANNED, PUBLIC, Published, Study
from lockstep.decide.planner.utilisation import plain_mfu

TOLERANCE_FRAC = 0.15
"""What a published duration may be missed by without an explanation."""


def format_quantity(quantity: str, value: float) -> str:
    """A value of the quantity with its unit: `105 s`, `1.08M GPU-hours`, `41 % MFU`, `118 d`."""
    if quantity == "days":
        return format_time(value * 86400.0)
    if quantity == "step_time_s":
        return format_time(value) + "/step"
    if quantity == "gpu_hours":
        return format_count(value) + " h"
    if quantity == "model_flops_per_gpu_per_s":
        return format_flops(value)
    if quantity.endswith("_frac"):
        name = quantity.removesuffix("_frac")
        return f"{format_frac(value)} {name if name == 'goodput' else name.upper()}"
    return format_count(value) + " tokens/s"


@dataclass(frozen=True, slots=True)
class Row:
    """One published number and its prediction."""

    published: Published
    predicted: float | None
    """None where the source does not say enough to predict it."""

    @property
    def error_frac(self) -> float | None:
        """Predicted over published, minus 1: above 0, more time (or more of a rate) than was measured."""
        return None if self.predicted is None else self.predicted / self.published.value - 1

    @property
    def within(self) -> bool | None:
        """Whether the error is within tolerance; None where there is no prediction."""
        return None if self.error_frac is None else abs(self.error_frac) <= TOLERANCE_FRAC

    @property
    def duration(self) -> bool:
        """Whether it is about the whole run."""
        return self.published.quantity in DURATIONS

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "quantity": self.published.quantity,
            "stretch": self.published.stretch or None,
            "published": self.published.value,
            "downtime": self.published.downtime,
            "predicted": self.predicted,
            "error_frac": self.error_frac,
            "source": self.published.source,
            "why": self.published.why or None,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A study with its prediction."""

    study: Study
    prediction: Prediction
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every miss is explained; the planner's best stands for no run in particular, so it misses none."""
        judged = self.study.configuration != PLANNED
        return not judged or all(row.within is not False or bool(row.published.why) for row in self.rows)

    @property
    def worst(self) -> Row | None:
        """The row with the largest error; None where nothing could be predicted."""
        known = [(abs(row.error_frac), row) for row in self.rows if row.error_frac is not None]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, or chosen because no source says it; of stretches that differ little, the last speaks."""
        return (*_paced(self.study), *self.study.assumed, *_chosen(self.prediction.stretches[-1]))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self.study, "name title"),
            "model": self.study.model.name,
            **picked(self.study, "cluster configuration source"),
            "stretches": [_stretch(one) for one in self.prediction.stretches],
            "rows": plain(self.rows),
            "unknown": plain(self.study.unknown),
            "assumptions": list(self.assumptions()),
            "ok": self.ok,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Survey(Shown):
    """Several studies."""

    comparisons: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        """Whether every miss of every study is explained."""
        return all(one.ok for one in self.comparisons)

    def durations(self, configuration: str = PUBLIC) -> list[Row]:
        """Of each study with that configuration whose whole run could be predicted, the row with the larger error."""
        chosen = (one for one in self.comparisons if one.study.configuration == configuration)
        known = ([row for row in one.rows if row.duration and row.error_frac is not None] for one in chosen)
        return [max(rows, key=lambda row: abs(row.error_frac or 0.0)) for rows in known if rows]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"cases": plain(self.comparisons), "ok": self.ok}


def compare(asked: Study) -> Comparison:
    """Predicts a study and sets it beside what was published."""
    prediction = predict(asked)
    return Comparison(asked, prediction, tuple(Row(row, prediction.value(row)) for row in asked.published))


def survey(wanted: Iterable[str] | None = None, progress: Progress | None = None) -> Survey:
    """Compares the named studies (all when None). Raises UnknownName."""
    chosen, found = list(names() if wanted is None else wanted), []
    for done, name in enumerate(chosen):
        found.append(_of_the_shelf(name) if name in names() else compare(study(name)))
        if progress is not None:
            progress(done + 1, len(chosen))
    return Survey(tuple(found))


@cache
def _of_the_shelf(name: str) -> Comparison:
    """Compared once; a file of the user's may change."""
    return compare(study(name))


def _paced(study: Study) -> tuple[str, ...]:
    if not study.pace:
        return ()
    factor = f"{pace_factor(study):.3g}"
    said = f"kernels take {factor} times as long as predicted, as measured in {study.pace} with the same software"
    alone = compare(replace(study, pace="")).worst
    if alone is not None and alone.error_frac is not None:
        said += f"; without that the error would be {100 * alone.error_frac:+.0f} %"
    return (said,)


def _chosen(one: Predicted) -> list[str]:
    """What the planner chose for a stretch, what was hidden, and what does not fit as described."""
    said, stretch = [], one.stretch
    at = f" of {stretch.name}" if stretch.name != "run" else ""
    if not stretch.layout:
        said.append(f"layout{at}: not known, the planner's best is {one.estimate.layout}")
    elif stretch.chosen:
        picked = ", ".join(f"{word} {getattr(one.estimate.layout, word)}" for word in stretch.chosen)
        said.append(f"not known{at}, chosen by the planner: {picked}")
    if one.hidden_s:
        hidden, step = format_time(one.hidden_s), format_time(one.step_time_s)
        said.append(f"{hidden} of the expert exchange are hidden behind compute in a step of {step}{at}")
    held = one.estimate.memory
    if not held.fits:
        over = format_frac(float(held.used_frac) - 1)
        said.append(f"as described{at} a device would need {format_size(float(held.total_B))}, {over} more than it has")
    return said


def _stretch(one: Predicted) -> Json:
    """Plain JSON form of a stretch."""
    found = one.estimate
    return {
        "name": one.stretch.name,
        "gpus": one.stretch.devices,
        "batch": one.stretch.recipe.batch,
        "seq": one.stretch.recipe.seq,
        "tokens": one.stretch.tokens,
        "layout": found.layout.to_dict(),
        "chosen": list(one.stretch.chosen) if one.stretch.layout else ["layout"],
        "step_time_s": one.step_time_s,
        "hidden_s": one.hidden_s,
        "breakdown_s": found.step.breakdown_s(),
        **plain_mfu(one.estimate.utilisation),
        "tokens_per_s_per_gpu": one.quantity("tokens_per_s_per_gpu"),
        "memory_frac": float(found.memory.used_frac),
        "interval": found.interval.to_dict(),
    }
