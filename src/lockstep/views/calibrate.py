"""`lockstep calibrate`: what measured steps say of kernels and links, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from lockstep.units import format_frac, format_time
from lockstep.views.parts.command import Command
from lockstep.views.parts.output import given, show
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.validation.calibration import Factor
    from lockstep.verbs.calibrate import Calibrated

FEW = 12
"""Steps shown; of more, those that are furthest off."""


def render(answer: Calibrated, out: Console) -> None:
    """Prints what was found, and the errors before and after."""
    found = answer.found
    before, after = (
        format_frac(float(np.median([abs(one.error_frac) for one in errors])), 2)
        for errors in (found.errors_before, found.errors_after)
    )
    factor = f"{found.pace:.3g} times as long as predicted"
    out.print(Text(f"Kernels and host take {factor}; median error {before} before, {after} after", style="bold green"))
    left = format_frac(found.error_frac, 2)
    out.print(f"Expect an error of {left} on other sizes and layouts of the same software on this cluster.")
    heading(out, "Factors", "95 % interval; links: share of the wire rate")
    titles = [("", "left"), ("value", "right"), ("from", "right"), ("to", "right"), ("steps that tell", "right")]
    indented(out, table(titles, (_factor(one) for one in found.factors)))
    heading(out, "Steps", "predicted / measured - 1")
    titles = [("step", "left"), ("devices", "right"), ("measured", "right"), ("before", "right"), ("after", "right")]
    pairs = sorted(zip(found.errors_before, found.errors_after, strict=True), key=lambda pair: -abs(pair[1].error_frac))
    rows = (
        (one.name, f"{one.devices:,}", format_time(one.measured_s), _signed(one.error_frac), _signed(other.error_frac))
        for one, other in pairs[:FEW]
    )
    indented(out, table(titles, rows))
    if answer.path is not None:
        out.print(f"\nWritten to {answer.path}: give it as --cluster.")


def _factor(one: Factor) -> list[str]:
    return [one.what, f"{one.value:.3f}", *(f"{end:.3f}" for end in one.ci95), str(one.rows)]


def _signed(frac: float) -> str:
    return ("+" if frac > 0 else "") + format_frac(frac, 2)


def ask(as_json: bool, file: Sequence[str] | None, **words: Any) -> None:
    """Hands over the files one by one."""
    from lockstep.verbs.calibrate import calibrate

    show(calibrate(*(file or ()), **given(words)), as_json, render)


COMMAND = Command(
    examples=(
        "lockstep calibrate -c dgx-h100:64 --case examples/steps-8.yaml --case examples/steps-16.yaml -o mine.yaml",
        "lockstep calibrate nccl-tests.txt -c dgx-h100:64 --case examples/steps-8.yaml --json",
    ),
    render=render,
    lists=False,
    ask=ask,
)
