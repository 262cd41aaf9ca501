"""torchtitan job configuration as TOML: [model], [training], [parallelism], [activation_checkpoint], [compile].

    zero 3      data_parallel_shard_degree = dp, parameters gathered for each pass (reshard_after_forward "always")
    zero 2      the same with reshard_after_forward "never": parameters are kept from forward to backward, as at zero 3
                without --reshard
    HSDP        data_parallel_replicate_degree x data_parallel_shard_degree = dp; cp ranks share the shards
    zero 0      data_parallel_replicate_degree = dp (DDP, which torchtitan runs without other parallelism)
    tp          tensor_parallel_degree; it always shards sequences too
    pp          pipeline_parallel_degree, _schedule, _microbatch_size, _layers_per_stage
    cp, ep      context_parallel_degree, expert_parallel_degree with expert_tensor_parallel_degree = 1 or tp
    stages      module_fqns_per_model_part, the names of the modules of every stage
    fused elementwise operations, the default: [compile] enable = true

[model] names torchtitan's own flavor of the model (`torchtitan_models.toml`). Where there is none it names the model as
Lockstep does: torchtitan stops at a name that no TrainSpec is registered for, where a missing one would start its debug
model. Source: torchtitan/config/job_config.py of v0.2.2 (February 2026), the last release that reads TOML; what it and
torch.distributed.pipelining stop at, in distributed/parallel_dims.py, pipeline_parallel.py and dual_pipe_v.py, and
models/*/infra/parallelize.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate

from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_formats, refuse_model, refuse_sharding
from lockstep.decide.planner.export.torchtitan_models import flavor_of
from lockstep.decide.planner.space import ALL_RANKS, NODE
from lockstep.describe.workload import FULL, NONE
from lockstep.price.layout import AXES, Job, Layout

SCHEDULES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "Interleaved1F1B",
    "breadth-first": "LoopedBFS",
    "zb-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}
"""Schedules of torch.distributed.pipelining that ours equal."""
ONE_CHUNK = ("1f1b", "gpipe")
"""Those with one stage per device; the others have two or more."""
SPLIT_BACKWARD = ("zb-v", "dualpipe-v")
"""Those that part the gradients of inputs from those of weights, which torch cannot in compiled modules."""
ROTATIONS = {"ring": "alltoall", "gather": "allgather"}
"""torch's words for how keys and values reach other ranks: block by block, or all before attention."""
OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW"}
CHOICES: dict[str, tuple[object, ...]] = {
    "schedules": tuple(SCHEDULES),
    "recompute": (NONE, FULL),
    "sharding": tuple((zero, shard) for zero in (0, 2, 3) for shard in (ALL_RANKS, NODE)),
}
"""Axes of the planner's space that it can run; other limits join several of them."""
Value = str | int | bool | list[list[str]]
UNNAMED = "left-to-you"
"""The flavor of a model that torchtitan does not have."""
LEFT = (
    "left to you: hf_assets_path of [model], dataset and steps of [training], lr of [optimizer] and [lr_scheduler]; "
    "without them it reads its test tokenizer and the test set c4_test, for 10000 steps at lr 8e-4"
)


