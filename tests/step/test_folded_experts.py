"""Experts folded over the ranks of a stage: what they hold, compute and send, counted by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.decide.planner.search import search
from lockstep.decide.planner.space import default_space
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import EXPERTS, kept_tensors, layer_weights, model
from lockstep.price.kernels.layer import expert_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, broken_by, check, layer_parameters
from lockstep.price.layout.kept import piece
from lockstep.price.step import Clock, price_step
from recipes import recipe_by

CLUSTER = cluster("dgx-h100:4")
JOBS = tuple(Job(model(name), recipe_by(seq=4096, batch=128), 32) for name in ("deepseek-v2", "mixtral-8x7b"))


@st.composite
def folded(draw: st.DrawFn) -> tuple[Job, Layout]:
    """A layout that keeps the rules, whose experts are divided in any way."""
    job, degree = draw(st.sampled_from(JOBS)), st.sampled_from([1, 2, 4, 8])
    tp, cp, ep, etp = draw(degree), draw(st.sampled_from([1, 2])), draw(degree), draw(st.sampled_from([0, 1, 2, 4]))
    layout = Layout(tp=tp, cp=cp, ep=ep, etp=etp, dp=32 // (tp * cp), sequence_parallel=tp > 1)
    return (job, layout) if not broken_by(layout, job) else reject()


@settings(max_examples=drawn(60))
@given(folded())
def test_each_expert_is_replicated_over_its_data_group(asked: tuple[Job, Layout]) -> None:
    """The bytes of routed experts on all ranks are edp times those of the model, whatever tp and cp are."""
    job, layout = asked
    assert job.transformer
    weights = [one for one in layer_weights(job.transformer, EXPERTS) if one.trained]
    dense = sum(float(one.per_rank_elems(layout.tp)) for one in weights if one.category != "routed_experts")
    routed = sum(one.elems for one in weights if one.category == "routed_experts")
    held = float(layer_parameters(job, layout.grid())[EXPERTS]) - dense
    edp = 32 / (layout.ep * (layout.etp or layout.tp))
    assert 32 * held == pytest.approx(edp * routed, rel=1e-9)
    assert layout.grid().expert_data_ranks == edp


@settings(max_examples=drawn(60))
@given(folded())
def test_folding_preserves_the_work_and_memory_of_all_experts(asked: tuple[Job, Layout]) -> None:
    """Products of routed experts and what is kept inside them are of T k tokens, however experts are divided."""
    job, layout = asked
    assert job.transformer
    assert job.transformer.experts
    shard = Shard(job.transformer, layout.grid(), job.recipe, Clock(CLUSTER.device, "bf16"))
    alone = Shard(job.transformer, Layout(dp=32).grid(), job.recipe, shard.clock)
    replicas = layout.dp / 32
    each, whole = (expert_work(one).forward.flops for one in (shard, alone))
    assert float(each) == pytest.approx(float(whole) * replicas, rel=1e-9)
    kept, plain = (
        {
            one.name: float(one.size_B)
            for one in kept_tensors(job.transformer, piece(job.recipe, some.grid, job.transformer), EXPERTS)
        }
        for some in (shard, alone)
    )
    assert kept["expert down input"] == pytest.approx(plain["expert down input"] * replicas, rel=1e-9)
    rows = kept["expert input"] / (plain["expert input"] * replicas)
    assert rows == pytest.approx(layout.etp or layout.tp, rel=1e-9), "cut experts keep the rows of all that cut them"


def test_sharded_experts_gather_rows_and_scatter_results() -> None:
    """Two ranks of a node cut each expert: half of the rows of both cross NVLink each way, on top of the exchange."""
    job = JOBS[1]
    one, other = (
        price_step(job, CLUSTER, Layout(tp=2, sequence_parallel=True, dp=16, ep=2, etp=etp).grid()) for etp in (2, 1)
    )
    link, rows = CLUSTER.link_per_device(0), 4096 / 2 * 2
    assert link.copy_Bps
    each_s = link.start_s + link.latency_s + rows * 4096 * 2.0 * (1 / link.bandwidth_Bps + 1 / link.copy_Bps)
    passes = 32 * 128 / 16
    assert float(one.ep_comm_s - other.ep_comm_s) == pytest.approx(passes * 4 * each_s, rel=1e-6)
    assert float(one.tp_comm_s) == float(other.tp_comm_s)


def test_routed_experts_need_no_round_of_the_dense_block() -> None:
    """Attention has the only round of a layer whose tokens go to experts; shared experts have one of their own."""
    layout = Layout(tp=2, sequence_parallel=True, dp=16, ep=2, etp=1).grid()
    for job, rounds in zip(JOBS, (2, 1), strict=True):
        assert job.transformer
        assert job.transformer.experts
        experts = replace(job.transformer.experts, first_dense=0)
        bare = job.recipe.having(overlap_tp="none", gathers_again=False)
        alike = Job(replace(job.transformer, experts=experts), bare, job.devices)
        found = float(price_step(alike, CLUSTER, layout).tp_comm_s)
        link, hidden = CLUSTER.link_per_device(0), job.transformer.hidden
        assert link.copy_Bps
        part_s = 4096 * hidden * 2.0 / 2 * (1 / link.bandwidth_Bps + 1 / link.copy_Bps)
        each_s = 2 * (link.start_s + link.latency_s + part_s)
        passes = job.layers * 128 / 16 * 2
        assert found == pytest.approx(passes * rounds * each_s, rel=1e-6)


def test_grouped_products_pay_for_the_weights_of_every_local_expert() -> None:
    """The same rows over eight times the experts: as many FLOPs, and the bytes of seven more experts' weights."""
    job = JOBS[1]
    assert job.transformer
    assert job.transformer.experts
    clock = Clock(CLUSTER.device, "bf16")
    few, many = (
        expert_work(Shard(job.transformer, Layout(dp=32, ep=ep).grid(), job.recipe, clock)).forward for ep in (8, 1)
    )
    assert float(few.flops) == float(many.flops)
    weights_B = 7 * 3 * 4096 * 14336 * 2.0
    curve = CLUSTER.device.efficiency
    want_s = curve.matmul_bytes_factor * weights_B / CLUSTER.device.memory_bandwidth_Bps
    assert float(many.matmul_s - few.matmul_s) == pytest.approx(want_s, rel=1e-9)


