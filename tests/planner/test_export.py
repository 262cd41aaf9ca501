"""Exports: read back, the degrees are those of the layout; what a framework cannot say is refused with every reason."""

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from advice_samples import CASES, DENSE, EXPERTS
from export_flags import flags_of, found
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from effort import share
from lockstep.base.errors import Infeasible, UnknownName
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.decide.planner.export import CHOICES, TARGETS, export
from lockstep.decide.planner.export.torchtitan import SCHEDULES
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.robust import SAFE_FRAC
from lockstep.decide.planner.runnable import best_for
from lockstep.decide.planner.search import NEAR_FRAC
from lockstep.decide.planner.software import SOFTWARE
from lockstep.decide.planner.space import ALL_RANKS, NODE
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Rotary, model, recompute_code
from lockstep.price.layout import Job, Layout, Recipe

ZERO = {"no_shard": 1, "optim_grads": 2, "optim_grads_params": 3}
ENDS = ("embedding", "loss")
"""What Megatron can count as a layer."""


def from_megatron(text: str, job: Job) -> Layout:
    """The layout that the flags describe, by Megatron's own arithmetic."""
    flags = flags_of(text)
    tp, pp, cp = (int(flags[f"{axis}-parallel-size"]) for axis in ("tensor-model", "pipeline-model", "context"))
    per_chunk = int(flags.get("num-layers-per-virtual-pipeline-stage", 0))
    parts = flags.get("pipeline-model-parallel-layout", "").split("|") if job.layers % pp == 0 else [""]
    stages = tuple(part.count("t") for part in parts) if len(parts) > 1 else ()
    counted = int(flags["num-layers"]) + sum(f"account-for-{end}-in-pipeline-split" in flags for end in ENDS)
    dp = job.devices // (tp * pp * cp)
    instances = int(flags.get("num-distributed-optimizer-instances", 1))
    zero = ZERO[flags.get("data-parallel-sharding-strategy", "no_shard")] if "use-distributed-optimizer" in flags else 0
    return Layout(
        tp=tp, pp=pp, cp=cp, ep=int(flags["expert-model-parallel-size"]), dp=dp,
        vpp=counted // pp // per_chunk if per_chunk else max(1, len(stages) // pp),
        schedule="interleaved" if per_chunk or len(stages) > pp else "1f1b",
        stages=stages,
        micro_batch=int(flags["micro-batch-size"]), zero=zero,
        shard=dp * cp // instances if "num-distributed-optimizer-instances" in flags else 0,
        recompute=flags.get("recompute-granularity", "none"),
        sequence_parallel="sequence-parallel" in flags,
    )  # fmt: skip


