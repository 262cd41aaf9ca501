"""Megatron-LM flags, one per line and quoted: `grep -v '^#' flags.txt | xargs torchrun ... pretrain_gpt.py`.

    cp kind                --cp-comm-type p2p, all_gather, a2a or a2a+p2p with --hierarchical-context-parallel-sizes
    tp pp cp ep            --tensor-model-parallel-size, --pipeline-model-parallel-size, --context-parallel-size,
                           --expert-model-parallel-size; dp is what is left
    etp                    --expert-tensor-parallel-size; without it experts are cut like dense layers, here and there
    vpp                    --num-layers-per-virtual-pipeline-stage = layers / (pp vpp), or (layers + 2) / (pp vpp) with
                           --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split;
                           --microbatch-group-size-per-virtual-pipeline-stage where micro-batches are no multiple of pp
    zero 0, 1              none, --use-distributed-optimizer; with shard, --num-distributed-optimizer-instances
    zero 2, 3              --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads, optim_grads_params
    recompute              --recompute-granularity selective with --recompute-modules, or full, uniform, every layer
    offload_layers         --cpu-offloading-num-layers
    stages, uneven ones    --pipeline-model-parallel-layout: E embedding, t layer, m token prediction, L loss

CUDA_DEVICE_MAX_CONNECTIONS must be 1 with tp or cp before Blackwell, and must not be with FSDP. Source:
megatron/training/arguments.py of Megatron-LM, read at Megatron Core 0.15 (commit 000c4ac24f, end of 2025), and the
Megatron FSDP page of its developer guide. On 2026-11-24, 217 exports (llama3, deepseek-v3, mixtral and others) went
through the parser, validate_args and TransformerConfig of Megatron Core 0.17.1 and 0.19.2 without an error.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from lockstep.decide.planner.export.megatron_limits import (
    DTYPES,
    OPTIMIZERS,
    PIPELINE_INSIDE,
    SCHEDULES,
    STRATEGIES,
    exchanges_once,
    refuse_run,
)
from lockstep.decide.planner.export.megatron_positions import unknown_numbers
from lockstep.decide.planner.export.megatron_shape import Flags, recomputed_modules, refuse_shape, shape_flags
from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_model
from lockstep.describe.workload import Transformer
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.simulate.parallel.context.mixed import neighbours
from lockstep.simulate.parallel.pipeline.schedules.interleaved import group_size

GRAPHS: Mapping[str, Flags] = {
    "attention": {
        "cuda-graph-impl": "transformer_engine", "cuda-graph-scope": ("attn", "moe_router", "moe_preprocess"),
    },
    "step": {"cuda-graph-impl": "full_iteration"},
}  # fmt: skip
"""Captured in CUDA graphs, by our word."""
CONTEXT = {"ring": "p2p", "gather": "all_gather", "all-to-all": "a2a", "mixed": "a2a+p2p"}
CHOICES: dict[str, tuple[object, ...]] = {"schedules": SCHEDULES}
"""Axes of the planner's space that it can run; other limits join several of them."""
LEFT = (
    "left to you: --tokenizer-type with --tokenizer-model, --data-path, --train-iters and --lr, which have no default"
)
CONNECTIONS = "left to you: CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment, without which it stops before Blackwell"
FREE_CONNECTIONS = "left to you: CUDA_DEVICE_MAX_CONNECTIONS must not be 1 in the environment"
FLASH = ("flash1", "flash2", "flash3")
"""FlashAttention's generations: the backend `flash`, which takes the newest that is installed."""


def megatron(found: Placed) -> str:
    """The flags. Raises Infeasible with every reason."""
    layout, job = found.layout, found.job
    model = _checked(found)
    shape = shape_flags(model, job.recipe.seq, layout.tp)
    flags = {**shape, **_parallel(layout, job, model), **_recipe(found, model)}
    sentences = (LEFT, *_environment(layout), *unknown_numbers(model), *_unlike(layout, job.recipe))
    said = "".join(f"# {sentence}\n" for sentence in sentences)
    return said + "".join(_line(name, value) for name, value in flags.items())


