"""Megatron-LM flags, one per line and quoted: `grep -v '^#' flags.txt | xargs torchrun ... pretrain_gpt.py`.

    tp pp cp ep            --tensor-model-parallel-size, --pipeline-model-parallel-size, --context-parallel-size,
                           --expert-model-parallel-size (experts take tp too, the default); dp is what is left
    vpp                    --num-layers-per-virtual-pipeline-stage = layers / (pp vpp)
    zero 0, 1              none, --use-distributed-optimizer; with shard, --num-distributed-optimizer-instances
    zero 2, 3              --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads, optim_grads_params
    recompute              --recompute-granularity selective with --recompute-modules, or full, uniform, every layer
    uneven stages          --pipeline-model-parallel-layout: E embedding, t layer, m token prediction, L loss

CUDA_DEVICE_MAX_CONNECTIONS must be 1 with tp or cp before Blackwell, and must not be with FSDP. Source:
megatron/training/arguments.py of Megatron-LM at Megatron Core 0.15 (commit 000c4ac24f, end of 2025), and the Megatron
FSDP page of its developer guide.
"""

from __future__ import annotations

import shlex
from typing import Any

from lockstep.errors import Infeasible
from lockstep.layout import AXES, Job, Layout, Recipe
from lockstep.plan.estimate import Estimate
from lockstep.plan.export.megatron_positions import unknown_numbers
from lockstep.plan.export.megatron_shape import Flags, refuse_shape, shape_flags
from lockstep.plan.export.refusals import Refusals, refuse_formats
from lockstep.workload import Transformer

