"""`Habits`: what a training software does in every step that no option of a run changes.

Each is a fact of some software at a release; `stacks.toml` says whose, with the source. Options that software merely
sets by default are `Stack.switches`; how it runs the kernels between products are its `Stack.ways`.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, fields
from lockstep.base.types.plain import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Habits of a training software, each with what it changes. Raises UnknownName for a word that is none of them."""

    autocast: bool = False
    """Parameters and residuals are fp32, and every product casts what it reads (torch.autocast without FSDP)."""
    distributed_tensors: bool = False
    """Layers are split by torch's DTensor: what ranks gather of sequences is joined anew, losses run over parts."""
    copied_gathers: bool = False
    """What ZeRO-1 gathers is copied into layers tensor by tensor (nanotron's all_gather_coalesced)."""
    half_adapters: bool = False
    """Adapters are stored, trained and passed as other parameters, not in fp32 as by PEFT (autocast_adapter_dtype)."""
    casts_adapters: bool = False
    """Adapters beside a base of bitsandbytes are cast to half precision (trainers of TRL), and so torch's moments."""
    wrapped_adapters: bool = False
    """Where FSDP shards, each matrix of an adapter is a unit (fsdp_auto_wrap_policy), and the host runs two ahead."""
    working_copy: bool = True
    """Half-precision parameters are kept beside their master copy; FSDP casts what it gathers instead."""
    base_inputs_kept: bool = False
    """Frozen matrices in a `base` format keep their inputs, which nothing needs (bitsandbytes before 0.43.2)."""
    joint_qkv: bool = False
    """Values are a view of the product that makes queries, keys and values, which stays whole where keys and values are
    not repeated (LitGPT). Adapters of the three have one dropout."""
    own_projections: bool = False
    """Queries, keys, values, a gate and what it multiplies are products of their own (transformers, torchtune)."""
    prepared_base: bool = False
    """Norms above an unsharded nf4 base are fp32, and so what it gives (PEFT's prepare_model_for_kbit_training)."""
    repeated_heads: bool = False
    """Keys and values are repeated for every query that shares them, before they travel or are read (repeat_kv)."""
    gradients_freed: bool = False
    """Gradients are freed after the update, and exist again from the first backward pass on (PyTorch's zero_grad)."""
    gradient_buckets: bool = False
    """Ranks that hold the same parameters sum their gradients in buckets beside them, which stay (PyTorch's
    DistributedDataParallel without gradient_as_bucket_view; pytorch v2.13.0, reducer.cpp, initialize_buckets)."""
    summed_once: bool = False
    """Gradients of sharded parameters are reduced with the last micro-batch of a step, and add up whole until then in
    the format of the products (transformers' Trainer within accelerate's no_sync; captured with FSDP1 and FSDP2)."""
    gradients_apart: bool = False
    """The gradient of what a frozen product reads is a tensor beside those of its gate: in steps measured through
    transformers 5; peaks published of transformers 4 are met without it."""
    foreach_update: bool = False
    """The update runs in torch's multi-tensor kernels, which hold `Optimizer.passing_B` besides."""
    wide_tables: bool = False
    """8-bit optimizers keep fp32 states of tables that are looked up (the Trainer of bitsandbytes': trainer.py,
    register_module_override of every nn.Embedding)."""
    closed_epochs: bool = False
    """Every epoch ends with a step of the micro-batches that are left, and generation drops prompts that do not fill
    one (the Trainer of transformers, and TRL's on it)."""
    divided_bf16_states: bool = False
    """In bf16 optimizer states are divided among ranks at ZeRO 0 too (DeepSpeed's pipeline engine takes BF16_Optimizer:
    deepspeed 0.19.3, runtime/engine.py, _do_optimizer_sanity_check, and runtime/bf16_optimizer.py)."""
    expandable_segments: bool = False
    """The allocator's blocks grow, so that fewer are kept beside those in use (PYTORCH_ALLOC_CONF)."""
    narrow_inputs: bool = False
    """Where products run in fp8 or narrower, linear layers keep their inputs in that format (Transformer Engine)."""
    narrow_gathers: bool = False
    """Tensor-parallel ranks gather what products read in their narrow format, except with scales of rows."""
    narrow_reductions: bool = False
    """What forward products in fp8 give is sent in fp8 to be added by tensor-parallel ranks (NeMo's on H100)."""
    converted_gradients: bool = False
    """Gradients that accumulate in a pass of their own are first copied to that format (DeepSpeed's BF16_Optimizer)."""
    gathers_again: bool = True
    """With sequence parallelism what is gathered for a product is gathered once more in the backward pass (Megatron-LM,
    Transformer Engine, nanotron; arXiv 2205.05198 4.2.2); DTensor keeps it."""
    recompute_stops: bool = False
    """The product that ends a layer is not computed again (XLA; PyTorch's checkpointing without re-entry since 2.1)."""
    paired_sends: bool = True
    """What a stage sends to a neighbour and receives from it travel together, not in turns (DeepSpeed's engine)."""
    sliced_experts: bool = False
    """A loop over a rank's experts slices rows, and gathers those of cut experts by columns (Megatron Core 0.9)."""
    launch_blocking: bool = False
    """The host waits for every kernel before it launches the next (CUDA_LAUNCH_BLOCKING=1): nothing hides its time."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The name of each."""
        return tuple(one.name for one in fields(cls))

    def changed(self) -> Json:
        """Those that differ from what most software does, by name."""
        both = ((one.name, one.default, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, usual, value in both if value != usual}
