"""`contradicted(cases)`: rows that contradict another row of their table, by a law that no layout escapes.

Two runs of one job in layouts that differ in the micro-batch alone take (m + p - 1) slots of m micro-batches on p
stages. From b sequences in a micro-batch to c of them a slot grows by c - b forward and backward passes, so that

    t_c / (m_c + p - 1) - t_b / (m_b + p - 1) >= (c - b) FLOPs of a device and sequence / peak        c > b

whatever else a slot takes. Where the host takes part of a slot it may not grow, so pairs are left out in which launches
take more than HOST_FRAC of either step. Which of the two rows is wrong is not told: both are named. The FLOPs executed
count half of attention, what a causal mask leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lockstep.check.validation.case import Case
from lockstep.decide.planner.interval import ends_of
from lockstep.decide.planner.utilisation import executed_flops

HOST_FRAC = 0.05
"""Share of a step above which the host's launches may be what it waits for."""


def contradicted(cases: Sequence[Case]) -> tuple[str, ...]:
    """Names of the rows of step times that contradict another, in the order of the table."""
    alike: dict[object, list[Case]] = {}
    for case in cases:
        if _slotted(case):
            key = case.job, case.cluster.name, replace(case.layout, micro_batch=1)
            alike.setdefault(key, []).append(case)
    wrong: set[str] = set()
    for group in alike.values():
        ordered = sorted(group, key=lambda case: case.layout.micro_batch)
        for few, many in pairwise(ordered):
            if _beyond_peak(few, many) and max(_host_frac(few), _host_frac(many)) <= HOST_FRAC:
                wrong |= {few.row, many.row}
    return tuple(case.row for case in cases if case.row in wrong)


def _slotted(case: Case) -> bool:
    """Whether its step is slots of one micro-batch on all stages alike."""
    layout = case.layout
    return (layout.pp == 1 or layout.schedule == "1f1b") and not layout.stages and case.job.recipe.adapters is None


def _beyond_peak(few: Case, many: Case) -> bool:
    """Whether a device would compute the sequences between two micro-batches in less than its peak rate allows."""
    more = many.layout.micro_batch - few.layout.micro_batch
    recipe, flops = few.job.recipe, executed_flops(few.job, few.layout)
    each_flops = flops * few.layout.dp / (few.job.devices * recipe.batch)
    least_s = more * each_flops / few.cluster.device.peak(recipe.dtype)
    return more > 0 and _slot_s(many) - _slot_s(few) < least_s


def _slot_s(case: Case) -> float:
    microbatches = case.job.recipe.batch / (case.layout.dp * case.layout.micro_batch)
    return case.measured / (microbatches + case.layout.pp - 1)


def _host_frac(case: Case) -> float:
    return float(ends_of(case.job, case.cluster, case.layout.grid()).host_frac)
