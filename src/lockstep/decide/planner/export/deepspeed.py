"""DeepSpeed configuration as JSON: batch, ZeRO, offload, tensor parallel size (AutoTP), pipeline.

    dp micro_batch               train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps
    zero offload                 zero_optimization.stage, .offload_optimizer, .offload_param
    gather_limits with zero 3    zero_optimization.stage3_max_reuse_distance and others, where they are not its defaults
    tp                           tensor_parallel.autotp_size (ZeRO 0 to 2)
    pp, recompute full with it   pipeline.stages, pipeline.activation_checkpoint_interval
    offload_layers all with it   activation_checkpointing.cpu_checkpointing

Stages need the model written as a `PipelineModule(num_stages=pp)`; DeepSpeed runs 1F1B and only with ZeRO 0 or 1. What
is decided in the model's code and not in the JSON (experts, sequences) is refused with a hint where it goes; full
recomputation without a pipeline is asked for there, as a comment says.

Source: deepspeed.ai/docs/config-json and /tutorials/autotp-training; `pipeline` as read by
deepspeed/runtime/pipe/engine.py; keys of DeepSpeed 0.19.8.
"""

from __future__ import annotations

import json

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_formats, refuse_sharding
from lockstep.decide.planner.space import ALL_RANKS
from lockstep.describe.workload import FULL, NONE
from lockstep.price.layout import AXES
from lockstep.simulate.parallel.data.coordinator import read_limits

CHOICES: dict[str, tuple[object, ...]] = {
    "cp": (1,),
    "ep": (1,),
    "etp": (0,),
    "sequence_parallel": (0,),
    "schedules": ("1f1b",),
    "recompute": (NONE, FULL),
    "sharding": tuple((zero, ALL_RANKS) for zero in range(4)),
}
"""Axes of the planner's space that it can run; other limits join several of them."""
COMMENT = "comment"
"""A key that DeepSpeed does not read."""
LEFT = (
    "left to you: optimizer.params with the learning rate lr, without which DeepSpeed takes that of its optimizer, "
    "1e-3; a scheduler; the model, sequences of {} tokens and the data, in the script"
)
CHECKPOINTING = (
    "left to you: full recomputation, in the model's code: gradient_checkpointing=True of Transformers, or "
    "deepspeed.checkpointing.checkpoint around every layer"
)
OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW"}


def deepspeed(found: Placed) -> str:
    """The JSON text. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    left = [LEFT.format(recipe.seq), *([CHECKPOINTING] if layout.recompute == "full" and layout.pp == 1 else [])]
    half = "fp16" if recipe.dtype == "fp16" else "bf16"
    document: Json = {
        COMMENT: left,
        "train_batch_size": recipe.batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": recipe.batch // (layout.dp * layout.micro_batch),
        half: {"enabled": True},
        "data_types": {"grad_accum_dtype": _wire(recipe.gradient_B, half)},
        "communication_data_type": _wire(recipe.wire_B, half),
        "optimizer": {"type": OPTIMIZERS[recipe.optimizer]},
        "zero_optimization": _zero(found),
    }
    if layout.tp > 1:
        document["tensor_parallel"] = {"autotp_size": layout.tp}
    if recipe.offload_layers:
        document["activation_checkpointing"] = {"cpu_checkpointing": True}
    if layout.pp > 1:
        interval = 1 if layout.recompute == "full" else 0
        document["pipeline"] = {"stages": layout.pp, "partition": "uniform", "activation_checkpoint_interval": interval}
    return json.dumps(document, indent=2) + "\n"


def _zero(found: Placed) -> Json:
    """The `zero_optimization` section."""
    layout = found.layout
    section: Json = {"stage": layout.zero, "overlap_comm": found.job.recipe.overlap_dp}
    host = {"device": "cpu", "pin_memory": True}
    if layout.offload != "none":
        section["offload_optimizer"] = host
    if layout.offload == "parameters":
        section["offload_param"] = host
    limits = dict(read_limits(found.job.recipe.software.options.gather_limits).changed)
    bucket = limits.pop("reduce_bucket_size", None)
    if layout.zero and bucket is not None:
        section["reduce_bucket_size"] = bucket
    if layout.zero == 3:
        section |= {f"stage3_{name}": elements for name, elements in limits.items()}
    return section


def _wire(size_B: float, half: str) -> str:
    """DeepSpeed's word for a gradient of `size_B` bytes."""
    return half if size_B == 2.0 else "fp32"


