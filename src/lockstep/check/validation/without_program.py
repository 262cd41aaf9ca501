"""What is predicted of software that nothing was fitted to: `without_program(case)`.

A stack keeps its switches, which are facts; the constants of the device and of the library whose kernels run are those
of the fit without its tables (`left_out.toml`, the output of `python tools/fit/fit.py --each`). Stacks that
nothing was fitted to anyway are predicted as always.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.check.validation.case import Case


@cache
def left_out() -> dict[str, dict[str, dict[str, float]]]:
    """By the software that was left out, constants by device and library of kernels."""
    return shipped_table("lockstep.check.validation", "left_out.toml")


def without_program(case: Case) -> Case:
    """The case with constants that its software had no part in."""
    software = case.job.recipe.software
    found = left_out().get(software.name)
    if found is None:
        return case
    device = case.cluster.device
    curve = replace(device.efficiency, **found.get(device.efficiency.name, {}))  # type: ignore[arg-type]
    factor = found.get(software.kernels, {}).get("elementwise_factor", software.elementwise_factor)
    recipe = replace(case.job.recipe, stack=replace(software, elementwise_factor=factor))
    cluster = replace(case.cluster, device=replace(device, efficiency=curve))
    return replace(case, job=replace(case.job, recipe=recipe), cluster=cluster)
