"""Vocabulary layers spread over pipeline stages: what each stage holds, does, sends, and what refuses them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model, parameters
from lockstep.price.layout import Job, Layout, Recipe, check, stage_memory, stage_parameters
from lockstep.price.step import compose, price_step, step_timeline
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.group import on_link
from lockstep.simulate.parallel.pipeline.vocabulary import BARRIERS, pieces

LLAMA, SMALL = model("llama3-8b"), model("gpt2")
NODES = cluster("dgx-h100:2")
SPREAD = ("vocab-1", "vocab-2")


class Link:
    latency_s, bandwidth_Bps = 1e-5, 1e10


def job(how: str, known: lockstep.workload.Transformer = LLAMA, **changes: object) -> Job:
    recipe = {"seq": 4096, "batch": 64, "vocab_parallel": how} | changes
    return Job(known, Recipe(**recipe), 16)


@pytest.mark.parametrize("known", [LLAMA, SMALL])
@pytest.mark.parametrize("schedule", ["1f1b", "v-half"])
@pytest.mark.parametrize("tp", [1, 2])
def test_spread_vocabulary_stages_hold_the_model_once(
    known: lockstep.workload.Transformer, schedule: str, tp: int
) -> None:
    """Shares of the vocabulary are rounded up to whole rows; a tied table is not copied to the last stage."""
    layout = Layout(pp=4, dp=4 // tp, tp=tp, schedule=schedule, vpp=2 if schedule == "v-half" else 1)
    asked = job("vocab-2", known)
    held = asked.device_layers(4, layout.placement)
    found = [stage_parameters(asked, layout.grid(), stage, held[stage]) for stage in range(4)]
    whole = [stage_parameters(job("none", known), layout.grid(), stage, held[stage]) for stage in range(4)]
    total = sum(float(one.total_elems) for one in found)
    tables = 1 if known.tied_embeddings else 2
    copies = known.tied_embeddings and schedule == "1f1b"
    rounded = (4 * tp * -(-known.vocab // (4 * tp)) - tp * -(-known.vocab // tp)) * known.hidden / tp
    assert total == pytest.approx(
        sum(float(one.total_elems) for one in whole)
        - copies * -(-known.vocab // tp) * known.hidden + tables * rounded, rel=1e-12
    )  # fmt: skip
    if tp == 1:
        assert total == pytest.approx(parameters(known).total + tables * rounded, rel=1e-12)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.integers(2, 32), st.integers(1, 10**8), st.integers(1, 10**5), st.integers(0, 10**6))
def test_traffic_is_exposed_where_it_takes_longer_than_the_kernels(
    stages: int, size_B: int, tokens: int, kernels_us: int
) -> None:
    """Hand-made: reduce and broadcast of the hidden states both ways, two fp32 numbers per token to all forward."""
    group = on_link(stages, Link())
    kernels_s = kernels_us * 1e-6, kernels_us * 1e-6
    forward, backward = pieces("vocab-2", group, size_B, tokens, kernels_s)
    for one, open_s in zip((forward, backward), pieces("interlaced", group, size_B, tokens, kernels_s), strict=True):
        assert open_s.flows == one.flows
        assert float(open_s.exposed_s) == pytest.approx(sum(float(flow.seconds) for flow in one.flows))
    assert [(flow.op, flow.size_B) for flow in forward.flows] == [
        ("reduce", size_B), ("broadcast", size_B), ("all-reduce", 8 * tokens),
    ]  # fmt: skip
    assert [(flow.op, flow.size_B) for flow in backward.flows] == [("reduce", size_B), ("broadcast", size_B)]
    least_s = 2 * size_B / Link.bandwidth_Bps
    for one in (forward, backward):
        taken_s = sum(float(flow.seconds) for flow in one.flows)
        assert taken_s >= least_s
        assert float(one.exposed_s) == pytest.approx(max(0.0, taken_s - kernels_us * 1e-6))


@pytest.mark.parametrize("how", SPREAD)
def test_each_vocabulary_barrier_keeps_one_more_micro_batch(how: str) -> None:
    layout = Layout(pp=8, dp=2, zero=1)
    plain, spread = job("none"), job(how)
    for stage in range(1, 8):
        alone = float(stage_memory(plain, NODES, layout.grid(), stage).activations_B)
        found = float(stage_memory(spread, NODES, layout.grid(), stage).activations_B)
        live = float(pipelines.get("1f1b").peak_live(8, 32, 1, stage))
        assert found / alone == pytest.approx((live + BARRIERS[how]) / live, rel=1e-12)
        interlaced = float(stage_memory(job("interlaced"), NODES, layout.grid(), stage).activations_B)
        assert interlaced / alone == pytest.approx(1.5, rel=1e-12)


@pytest.mark.parametrize("how", SPREAD)
def test_a_spread_vocabulary_balances_the_stages(how: str) -> None:
    """The pipeline has no heavier end but the final norm, so the step hardly grows with stages' shares of the head."""
    layout = Layout(pp=8, dp=2, zero=1)
    parts = compose(job(how), NODES, layout.grid())
    assert float(np.asarray(parts.first.total_s)) == 0
    assert float(np.asarray(parts.last.total_s)) < 0.01 * float(np.asarray(parts.body.total_s))
    times, alike = {}, replace(NODES, own_rank_spread_frac=0.0)
    for vocab in (128_000, 256_000):
        known = replace(LLAMA, vocab=vocab)
        times[vocab] = [
            float(price_step(job(one, known), alike, layout.grid()).step_time_s) for one in ("none", how)
        ]  # fmt: skip
    assert all(spread_s < whole_s for whole_s, spread_s in times.values())
    (small_s, small_spread_s), (large_s, large_spread_s) = times.values()
    # The head delays the last stage once per micro-batch, its share every stage in each of m + p - 1 turns.
    assert large_spread_s - small_spread_s == pytest.approx((large_s - small_s) / 8 * (32 + 7) / 32, rel=0.02)


