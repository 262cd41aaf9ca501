"""What is predicted of software that nothing was fitted to: `unseen(case)`.

A stack keeps its switches, which are facts; the constants of the device and the times on the host are those of the fit
without its tables (`left_out.toml`, the output of `python -m lockstep.validation.fit --each`). Stacks that nothing was
fitted to anyway are predicted as always.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from lockstep.hardware import Efficiency
from lockstep.stacks import Stack
from lockstep.types.plain import Json
from lockstep.validation.case import Case

SHARED = "shared"
"""The constants of software of which no rows were fitted, nor of other software with the same kernels."""
TRITON = "triton"
"""The attention kernel that is fitted to steps, as no table has it alone."""


@cache
def left_out() -> dict[str, dict[str, dict[str, float]]]:
    """By the software that was left out, constants by device and of all software together."""
    text = resources.files("lockstep.validation").joinpath("left_out.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def unseen(case: Case) -> Case:
    """The case with constants that its software had no part in."""
    software = case.job.recipe.software
    found = left_out().get(software.name)
    if found is None:
        return case
    device = case.cluster.device
    curve = _curve(device.efficiency, found)
    recipe = replace(case.job.recipe, stack=_shared(software, found))
    cluster = replace(case.cluster, device=replace(device, efficiency=curve))
    return replace(case, job=replace(case.job, recipe=recipe), cluster=cluster)


def _curve(curve: Efficiency, found: dict[str, dict[str, float]]) -> Efficiency:
    """The curve of that fit; attention in Triton is FlashAttention-1's where its only user was left out."""
    known: Json = dict(found.get(curve.name, {}))
    factor = known.pop(TRITON, 1.0)
    if TRITON in curve.attention:
        curve = with_triton(curve, factor)
    return replace(curve, **known)


def with_triton(curve: Efficiency, factor: Any) -> Efficiency:
    """The curve whose FlashAttention-1 in Triton runs `factor` times, a number or an array, as fast as CUDA's."""
    return replace(curve, attention={**curve.attention, TRITON: curve.attention["flash1"].slowed(1.0 / factor)})


def _shared(software: Stack, found: dict[str, dict[str, float]]) -> Stack:
    times: Json = {**found[SHARED], **found.get(software.kernels, {})}
    return software if software.kind == "assumed" else replace(software, **times)
