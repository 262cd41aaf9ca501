"""Layers placed by hand: against layers that are shared out, and the best ones against all others."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from effort import ALL, drawn
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe, memory, stage_memory
from lockstep.price.step import best_split, compose, step_timeline

CLUSTER = replace(cluster("dgx-h100:4"), own_rank_spread_frac=0.0)
SMALL = model("llama3-8b")
assert isinstance(SMALL, Transformer)
JOB = Job(SMALL, Recipe(seq=4096, batch=64, overlap_device_frac=0.0), 32)


def job_of(layers: int, vocab: int, batch: int = 64) -> Job:
    assert isinstance(SMALL, Transformer)
    return replace(JOB, model=replace(SMALL, layers=layers, vocab=vocab), recipe=replace(JOB.recipe, batch=batch))


@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize(
    ("schedule", "vpp"),
    [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("zb-h1", 1), ("zb-v", 2), ("breadth-first", 2)],
)
def test_explicit_even_placement_takes_as_long_as_the_default(schedule: str, vpp: int, zero: int) -> None:
    """With equal stages only ends differ: every stage moves its own parameters, not the most that one of them holds."""
    even = Layout(pp=4, dp=8, vpp=vpp, schedule=schedule, zero=zero)
    hand = replace(even, stages=(32 // (4 * vpp),) * (4 * vpp))
    one_s, other_s = (step_timeline(JOB, CLUSTER, layout).makespan_s for layout in (even, hand))
    assert other_s == pytest.approx(one_s, rel=5e-3)
    assert other_s <= one_s * (1 + 1e-12)
    held = [float(memory(JOB, CLUSTER, layout.grid()).total_B) for layout in (even, hand)]
    assert held[0] == pytest.approx(held[1], rel=1e-12)


@settings(max_examples=drawn(20))
@given(
    st.integers(4, 9 if ALL else 7),
    st.sampled_from([1_000, 128_256, 1_000_000]),
    st.sampled_from([(2, 1), (4, 1), (2, 2)]),
)
def test_the_best_split_minimises_the_slowest_device(layers: int, vocab: int, shape: tuple[int, int]) -> None:
    """Against every way to place the layers, by the time of layers, embedding and head on each device."""
    pp, vpp = shape
    job, chunks = job_of(layers, vocab), pp * vpp
    plain = Layout(pp=pp, vpp=vpp, dp=32 // pp, schedule="interleaved" if vpp > 1 else "1f1b")

    def slowest_s(stages: tuple[int, ...]) -> float:
        devices = compose(job, CLUSTER, replace(plain, stages=stages).grid()).devices
        return max(float(one.body.total_s + one.extra.total_s) for one in devices)

    spans = [(0, *cuts, layers + 2) for cuts in combinations(range(1, layers + 2), chunks - 1)]
    # Embedding and head count as one place each, so the first and the last stage may have no layers.
    ways = [tuple(b - a - (a == 0) - (b == layers + 2) for a, b in pairwise(span)) for span in spans]
    best = best_split(job, CLUSTER, plain)
    assert slowest_s(best.stages) == pytest.approx(min(map(slowest_s, ways)), rel=1e-9)


def test_a_large_vocabulary_leaves_the_last_stage_fewer_layers() -> None:
    plain = Layout(pp=4, dp=8, zero=1)
    job = job_of(32, 512_000)
    best = best_split(job, CLUSTER, plain)
    assert best.stages[-1] < min(best.stages[:-1])
    assert estimate(job, CLUSTER, best).step_time_s < estimate(job, CLUSTER, plain).step_time_s


def test_the_best_split_fits_in_memory_where_another_does() -> None:
    """The first stages hold most micro-batches; on a device that the quickest split overfills they get fewer layers."""
    job, plain = job_of(32, 128_256), Layout(pp=8, dp=4, micro_batch=2)
    free = best_split(job, CLUSTER, plain)
    needed_B = [float(stage_memory(job, CLUSTER, free.grid(), stage).total_B) for stage in range(8)]
    device = replace(CLUSTER.device, memory_B=max(needed_B) * 0.98)
    tight = replace(CLUSTER, device=device)
    assert not memory(job, tight, free.grid()).fits
    found = best_split(job, tight, plain)
    assert memory(job, tight, found.grid()).fits
    none = replace(CLUSTER, device=replace(device, memory_B=min(needed_B) / 4))
    assert best_split(job, none, plain) == free


def test_stage_lists_are_parsed() -> None:
    asked = {"batch": 64, "pp": 4, "zero": 1}
    given = lockstep.estimate("llama3-8b", "dgx-h100:4", **asked, stages="9,2x8,7").layout
    assert given.stages == (9, 8, 8, 7)
    assert given.split == "9,2x8,7"
    assert lockstep.estimate("llama3-8b", "dgx-h100:4", **asked, stages=(9, 8, 8, 7)).layout == given
    best = lockstep.estimate("llama3-8b", "dgx-h100:4", **asked, stages="best").layout
    assert sum(best.stages) == 32
    for wrong in ("9,8,8", "9,8,8,x", "-1,16,8,9", "1.5,8,8,8", "9,8,8,7m", "worst", ""):
        with pytest.raises(BadInput, match="--stages"):
            lockstep.estimate("llama3-8b", "dgx-h100:4", **asked, stages=wrong)


def test_61_layers_in_16_chunks_with_a_head_and_a_prediction_module_of_their_own() -> None:
    """As NVIDIA runs DeepSeek-V3: three layers behind the embedding, then two in each chunk, the module, the head."""
    asked = {"batch": 1024, "seq": 4096, "pp": 4, "vpp": 4, "ep": 64, "zero": 1}
    for stages, modules in (("5,14x4,0", None), ("13x4,9,2x0", 14), ("best", None)):
        found = lockstep.estimate("deepseek-v3", "dgx-h100:32", **asked, stages=stages, mtp_stage=modules)
        assert sum(found.layout.stages) == 61
        assert found.timeline().makespan_s == pytest.approx(found.step_time_s, rel=1e-9)
    with pytest.raises(BadInput, match="no stage behind them may have layers"):
        lockstep.estimate("deepseek-v3", "dgx-h100:32", **asked, stages="13x4,5,2x2", mtp_stage=13)