def test_unsharded_experts_over_context_ranks_stay_in_the_node() -> None:
    """Eight experts over two tensor and four context ranks: the exchange crosses no link between nodes."""
    job = JOBS[1]
    inside = Layout(tp=2, cp=4, sequence_parallel=True, dp=4, ep=8, etp=1)
    check(inside, job)
    found = price_step(job, CLUSTER, inside.grid())
    link, size_B = CLUSTER.link_per_device(0), 4096 / 8 * 2 * 4096 * 2.0
    assert link.kept_Bps
    each_s = link.start_s + 7 * link.latency_s + size_B / 8 * (7 / link.bandwidth_Bps + 1 / link.kept_Bps)
    assert float(found.ep_comm_s) == pytest.approx(32 * 32 * 4 * each_s, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"dp": 32, "ep": 64}, "ep*etp = 64*1 does not divide the tp*cp*dp = 32 ranks of a stage"),
        ({"tp": 2, "dp": 16, "sequence_parallel": True, "ep": 8, "etp": 8}, "ep*etp = 8*8 does not divide"),
        ({"dp": 32, "etp": 5}, "etp=5 does not divide the experts' width of 1536; try 4 or 6"),
        ({"pp": 2, "dp": 16, "ep": 4, "order": ("tp", "cp", "ep", "pp", "dp")}, "or choose ep*etp = tp*cp"),
    ],
)
def test_expert_layouts_that_do_not_fold_are_refused(words: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        check(Layout(**words), JOBS[0])  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_a_dense_model_refuses_expert_tensor_parallelism() -> None:
    with pytest.raises(BadInput, match="etp=2 cuts experts, and llama3-8b has none"):
        check(Layout(dp=32, etp=2), replace(JOBS[0], model=model("llama3-8b")))


def test_experts_need_not_divide_the_replicas() -> None:
    """One replica over eight tensor ranks, each of which holds an expert whole."""
    layout = Layout(tp=8, dp=4, ep=8, etp=1, sequence_parallel=True)
    assert not broken_by(layout, JOBS[1])
    assert layout.dp % layout.ep != 0
    assert not broken_by(replace(layout, dp=2, pp=2, ep=16), JOBS[0])


def test_the_search_tries_sharded_and_unsharded_experts_once_each() -> None:
    """Where nothing is cut the two are one layout, counted as such; a dense model has neither."""
    job = JOBS[1]
    space = replace(default_space(job, 8), cp=(1,), ep=(8,), pp=(1,), micro_batch=(1,), recompute=(0,))
    both = search(job, CLUSTER, space, prune=False)
    apart = [search(job, CLUSTER, replace(space, etp=(etp,)), prune=False) for etp in (0, 1)]
    alone = search(job, CLUSTER, replace(space, etp=(1,), tp=(1,)), prune=False)
    assert alone.evaluated == 0
    assert both.evaluated == sum(one.evaluated for one in apart)
    assert both.best[0].step_time_s == min(one.best[0].step_time_s for one in apart if one.best)
    assert default_space(replace(job, model=model("llama3-8b")), 8).etp == (0,)