def torchtitan(found: Placed) -> str:
    """The TOML text. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    named = flavor_of(found.job.model)
    sections: dict[str, dict[str, Value]] = {
        "model": {"name": named.model if named else found.job.model.name, "flavor": named.flavor if named else UNNAMED},
        "training": training(found),
        "parallelism": parallelism(found),
        "activation_checkpoint": {"mode": layout.recompute},
        "compile": {"enable": recipe.fused_elementwise},
        "optimizer": {"name": OPTIMIZERS[recipe.optimizer]},
    }
    said = [LEFT] if named else [_unnamed(found.job), LEFT]
    tables = "\n".join(_section(name, values) for name, values in sections.items())
    return "".join(f"# {sentence}\n" for sentence in said) + tables


def _unnamed(job: Job) -> str:
    return (
        f"left to you: the model. torchtitan has no flavor that is {job.model.name}, and stops at the name in [model] "
        "until a TrainSpec is registered under it (torchtitan/protocols/train_spec.py)"
    )


def training(found: Placed) -> dict[str, Value]:
    """The [training] table."""
    layout, recipe = found.layout, found.job.recipe
    return {
        "local_batch_size": recipe.batch // layout.dp if layout.pp > 1 else layout.micro_batch,
        "global_batch_size": recipe.batch,
        "seq_len": recipe.seq,
        "mixed_precision_param": "bfloat16",
        "mixed_precision_reduce": "float32",
        "enable_cpu_offload": layout.offload == "parameters",
    }


def _section(name: str, values: dict[str, Value]) -> str:
    """One TOML table."""
    return f"[{name}]\n" + "".join(f"{key} = {_literal(value)}\n" for key, value in values.items())


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def parallelism(found: Placed) -> dict[str, Value]:
    """The [parallelism] table."""
    layout, job, recipe = found.layout, found.job, found.job.recipe
    sharded = shard_degree(found)
    values: dict[str, Value] = {
        "data_parallel_replicate_degree": layout.dp // sharded,
        "data_parallel_shard_degree": sharded,
        "fsdp_reshard_after_forward": "always" if layout.zero == 3 and recipe.reshard else "never",
        "tensor_parallel_degree": layout.tp,
        "pipeline_parallel_degree": layout.pp,
        "context_parallel_degree": layout.cp,
        "expert_parallel_degree": layout.ep,
    }
    if layout.cp > 1:
        values["context_parallel_rotate_method"] = ROTATIONS[recipe.cp_kind]
    if recipe.overlap_tp == "async" and layout.tp > 1:
        values["enable_async_tensor_parallel"] = True
    if layout.ep > 1:
        values["expert_tensor_parallel_degree"] = layout.expert_tp
    if layout.pp > 1:
        values |= {
            "pipeline_parallel_schedule": SCHEDULES[layout.schedule],
            "pipeline_parallel_microbatch_size": layout.micro_batch,
        }
        values |= {"module_fqns_per_model_part": _parts(layout.stages)} if layout.stages else _even_parts(layout, job)
    return values


def _even_parts(layout: Layout, job: Job) -> dict[str, Value]:
    """As many layers in every stage."""
    return {
        "pipeline_parallel_layers_per_stage": job.layers // (layout.pp * layout.vpp),
        "pipeline_parallel_first_stage_less_layers": 0,
        "pipeline_parallel_last_stage_less_layers": 0,
    }


def _parts(stages: Sequence[int]) -> list[list[str]]:
    """The names of the modules of every stage."""
    ends = list(accumulate(stages))
    parts = [[f"layers.{i}" for i in range(end - count, end)] for count, end in zip(stages, ends, strict=True)]
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return parts


def shard_degree(found: Placed) -> int:
    """Data-parallel ranks that share a sharded copy, apart from the context-parallel ranks that share it too."""
    layout = found.layout
    if layout.zero == 0:
        return 1
    return layout.shard // layout.cp if layout.shard else layout.dp


def _refuse_experts(layout: Layout, sharded: int, no: Refusals) -> None:
    """Of the experts' ranks, as parallel_dims.py checks them; `sharded` replicas share the parameters."""
    no.when(
        layout.expert_tp not in (1, layout.tp), f"etp={layout.etp}: experts are cut like dense layers or not at all"
    )
    no.when(layout.ep == 1 and layout.expert_tp != layout.tp, f"etp={layout.etp} needs ep above 1")
    around = layout.cp if layout.expert_tp == layout.tp else layout.cp * layout.tp
    outside = layout.ep % around != 0 or sharded * around % layout.ep != 0
    no.when(
        layout.ep > 1 and outside, f"ep={layout.ep} must take all of cp (and of tp, if it cuts no experts) and divide "
        "the ranks that share a copy",
    )  # fmt: skip


