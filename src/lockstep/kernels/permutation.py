"""Kernel work of bringing rows of tokens to their experts and back, by software (`Habits.permutation`).

Of T tokens that choose k experts each there are R = T k rows of h numbers, f in an expert. In passes that read or write
a row in half precision, each with the times over its bytes that PyTorch takes where its kernel is not vectorised:

    fused            one kernel of Transformer Engine either way (4), and of their gradients (4)
    megatron         of Megatron Core without --moe-permute-fusion, which 0.11 brought: rows gathered (2), weighed (2 x
                     `HALF_WEIGHED`) and added to their tokens with atomics (`ADDED`); where a rank has several experts
                     and others send it rows, these are sorted by expert and back (2 each). Backward gathered (2),
                     products (2 x `HALF_WEIGHED`, 3), sums (1), added to zeros (`INDEX_ADDED`), sorted (2 each)
    torchtitan       rows gathered (2), a row of zeros joined (2), gathered again with that row where an expert lacks
                     some for a multiple of eight (2), put back (`PUT`), converted to fp32 (3), weighed (4 x `WEIGHED`),
                     converted back (3) and added to their tokens with atomics (`ADDED`). Backward gathered (2),
                     converted (3), both factors' products (4 x `WEIGHED`, 6), sums (2), converted (3), copied into
                     zeros (3), gathered (2), gradients of gate and up added (3), put back (`PLACED`), added (`ADDED`).
                     Compiled, fewer kernels do the same: `COMPILED`
    transformers-5   gathered (2), filled where a mask says in place (2 x `MASKED`) and copied (2 more), so gate and up
                     too, weighed (2 x `HALF_WEIGHED`), gathered (2), summed (1). Backward copied (1), put back (1 and
                     `INDEXED` twice), products (2 x `HALF_WEIGHED`, 3), sums (1), copied and filled twice, gate and up
                     once. A gate over halves of one tensor as in `copies.py`
    transformers-4   experts in turn, each gathers (2), weighs (2 x `HALF_WEIGHED`) and adds to the result
                     (`INDEX_ADDED`); backward gathered (2), products (2 x `HALF_WEIGHED`, 3), sums (1), and for each
                     expert a tensor of all tokens filled (1) and added to the gradient (3), rows into it (`INDEXED`).
                     The host asks for each expert which tokens chose it, and waits: the device then idles for `ASKED`
                     launches

torch's grouped products hide less of their operands' traffic than one product of as many rows: `EXPOSED` of it more.

Sources: pytorch/torchtitan, models/moe.py and distributed/expert_parallel.py (the decorator `expert_parallel`);
huggingface/transformers, of release 5 integrations/moe.py (grouped_mm_experts_forward), of release 4
models/mixtral/modeling_mixtral.py (MixtralSparseMoeBlock.forward); NVIDIA/TransformerEngine, pytorch/permutation.py;
NVIDIA/Megatron-LM of release 0.9, core/transformer/moe/moe_utils.py (permute, unpermute) and token_dispatcher.py.
Times: one H100 SXM of 700 W, PyTorch 2.11.0, 27 November 2026 (`tools/fit/expert_code.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lockstep.kernels.clock import WIDENED, Clock, Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Experts

CUT_GATE, JOINED = (3.7, 3.1), 4.0
"""Passes that a gate over halves of one tensor takes beyond its 5 and 9, and that join the halves' gradients (`gate` of
`stacks/ways.toml`, halves)."""
WEIGHED, HALF_WEIGHED, MASKED = 1.33, 2.0, 2.3
"""Times as long as their bytes that products with a number per row take in fp32 and in half precision, and fills."""
PUT, ADDED, INDEX_ADDED, INDEXED, PLACED = 7.3, 5.9, 12.2, 4.0, 11.1
"""In passes: index_put, scatter_add, index_add, and index_put that adds up, of rows that occur once, or padded."""
COMPILED = 7.3, 12.0
"""Passes of torchtitan's code in kernels of Inductor."""
EXPOSED = 0.4
"""Products took 1.03 to 1.06 times as long as one of as many rows with 14,336 numbers in an expert, with 768 1.16."""
ASKED, LOOPED = 5.5, (16, 33)
"""Launches of the host that an expert in a loop waits for, and launches of its own."""
LAUNCHED = {
    "compiled": (10, 10), "megatron": (12, 12), "torchtitan": (45, 50), "transformers-5": (40, 50),
    "transformers-4": (20, 30),
}  # fmt: skip
"""Kernels of a layer forward and backward, of torchtitan's as profiles show, of the others estimated."""
SORTED = 4.0


