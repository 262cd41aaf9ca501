"""The quantities that published tables measure, as Lockstep predicts them for a case."""

from __future__ import annotations

import numpy as np

from lockstep.layout import memory
from lockstep.step import price_step
from lockstep.validation.case import Case
from lockstep.workload import convnet_forward_flops, training_flops


def step_time_s(case: Case) -> float:
    """Seconds of an optimizer step."""
    return float(price_step(case.job, case.cluster, case.layout.grid()).step_time_s)


def state_B(case: Case) -> float:
    """Parameters, gradients and optimizer states of the fullest rank."""
    found = memory(case.job, case.cluster, case.layout.grid(), case.layout.pp)
    return float(found.parameters_B + found.gradients_B + found.optimizer_B)


def activations_B(case: Case) -> float:
    """Kept activations of the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid(), case.layout.pp).activations_B)


def constant_efficiency_s(case: Case, executed: bool) -> float:
    """Seconds at the full peak rate: FLOPs executed (recomputation included) or those of the model, over the peak.

    What a predictor that knows only one efficiency divides by it. Attention is counted in full.
    """
    recipe, model = case.job.recipe, case.job.transformer
    if model is None:
        flops = 3.0 * convnet_forward_flops(case.job.model) * recipe.batch  # type: ignore[arg-type]
    else:
        per_token = training_flops(model, recipe.seq, recompute=case.layout.recompute)
        flops = float(np.asarray(per_token.hardware if executed else per_token.model)) * recipe.batch_tokens
    return float(flops) / (case.job.devices * case.cluster.device.peak(recipe.dtype))