def from_torchtitan(text: str, job: Job) -> Layout:
    """The layout that the tables describe, by torchtitan's own arithmetic."""
    document = tomllib.loads(text)
    axes, training = document["parallelism"], document["training"]
    pp, cp = axes["pipeline_parallel_degree"], axes["context_parallel_degree"]
    replicate, shard = axes["data_parallel_replicate_degree"], axes["data_parallel_shard_degree"]
    names = {word: name for name, word in SCHEDULES.items()}
    parts = axes.get("module_fqns_per_model_part", [])
    assert [one for part in parts for one in part] == (names_of(job.layers) if parts else [])
    stages = tuple(sum(one.startswith("layers.") for one in part) for part in parts)
    per_stage = axes.get("pipeline_parallel_layers_per_stage", job.layers // pp)
    sharded = shard > 1 or cp > 1
    return Layout(
        tp=axes["tensor_parallel_degree"], pp=pp, cp=cp, ep=axes["expert_parallel_degree"], dp=replicate * shard,
        vpp=len(stages) // pp if stages else job.layers // (pp * per_stage),
        stages=stages,
        schedule=names[axes.get("pipeline_parallel_schedule", "1F1B")],
        micro_batch=axes.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
        zero={"always": 3, "never": 2}[axes["fsdp_reshard_after_forward"]] if sharded else 0,
        shard=shard * cp if replicate > 1 and sharded else 0,
        recompute=document["activation_checkpoint"]["mode"],
        sequence_parallel=axes["tensor_parallel_degree"] > 1,
    )  # fmt: skip


def names_of(layers: int) -> list[str]:
    """What torchtitan calls the parts of its decoders, in order."""
    return ["tok_embeddings", *(f"layers.{i}" for i in range(layers)), "norm", "output"]


def left_to_the_model(document: dict[str, Any]) -> bool:
    return any("full recomputation" in sentence for sentence in document["comment"])


def from_deepspeed(text: str, job: Job) -> Layout:
    """The layout that the JSON describes, by DeepSpeed's own arithmetic."""
    document = json.loads(text)
    micro_batch = document["train_micro_batch_size_per_gpu"]
    pipeline = document.get("pipeline", {"stages": 1, "activation_checkpoint_interval": 0})
    return Layout(
        tp=document.get("tensor_parallel", {"autotp_size": 1})["autotp_size"],
        pp=pipeline["stages"],
        dp=document["train_batch_size"] // (micro_batch * document["gradient_accumulation_steps"]),
        micro_batch=micro_batch,
        zero=document["zero_optimization"]["stage"],
        recompute="full" if pipeline["activation_checkpoint_interval"] or left_to_the_model(document) else "none",
    )


READERS = {"megatron": from_megatron, "deepspeed": from_deepspeed, "torchtitan": from_torchtitan}


def normal(layout: Layout) -> Layout:
    """The layout with differences in name only taken away: one stage has no schedule, one replica no sharding."""
    alone = layout.dp * layout.cp == 1
    whole = layout.shard in (0, layout.dp * layout.cp) or layout.zero == 0
    schedule = layout.schedule if layout.pp > 1 else "1f1b"
    return replace(
        layout,
        schedule=schedule,
        vpp=layout.vpp if layout.pp > 1 else 1,
        zero=0 if alone else layout.zero,
        shard=0 if alone or whole else layout.shard,
    )


@given(st.sampled_from(CASES), st.sampled_from(list(READERS)))
def test_an_export_reads_back_as_the_same_layout_or_is_refused(case: tuple[Job, Layout], target: str) -> None:
    job, layout = case
    try:
        text = export(found(job, layout), target)
    except Infeasible:
        return
    assert normal(READERS[target](text, job)) == normal(layout)


@pytest.mark.parametrize(
    ("target", "layout"),
    [
        ("megatron", Layout(pp=4, dp=8, zero=1, stages=(9, 9, 8, 6))),
        ("megatron", Layout(pp=4, dp=8, zero=1, stages=(11, 11, 10, 0))),
        ("megatron", Layout(pp=4, vpp=2, dp=8, schedule="interleaved", stages=(5, 4, 4, 4, 4, 4, 4, 3))),
        ("torchtitan", Layout(pp=4, dp=8, zero=3, stages=(9, 9, 8, 6))),
        ("torchtitan", Layout(pp=4, vpp=2, dp=8, zero=3, schedule="interleaved", stages=(0, 5, 5, 5, 5, 4, 4, 4))),
    ],
)
def test_layers_placed_by_hand_are_read_back(target: str, layout: Layout) -> None:
    assert READERS[target](export(found(DENSE, layout), target), DENSE) == layout


def test_every_target_accepts_a_good_part_of_the_layouts() -> None:
    """Else the round trip above would prove nothing."""
    some = [found(*case) for case in CASES[::23]]
    for target, least in (("megatron", 30), ("deepspeed", 2), ("torchtitan", 10)):
        assert sum(_exported(one, target) for one in some) >= least, target


REFUSED = [
    ("megatron", {"pp": 4, "dp": 8, "schedule": "zb-h1"}, {}, "schedule zb-h1"),
    ("megatron", {"pp": 4, "dp": 8, "zero": 3}, {}, "pipeline stages"),
    ("megatron", {"dp": 32, "zero": 3, "offload": "parameters"}, {}, "offload parameters"),
    ("megatron", {"dp": 32, "zero": 1, "offload": "paged"}, {}, "offload paged"),
    ("torchtitan", {"dp": 32, "zero": 3, "offload": "paged"}, {}, "offload paged"),
    ("deepspeed", {"dp": 32, "zero": 2, "offload": "paged"}, {}, "offload paged"),
    ("megatron", {"dp": 32, "order": ("dp", "tp", "cp", "ep", "pp")}, {}, "rank order"),
    ("megatron", {"dp": 32}, {"optimizer": "adafactor"}, "optimizer adafactor"),
    ("megatron", {"dp": 32}, {"gradient_B": 4.0, "reduce_B": 2.0}, "another format"),
    ("megatron", {"pp": 4, "dp": 8}, {"overlap_pp": True}, "overlapped pipeline sends"),
    ("deepspeed", {"tp": 8, "dp": 4, "sequence_parallel": True}, {}, "sequence parallelism"),
    ("deepspeed", {"cp": 2, "dp": 16}, {}, "cp=2"),
    ("deepspeed", {"pp": 4, "dp": 8, "stages": (9, 9, 8, 6)}, {}, "stages 2x9,8,6"),
    ("deepspeed", {"pp": 4, "dp": 8, "zero": 2}, {}, "ZeRO 0 or 1"),
    ("deepspeed", {"dp": 32, "recompute": "selective"}, {}, "checkpointing"),
    ("deepspeed", {"dp": 32, "zero": 3, "shard": 8}, {}, "shard=8"),
    ("deepspeed", {"tp": 8, "dp": 4, "zero": 3}, {}, "AutoTP"),
    ("torchtitan", {"dp": 32, "zero": 1}, {}, "zero 1"),
    ("torchtitan", {"tp": 8, "dp": 4, "zero": 3}, {}, "without sequence parallelism"),
    ("torchtitan", {"dp": 32, "zero": 3, "recompute": "selective"}, {}, "selective"),
    ("torchtitan", {"pp": 4, "dp": 8, "zero": 3, "schedule": "zb-h1"}, {}, "schedule zb-h1"),
    ("torchtitan", {"tp": 2, "dp": 16, "sequence_parallel": True}, {}, "DDP"),
    ("torchtitan", {"dp": 32, "zero": 3}, {"gradient_B": 2.0}, "fp32"),
    ("torchtitan", {"dp": 32, "zero": 3, "offload": "optimizer"}, {}, "offload optimizer"),
    ("torchtitan", {"tp": 8, "dp": 4, "zero": 3, "sequence_parallel": True}, {"overlap_tp": "all"}, "userbuffers"),
    ("megatron", {"tp": 8, "dp": 4, "sequence_parallel": True}, {"overlap_tp": "async"}, "asynchronous"),
    ("deepspeed", {"tp": 8, "dp": 4}, {"overlap_tp": "all"}, "does not overlap"),
    *((to, {"dp": 32}, {"local_steps": 100}, "local steps") for to in ("megatron", "deepspeed", "torchtitan")),
    *(
        (to, {"pp": 4, "dp": 8}, {"vocab_parallel": "vocab-2"}, "vocabulary layers over stages")
        for to in ("megatron", "deepspeed", "torchtitan")
    ),
    ("torchtitan", {"dp": 16, "cp": 2, "zero": 3}, {"cp_kind": "mixed"}, "context parallelism by mixed"),
    ("megatron", {"dp": 2, "cp": 16, "zero": 1}, {"cp_kind": "all-to-all"}, "it copies none"),
    ("megatron", {"dp": 16, "cp": 2, "zero": 1}, {"cp_kind": "mixed"}, "one level"),
    ("torchtitan", {"dp": 32, "zero": 3}, {"sharding": "deepspeed"}, "--sharding deepspeed"),
    ("torchtitan", {"dp": 32, "zero": 3}, {"gradient_sync": "step"}, "--gradient-sync step"),
    ("torchtitan", {"dp": 8, "pp": 4, "zero": 3}, {"gradient_sync": "micro-batch"}, "--gradient-sync micro-batch"),
    ("megatron", {"dp": 32, "zero": 3}, {"sharding": "fsdp2"}, "--sharding fsdp2"),
    ("megatron", {"dp": 32, "zero": 2}, {"gradient_sync": "step"}, "once per step"),
    ("megatron", {"dp": 32, "zero": 3}, {"reshard": False}, "without resharding"),
    ("deepspeed", {"dp": 32, "zero": 2}, {"gradient_sync": "step"}, "once per step"),
    ("deepspeed", {"dp": 32, "zero": 3}, {"reshard": False}, "without resharding"),
    ("deepspeed", {"dp": 32, "zero": 2}, {"sharding": "megatron"}, "--sharding megatron"),
    ("bridge", {"dp": 32}, {"gradient_B": 2.0}, "bf16_mixed reduces in 4"),
    ("bridge", {"dp": 32}, {"flash_attention": False}, "not fused"),
    ("bridge", {"pp": 4, "dp": 8, "zero": 3}, {}, "pipeline stages"),
    ("torchtitan-cli", {"dp": 16, "cp": 2, "zero": 3}, {}, "context parallelism by ring"),
    ("torchtitan-cli", {"pp": 4, "dp": 8, "zero": 3, "stages": (9, 9, 8, 6)}, {}, "stages placed by hand"),
    ("torchtitan-cli", {"dp": 32, "zero": 1}, {}, "zero 1"),
    ("torchtitan-cli", {"dp": 32, "zero": 3}, {"optimizer": "adam"}, "optimizer adam"),
    ("accelerate", {"pp": 4, "dp": 8}, {}, "pp=4"),
    ("accelerate", {"dp": 32, "zero": 1}, {}, "zero 1"),
    ("accelerate", {"tp": 8, "dp": 4, "zero": 3, "sequence_parallel": True}, {}, "sequence parallelism"),
    ("accelerate", {"tp": 8, "dp": 4}, {}, "DDP"),
    ("accelerate", {"dp": 32, "zero": 3, "offload": "optimizer"}, {}, "offload optimizer"),
    ("accelerate", {"dp": 32, "zero": 3}, {"base": "nf4", "train": "lora:r=16"}, "frozen matrices in nf4"),
    ("nanotron", {"dp": 32, "zero": 2}, {}, "zero 2"),
    ("nanotron", {"cp": 2, "dp": 16}, {}, "cp=2"),
    ("nanotron", {"pp": 4, "dp": 8, "stages": (9, 9, 8, 6)}, {}, "stages 2x9,8,6"),
]


@pytest.mark.parametrize(("target", "changes", "recipe", "word"), REFUSED)
def test_layouts_that_a_target_cannot_express_are_refused(
    target: str, changes: dict[str, object], recipe: dict[str, object], word: str
) -> None:
    job = Job(DENSE.model, DENSE.recipe.having(**recipe), DENSE.devices)
    with pytest.raises(Infeasible, match=word):
        export(found(job, Layout(**changes)), target)


def test_exports_without_stages_name_no_torchtitan_schedule() -> None:
    piped = Layout(pp=4, dp=8, zero=3, schedule="zb-h1")
    with pytest.raises(Infeasible, match="schedule zb-h1"):
        export(found(DENSE, piped), "torchtitan")
    alone, usual = (
        export(found(DENSE, Layout(dp=32, zero=3, schedule=schedule)), "torchtitan") for schedule in ("zb-h1", "1f1b")
    )
    assert alone == usual


@pytest.mark.parametrize(
    ("kind", "cp", "words"),
    [
        ("ring", 2, {"cp-comm-type": "p2p"}),
        ("gather", 2, {"cp-comm-type": "all_gather"}),
        ("all-to-all", 2, {"cp-comm-type": "a2a"}),
        ("mixed", 16, {"cp-comm-type": "a2a+p2p", "hierarchical-context-parallel-sizes": "8 2"}),
    ],
)
def test_megatron_exports_set_the_context_parallel_communication(kind: str, cp: int, words: dict[str, str]) -> None:
    job = Job(DENSE.model, replace(DENSE.recipe, cp_kind=kind), DENSE.devices)
    text = export(found(job, Layout(cp=cp, dp=32 // cp, zero=1)), "megatron")
    assert {f"--{name} {value}" for name, value in words.items()} <= set(text.splitlines())


@pytest.mark.parametrize(("kind", "word"), [("ring", "alltoall"), ("gather", "allgather")])
def test_torchtitan_exports_set_the_rotation_method(kind: str, word: str) -> None:
    job = Job(DENSE.model, replace(DENSE.recipe, cp_kind=kind), DENSE.devices)
    text = export(found(job, Layout(cp=2, dp=16, zero=3)), "torchtitan")
    assert tomllib.loads(text)["parallelism"]["context_parallel_rotate_method"] == word


def test_asynchronous_tensor_parallelism_exports_compile() -> None:
    job = Job(DENSE.model, replace(DENSE.recipe, overlap_tp="async"), DENSE.devices)
    said = tomllib.loads(export(found(job, Layout(tp=8, dp=4, zero=3, sequence_parallel=True)), "torchtitan"))
    assert said["parallelism"]["enable_async_tensor_parallel"]
    assert said["compile"] == {"enable": True}


def test_exports_of_kept_parameters_never_reshard() -> None:
    kept = Job(DENSE.model, replace(DENSE.recipe, sharding="fsdp2", reshard=False), DENSE.devices)
    said = tomllib.loads(export(found(kept, Layout(dp=32, zero=3)), "torchtitan"))["parallelism"]
    assert said["fsdp_reshard_after_forward"] == "never"
    assert said == tomllib.loads(export(found(DENSE, Layout(dp=32, zero=2)), "torchtitan"))["parallelism"]


def test_export_refusals_list_all_reasons() -> None:
    with pytest.raises(Infeasible) as caught:
        export(found(DENSE, Layout(cp=2, dp=16, zero=3, shard=4, recompute="selective")), "deepspeed")
    assert len(caught.value.violations) == 3


def test_an_unknown_target_suggests_one() -> None:
    with pytest.raises(UnknownName, match="megatron"):
        export(found(DENSE, Layout(dp=32)), "megatorn")


@pytest.mark.parametrize("target", ["megatron", "torchtitan"])
def test_convolutional_networks_are_not_exported(target: str) -> None:
    job = Job(model("resnet50"), Recipe(seq=1, batch=256), 8)
    with pytest.raises(Infeasible, match="not a transformer"):
        export(estimate(job, cluster("dgx-a100-80gb"), Layout(dp=8)), target)


def test_megatron_flags_of_shapes() -> None:
    llama = flags_of(export(found(DENSE, Layout(dp=32, zero=1)), "megatron"))
    assert llama["num-query-groups"] == "8"
    assert llama["ffn-hidden-size"] == "14336"
    for flag in ("swiglu", "disable-bias-linear", "untie-embeddings-and-output-weights", "group-query-attention"):
        assert llama[flag] == "true"
    assert llama["normalization"] == "RMSNorm"
    assert llama["position-embedding-type"] == "rope"
    moe = flags_of(export(found(EXPERTS, Layout(dp=32, ep=8, zero=1)), "megatron"))
    assert (moe["num-experts"], moe["moe-router-topk"], moe["expert-model-parallel-size"]) == ("8", "2", "8")
    gpt = Job(model("gpt3-175b"), Recipe(seq=2048, batch=32), 32)
    plain = flags_of(export(found(gpt, Layout(tp=8, pp=4, sequence_parallel=True)), "megatron"))
    assert "swiglu" not in plain
    assert "disable-bias-linear" not in plain
    assert plain["position-embedding-type"] == "learned_absolute"


# Rotary base, epsilon and what stretches the angles, as in the publishers' config.json files.
SAME_MODEL = {
    "llama3-8b": {"rotary-base": "500000", "norm-epsilon": "1e-05"},
    "llama3-405b": {"rotary-base": "500000", "use-rope-scaling": "true", "rope-scaling-factor": "8.0"},
    "llama2-70b": {"rotary-base": "10000", "norm-epsilon": "1e-05"},
    "mixtral-8x7b": {"rotary-base": "1000000", "norm-epsilon": "1e-05"},
    "qwen3-8b": {"rotary-base": "1000000", "norm-epsilon": "1e-06", "qk-layernorm": "true"},
    "nemotron4-15b": {"rotary-percent": "0.5", "squared-relu": "true"},
    "gpt2": {"norm-epsilon": "1e-05", "position-embedding-type": "learned_absolute"},
    "deepseek-v3": {
        "rope-type": "yarn", "rotary-scaling-factor": "40.0", "mscale": "1.0", "mscale-all-dim": "1.0",
        "norm-epsilon": "1e-06", "qk-layernorm": "true", "multi-latent-attention": "true",
        "moe-router-topk-scaling-factor": "2.5", "moe-router-score-function": "sigmoid",
    },
    "deepseek-v2": {
        "mscale": "0.707", "moe-router-pre-softmax": "true", "moe-router-topk-scaling-factor": "16.0",
        "qk-layernorm": "true",
    },
}  # fmt: skip
NOT_THERE = {
    "llama3-8b": ("use-rope-scaling", "rope-type", "rotary-percent", "qk-layernorm"),
    "gpt2": ("rotary-base", "use-rope-scaling"),
    "mixtral-8x7b": ("moe-router-pre-softmax", "moe-router-topk-scaling-factor"),
    "deepseek-v3": ("moe-router-pre-softmax", "use-rope-scaling"),
}


@pytest.mark.parametrize("name", SAME_MODEL)
def test_megatron_trains_the_same_model(name: str) -> None:
    job = Job(model(name), Recipe(seq=1024, batch=32), 32)
    flags = flags_of(export(found(job, Layout(dp=32, zero=1)), "megatron"))
    assert SAME_MODEL[name].items() <= flags.items()
    assert not set(NOT_THERE.get(name, ())) & set(flags)


def test_megatron_exports_name_unknown_model_values() -> None:
    bare = replace(DENSE.model, rotary=None, norm_epsilon=None)
    text = export(found(Job(bare, DENSE.recipe, DENSE.devices), Layout(dp=32)), "megatron")
    assert "# norm_epsilon is not known: Megatron's default holds, --norm-epsilon 1e-05" in text
    assert "# rotary is not known: Megatron's default holds, --rotary-base 10000" in text
    assert not {"rotary-base", "norm-epsilon"} & set(flags_of(text))
    assert "not known" not in export(found(DENSE, Layout(dp=32)), "megatron")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"rotary": Rotary(base=999999.44)}, "not whole"),
        ({"rotary": Rotary(scaling="longrope")}, "stretched by longrope"),
        ({"rotary": Rotary(scaling="yarn", factor=4.0)}, "stretched by yarn"),
        ({"rotary": Rotary(scaling="llama3", factor=8.0, original_positions=4096)}, "llama3 frequencies"),
        ({"scaled_stream": True}, "multipliers"),
    ],
)
def test_rotary_scalings_without_megatron_flags_are_refused(changes: dict[str, object], word: str) -> None:
    job = Job(replace(DENSE.model, **changes), DENSE.recipe, DENSE.devices)
    with pytest.raises(Infeasible, match=word):
        export(found(job, Layout(dp=32)), "megatron")


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["llama3-8b", "llama2-7b", "gpt2", "mixtral-8x7b", "qwen2.5-7b"])
def test_megatron_adds_no_rows_to_a_vocabulary_that_splits(name: str, tp: int) -> None:
    """Its rule: the next multiple of the number given times tp; 128 when none is."""
    chosen = model(name)
    if chosen.attention.heads % tp or chosen.attention.kv_heads % tp:
        return
    job = Job(chosen, Recipe(seq=1024, batch=32), 32)
    flags = flags_of(export(found(job, Layout(tp=tp, dp=32 // tp, sequence_parallel=tp > 1)), "megatron"))
    multiple = int(flags.get("make-vocab-size-divisible-by", "128")) * tp
    padded = -(-chosen.vocab // multiple) * multiple
    assert padded == chosen.vocab or chosen.vocab % (8 * tp) != 0


NAMED = {
    "megatron": (1, "Megatron Core 0.19"),
    "bridge": (1, "Megatron-Bridge 0.6.2, Megatron Core 0.19"),
    "deepspeed": (1, "DeepSpeed 0.19.8"),
    "torchtitan": (3, "torchtitan v0.2.2"),
    "torchtitan-cli": (3, "torchtitan v0.3.0"),
    "accelerate": (3, "accelerate 1.15.0"),
    "nanotron": (1, "nanotron, main of 2025"),
}
"""A ZeRO stage that each has, and its version."""


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_names_its_target_version(target: str) -> None:
    zero, named = NAMED[target]
    text = export(found(DENSE, Layout(dp=32, zero=zero)), target)
    head = json.loads(text)["comment"][0] if target == "deepspeed" else text.splitlines()[0].removeprefix("# ")
    assert head == f"written for {named}" or head.endswith(named)


@pytest.mark.parametrize("target", [one.target for one in SOFTWARE.values()])
def test_the_best_exportable_layout_is_found(target: str) -> None:
    """Against every layout of the planner's space, exported one after another."""
    job = Job(model("gpt2"), Recipe(seq=512, batch=16), 4)
    machine = cluster("dgx-h100", gpus=4)
    every = plan(job.model, machine, job.recipe, top=100_000).plans
    best = next(one for one in every if _exported(one, target))
    assert best_for(target, every[0]).estimate.step_time_s == best.step_time_s


@pytest.mark.parametrize("target", TARGETS)
def test_the_search_leaves_out_nothing_that_can_be_exported(target: str) -> None:
    """What a target takes has every axis of its layout among those that the search for it keeps."""
    choices = CHOICES[target]
    for job, layout in share(CASES[::7], 3):
        if not _exported(found(job, layout), target):
            continue
        values = {"cp": layout.cp, "ep": layout.ep, "sequence_parallel": int(layout.sequence_parallel)}
        values["recompute"] = recompute_code(layout.recompute)
        if layout.pp > 1:
            values["schedules"] = layout.schedule
        if layout.dp * layout.cp > 1:
            values["sharding"] = (layout.zero, NODE if layout.shard else ALL_RANKS)
        assert all(values[axis] in allowed for axis, allowed in choices.items() if axis in values)


def _exported(one: Estimate, target: str) -> bool:
    try:
        export(one, target)
    except Infeasible:
        return False
    return True


def test_an_unexportable_best_layout_is_replaced_and_a_chosen_one_refused() -> None:
    question = ("llama3-70b", "dgx-h100:4")
    best = lockstep.plan(*question, batch=64).best
    with pytest.raises(Infeasible, match="schedule zb-h1"):
        export(best, "torchtitan")
    answer = lockstep.export(*question, batch=64, to="torchtitan").to_dict()
    assert answer["planned"] == {"layout": best.layout.to_dict(), "step_time_s": best.step_time_s}
    # The robust choice gives up so much for memory that surely suffices, which torchtitan's layouts may not have.
    assert answer["step_time_s"] * (1 + SAFE_FRAC) * (1 + NEAR_FRAC) >= best.step_time_s
    assert f"# the planner's best layout is {best.layout}" in answer["text"]
    assert ("longer" in answer["text"]) == (answer["step_time_s"] >= best.step_time_s)
    assert ("less than the robust choice" in answer["text"]) == (answer["step_time_s"] < best.step_time_s)
    of_plan = lockstep.export(lockstep.plan(*question, batch=64), to="torchtitan").to_dict()
    assert of_plan["text"] == answer["text"]
    with pytest.raises(Infeasible, match="zero 1"):
        lockstep.export(*question, batch=64, zero=1, to="torchtitan")
    with pytest.raises(Infeasible, match="schedule zb-h1"):
        lockstep.export(best, to="torchtitan")
    assert lockstep.export(*question, batch=64, zero=3, to="torchtitan").to_dict()["planned"] is None


def test_uneven_stages_are_written_out() -> None:
    job = Job(model("deepseek-v3"), Recipe(seq=4096, batch=64), 32)
    layout = Layout(pp=8, dp=4, ep=4, zero=1)
    flags = flags_of(export(found(job, layout), "megatron"))
    stages = flags["pipeline-model-parallel-layout"].split("|")
    assert [stage.count("t") for stage in stages] == [sum(held.values()) for held in job.stage_layers(8)]
    assert stages[0].startswith("E")
    assert stages[-1].endswith("mL")
    assert "".join(stages).count("E") == "".join(stages).count("L") == 1
    pattern = flags["moe-layer-freq"].strip("()[]").split(",")
    assert [one == "1" for one in pattern] == list(job.model.expert_layers)


@pytest.mark.parametrize("name", ["falcon-40b", "bert-large", "gptj-6b"])
def test_model_shapes_without_megatron_flags_are_refused(name: str) -> None:
    job = Job(model(name), Recipe(seq=512, batch=32), 32)
    with pytest.raises(Infeasible, match="Megatron-LM cannot express"):
        export(found(job, Layout(dp=32)), "megatron")


def test_megatron_exports_set_the_flags_of_experts() -> None:
    modules = ("layernorm", "mla_up_proj", "moe_act")
    recipe = Recipe(seq=4096, batch=64, overlap_ep="shared", exchange="copy", recompute_modules=modules)
    job, layout = Job(model("deepseek-v3"), recipe, 32), Layout(pp=8, dp=4, ep=4, zero=1, recompute="selective")
    text = export(found(job, layout), "megatron")
    for line in (
        "--recompute-modules layernorm mla_up_proj moe_act",
        "--moe-router-num-groups 8",
        "--moe-router-group-topk 4",
        "--moe-shared-expert-overlap",
    ):
        assert f"\n{line}\n" in text
    fp8 = replace(job, recipe=replace(recipe, cached_B=1 + 4 / 128))
    with pytest.raises(Infeasible, match="a separate format"):
        export(found(fp8, layout), "megatron")