VERSION = "Megatron-LM, Megatron Core 0.15"
SCHEDULES = ("1f1b", "interleaved")
CHOICES: dict[str, tuple[Any, ...]] = {"schedules": SCHEDULES}
"""Axes of the planner's space that it can run; other limits join several of them."""
STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
OPTIMIZERS = {"adam": "adam", "adamw": "adam", "sgd-momentum": "sgd"}
DTYPES = {"bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("bf16", "fp8-format")}
PIPELINE_INSIDE = ("tp", "cp", "ep", "pp", "dp")
"""The rank order of --use-tp-pp-dp-mapping."""


def megatron(found: Estimate) -> str:
    """The flags. Raises Infeasible with every reason."""
    layout, job, no = found.layout, found.job, Refusals("Megatron-LM")
    model = job.transformer
    if model is None:
        raise Infeasible(f"Megatron-LM cannot express this plan: {job.model.name} is not a transformer")
    refuse_shape(model, no)
    _refuse_layout(layout, job, no)
    _refuse_recipe(layout, job.recipe, no)
    no.settle()
    shape = shape_flags(model, job.recipe.seq, layout.tp)
    flags = {**shape, **_parallel(layout, job), **_recipe(layout, job.recipe, model)}
    said = "".join(f"# {sentence}\n" for sentence in unknown_numbers(model))
    return said + "".join(_line(name, value) for name, value in flags.items())


def _line(name: str, value: object) -> str:
    """A flag, with its value, or with several of them."""
    values = value if isinstance(value, tuple) else () if value is True else (value,)
    return " ".join([f"--{name}", *(shlex.quote(str(one)) for one in values)]) + "\n"


def _parallel(layout: Layout, job: Job) -> Flags:
    """Flags of the layout."""
    flags: Flags = {
        "tensor-model-parallel-size": layout.tp,
        "pipeline-model-parallel-size": layout.pp,
        "context-parallel-size": layout.cp,
        "expert-model-parallel-size": layout.ep,
        "micro-batch-size": layout.micro_batch,
        "global-batch-size": job.recipe.batch,
    }
    if layout.sequence_parallel:
        flags["sequence-parallel"] = True
    if layout.cp > 1:
        flags["cp-comm-type"] = "p2p"
    if layout.order == PIPELINE_INSIDE:
        flags["use-tp-pp-dp-mapping"] = True
    return flags | _stages(layout, job) | _sharding(layout) | _memory_savers(layout, job.recipe)


def _stages(layout: Layout, job: Job) -> Flags:
    """Flags of chunks and of uneven stages; a single stage has neither."""
    flags: Flags = {}
    if layout.vpp > 1 and layout.pp > 1:
        flags["num-layers-per-virtual-pipeline-stage"] = job.layers // (layout.pp * layout.vpp)
        if not job.recipe.overlap_pp:
            flags["no-overlap-p2p-communication"] = True
    elif job.layers % layout.pp:
        sizes = [sum(held.values()) for held in job.stage_layers(layout.pp)]
        ahead = job.transformer.mtp_layers if job.transformer else 0
        flags["pipeline-model-parallel-layout"] = "E" + "|".join("t" * size for size in sizes) + "m" * ahead + "L"
    return flags


def _sharding(layout: Layout) -> Flags:
    """Flags of ZeRO and HSDP."""
    flags: Flags = {}
    if layout.zero:
        flags["use-distributed-optimizer"] = True
    if layout.zero in STRATEGIES:
        flags |= {"use-megatron-fsdp": True, "data-parallel-sharding-strategy": STRATEGIES[layout.zero]}
        flags |= {"no-gradient-accumulation-fusion": True, "ckpt-format": "fsdp_dtensor"}
    if layout.zero and layout.shard:
        flags["num-distributed-optimizer-instances"] = layout.dp * layout.cp // layout.shard
    return flags


def _memory_savers(layout: Layout, recipe: Recipe) -> Flags:
    """Flags of recomputation and offload."""
    flags: Flags = {}
    if layout.recompute != "none":
        flags["recompute-granularity"] = layout.recompute
    if layout.recompute == "selective":
        flags["recompute-modules"] = recipe.recompute_modules
    if layout.recompute == "full":
        flags |= {"recompute-method": "uniform", "recompute-num-layers": 1}
    if layout.offload == "optimizer":
        flags |= {"optimizer-cpu-offload": True, "use-precision-aware-optimizer": True}
    return flags


def _recipe(layout: Layout, recipe: Recipe, model: Transformer) -> Flags:
    """Flags of number formats, optimizer, kernels and overlap."""
    flags: Flags = {"optimizer": OPTIMIZERS[recipe.optimizer]}
    for name in DTYPES[recipe.dtype]:
        flags[name] = "hybrid" if name == "fp8-format" else True
    if recipe.gradient_B == 4.0:
        flags["accumulate-allreduce-grads-in-fp32"] = True
    elif recipe.dtype != "fp16":
        flags["grad-reduce-in-bf16"] = True
    flags["attention-backend"] = "flash" if recipe.flash_attention else "unfused"
    if not recipe.dropout:
        flags |= {"attention-dropout": 0.0, "hidden-dropout": 0.0}
    if not recipe.fused_elementwise:
        kinds = ("swiglu" if "swiglu" in shape_flags(model, recipe.seq) else "gelu", "dropout")
        flags |= {f"no-bias-{kind}-fusion": True for kind in kinds}
    if recipe.overlap_dp:
        flags["overlap-grad-reduce"] = True
        if layout.zero:
            flags["overlap-param-gather"] = True
    if recipe.overlap_tp == "all":
        flags["tp-comm-overlap"] = True
    if recipe.overlap_ep == "shared" and model.experts and model.experts.shared_ffn:
        flags["moe-shared-expert-overlap"] = True
    if not recipe.fused_accumulation:
        flags["no-gradient-accumulation-fusion"] = True
    return flags


def _refuse_layout(layout: Layout, job: Job, no: Refusals) -> None:
    """Notes everything about the layout that has no flag."""
    piped = layout.pp > 1
    no.when(piped and layout.schedule not in SCHEDULES, f"schedule {layout.schedule}: it has {' and '.join(SCHEDULES)}")
    no.when(piped and layout.zero in STRATEGIES, f"zero {layout.zero} (Megatron FSDP) with pipeline stages")
    no.when(layout.offload == "parameters", "offloaded parameters")
    no.when(layout.offload == "optimizer" and layout.zero != 1, "an offloaded optimizer without zero 1")
    no.when(bool(layout.shard) and layout.zero == 0, "shard without zero 1 to 3")
    no.when(layout.order not in (AXES, PIPELINE_INSIDE), f"rank order {'-'.join(layout.order)}")
    blocking = layout.vpp > 1 and not job.recipe.overlap_pp
    no.when(
        blocking and layout.pp == 2, "interleaving on 2 stages with sends that compute waits for; take --overlap-pp"
    )
    alone = piped and layout.vpp == 1
    no.when(alone and job.recipe.overlap_pp, "overlapped pipeline sends without interleaving; drop --overlap-pp")


def _refuse_recipe(layout: Layout, recipe: Recipe, no: Refusals) -> None:
    """Notes everything about the recipe that has no flag."""
    no.when(recipe.dtype not in DTYPES, f"matrix products in {recipe.dtype}: export has {', '.join(DTYPES)}")
    no.when(layout.ep > 1 and recipe.dtype == "fp16", "expert parallelism in fp16")
    no.when(recipe.optimizer not in OPTIMIZERS, f"optimizer {recipe.optimizer}: export has {', '.join(OPTIMIZERS)}")
    no.when(recipe.gradient_B != recipe.wire_B, "gradients reduced in another format than they are accumulated in")
    no.when(recipe.gradient_B not in (2.0, 4.0), f"gradients of {recipe.gradient_B:g} bytes")
    refuse_formats(recipe, no)
    no.when(
        recipe.overlap_tp == "all" and not layout.sequence_parallel,
        "overlapped tensor parallelism without its sequences",
    )