def _refuse(found: Placed) -> None:
    """Raises Infeasible for all that the JSON cannot say."""
    layout, recipe, no = found.layout, found.job.recipe, Refusals("DeepSpeed's JSON")
    no.when(layout.cp > 1, f"cp={layout.cp}: sequences are split in the model's code (Ulysses), not in rings")
    no.when(layout.ep > 1, f"ep={layout.ep}: pass ep_size={layout.ep} to deepspeed.moe.layer.MoE in the model's code")
    no.when(layout.etp > 0, f"etp={layout.etp}: experts are cut in the model's code, with its mpu")
    no.when(recipe.routing == "forced", "routing forced to balance is decided in the model's code")
    no.when(layout.sequence_parallel, "sequence parallelism over the tensor-parallel group does not exist there")
    no.when(layout.tp > 1 and layout.zero == 3, "AutoTP (tp) works with ZeRO 0 to 2, not 3")
    no.when(layout.tp > 1 and layout.pp > 1, "AutoTP (tp) does not work inside a PipelineModule (pp)")
    no.when(layout.pp > 1 and layout.zero > 1, f"pipelines work with ZeRO 0 or 1, not {layout.zero}")
    no.when(
        layout.pp > 1 and (layout.schedule != "1f1b" or layout.vpp > 1), f"schedule {layout.schedule}: only 1f1b exists"
    )
    even = bool(layout.stages) or found.job.layers % layout.pp == 0
    no.when(layout.pp > 1 and not even, f"{layout.pp} stages do not hold equally many layers")
    no.when(bool(layout.stages), f"stages {layout.split}: a PipelineModule shares out layers by a rule, not by counts")
    no.when(bool(layout.shard), f"shard={layout.shard}: sharding inside part of the replicas (MiCS) is not supported")
    refuse_sharding("deepspeed", layout, recipe, no)
    no.when(
        layout.zero > 1 and layout.dp > 1 and recipe.gradient_sync == "step",
        f"gradients reduced once per step with ZeRO {layout.zero}: it reduces them after every micro-batch",
    )
    kept = layout.zero == 3 and not recipe.reshard
    no.when(kept, "ZeRO 3 without resharding between passes; use --gather-limits max_reuse_distance=N")
    checkpoints = layout.recompute == "full" and recipe.offload_layers == "all" and recipe.sharding == "deepspeed"
    no.when(
        bool(recipe.offload_layers) and not checkpoints,
        "offloaded activations other than checkpoints, copied while nothing computes; use --offload-layers all with "
        "full recomputation and --sharding deepspeed",
    )
    no.when(layout.offload == "paged", "offload paged: optimizer states are offloaded as a whole or not at all")
    no.when(layout.offload not in ("none", "paged") and layout.zero == 0, "offload needs ZeRO 1 to 3")
    no.when(layout.offload == "parameters" and layout.zero != 3, "offloaded parameters need ZeRO 3")
    no.when(
        layout.recompute == "selective",
        "recompute selective: a whole layer is recomputed, or what the model's code passes to "
        "deepspeed.checkpointing.checkpoint",
    )
    no.when(recipe.dtype not in ("bf16", "fp16"), f"matrix products in {recipe.dtype}; use bf16 or fp16")
    no.when(recipe.optimizer not in OPTIMIZERS, f"optimizer {recipe.optimizer}: only {', '.join(OPTIMIZERS)} match")
    no.when({recipe.gradient_B, recipe.wire_B} - {2.0, 4.0} != set(), "gradients must have 2 or 4 bytes")
    refuse_formats(recipe, no)
    no.when(recipe.overlap_tp in ("all", "async"), "tensor-parallel traffic does not overlap with products there")
    no.when(recipe.overlap_pp and layout.pp > 1, "pipeline sends do not overlap with compute there")
    no.when(layout.order != AXES, f"rank order {'-'.join(layout.order)}: it is always {'-'.join(AXES)}")
    no.settle()
