"""Megatron-LM: the flags are ones that it accepts and that run the planned layout, or the plan is refused.

Each row is a rule of validate_args (megatron/training/arguments.py, commit 000c4ac24f) or of Megatron Core 0.15.0.
"""

import sys
from dataclasses import replace

import pytest
from advice_samples import DENSE, EXPERTS
from export_flags import flags_of, found

from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import export
from lockstep.decide.planner.export.megatron_limits import PIPELINE_INSIDE
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.runnable import best_for
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Experts, LatentAttention, Mlp, Rotary, model
from lockstep.price.layout import Job, Layout, Recipe

HOPPERS = cluster("dgx-h100:4")
LATENT = replace(
    DENSE.model.attention,
    heads=28,
    kv_heads=28,
    head_dim=192,
    latent=LatentAttention(q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128),
)
SQUARED = Mlp(ffn=14336, gated=False, activation="relu2", in_bias=True, out_bias=True)
BIASED = {"attention": replace(DENSE.model.attention, qkv_bias=True, out_bias=True), "mlp": SQUARED}


def of(changes: dict[str, object], devices: int = 32, **recipe: object) -> Job:
    """The dense model with another shape and recipe."""
    return Job(replace(DENSE.model, **changes), DENSE.recipe.having(**recipe), devices)


def text(job: Job, **layout: object) -> str:
    return export(found(job, Layout(**layout), HOPPERS), "megatron")


def flags(job: Job, **layout: object) -> dict[str, str]:
    return flags_of(text(job, **layout))


def refused(job: Job, word: str, **layout: object) -> None:
    with pytest.raises(Infeasible, match=word) as caught:
        text(job, **layout)
    assert len(caught.value.violations) == 1, "for no other reason"


