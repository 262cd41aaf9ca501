"""`Piece`: the micro-batch, layout and kernels of one rank, and how they cut a tensor that waits for the backward pass.

A kept tensor holds `token_B` bytes per token before it is cut; one rank holds

    size_B = b s / cp * token_B * share(spread)

    spread      share                 tensors
    sequence    1 / tp with sequence parallelism, else 1      between the parallel blocks
    gathered    as sequence, or 1 if it stays gathered        what products of the parallel blocks read
    tp          1 / tp                                        heads, inner width of the feed-forward block, logits
    kv          1 / min(tp, kv_heads)                         keys and values, what heads of a group share
    scores      s / tp                                        attention probabilities (token_B is per key)
    rows        capacity_factor * rows_per_token              rows sent to experts (token_B holds top_k)
    inner       rows / expert_tp                              inside of experts
    layer       1 / tokens                                    what is there once, whole on every rank

RECOMPUTE is what is thrown away after the forward pass and computed again: words and integer codes.

    none       everything is kept
    selective  chosen modules are computed again, by default the attention core (Korthikanti et al. 2022, section 5)
    full       only the input of each layer is kept (Chen et al. 2016, one segment per layer)

A stronger mode keeps less and computes more; the codes are ordered so. Modules, in the words of Megatron Core's
--recompute-modules, and what of them is thrown away:

    core_attn     scores, softmax and dropout, or the log-sum-exp of fused attention
    layernorm     outputs of the norms before attention, feed-forward block and latent projections
    mla_up_proj   queries, keys and values made from the latents of multi-head latent attention
    mlp           everything inside dense feed-forward blocks
    moe           everything inside blocks with experts, whose exchange runs again too
    shared_experts  everything inside shared experts
    moe_act       outputs of the activation function in routed and shared experts
    context       the attention's output (MaxText's policies without context, beside core_attn)
    out_proj      the sum of the residual stream and the output projection (MaxText's save_qkv_proj, with context)
    mlp_act       what the activation function makes in dense feed-forward blocks (MaxText's policy minimal)
    op            every second product of attention and dense blocks in their order, all with a bias, which are not
                  counted, the norms and the activation (torchtitan's selective recomputation per operation:
                  distributed/activation_checkpoint.py). It keeps what the others give, of the last one before ranks
                  add it up, and what reductions give
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.base.types.saved import FP32_B as FP32_B
from lockstep.base.types.saved import Saved
from lockstep.describe.workload.adapters import Adapters
from lockstep.describe.workload.operation import Spread
from lockstep.describe.workload.weight import Weight

RECOMPUTE = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)
MODULES = (
    *("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "moe_act"),
    *("context", "out_proj", "mlp_act", "op"),
)
Recompute: TypeAlias = str | Whole
"""A word of RECOMPUTE, its code, or an array of codes."""


def recompute_code(mode: Recompute) -> Whole:
    """The integer code (or array of codes) of a word, a code, or an array of codes."""
    if isinstance(mode, str):
        if mode not in RECOMPUTE:
            raise UnknownName("recompute mode", mode, RECOMPUTE, "recompute")
        return RECOMPUTE.index(mode)
    code = np.asarray(mode)
    if code.dtype.kind not in "iu" or (code.size and (code.min() < NONE or code.max() > FULL)):
        raise BadInput(f"recompute must be one of {', '.join(RECOMPUTE)} or a code 0 to 2", "recompute")
    return code if code.ndim else int(code)


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor that waits for the backward pass before it is cut: `token_B` bytes per token."""

    name: str
    token_B: Number
    spread: Spread
    kept_up_to: int = SELECTIVE
    most: int = 0
    """With spread "kv": the most ways in which it can be cut; 0 for the key and value heads of attention."""
    kept_from: int = NONE
    """The weakest recompute mode that keeps it: what is computed again starts from it, and nothing else reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one rank pushes through a layer at a time, and with which kernels. Numbers may be arrays."""

    micro_batch: Number
    """Sequences (b)."""
    seq: Number
    """Tokens per whole sequence (s); each of cp ranks holds s / cp."""
    tp: Number = 1
    cp: Number = 1
    sequence_parallel: Number | Truth = False
    """Between the parallel blocks, the tp ranks split the tokens (Korthikanti et al. 2022, section 4.2.2)."""
    expert_tp: Number | None = None
    """Ways in which the inside of an expert is cut; None means like tp (Megatron's default)."""
    ep: Number = 1
    """Ranks that share out the experts."""
    capacity_factor: Number = 1.0
    """Rows given to experts, over top_k times the tokens."""
    element_B: float = 2.0
    """Bytes of an activation element."""
    cached_B: float | None = None
    """Bytes of an element that a linear layer keeps of its input; None means the bytes of other tensors."""
    cached_inner_B: float | None = None
    """The same of an expert's activation function."""
    cached_attention_B: float | None = None
    """The same for the attention's output, which its backward pass reads too."""
    recompute_modules: tuple[str, ...] = ("core_attn",)
    """What selective recomputation throws away (`recompute.py`)."""
    adapters: Adapters | None = None
    """What is trained beside frozen matrices, whose inputs need not be kept; None where all is trained."""
    half_adapters: bool = False
    """Adapters read what the frozen matrix reads, not a copy in fp32."""
    fused_adapters: bool = False
    """Kernels of adapters keep what the frozen matrix reads."""
    flash_attention: bool = True
    dropout: bool = False
    own_casts: Number | Truth = False
    """Where every product keeps a cast of its own of what it reads (torch.autocast)."""
    wide_stream: Number | Truth = False
    """Where what lies between products is fp32 all the same (torch.autocast above fp32 parameters)."""
    gradients_apart: bool = False
    """Whether the gradient of what a frozen product reads is a tensor beside those of its gate."""
    inputs_kept: bool = False
    """Frozen matrices keep their inputs all the same."""
    gathers_kept: bool = False
    """What sequence parallelism gathers for products is kept for their backward pass, not gathered once more."""
    saves: Mapping[str, tuple[Saved, ...]] = field(default_factory=dict)
    """What the software keeps besides at a slot of a layer, for each number there, by the slot (`stacks/ways.toml`)."""
    weighed_B: Number = 0.0
    """Bytes of a number of what routed experts give while gradients of routing weights are made."""
    scored_B: float = 0.0
    """Bytes of a score while gradients are made of a softmax that is not fused with its products."""
    joint_qkv: bool = False
    """Values are a view of what one product makes of queries, keys and values."""
    written: bool = False
    """Layers run as transformers' classes write them."""
    repeated_heads: bool = False
    """Keys and values are as wide as the queries."""
    wide_base: Number | Truth = False
    """Where the matrices of a quantised base read fp32, and so give it."""
    fused_elementwise: bool = True
    """What a modulated norm gives is not kept beside what its scale and shift make of it."""

    @property
    def input_B(self) -> float:
        """Bytes of an element that a linear layer keeps of its input."""
        return self.element_B if self.cached_B is None else self.cached_B

    @property
    def inner_B(self) -> float:
        """Bytes of an element that an expert's activation function keeps of its input."""
        return self.element_B if self.cached_inner_B is None else self.cached_inner_B

    def needs_input_of(self, weight: Weight | None) -> bool:
        """Whether the gradient of a matrix, or of an adapter beside it, needs what the matrix reads.

        PEFT's adapters read fp32: casts of their own, unless that is what the matrix reads, or a dropout's output.
        """
        if self.adapters is None or self.inputs_kept:
            return True
        if weight is None:
            return False
        # In fp32 nothing is cast, and an adapter keeps what its matrix reads, or what a dropout leaves of it.
        same = self.element_B >= FP32_B and not self.adapters.dropout_frac and self.adapters.method.keeps_input(weight)
        shared = self.half_adapters or self.fused_adapters or same or self.adapters.sums(weight)
        return shared and self.adapters.adapts(weight)

    def kept_up_to(self, *modules: str) -> int:
        """The strongest recompute mode that keeps what any of `modules` would make again."""
        return NONE if any(module in self.recompute_modules for module in modules) else SELECTIVE

    @property
    def tokens(self) -> Number:
        """Tokens on one context-parallel rank."""
        return self.micro_batch * self.seq / self.cp

    @property
    def split(self) -> Number:
        """Ways in which sequence parallelism splits the tokens: tp, or 1 where it is off."""
        if np.ndim(self.sequence_parallel):
            return np.where(self.sequence_parallel, self.tp, 1)
        return self.tp if self.sequence_parallel else 1

    @property
    def expert_ways(self) -> Number:
        """Ways in which the inside of an expert is cut."""
        return self.tp if self.expert_tp is None else self.expert_tp

    @property
    def rows_per_token(self) -> Number:
        """Rows on this rank per routed token: the ranks that split the tokens gather them for a cut expert."""
        gathered, own = self.expert_ways / self.tp, np.logical_or(self.sequence_parallel, self.tp == 1)
        if np.ndim(own):
            return np.where(own, gathered, 1.0)
        return gathered if own else 1.0

    def share(self, spread: Spread, kv_heads: int) -> Number:
        """What one rank holds of a tensor of this spread, per byte and token (see the head of the module)."""
        if spread == "gathered" and self.gathers_kept:
            return 1.0
        if spread in ("sequence", "gathered"):
            return 1 / self.split
        if spread == "tp":
            return 1 / self.tp
        if spread == "kv":
            return 1 / np.minimum(self.tp, kv_heads)
        if spread == "scores":
            return self.seq / self.tp
        if spread == "layer":
            return 1 / self.tokens
        if spread == "experts":
            return 1 / (self.tokens * self.ep * self.expert_ways)
        rows = self.capacity_factor * self.rows_per_token
        return rows if spread == "rows" else rows / self.expert_ways