def test_waits_for_vocabulary_traffic_count_as_pipeline_traffic() -> None:
    """Over a slow network passes wait for it; the simulated step takes what is priced, and says the same."""
    layout, asked = Layout(pp=16), job("vocab-2", SMALL, seq=1024, batch=32)
    asked = Job(replace(SMALL, layers=16), asked.recipe, 16)
    slow = cluster("dgx-h100:2")
    slow = replace(
        slow, levels=tuple(replace(one, link=replace(one.link, bandwidth_Bps=1e9)) for one in slow.levels)
    )  # fmt: skip
    step = price_step(asked, slow, layout.grid())
    alone = price_step(replace(asked, recipe=replace(asked.recipe, vocab_parallel="none")), slow, layout.grid())
    timeline = step_timeline(asked, slow, layout)
    assert step.pp_comm_s > 2 * alone.pp_comm_s > 0
    assert timeline.makespan_s == pytest.approx(float(step.step_time_s), rel=1e-9)
    names = {timeline.program.name(int(label)) for label in timeline.program.label if label >= 0}
    assert {"pp broadcast (16 ranks, fabric)", "pp reduce (16 ranks, fabric)"} <= names


@pytest.mark.parametrize(
    ("known", "changes", "words"),
    [
        ("deepseek-v3", {"pp": 4, "dp": 4}, "modules of multi-token prediction"),
        ("llama3-8b", {"pp": 4, "dp": 4, "stages": (8, 8, 8, 8)}, "drop --stages"),
        ("llama3-8b", {"pp": 4, "dp": 4, "schedule": "chimera", "vpp": 2}, "not known for chimera"),
        ("mixtral-8x7b", {"pp": 4, "dp": 4, "schedule": "dualpipe", "vpp": 2}, "not known for dualpipe"),
        ("llama3-8b", {"pp": 4, "dp": 4, "schedule": "zb-h1"}, "1f1b alone"),
    ],
)
def test_layouts_that_cannot_spread_the_vocabulary_are_refused(
    known: str, changes: dict[str, object], words: str
) -> None:
    how = "interlaced" if words == "1f1b alone" else "vocab-2"
    with pytest.raises(BadInput, match=words):
        check(Layout(**changes), Job(model(known), Recipe(seq=4096, batch=64, vocab_parallel=how), 16))


def test_one_stage_spreads_nothing() -> None:
    layout = Layout(dp=16)
    assert price_step(job("vocab-1"), NODES, layout.grid()) == price_step(job("none"), NODES, layout.grid())
    with pytest.raises(BadInput, match="vocab-parallel"):
        lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, dp=16, vocab_parallel="vocab-1")
    with pytest.raises(BadInput, match="vocabulary parallelism"):
        job("vocab-3")
