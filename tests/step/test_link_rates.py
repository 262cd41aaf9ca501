"""No step moves more bytes over a link than its rate allows: bytes counted by hand, of every kind, on every link.

Counted is the least that any algorithm moves for a model whose layers are equal. A gather or scatter of S bytes over n
ranks, g in each of r nodes, takes (r-1)/r S into every node, and (n-1)/n S into every rank: over NVLink all of it
inside one node, and (g-1)/g of it by rings through several nodes, which ask least of NVLink. An all-reduce is two of
them, or inside one node S, as the switch may add. What hides behind compute moves all the same.
"""

from dataclasses import dataclass, field, replace
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe, broken_rules
from lockstep.price.step import price_step
from lockstep.simulate.parallel.context import KINDS
from lockstep.simulate.parallel.data.sharing import SOFTWARE, SYNCS

NODE, NODES = 8, 4
RANKS = NODE * NODES
CLUSTER = cluster(f"dgx-h100:{NODES}")
MEMORY, INNER, OUTER, HOST = "device memory", "NVLink", "fabric", "host"


@dataclass
class Count:
    """Bytes that leave one rank per step, by link; ranks of a group are `stride` apart."""

    moved_B: dict[str, float] = field(default_factory=lambda: dict.fromkeys((MEMORY, INNER, OUTER, HOST), 0.0))

    def group(self, ranks: int, stride: int, gathers: float, size_B: float, sums: bool = False) -> None:
        """`gathers` gathers or scatters of a buffer of `size_B`; an all-reduce (`sums`) counts as two."""
        inside = max(1, min(ranks, NODE // stride))
        nodes = ranks // inside
        by_nvlink = (inside - 1) / inside * (ranks - 1) / ranks
        if nodes == 1:
            by_nvlink = min(0.5, (ranks - 1) / ranks) if sums else (ranks - 1) / ranks
        self.moved_B[INNER] += gathers * by_nvlink * size_B
        self.moved_B[OUTER] += gathers * (nodes - 1) / nodes * size_B / inside

    def exchange(self, ranks: int, stride: int, times: float, size_B: float) -> None:
        """`times` all-to-alls of `size_B` per rank."""
        inside = max(1, min(ranks, NODE // stride))
        self.moved_B[INNER] += times * (inside - 1) / ranks * size_B
        self.moved_B[OUTER] += times * (ranks - inside) / ranks * size_B

    def send(self, ranks: int, stride: int, times: float, size_B: float) -> None:
        """`times` messages to the next rank: between nodes where the group leaves one."""
        self.moved_B[OUTER if ranks * stride > NODE else INNER] += times * size_B


def elements(job: Job, layout: Layout) -> tuple[float, float]:
    """(dense, expert) parameters of the layers that every rank holds at least, by the printed shapes."""
    described = job.model
    assert isinstance(described, Transformer)
    attention, hidden = described.attention, described.hidden
    each = hidden * attention.head_dim * 2 * (attention.heads + attention.kv_heads)
    layers = described.layers // layout.pp
    if described.experts is not None:
        expert = described.experts.experts * 3 * hidden * described.experts.ffn / layout.ep
        return layers * each / layout.tp, layers * expert / layout.tp
    assert described.mlp is not None
    return layers * (each + 3 * hidden * described.mlp.ffn) / layout.tp, 0.0


def counted(job: Job, layout: Layout) -> dict[str, float]:
    """Bytes of a step over every link, of a rank of a stage in the middle."""
    described, recipe = job.model, job.recipe
    assert isinstance(described, Transformer)
    passes = recipe.batch // (layout.dp * layout.micro_batch)
    layers = passes * (described.layers // layout.pp)
    forwards = 2 if layout.recompute == "full" else 1
    token_B = layout.micro_batch * recipe.seq / layout.cp * recipe.element_B
    found = Count()
    found.group(layout.tp, 1, 4 * (forwards + 1) * layers, token_B * described.hidden, not layout.sequence_parallel)
    context(found, job, layout, layers, forwards)
    if described.experts is not None:
        sent_B = token_B * described.hidden * described.experts.top_k / (layout.tp if layout.sequence_parallel else 1)
        found.exchange(layout.ep, layout.tp, 2 * (forwards + 1) * layers, sent_B)
    boundaries = 0 if layout.pp == 1 else (1 if layout.pp == 2 else 2)
    found.send(layout.pp, RANKS // layout.pp, boundaries * passes, token_B * described.hidden / layout.tp)
    dense, expert = elements(job, layout)
    data_parallel(found, recipe, layout, passes, dense)
    down = sharded_times(recipe, layout, passes)[0] >= passes
    owned = dense / (min(layout.shard or RANKS, layout.dp * layout.cp) if layout.zero else 1)
    if layout.offload == "parameters":
        found.moved_B[HOST] = 2 * passes * owned * recipe.parameter_B
    elif layout.offload == "optimizer":
        found.moved_B[HOST] = owned * recipe.gradient_B * (passes if down and layout.zero >= 2 else 1)
    kept_B = passes * recipe.offloaded_of(described.layers // layout.pp) * layer_input_B(described, recipe, layout)
    # Up come parameters in either pass and activations in one; down go activations only.
    found.moved_B[HOST] = max(kept_B, found.moved_B[HOST] + (kept_B if layout.offload == "parameters" else 0.0))
    # Weights are read in both passes at least, and their gradients written in one.
    found.moved_B[MEMORY] = passes * (dense + expert) * (forwards * 2.0 + 2.0 + 2.0)
    return found.moved_B


def layer_input_B(described: Transformer, recipe: Recipe, layout: Layout) -> float:
    """Bytes that a layer keeps at least: its input; without recomputation also the inputs of norms and products."""
    tokens = layout.micro_batch * recipe.seq / layout.cp
    hidden_B = tokens * described.hidden * recipe.element_B / (layout.tp if layout.sequence_parallel else 1)
    return hidden_B if layout.recompute == "full" else 4 * hidden_B


def context(found: Count, job: Job, layout: Layout, layers: int, forwards: int) -> None:
    """Keys and values, or whole heads, among context-parallel ranks."""
    described, recipe, cp = job.model, job.recipe, layout.cp
    assert isinstance(described, Transformer)
    head_B = layout.micro_batch * recipe.seq / cp * recipe.element_B * described.attention.head_dim
    queries, kept = described.attention.heads / layout.tp, max(1, described.attention.kv_heads // layout.tp)
    near = {"ring": 1, "gather": 1, "all-to-all": cp, "mixed": gcd(cp, kept)}[recipe.cp_kind]
    if recipe.cp_kind == "gather":
        found.group(cp, layout.tp, (forwards + 2) * layers, cp * 2 * kept * head_B)
        return
    found.exchange(near, layout.tp, (forwards + 1) * layers, (2 * queries + 2 * max(kept, near)) * head_B)
    far = cp // near
    found.send(far, layout.tp * near, (far - 1) * (forwards + 2) * layers, 2 * kept * head_B)


def sharded_times(recipe: Recipe, layout: Layout, passes: int) -> tuple[int, int]:
    """How often a step scatters all gradients and gathers all parameters; an all-reduce counts as two scatters."""
    synced = recipe.gradient_sync or ("step" if layout.pp > 1 else "micro-batch")
    scatters = 1 if layout.zero == 1 or synced == "step" else passes
    gathered = {"any": 3, "megatron": 3, "fsdp2": 2, "deepspeed": 3, "internevo": 3}[recipe.sharding]
    kept = layout.zero < 3 or not recipe.reshard
    if layout.zero < gathered or (kept and synced == "step"):
        gathers = 1
    else:
        gathers = passes if kept else 2 * passes
    return scatters * (2 if recipe.sharding in ("deepspeed", "internevo") and layout.zero < 3 else 1), gathers


def data_parallel(found: Count, recipe: Recipe, layout: Layout, passes: int, dense: float) -> None:
    """Gradients and gathered parameters, in shard groups and between them."""
    ranks = layout.dp * layout.cp
    gradients_B, parameters_B = dense * recipe.wire_B, dense * recipe.parameter_B
    if layout.zero == 0:
        found.group(ranks, layout.tp, 2, gradients_B, sums=True)
        return
    shard = layout.shard or ranks
    scatters, gathers = sharded_times(recipe, layout, passes)
    found.group(shard, layout.tp, scatters, gradients_B, recipe.sharding in ("deepspeed", "internevo"))
    found.group(shard, layout.tp, gathers, parameters_B)
    found.group(ranks // shard, layout.tp * shard, 2, gradients_B / shard, sums=True)


@st.composite
def questions(draw: st.DrawFn, name: str) -> tuple[Job, Cluster, Layout]:
    """A job, hardware whose links are faster or slower than they are, and a layout that keeps the rules."""
    degrees = [1, 2, 4, 8]
    tp, cp, pp = (draw(st.sampled_from(degrees)) for _ in range(3))
    cp, pp = (1 if tp * cp > RANKS else cp), (1 if tp * cp * pp > RANKS else pp)
    dp = RANKS // (tp * cp * pp)
    ep = draw(st.sampled_from([d for d in degrees if dp % d == 0])) if name == "mixtral-8x7b" else 1
    zero, micro_batch = draw(st.integers(0, 3)), draw(st.sampled_from([1, 2]))
    schedules = ["1f1b", "zb-h1", *(["dualpipe"] if ep > 1 else [])] if pp > 1 else ["1f1b"]
    schedule = draw(st.sampled_from(schedules))
    recipe = Recipe(
        seq=draw(st.sampled_from([128, 1024, 8192])),
        batch=dp * micro_batch * 2 * pp * draw(st.sampled_from([1, 4, 64])),
        gradient_B=2.0, overlap_dp=draw(st.booleans()), overlap_pp=draw(st.booleans()),
        overlap_tp=draw(st.sampled_from(["none", "gradients", "all", "async"])),
        overlap_ep=draw(st.sampled_from(["none", "cells", "shared", "passes"])),
        sharding=draw(st.sampled_from(SOFTWARE)),
        cp_kind=draw(st.sampled_from(KINDS)),
        gradient_sync=draw(st.sampled_from((None, *SYNCS))), reshard=draw(st.booleans()),
        offload_layers=draw(st.sampled_from([0, 0, 1, 2, "all"])),
    )  # fmt: skip
    layout = Layout(
        tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, zero=zero, micro_batch=micro_batch, schedule=schedule,
        vpp=2 if schedule == "dualpipe" else 1, recompute=draw(st.sampled_from(["none", "full"])),
        sequence_parallel=tp > 1 and (ep > 1 or name == "mixtral-8x7b" or draw(st.booleans())),
        shard=draw(st.sampled_from([0, *(d for d in degrees if (dp * cp) % d == 0)])) if ep == 1 else 0,
        offload=draw(st.sampled_from(["none", "optimizer", "parameters"] if zero == 3 else ["none", "optimizer"])),
    )  # fmt: skip
    factors = [draw(st.sampled_from([0.03, 0.3, 1.0, 10.0])) for _ in CLUSTER.levels]
    levels = tuple(
        replace(level, link=replace(level.link, bandwidth_Bps=factor * level.link.bandwidth_Bps))
        for level, factor in zip(CLUSTER.levels, factors, strict=True)
    )
    return Job(model(name), recipe, RANKS), replace(CLUSTER, levels=levels), layout


def check_every_link(job: Job, hardware: Cluster, layout: Layout) -> None:
    """That the step takes as long as every link needs for its bytes."""
    step_s = float(price_step(job, hardware, layout.grid()).step_time_s)
    rates_Bps = {
        MEMORY: hardware.device.memory_bandwidth_Bps,
        INNER: hardware.bandwidth_per_device_Bps(0),
        OUTER: hardware.bandwidth_per_device_Bps(1),
        HOST: hardware.host_bandwidth_Bps,
    }
    least_s = {link: moved_B / rates_Bps[link] for link, moved_B in counted(job, layout).items()}
    assert step_s >= max(least_s.values()), least_s


@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b"])
@given(st.data())
def test_no_link_carries_more_than_its_rate_allows(name: str, data: st.DataObject) -> None:
    job, hardware, layout = data.draw(questions(name))
    if not any(bool(broken.any()) for broken in broken_rules(layout.grid(), job).values()):
        check_every_link(job, hardware, layout)


@given(
    st.sampled_from([512, 2048, 4096, 8192]),
    st.sampled_from([0.03, 0.05, 0.1, 0.15, 0.3]),
    st.sampled_from(["gradients", "all"]),
    st.sampled_from(
        [("llama3-70b", {"tp": 4, "dp": 2, "pp": 4}), ("mixtral-8x7b", {"tp": 2, "dp": 4, "pp": 4, "ep": 4})]
    ),
    st.integers(1, 3),
)
def test_two_kinds_of_traffic_do_not_hide_in_the_same_seconds_of_a_link(
    seq: int, factor: float, overlap_tp: str, where: tuple[str, dict[str, int]], zero: int
) -> None:
    """Tensor-parallel, data-parallel and expert traffic inside one node, each short enough to hide were it alone."""
    name, degrees = where
    inner = CLUSTER.levels[0]
    slow = replace(inner, link=replace(inner.link, bandwidth_Bps=factor * inner.link.bandwidth_Bps))
    hardware = replace(CLUSTER, levels=(slow, *CLUSTER.levels[1:]))
    recipe = Recipe(
        seq=seq,
        batch=degrees["dp"] * 64,
        gradient_B=2.0,
        overlap_tp=overlap_tp,
        overlap_pp=True,
        gradient_sync="micro-batch",
    )
    schedule, chunks = ("dualpipe", 2) if "ep" in degrees else ("1f1b", 1)
    layout = Layout(zero=zero, sequence_parallel=True, schedule=schedule, vpp=chunks, **degrees)
    check_every_link(Job(model(name), recipe, RANKS), hardware, layout)