def _refuse(found: Placed) -> None:
    """Raises Infeasible for all that the TOML cannot say."""
    layout, recipe, no = found.layout, found.job.recipe, Refusals("torchtitan")
    refuse_common(found, no)
    no.when(layout.tp > 1 and not layout.sequence_parallel, "tp without sequence parallelism does not exist there")
    if found.job.num_experts:
        _refuse_experts(layout, layout.shard // layout.cp if layout.shard else layout.dp, no)
    no.when(recipe.optimizer not in OPTIMIZERS, f"optimizer {recipe.optimizer}: only {', '.join(OPTIMIZERS)} match")
    no.when(layout.cp > 1 and recipe.cp_kind not in ROTATIONS, f"context parallelism by {recipe.cp_kind}")
    named = flavor_of(found.job.model) if layout.cp > 1 else None
    no.when(
        named is not None and named.flex,
        f"cp={layout.cp} of {found.job.model.name}: its FlexAttention does not split sequences there",
    )
    no.when(
        layout.pp > 1 and layout.ep > 1 and layout.schedule == "dualpipe-v" and layout.recompute != "none",
        "dualpipe-v with expert parallelism and recomputation",
    )
    no.settle()


def _refuse_stages(layout: Layout, job: Job, no: Refusals) -> None:
    """Of a pipeline: torch's classes of schedules stop at these when they are built."""
    schedule, microbatches = layout.schedule, job.recipe.batch // (layout.dp * layout.micro_batch)
    no.when(schedule not in SCHEDULES, f"schedule {schedule}: torch has {', '.join(SCHEDULES)}")
    no.when(
        schedule == "1f1b" and microbatches < layout.pp,
        f"1f1b with {microbatches} micro-batches on {layout.pp} stages: torch needs at least as many; use gpipe",
    )
    alone = schedule in SCHEDULES and schedule not in ONE_CHUNK and layout.vpp == 1
    no.when(alone, f"schedule {schedule} with one chunk per device; use --vpp 2 or gpipe")
    no.when(
        schedule in SPLIT_BACKWARD and job.recipe.fused_elementwise,
        f"schedule {schedule} with compiled layers: torch does not split their backward pass; use "
        "--no-fused-elementwise, which is priced without compilation",
    )
    tied = job.transformer is not None and job.transformer.tied_embeddings
    no.when(tied, f"tied embeddings of {job.model.name} with pipeline stages")


def refuse_common(found: Placed, no: Refusals) -> None:
    """Notes what no release can be told."""
    layout, recipe = found.layout, found.job.recipe
    refuse_model(found.job, no)
    no.when(layout.zero == 1, "zero 1: FSDP2 shards parameters (3) or gradients (2) too; DDP shards nothing (0)")
    alone = layout.tp == layout.pp == layout.cp == layout.ep == 1
    no.when(layout.zero == 0 and layout.dp > 1 and not alone, "zero 0 (DDP) works without tp, pp, cp and ep only")
    no.when(layout.zero == 0 and bool(layout.shard), "shard needs zero 2 or 3")
    no.when(layout.shard % layout.cp != 0, f"shard={layout.shard} must be a multiple of cp={layout.cp}")
    no.when(bool(layout.shard) and layout.dp % max(1, layout.shard // layout.cp) != 0, "shard/cp must divide dp")
    moe = found.job.transformer.experts if found.job.transformer else None
    once = moe is not None and layout.ep > 1 and recipe.once_per_node(moe.top_groups < moe.groups)
    no.when(recipe.routing == "forced", "routing forced to balance: it has no such setting; use --routing balanced")
    no.when(once, "experts' exchange once per node: its all-to-all sends every copy; use --exchange copy")
    if layout.pp > 1:
        _refuse_stages(layout, found.job, no)
    divisor = 2 * layout.tp * layout.cp
    no.when(recipe.seq % divisor != 0, f"sequences of {recipe.seq} tokens: 2*tp*cp = {divisor} must divide them")
    kv_heads = found.job.kv_heads
    no.when(kv_heads % layout.tp != 0, f"tp={layout.tp} must divide {kv_heads} key and value heads: it replicates none")
    even = bool(layout.stages) or found.job.layers % (layout.pp * layout.vpp) == 0
    no.when(not even, f"{layout.pp * layout.vpp} stages do not hold equally many of {found.job.layers} layers")
    no.when(
        layout.recompute == "selective",
        "recompute selective: torchtitan's selective mode recomputes other operations than the attention core",
    )
    no.when(bool(recipe.offload_layers), "offloaded activations (--offload-layers)")
    no.when(
        layout.offload in ("paged", "optimizer"),
        f"offload {layout.offload}: states are offloaded with the parameters or not at all",
    )
    no.when(layout.order != AXES, f"rank order {'-'.join(layout.order)}: it is always {'-'.join(AXES)}")
    no.when(recipe.dtype != "bf16", f"matrix products in {recipe.dtype}: export has bf16 only")
    refuse_formats(recipe, no)
    refuse_sharding("fsdp2", layout, recipe, no)
    sync, staged = recipe.gradient_sync, layout.pp > 1
    synced = layout.zero > 1 and layout.dp * layout.cp > 1 and sync is not None and (sync == "step") != staged
    no.when(synced, f"--gradient-sync {sync}: torch reduces once per step with stages, else after every micro-batch")
    other = {recipe.wire_B, recipe.gradient_B} != {4.0}
    no.when(other, "gradients are reduced and kept in fp32 there; set --gradient-bytes 4")
    alone = layout.dp * layout.cp == 1
    no.when(not recipe.overlap_dp and not alone, "FSDP2 and DDP always overlap their traffic; use --overlap")
    no.when(recipe.overlap_tp == "all" and layout.tp > 1, "--overlap-tp all (userbuffers); its own way is async")
    uncompiled = recipe.overlap_tp == "async" and layout.tp > 1 and not recipe.fused_elementwise
    no.when(uncompiled, "--overlap-tp async without compiled layers; use --fused-elementwise")
    no.when(not recipe.flash_attention, "attention is always fused there; use --flash")
    no.when(recipe.dropout, "there is no dropout there")
