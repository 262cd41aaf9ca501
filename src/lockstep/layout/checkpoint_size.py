"""Bytes of a whole checkpoint: what is needed to go on training as if nothing had happened.

    size = parameters x p + matrices x k + others x k'
p: bytes of a working parameter (2); k, k': bytes of optimizer state per matrix and per other parameter (12 for Adam:
fp32 master and two moments). Every parameter is counted once, however many ranks hold it; gradients are not saved.
Values without gradients (correction biases) are saved as working parameters. 14 B per parameter for bf16 and AdamW:
BLOOM-176B's 2.3 TB.
"""

from __future__ import annotations

from lockstep.layout.job import Job
from lockstep.workload import Transformer, all_weights, mtp_weights, parameters, rank_parameters


def checkpoint_B(job: Job) -> float:
    """Bytes of one checkpoint of the whole job, layout and sharding apart."""
    weights = list(all_weights(job.model))
    if isinstance(job.model, Transformer):
        weights += mtp_weights(job.model) * job.model.mtp_layers
    found, states = rank_parameters(weights), job.recipe.states
    saved_B = found.total_elems * job.recipe.parameter_B + found.other_elems * states.other_B
    saved_B += (found.matrix_elems + found.expert_elems) * states.matrix_B
    return float(saved_B + parameters(job.model).untrained * job.recipe.parameter_B)
