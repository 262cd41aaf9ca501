"""What Megatron-LM cannot run of a layout and a recipe, and which of its words it can.

Sources: validate_args in megatron/training/arguments.py (see `megatron.py`), and of the wheel of Megatron Core 0.15.0
core/transformer/transformer_config.py, core/parallel_state.py, core/optimizer/distrib_optimizer.py and
core/distributed/fsdp.
"""

from __future__ import annotations

from lockstep.decide.planner.export.megatron_shape import recomputed_modules
from lockstep.decide.planner.export.refusals import Refusals, refuse_formats, refuse_sharding
from lockstep.describe.workload import Transformer
from lockstep.price.layout import AXES, Job, Layout, Recipe
from lockstep.simulate.parallel.context.mixed import neighbours

SCHEDULES = ("1f1b", "interleaved")
STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
"""ZeRO stages that Megatron FSDP runs."""
OPTIMIZERS = {"adam": "adam", "adamw": "adam", "sgd-momentum": "sgd"}
DTYPES = {"bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("bf16", "fp8-format")}
PIPELINE_INSIDE = ("tp", "cp", "ep", "pp", "dp")
"""The rank order of --use-tp-pp-dp-mapping."""
NOT_DELAYED = ("layernorm", "moe_act")
"""What cannot be recomputed under delayed scaling, the default recipe of fp8."""


def refuse_run(layout: Layout, job: Job, model: Transformer, no: Refusals) -> None:
    """Notes everything about the layout and the recipe that has no flag, or none that Megatron accepts."""
    _refuse_pipeline(layout, job.recipe, no)
    few = job.recipe.batch // (layout.dp * layout.micro_batch)
    no.when(
        layout.pp > 1 and layout.vpp > 1 and few < layout.pp,
        f"interleaving with {few} micro-batches on {layout.pp} stages: it needs at least as many",
    )
    _refuse_ranks(layout, model, no)
    _refuse_context(layout, job.recipe, model, no)
    _refuse_sharding(layout, job.recipe, no)
    _refuse_offload(layout, job, no)
    _refuse_experts(layout, job.recipe, model, no)
    _refuse_recipe(layout, job.recipe, model, no)


def _refuse_pipeline(layout: Layout, recipe: Recipe, no: Refusals) -> None:
    piped = layout.pp > 1
    no.when(piped and layout.schedule not in SCHEDULES, f"schedule {layout.schedule}: it has {' and '.join(SCHEDULES)}")
    no.when(piped and layout.zero in STRATEGIES, f"zero {layout.zero} (Megatron FSDP) with pipeline stages")
    # PipelineParallelLayerLayout.validate_layer_layout (Megatron Core): the last chunk of a rank.
    early = layout.mtp_stage is not None and layout.mtp_stage < layout.pp * (layout.vpp - 1)
    no.when(early, "multi-token prediction in a chunk that is not the last of its rank")
    blocking = layout.vpp > 1 and not recipe.overlap_pp
    no.when(blocking and layout.pp == 2, "interleaving on 2 stages with sends that compute waits for; use --overlap-pp")
    alone = piped and layout.vpp == 1
    no.when(alone and recipe.overlap_pp, "overlapped pipeline sends without interleaving; drop --overlap-pp")


def _refuse_ranks(layout: Layout, model: Transformer, no: Refusals) -> None:
    """Of the rank grid: parallel_state.py makes one for attention and one, without cp, for experts."""
    attention, tp, cp = model.attention, layout.tp, layout.cp
    no.when(layout.order not in (AXES, PIPELINE_INSIDE), f"rank order {'-'.join(layout.order)}")
    no.when(
        layout.order == PIPELINE_INSIDE and layout.pp > 1 and tp * cp != layout.expert_tp * layout.ep,
        f"pipeline stages inside dp with cp={cp} and ep={layout.ep}: attention and experts must have as many "
        "data-parallel ranks as each other, so tp*cp = etp*ep",
    )
    no.when(
        attention.kv_heads % tp != 0,
        f"{attention.kv_heads} key and value heads over tp={tp}: it replicates none, so tp must divide the number",
    )
    no.when(cp > 1 and attention.window is not None, f"cp={cp} with sliding windows: its ring attention has none")


def _refuse_context(layout: Layout, recipe: Recipe, model: Transformer, no: Refusals) -> None:
    """Of context parallelism: Transformer Engine's own limits."""
    kept, cp = max(1, model.attention.kv_heads // layout.tp), layout.cp
    no.when(
        cp > 1 and recipe.cp_kind == "all-to-all" and kept % cp != 0,
        f"cp={cp} by all-to-all over {kept} key and value heads: it copies none",
    )
    alone = int(neighbours(cp, kept)) in (1, cp)
    no.when(cp > 1 and recipe.cp_kind == "mixed" and alone, f"mixed cp={cp} that is one level; name its kind")


def _refuse_sharding(layout: Layout, recipe: Recipe, no: Refusals) -> None:
    """Of ZeRO and HSDP."""
    fsdp = f"zero {layout.zero} (Megatron FSDP)"
    refuse_sharding("megatron", layout, recipe, no)
    no.when(
        layout.zero in STRATEGIES and layout.dp * layout.cp > 1 and recipe.gradient_sync == "step",
        f"{fsdp} with gradients reduced once per step: it reduces them after every micro-batch",
    )
    no.when(layout.zero == 3 and not recipe.reshard, f"{fsdp} without resharding between passes; use --zero 2")
    no.when(bool(layout.shard) and layout.zero == 0, "shard without zero 1 to 3")
    no.when(layout.zero in STRATEGIES and layout.ep > 1, f"{fsdp} with expert parallelism")
    no.when(
        layout.zero in STRATEGIES and not recipe.overlap_dp, f"{fsdp} without overlap of its traffic; use --overlap"
    )
    no.when(
        layout.zero > 0 and OPTIMIZERS.get(recipe.optimizer) == "sgd",
        f"optimizer {recipe.optimizer} with zero {layout.zero}: its sharded optimizer is Adam only",
    )


def exchanges_once(recipe: Recipe, model: Transformer) -> bool:
    """Whether tokens cross to each node once: Megatron's DeepEP dispatcher."""
    moe = model.experts
    return moe is not None and recipe.once_per_node(moe.top_groups < moe.groups)


def _refuse_offload(layout: Layout, job: Job, no: Refusals) -> None:
    gone = job.recipe.offloaded_of(job.layers)
    no.when(gone > 0 and layout.pp > 1, "offloaded activations of layers with pipeline stages")
    no.when(gone > 0 and layout.recompute != "none", "offloaded activations of layers together with recomputation")
    no.when(gone >= job.layers, "offloaded activations of all layers: one layer must stay")
    no.when(layout.offload in ("paged", "parameters"), f"offload {layout.offload}")
    offloaded = layout.offload == "optimizer"
    no.when(offloaded and layout.zero != 1, "an offloaded optimizer without zero 1")
    no.when(
        offloaded and layout.dp * layout.cp == 1,
        "an offloaded optimizer with dp*cp = 1: it keeps gradients on the device, the plan moves them to the host",
    )


def _refuse_experts(layout: Layout, recipe: Recipe, model: Transformer, no: Refusals) -> None:
    if model.experts is None:
        return
    no.when(recipe.dtype == "fp16", "experts in fp16: its grouped matrix products are bf16 only")
    hidden = layout.ep > 1 and recipe.overlap_ep == "shared" and bool(model.experts.shared_ffn)
    no.when(
        hidden and exchanges_once(recipe, model),
        "an exchange once per node (DeepEP) overlapped with shared experts; use --exchange copy",
    )


def _refuse_recipe(layout: Layout, recipe: Recipe, model: Transformer, no: Refusals) -> None:
    """Notes everything about the recipe that has no flag."""
    no.when(recipe.dtype == "fp8" and recipe.scaling == "rows", "--fp8-scaling rows")
    no.when(recipe.dtype not in DTYPES, f"matrix products in {recipe.dtype}: export has {', '.join(DTYPES)}")
    no.when(recipe.optimizer not in OPTIMIZERS, f"optimizer {recipe.optimizer}: export has {', '.join(OPTIMIZERS)}")
    no.when(recipe.gradient_B != recipe.wire_B, "gradients reduced in another format than they are accumulated in")
    no.when(recipe.gradient_B not in (2.0, 4.0), f"gradients of {recipe.gradient_B:g} bytes")
    refuse_formats(recipe, no, megatron=True)
    no.when(recipe.overlap_tp == "async" and layout.tp > 1, "asynchronous tensor parallelism of PyTorch; use all")
    no.when(
        recipe.overlap_tp == "all" and layout.tp > 1 and not layout.sequence_parallel,
        "overlapped tensor parallelism without sequence parallelism",
    )
    again = [one for one in recomputed_modules(recipe, model) if one in NOT_DELAYED]
    no.when(
        layout.recompute == "selective" and recipe.dtype == "fp8" and bool(again),
        f"recomputing {' and '.join(again)} in fp8 with delayed scaling",
    )
