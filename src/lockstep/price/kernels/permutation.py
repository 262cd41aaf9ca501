"""Kernel work of bringing rows of tokens to their experts and back, in the way of the software (`permutation` of
`describe/stacks/ways.toml`).

Of T tokens that choose k experts each there are R = T k rows of h numbers, f in an expert. Torch's grouped products
hide less of their operands' traffic than one product of as many rows: a share `exposed` of it more.

Times of these ways: one H100 SXM of 700 W, PyTorch 2.11.0, 27 November 2026 (`tools/fit/expert_code.py`): products with
a number per row take 1.33 times as long as their bytes in fp32 and twice in half precision, fills by a mask 2.3; rows
put back 7.3 passes, added with atomics 5.9, by index_add 12.2, by index_put 4 where each occurs once and 11.1 where
padded. Grouped products took 1.03 to 1.06 times as long as one of as many rows with 14,336 numbers in an expert, with
768 1.16.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import Parts, slot_work
from lockstep.price.layout import way


def permuted(shard: Shard, moe: Experts) -> Passes:
    """The work of one layer."""
    local, stream = shard.local_experts, shard.loose_tokens * shard.model.hidden
    rows, several = stream * moe.top_k, (local > 1) & (shard.grid.ep > 1)
    inner = shard.expert_rows * moe.ffn / shard.grid.expert_tp
    parts: Parts = {"sorted": (rows, several), "gate": (inner, 1), "each": (stream, local)}
    return slot_work(shard, "permutation", rows, parts=parts)


def grouped(shard: Shard, width: Number, rows: Number, local: Number, gated: bool) -> Passes:
    """What the operands of grouped products take longer, of `local` experts of `width` and `rows` each."""
    exposed = way(shard.recipe, shard.model, "permutation").numbers.get("exposed", 0.0)
    if not exposed:
        return Passes(Work(), Work())
    h, columns = shard.model.hidden, width * (2 if gated else 1)
    numbers = rows * (2 * h + columns + width) + h * (columns + width)
    exposed_s = exposed * local * numbers * shard.clock.element_B / shard.clock.device.memory_bandwidth_Bps
    return Passes(Work(matmul_s=exposed_s), Work(matmul_s=2.0 * exposed_s))