def run_flags(found: Placed) -> Flags:
    """Flags of the layout and the recipe, without the model's. Raises Infeasible with every reason."""
    model = _checked(found)
    return {**_parallel(found.layout, found.job, model), **_recipe(found, model)}


def _checked(found: Placed) -> Transformer:
    """The model. Raises Infeasible with every reason why Megatron Core cannot run the job as placed."""
    layout, job, no = found.layout, found.job, Refusals("Megatron-LM")
    model = job.transformer
    if model is None:
        no.when(True, f"{job.model.name} is not a transformer")
        raise no.error()
    refuse_model(job, no)
    refuse_shape(model, no)
    refuse_run(layout, job, model, no)
    no.settle()
    return model


def _environment(layout: Layout) -> Iterator[str]:
    """What validate_args looks for in the environment."""
    if layout.zero in STRATEGIES:
        yield FREE_CONNECTIONS
    elif layout.tp * layout.cp > 1:
        yield CONNECTIONS


def _unlike(layout: Layout, recipe: Recipe) -> Iterator[str]:
    """What runs otherwise than planned, for want of a flag, and changes the step's time alone."""
    if recipe.overlap_tp == "none" and layout.tp > 1:
        # --no-async-tensor-model-parallel-allreduce is still parsed, and ignored.
        yield "--overlap-tp none has no flag: input gradients are reduced alongside the weight-gradient product"


def _line(name: str, value: object) -> str:
    """A flag, with its value, or with several of them."""
    values = value if isinstance(value, tuple) else () if value is True else (value,)
    return " ".join([f"--{name}", *(shlex.quote(str(one)) for one in values)]) + "\n"


