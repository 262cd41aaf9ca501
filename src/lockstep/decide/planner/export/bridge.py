"""Megatron-Bridge overrides as YAML, over a recipe that has the model: degrees, batch, sharding, formats, overlap.

The file is what `process_config_with_overrides(recipe, config_filepath=...)` and the scripts of its recipes take. Its
keys are Megatron Core's fields, so what Megatron-LM's flags say is said here in sections:

    flags of the layout          model.tensor_model_parallel_size ... model.virtual_pipeline_model_parallel_size
    batch                        train.micro_batch_size, train.global_batch_size
    ZeRO, overlap                ddp.*, optimizer.use_distributed_optimizer
    number formats               mixed_precision: bf16_mixed, fp16_mixed, bf16_with_fp8_delayed_scaling_mixed, or
                                 bf16_with_fp8_current_scaling_mixed

Source: src/megatron/bridge/training of Megatron-Bridge 0.6.2 (config.py, mixed_precision.py, utils/omegaconf_utils.py,
September 2026), and recipes/common.py, where `comm_overlap` is None unless a recipe sets it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.megatron import CHOICES as CHOICES
from lockstep.decide.planner.export.megatron import run_flags
from lockstep.decide.planner.export.megatron_shape import Flags
from lockstep.decide.planner.export.refusals import Placed, Refusals
from lockstep.price.layout import Recipe

LEFT = (
    "left to you: the recipe, which has the model, its tokenizer, the data, the number of steps and the learning rate",
    "comm_overlap of the recipe, where it has one, goes before model.tp_comm_overlap and ddp.overlap_*",
)
WIDE_ENDS = "with current scaling Megatron-Bridge keeps the first and the last layer in bf16; the plan has them in fp8"
FORMATS = {"bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed"}
DROPOUT = 0.1
"""Megatron-LM's own rate, where there is dropout."""
GRADIENT_B = {"bf16": 4.0, "fp16": 2.0, "fp8": 4.0}
"""Bytes in which each of them reduces gradients."""
Way = Callable[[object], Mapping[str, object]]


def _to(*names: str) -> Way:
    """The value as it is, under every name."""
    return lambda value: dict.fromkeys(names, value)


def _as(**values: object) -> Way:
    """Fixed values; two underscores stand for the dot."""
    return lambda _: {name.replace("__", "."): value for name, value in values.items()}


def _ways() -> dict[str, Way]:
    """Flag to what it is here."""
    model = (
        "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
        "expert-model-parallel-size", "expert-tensor-parallel-size", "sequence-parallel", "cp-comm-type",
        "hierarchical-context-parallel-sizes", "pipeline-model-parallel-layout",
        "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "recompute-granularity",
        "recompute-modules", "recompute-method", "recompute-num-layers", "attention-dropout", "hidden-dropout",
        "tp-comm-overlap", "moe-shared-expert-overlap", "moe-router-force-load-balancing", "moe-token-dispatcher-type",
        "moe-enable-deepep", "cross-entropy-loss-fusion", "cuda-graph-impl", "cuda-graph-scope",
        "overlap-moe-expert-parallel-comm",
    )  # fmt: skip
    ddp = (
        "data-parallel-sharding-strategy", "num-distributed-optimizer-instances", "overlap-grad-reduce",
        "overlap-param-gather",
    )  # fmt: skip
    optimizer = ("optimizer", "optimizer-cpu-offload", "use-precision-aware-optimizer")
    sections = {"model": model, "ddp": ddp, "optimizer": optimizer}
    same = {flag: section for section, flags in sections.items() for flag in flags}
    return {flag: _to(f"{section}.{flag.replace('-', '_')}") for flag, section in same.items()} | {
        "micro-batch-size": _to("train.micro_batch_size"),
        "global-batch-size": _to("train.global_batch_size"),
        "use-tp-pp-dp-mapping": _to("dist.use_tp_pp_dp_mapping"),
        "use-distributed-optimizer": _to("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"),
        "use-megatron-fsdp": _to("ddp.use_megatron_fsdp", "dist.use_megatron_fsdp"),
        "ckpt-format": _to("checkpoint.ckpt_format"),
        "microbatch-group-size-per-virtual-pipeline-stage": _to("model.microbatch_group_size_per_vp_stage"),
        "no-overlap-p2p-communication": _as(model__overlap_p2p_comm=False, model__batch_p2p_comm=True),
        "no-gradient-accumulation-fusion": _as(model__gradient_accumulation_fusion=False),
        "no-bias-swiglu-fusion": _as(model__bias_activation_fusion=False),
        "no-bias-gelu-fusion": _as(model__bias_activation_fusion=False),
        "no-bias-dropout-fusion": _as(model__bias_dropout_fusion=False),
        "cpu-offloading-num-layers": lambda value: {
            "model.cpu_offloading": True,
            "model.cpu_offloading_num_layers": value,
        },
    }


WAYS = _ways()
ELSEWHERE = (
    "num-layers-per-virtual-pipeline-stage", "bf16", "fp16", "fp8-format", "fp8-recipe",
    "accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16", "attention-backend",
)  # fmt: skip
"""Flags that are written otherwise, as chunks or a number format; the kernel of attention is left to the recipe."""
OFF = (
    "model.sequence_parallel",
    "model.cross_entropy_loss_fusion",
    "ddp.overlap_grad_reduce",
    "ddp.overlap_param_gather",
    "ddp.use_distributed_optimizer",
)
"""Switches that a recipe may have on."""


def bridge(found: Placed) -> str:
    """The YAML text. Raises Infeasible with every reason."""
    flags, no = run_flags(found), Refusals("Megatron-Bridge")
    recipe = found.job.recipe
    _refuse(recipe, no)
    no.settle()
    said = _settings(flags, found)
    sections: dict[str, Json] = {}
    for name, value in said.items():
        section, key = name.split(".", 1)
        sections.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    body = [f"mixed_precision: {_format(recipe)}\n"]
    for section, values in sections.items():
        body.append(f"{section}:\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in values.items()))
    current = recipe.dtype == "fp8" and recipe.scaling == "current"
    return "".join(f"# {sentence}\n" for sentence in (*LEFT, *((WIDE_ENDS,) if current else ()))) + "".join(body)


def _format(recipe: Recipe) -> str:
    """The name of a recipe's formats."""
    named = FORMATS[recipe.dtype]
    return named.replace("delayed", recipe.scaling) if recipe.dtype == "fp8" else named


def _settings(flags: Flags, found: Placed) -> Flags:
    """Values by dotted name."""
    layout, recipe = found.layout, found.job.recipe
    said: Flags = dict.fromkeys(OFF, False)
    said |= {"model.seq_length": recipe.seq, "dataset.seq_length": recipe.seq}
    if layout.vpp > 1 and layout.pp > 1:
        said["model.virtual_pipeline_model_parallel_size"] = layout.vpp
    if recipe.dropout:
        said |= {"model.attention_dropout": DROPOUT, "model.hidden_dropout": DROPOUT}
    if "recompute-granularity" not in flags:
        said["model.recompute_granularity"] = None
    for flag, value in flags.items():
        if flag not in ELSEWHERE:
            said |= WAYS[flag](value)
    return said


def _refuse(recipe: Recipe, no: Refusals) -> None:
    wanted = GRADIENT_B[recipe.dtype]
    no.when(
        recipe.gradient_B != wanted,
        f"gradients of {recipe.gradient_B:g} bytes: {_format(recipe)} reduces in {wanted:g} (--gradient-bytes)",
    )
    no.when(not recipe.flash_attention, "attention that is not fused: a recipe leaves the kernel to Transformer Engine")