def megatron_chunks(read: dict[str, str]) -> tuple[int, list[int]]:
    """Chunks per stage and layers in every chunk, as validate_args and get_num_layers_to_build count them."""
    first, last = ("account-for-embedding-in-pipeline-split" in read, "account-for-loss-in-pipeline-split" in read)
    layers, pp = int(read["num-layers"]) + first + last, int(read["pipeline-model-parallel-size"])
    size = int(read["num-layers-per-virtual-pipeline-stage"])
    assert layers % pp == 0
    assert layers // pp % size == 0
    held = [size] * (layers // size)
    held[0] -= first
    held[-1] -= last
    return layers // pp // size, held


@pytest.mark.parametrize(
    ("layers", "pp", "vpp"), [(126, 16, 8), (126, 4, 8), (6, 2, 2), (32, 4, 4), (30, 4, 2), (24, 4, 3)]
)
def test_chunks_hold_the_planned_layers(layers: int, pp: int, vpp: int) -> None:
    job = of({"layers": layers}, devices=pp, overlap_pp=True)
    read = flags(job, pp=pp, vpp=vpp, schedule="interleaved")
    chunks, held = megatron_chunks(read)
    assert chunks == vpp
    stages = [sum(held[stage::pp]) for stage in range(pp)]
    assert stages == [sum(kinds.values()) for kinds in job.stage_layers(pp, vpp)]


SHARDED_SGD = "sharded optimizer is Adam only"
REFUSED = [
    ({}, {"optimizer": "sgd-momentum"}, {"dp": 32, "zero": 1}, SHARDED_SGD),
    ({}, {"optimizer": "sgd-momentum"}, {"dp": 32, "zero": 3}, SHARDED_SGD),
    ({}, {}, {"pp": 4, "cp": 2, "dp": 4, "order": PIPELINE_INSIDE}, "cp=2 and ep=1"),
    (
        {},
        {"dtype": "fp8", "recompute_modules": ("layernorm",)},
        {"dp": 32, "recompute": "selective"},
        "ing layernorm",
    ),
    ({}, {"overlap_dp": False}, {"dp": 32, "zero": 2}, "use --overlap"),
    ({}, {"overlap_dp": False}, {"dp": 32, "zero": 3}, "use --overlap"),
    ({}, {}, {"tp": 16, "dp": 2}, "8 key and value heads over tp=16"),
    ({"positions": "learned", "rotary": None, "mtp_layers": 1}, {}, {"dp": 32}, "learned positions"),
    ({"attention": replace(DENSE.model.attention, window=1024)}, {}, {"cp": 2, "dp": 16}, "cp=2 with sliding windows"),
    ({"rotary": Rotary(scaling="llama3", factor=32.0, original_positions=8192)}, {}, {"dp": 32}, "RoPE scaling by 32"),
    ({"rotary": Rotary(scaling="linear", factor=4.0)}, {}, {"dp": 32}, "RoPE scaling by 4"),
    ({"attention": LATENT, "positions": "none", "rotary": None}, {}, {"dp": 32}, "without rotary positions"),
    ({}, {}, {"tp": 8, "pp": 4, "zero": 1, "offload": "optimizer"}, "dp\\*cp = 1"),
    ({}, {"offload_layers": 4}, {"dp": 8, "pp": 4}, "offloaded activations of layers with pipeline stages"),
    ({}, {"offload_layers": 4}, {"dp": 32, "recompute": "full"}, "together with recomputation"),
    ({}, {"offload_layers": "all"}, {"dp": 32}, "one layer must stay"),
]
REFUSED_EXPERTS = [
    ({}, {"dtype": "fp16"}, {"dp": 32}, "experts in fp16"),
    ({}, {"dtype": "fp16"}, {"dp": 32, "ep": 8}, "experts in fp16"),
    ({}, {}, {"dp": 32, "ep": 8, "zero": 2}, "with expert parallelism"),
    ({}, {}, {"dp": 32, "ep": 8, "zero": 3}, "with expert parallelism"),
    ({}, {"dtype": "fp8", "recompute_modules": ("moe_act",)}, {"dp": 32, "recompute": "selective"}, "ing moe_act"),
    ({"experts": Experts(experts=8, top_k=1, ffn=14336)}, {}, {"dp": 32}, "top-1 routing"),
    (BIASED | {"experts": Experts(experts=8, top_k=2, ffn=14336, gated=False, activation="relu2", every=2)},
     {}, {"dp": 32}, "biases in every linear layer"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "recipe", "layout", "word"), REFUSED)
def test_layouts_that_megatron_does_not_run_are_refused(
    shape: dict[str, object], recipe: dict[str, object], layout: dict[str, object], word: str
) -> None:
    refused(of(shape, **recipe), word, **layout)


@pytest.mark.parametrize(("shape", "recipe", "layout", "word"), REFUSED_EXPERTS)
def test_expert_layouts_that_megatron_does_not_run_are_refused(
    shape: dict[str, object], recipe: dict[str, object], layout: dict[str, object], word: str
) -> None:
    job = Job(replace(EXPERTS.model, **shape), EXPERTS.recipe.having(**recipe), EXPERTS.devices)
    refused(job, word, **layout)


RUNS = [
    (DENSE, {"optimizer": "sgd-momentum"}, {"dp": 32}),
    (DENSE, {}, {"pp": 4, "dp": 8, "order": PIPELINE_INSIDE}),
    (DENSE, {}, {"cp": 2, "dp": 16, "order": PIPELINE_INSIDE}),
    (DENSE, {"dtype": "fp8", "recompute_modules": ("layernorm",)}, {"dp": 32}),
    (DENSE, {"dtype": "fp8"}, {"dp": 32, "recompute": "selective"}),
    (DENSE, {"overlap_dp": False}, {"dp": 32, "zero": 1}),
    (DENSE, {}, {"tp": 8, "dp": 4, "sequence_parallel": True}),
    (DENSE, {"dtype": "fp16"}, {"dp": 32}),
    (DENSE, {}, {"dp": 32, "zero": 1, "shard": 8}),
    (DENSE, {}, {"dp": 16, "tp": 2, "zero": 1, "offload": "optimizer"}),
    (DENSE, {"offload_layers": 4}, {"dp": 32, "zero": 1}),
    (EXPERTS, {}, {"dp": 32, "zero": 1, "shard": 32}),
    (EXPERTS, {}, {"dp": 32, "ep": 2, "zero": 1, "shard": 8}),
    (EXPERTS, {}, {"dp": 32, "zero": 3}),
    (EXPERTS, {}, {"dp": 16, "cp": 2}),
    (EXPERTS, {}, {"pp": 4, "dp": 8, "ep": 8}),
    (EXPERTS, {}, {"dp": 16, "cp": 2, "ep": 4}),
    (EXPERTS, {}, {"pp": 2, "cp": 4, "dp": 4, "ep": 4, "order": PIPELINE_INSIDE}),
]


@pytest.mark.parametrize(("job", "recipe", "layout"), RUNS)
def test_layouts_that_megatron_runs_are_not_refused(
    job: Job, recipe: dict[str, object], layout: dict[str, object]
) -> None:
    """The same words where the rule does not hold."""
    read = flags(replace(job, recipe=job.recipe.having(**recipe)), **layout)
    assert ("use-tp-pp-dp-mapping" in read) == ("order" in layout)
    assert read["expert-model-parallel-size"] == str(layout.get("ep", 1))


def test_latent_attention_exports_a_supporting_kernel() -> None:
    read = flags(of({"attention": LATENT, "hidden": 4096, "rotary": Rotary()}), dp=32)
    assert read["attention-backend"] == "fused"
    assert read["rope-type"] == "rope"
    assert read["no-rope-fusion"] == "true"
    assert read["kv-channels"] == "192", "28 heads do not divide 4,096"
    yarn = flags(Job(model("deepseek-v3"), Recipe(seq=1024, batch=32), 32), dp=32, zero=1)
    assert (yarn["attention-backend"], yarn["rope-type"]) == ("fused", "yarn")
    assert not {"no-rope-fusion", "kv-channels"} & set(yarn)
    assert "no-rope-fusion" not in flags(DENSE, dp=32)
    assert flags(of({"attention": LATENT}, flash_attention=False), dp=32)["attention-backend"] == "unfused"


@pytest.mark.parametrize(
    ("job", "modules", "given"),
    [
        (DENSE, ("core_attn", "mla_up_proj", "moe_act"), "--recompute-modules core_attn\n"),
        (EXPERTS, ("mla_up_proj", "moe_act"), "--recompute-modules moe_act\n"),
        (DENSE, ("mlp", "moe_act"), "--recompute-modules mlp\n"),
        (EXPERTS, ("mlp", "moe_act"), "--recompute-modules moe_act\n"),
        (EXPERTS, ("core_attn", "layernorm"), "--recompute-modules core_attn layernorm\n"),
        (DENSE, ("mla_up_proj", "moe_act"), ""),
    ],
)
def test_exports_do_not_recompute_missing_modules(job: Job, modules: tuple[str, ...], given: str) -> None:
    recipe = replace(job.recipe, recompute_modules=modules)
    written = text(replace(job, recipe=recipe), dp=32, recompute="selective")
    assert given in written
    assert ("--recompute-granularity selective\n" in written) == bool(given)
    assert ("recompute" in written) == bool(given)


def test_squared_relu_is_not_fused_with_its_bias() -> None:
    read = flags(of(BIASED), dp=32)
    assert "disable-bias-linear" not in read
    assert read["squared-relu"] == read["no-bias-gelu-fusion"] == "true"
    assert "no-bias-gelu-fusion" not in flags(Job(model("gpt2"), Recipe(seq=1024, batch=32), 32), dp=32)


def test_linear_rope_scaling_by_one_is_omitted() -> None:
    read = flags(of({"rotary": Rotary(scaling="linear")}), dp=32)
    assert read["rotary-base"] == "10000"
    assert "rotary-seq-len-interpolation-factor" not in read


def test_tensor_parallel_overlap_is_exported_to_megatron() -> None:
    sentence = "# --overlap-tp none has no flag"
    assert sentence in text(of({}, overlap_tp="none"), tp=8, dp=4)
    assert sentence not in text(of({}, overlap_tp="none"), dp=32)
    assert sentence not in text(DENSE, tp=8, dp=4)
    assert "tp-comm-overlap" not in flags(of({}, overlap_tp="all"), dp=32)
    assert "tp-comm-overlap" in flags(of({}, overlap_tp="all"), tp=8, dp=4, sequence_parallel=True)
    refused(of({}, overlap_tp="all"), "without sequence parallelism", tp=8, dp=4)


def test_no_search_runs_for_a_model_that_megatron_cannot_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would go through every layout of the space."""
    stretched = of({"rotary": Rotary(scaling="llama3", factor=32.0, original_positions=8192)})
    monkeypatch.setattr(sys.modules[plan.__module__], "search", lambda *_, **__: pytest.fail("it searched"))
    assert best_for("megatron", found(stretched, Layout(dp=32))) is None
    images = Job(model("resnet50"), Recipe(seq=1, batch=256), 32)
    assert best_for("megatron", found(images, Layout(dp=32))) is None


def test_tokens_that_cross_to_a_node_once_are_dispatched_by_deepep() -> None:
    layout, limited = {"pp": 8, "dp": 4, "ep": 4, "zero": 1}, Job(model("deepseek-v3"), Recipe(seq=1024, batch=32), 32)
    copied = replace(limited, recipe=replace(limited.recipe, exchange="copy"))
    asked = replace(EXPERTS, recipe=replace(EXPERTS.recipe, exchange="node"))
    for job, once in ((limited, True), (copied, False), (asked, True), (EXPERTS, False)):
        read = flags(job, **layout)
        assert read["moe-token-dispatcher-type"] == ("flex" if once else "alltoall")
        assert ("moe-enable-deepep" in read) == once
    hidden = replace(limited, recipe=replace(limited.recipe, overlap_ep="shared"))
    refused(hidden, "use --exchange copy", **layout)


def test_the_best_that_can_be_exported_keeps_the_rules() -> None:
    """DeepSeek-V3 on 256 devices: the planner's best runs in cells, on 64 ranks of experts that nothing cuts."""
    best = plan(model("deepseek-v3"), cluster("dgx-h100:32"), Recipe(seq=4096, batch=1024)).best
    with pytest.raises(Infeasible):
        export(best, "megatron")
    assert best.layout.ep > 1
    other = best_for("megatron", best)
    assert other is not None
    read = flags_of(export(other.estimate, "megatron"))
    tp, cp, pp, ep = (
        int(read[f"{name}-parallel-size"]) for name in ("tensor-model", "context", "pipeline-model", "expert-model")
    )
    etp = int(read.get("expert-tensor-parallel-size", tp))
    assert 256 % (etp * ep * pp) == 0
    assert (tp, cp, ep, etp) == tuple(getattr(other.estimate.layout, name) for name in ("tp", "cp", "ep", "expert_tp"))
    assert "use-megatron-fsdp" not in read


@pytest.mark.parametrize(("words", "size"), [({}, None), ({"etp": 1}, "1"), ({"etp": 2}, "2"), ({"etp": 4}, "4")])
def test_expert_tensor_parallelism_is_exported(words: dict[str, int], size: str | None) -> None:
    layout = {"tp": 4, "dp": 8, "ep": 8, "sequence_parallel": True} | words
    assert flags(EXPERTS, **layout).get("expert-tensor-parallel-size") == size


def test_offloaded_layers_are_exported() -> None:
    job = replace(DENSE, recipe=replace(DENSE.recipe, offload_layers=4))
    assert int(flags(job, dp=32, zero=1)["cpu-offloading-num-layers"]) == 4
    assert "cpu-offloading-num-layers" not in flags(DENSE, dp=32, zero=1)


@pytest.mark.parametrize(("dp", "cp"), [(2, 2), (1, 4), (4, 1)])
def test_an_offloaded_optimizer_is_exported_where_ranks_share_it(dp: int, cp: int) -> None:
    written = flags(of({}, devices=4), dp=dp, cp=cp, zero=1, offload="optimizer")
    assert "optimizer-cpu-offload" in written