def _parallel(layout: Layout, job: Job, model: Transformer) -> Flags:
    """Flags of the layout."""
    flags: Flags = {
        "tensor-model-parallel-size": layout.tp,
        "pipeline-model-parallel-size": layout.pp,
        "context-parallel-size": layout.cp,
        "expert-model-parallel-size": layout.ep,
        "micro-batch-size": layout.micro_batch,
        "global-batch-size": job.recipe.batch,
    }
    if layout.etp and model.experts:
        flags["expert-tensor-parallel-size"] = layout.etp
    if layout.sequence_parallel:
        flags["sequence-parallel"] = True
    if layout.cp > 1:
        flags["cp-comm-type"] = CONTEXT[job.recipe.cp_kind]
        if job.recipe.cp_kind == "mixed":
            near = int(neighbours(layout.cp, model.attention.kv_heads // layout.tp))
            flags["hierarchical-context-parallel-sizes"] = (near, layout.cp // near)
    if layout.order == PIPELINE_INSIDE:
        flags["use-tp-pp-dp-mapping"] = True
    return flags | _stages(layout, job) | _sharding(layout) | _memory_savers(layout, job.recipe, model)


def _stages(layout: Layout, job: Job) -> Flags:
    """Flags of chunks and of uneven stages; a single stage has neither."""
    flags: Flags = {}
    group = group_size(layout.pp, job.recipe.batch // (layout.dp * layout.micro_batch))
    if layout.vpp > 1 and layout.pp > 1 and group != layout.pp:
        flags["microbatch-group-size-per-virtual-pipeline-stage"] = int(group)
    if layout.stages:
        flags["pipeline-model-parallel-layout"] = _placed(layout, job)
        if layout.vpp > 1 and not job.recipe.overlap_pp:
            flags["no-overlap-p2p-communication"] = True
    elif layout.vpp > 1 and layout.pp > 1:
        chunks = layout.pp * layout.vpp
        ends = 2 if job.layers % chunks else 0
        flags["num-layers-per-virtual-pipeline-stage"] = (job.layers + ends) // chunks
        if ends:
            flags |= {f"account-for-{end}-in-pipeline-split": True for end in ("embedding", "loss")}
        if not job.recipe.overlap_pp:
            flags["no-overlap-p2p-communication"] = True
    elif job.layers % layout.pp:
        sizes = [sum(held.values()) for held in job.stage_layers(layout.pp)]
        ahead = job.transformer.mtp_layers if job.transformer else 0
        flags["pipeline-model-parallel-layout"] = "E" + "|".join("t" * size for size in sizes) + "m" * ahead + "L"
    return flags


def _placed(layout: Layout, job: Job) -> str:
    """Layers placed by hand: the stages in order, of all chunks of a device's turn before those of the next."""
    parts = ["t" * count for count in layout.stages]
    parts[-1 if layout.mtp_stage is None else layout.mtp_stage] += "m" * (
        job.transformer.mtp_layers if job.transformer else 0
    )
    return "E" + "|".join(parts) + "L"


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


def _memory_savers(layout: Layout, recipe: Recipe, model: Transformer) -> Flags:
    """Flags of recomputation and offload."""
    flags: Flags = {}
    modules = recomputed_modules(recipe, model)
    if layout.recompute == "selective" and modules:
        flags |= {"recompute-granularity": "selective", "recompute-modules": modules}
    if layout.recompute == "full":
        some = recipe.recompute_layers
        flags |= {"recompute-granularity": "full", "recompute-method": "block" if some else "uniform"}
        flags["recompute-num-layers"] = some or 1
    if recipe.offload_layers:
        flags["cpu-offloading-num-layers"] = recipe.offload_layers
    if layout.offload == "optimizer":
        flags |= {"optimizer-cpu-offload": True, "use-precision-aware-optimizer": True}
    return flags


def _recipe(found: Placed, model: Transformer) -> Flags:
    """Flags of number formats, optimizer, kernels and overlap."""
    layout, recipe = found.layout, found.job.recipe
    flags: Flags = {"optimizer": OPTIMIZERS[recipe.optimizer]}
    for name in DTYPES[recipe.dtype]:
        flags[name] = "hybrid" if name == "fp8-format" else True
    if recipe.dtype == "fp8" and recipe.scaling == "current":
        flags["fp8-recipe"] = "tensorwise"
    if recipe.gradient_B == 4.0:
        flags["accumulate-allreduce-grads-in-fp32"] = True
    elif recipe.dtype != "fp16":
        flags["grad-reduce-in-bf16"] = True
    flags["attention-backend"] = _attention_backend(found, model)
    if not recipe.dropout:
        flags |= {"attention-dropout": 0.0, "hidden-dropout": 0.0}
    if not recipe.fused_elementwise:
        kinds = ("swiglu" if "swiglu" in shape_flags(model, recipe.seq) else "gelu", "dropout")
        flags |= {f"no-bias-{kind}-fusion": True for kind in kinds}
    if recipe.loss_kind == "fused":
        flags["cross-entropy-loss-fusion"] = True
    if recipe.overlap_dp:
        flags["overlap-grad-reduce"] = True
        if layout.zero:
            flags["overlap-param-gather"] = True
    if recipe.overlap_tp == "all" and layout.tp > 1:
        flags["tp-comm-overlap"] = True
    if recipe.overlap_ep == "shared" and model.experts and model.experts.shared_ffn:
        flags["moe-shared-expert-overlap"] = True
    if recipe.overlap_ep == "passes" and layout.ep > 1:
        flags["overlap-moe-expert-parallel-comm"] = True
    if recipe.cuda_graphs != "none":
        flags |= GRAPHS[recipe.cuda_graphs]
    if recipe.routing == "forced" and model.experts:
        flags["moe-router-force-load-balancing"] = True
    if layout.ep > 1 and exchanges_once(recipe, model):
        flags |= {"moe-token-dispatcher-type": "flex", "moe-enable-deepep": True}
    if not recipe.software.options.fused_accumulation:
        flags["no-gradient-accumulation-fusion"] = True
    return flags


def _attention_backend(found: Placed, model: Transformer) -> str:
    """The kernel of attention that the step is priced with; FlashAttention has latent attention on Hopper only."""
    recipe = found.job.recipe
    if not recipe.flash_attention:
        return "unfused"
    known = found.attention_kernel or recipe.attention_kernel
    kernels = (known, *recipe.software.attention) if known in FLASH or known == "cudnn" else recipe.software.attention
    return "flash" if kernels and kernels[0] in FLASH and not model.attention.latent else "fused"
