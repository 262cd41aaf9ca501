"""What pipelines of PyTorch hold besides activations: `pipelined_B(job, grid, stage)`, in bytes.

With m micro-batches per step, b bytes between two stages and v chunks of layers on a device:

    received    m b (2 v - first - last)    a buffer for the input of every micro-batch and chunk, and one for the
                                            gradient of its output, made once and kept
    outputs     m l                         the last stage keeps what the head gives, l bytes of logits in half
                                            precision, until the step ends; it then joins them, which takes as much
                                            (unless asked not to: return_outputs of PyTorch 2.13)

The input of a chunk is such a buffer, where `kept.py` counts it in flight; what the chunk gives waits as long, and is
as large.

Source: PyTorch 2.5 to 2.13, torch/distributed/pipelining/stage.py (_setup_forward_recv_info, _create_grad_recv_info,
output_chunks) and schedules.py (_merge_outputs).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import LayoutGrid


def pipelined_B(job: Job, grid: LayoutGrid, stage: int) -> tuple[Number, Number]:
    """(bytes held throughout a step, bytes that joining its outputs takes more) on a rank of a stage."""
    model, recipe = job.transformer, job.recipe
    if recipe.sharding != "fsdp2" or grid.stages == 1 or model is None:
        return 0.0, 0.0
    first, last, _ = grid.pieces_on(stage)
    tokens = grid.micro_batch * recipe.passed_seq / grid.cp * grid.microbatches(recipe.batch)
    between_B = tokens * model.hidden * recipe.element_B / np.where(grid.sequence_parallel > 0, grid.tp, 1)
    received_B = between_B * (2 * grid.vpp - first - last)
    outputs_B: Number = tokens * model.vocab / grid.tp * recipe.element_B if last and model.has_head else 0.0
    return received_B + outputs_B, outputs_B