def permuted(shard: Shard, moe: Experts, local: Number) -> Passes:
    """The work of one layer with `local` experts on a rank."""
    kind, clock = shard.recipe.habits.permutation, shard.clock
    rows = shard.loose_tokens * moe.top_k * shard.model.hidden
    if kind == "fused":
        return shard.elementwise(rows, 4.0, 4.0, kernels=4)
    if kind == "torchtitan" and clock.stack.compiled:
        kind = "compiled"
    passes, size_B = PASSES[kind](clock), rows * clock.element_B
    found = Passes(*(clock.stream(many * size_B, count) for many, count in zip(passes, LAUNCHED[kind], strict=True)))
    if kind == "megatron":
        sorted_B = np.where((local > 1) & (shard.grid.ep > 1), SORTED, 0.0) * size_B
        return found + Passes(clock.stream(sorted_B, 2), clock.stream(sorted_B, 2))
    if kind == "transformers-4":
        return found + _turns(shard, local)
    return found + _halves(shard, moe) if kind == "transformers-5" else found


def grouped(shard: Shard, width: Number, rows: Number, local: Number, gated: bool) -> Passes:
    """What the operands of torch's grouped products take longer, of `local` experts of `width` and `rows` each."""
    if shard.recipe.habits.permutation not in ("torchtitan", "transformers-5"):
        return Passes(Work(), Work())
    h, columns = shard.model.hidden, width * (2 if gated else 1)
    numbers = rows * (2 * h + columns + width) + h * (columns + width)
    exposed_s = EXPOSED * local * numbers * shard.clock.element_B / shard.clock.device.memory_bandwidth_Bps
    return Passes(Work(matmul_s=exposed_s), Work(matmul_s=2.0 * exposed_s))


def _torchtitan(clock: Clock) -> tuple[float, float]:
    put, added, placed, weighed, widened = map(clock.instruction_bound, (PUT, ADDED, PLACED, WEIGHED, WIDENED))
    forward = 6.0 + put + 3.0 * widened + 4.0 * weighed + 3.0 + added
    return forward, 2.0 + 3.0 * widened + 4.0 * weighed + 6.0 + 2.0 + 3.0 + 3.0 + 2.0 + 3.0 + placed + added


def _transformers_5(clock: Clock) -> tuple[float, float]:
    masked, weighed, indexed = map(clock.instruction_bound, (MASKED, HALF_WEIGHED, INDEXED))
    forward = 2.0 + 4.0 * masked + 2.0 + 2.0 * weighed + 2.0 + 1.0
    return forward, 1.0 + 1.0 + 2.0 * indexed + 2.0 * weighed + 3.0 + 1.0 + 4.0 + 4.0 * masked


def _halves(shard: Shard, moe: Experts) -> Passes:
    """What the gate costs beyond one over two tensors, and the fills of gate and up."""
    masked = 4.0 + 4.0 * shard.clock.instruction_bound(MASKED)
    numbers = shard.routed_tokens * moe.top_k * moe.ffn / shard.grid.expert_tp
    return shard.operations(numbers, CUT_GATE[0] + masked, CUT_GATE[1] + JOINED + masked)


def _transformers_4(clock: Clock) -> tuple[float, float]:
    weighed, added, indexed = map(clock.instruction_bound, (HALF_WEIGHED, INDEX_ADDED, INDEXED))
    return 2.0 + 2.0 * weighed + added, 2.0 + 2.0 * weighed + 3.0 + 1.0 + indexed


def _turns(shard: Shard, local: Number) -> Passes:
    """What the loop adds for each expert: gradients of all tokens, launches, and the wait for its tokens."""
    clock, (there, back) = shard.clock, LOOPED
    whole_B = shard.loose_tokens * shard.model.hidden * clock.element_B
    waits = Work(stream_s=ASKED * local * clock.launches_s[0], kernels=(there + ASKED) * local)
    return Passes(waits, replace(clock.stream(4.0 * local * whole_B), kernels=back * local))


def _megatron(clock: Clock) -> tuple[float, float]:
    weighed, added, indexed = map(clock.instruction_bound, (HALF_WEIGHED, ADDED, INDEX_ADDED))
    return 2.0 + 2.0 * weighed + added, 2.0 + 2.0 * weighed + 3.0 + 1.0 + indexed


PASSES: dict[str, Callable[[Clock], tuple[float, float]]] = {
    "compiled": lambda _: COMPILED,
    "megatron": _megatron,
    "torchtitan": _torchtitan,
    "transformers-5": _transformers_5,
    "transformers-4": _transformers_4,
}
"""Passes over the rows forward and backward, as long as each takes."""
