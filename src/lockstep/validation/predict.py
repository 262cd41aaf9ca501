"""The quantities that published tables measure, as Lockstep predicts them for a case."""

from __future__ import annotations

from lockstep.layout import memory
from lockstep.planner.estimate import executed_flops, model_flops
from lockstep.step import price_step
from lockstep.validation.case import Case


def step_time_s(case: Case) -> float:
    """Seconds of an optimizer step."""
    return float(price_step(case.job, case.cluster, case.layout.grid()).step_time_s)


def state_B(case: Case) -> float:
    """Parameters, gradients and optimizer states of the fullest rank."""
    found = memory(case.job, case.cluster, case.layout.grid())
    return float(found.parameters_B + found.gradients_B + found.optimizer_B)


def activations_B(case: Case) -> float:
    """Kept activations of the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).activations_B)


def constant_efficiency_s(case: Case, executed: bool) -> float:
    """Seconds at the full peak rate: FLOPs executed (recomputation included) or those of the model, over the peak.

    What a predictor that knows only one efficiency divides by it. Attention is counted in full.
    """
    flops = executed_flops(case.job, case.layout.recompute) if executed else model_flops(case.job)
    return flops / (case.job.devices * case.cluster.device.peak(case.job.recipe.dtype))
