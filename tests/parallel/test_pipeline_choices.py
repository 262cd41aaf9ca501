"""Stage partition against brute force; the memory-utilisation front; the fewest micro-batches for a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput, Infeasible
from lockstep.simulate.parallel import pipeline as pipelines

examples = settings(max_examples=50, derandomize=True, deadline=None)


@examples
@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.data())
def test_the_partition_is_optimal(layers: list[int], data: st.DataObject) -> None:
    """Of all splits whose stages hold few enough layers, and only leave those empty that do something else."""
    stages = data.draw(st.integers(1, min(5, len(layers))))
    extra = data.draw(st.lists(st.integers(0, 40), min_size=stages, max_size=stages))
    most = data.draw(st.lists(st.integers(2, 9), min_size=stages, max_size=stages))

    def slowest(cuts: tuple[int, ...]) -> float:
        spans = list(pairwise((0, *cuts, len(layers))))
        if any(not (one == 0) <= b - a <= few for (a, b), one, few in zip(spans, extra, most, strict=True)):
            return math.inf
        return max(sum(layers[a:b]) + one for (a, b), one in zip(spans, extra, strict=True))

    best = min(map(slowest, combinations_with_replacement(range(len(layers) + 1), stages - 1)))
    asked = {"extra_s": extra, "earliest": lambda stage, end: max(0, end - most[stage])}
    if math.isinf(best):
        with pytest.raises(Infeasible, match="fits in memory"):
            pipelines.partition(layers, stages, **asked)
        return
    found = pipelines.partition(layers, stages, **asked)
    assert found.slowest_s == slowest(found.starts[1:-1]) == best
    assert sum(found.sizes) == len(layers)
    assert sum(found.stage_s) == sum(layers) + sum(extra)


@examples
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.integers(6, 9), st.data())
def test_equal_layers_are_spread_evenly(
    devices: int, chunks: int, layer_s: int, layers: int, data: st.DataObject
) -> None:
    """Against every way to put them: first the slowest device, then the slowest chunk."""
    beside = st.lists(st.lists(st.integers(0, 4), min_size=chunks, max_size=chunks), min_size=devices, max_size=devices)
    extra = data.draw(beside)
    places = [(device, chunk) for device in range(devices) for chunk in range(chunks)]
    found = pipelines.spread(layer_s, layers, extra)

    def loads(counts: Sequence[int]) -> dict[tuple[int, int], int]:
        return {at: counts[i] * layer_s + extra[at[0]][at[1]] for i, at in enumerate(places)}

    def slowest(counts: Sequence[int]) -> int:
        return max(sum(one for (at, _), one in loads(counts).items() if at == device) for device in range(devices))

    ways = [
        counts
        for cuts in combinations_with_replacement(range(layers + 1), len(places) - 1)
        if all(
            b > a or extra[device][chunk]
            for (a, b), (device, chunk) in zip(counts_of(cuts, layers), places, strict=True)
        )
        and (counts := [b - a for a, b in counts_of(cuts, layers)])
    ]
    mine = [found[device][chunk] for device, chunk in places]
    assert sum(mine) == layers
    assert slowest(mine) == min(map(slowest, ways))
    same = [
        counts
        for counts in ways
        if all(sum(counts[d * chunks : (d + 1) * chunks]) == sum(found[d]) for d in range(devices))
    ]
    assert max(loads(mine).values()) == min(max(loads(counts).values()) for counts in same)


def counts_of(cuts: tuple[int, ...], layers: int) -> list[tuple[int, int]]:
    """(start, end) of consecutive parts."""
    return list(pairwise((0, *cuts, layers)))


def test_the_stage_with_the_head_gets_fewer_layers() -> None:
    ends = [1.0, *[0.0] * 6, 1.0]
    assert pipelines.partition([1.0] * 30, 8, extra_s=ends).sizes == (3, 4, 4, 4, 4, 4, 4, 3)
    assert pipelines.partition([1.0] * 4, 3, extra_s=[0.0, 0.0, 5.0]).sizes == (2, 2, 0)
    with pytest.raises(BadInput, match="3 layers cannot fill 4 stages"):
        pipelines.partition([1.0] * 3, 4)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("p", [1, 2, 8, 64])
def test_the_fewest_micro_batches_reach_the_target(name: str, target: float, p: int) -> None:
    """m >= e (p - 1) / (1 - e); for p = 8 and 90 % that is 63, not 10."""
    want = max(1, math.ceil(round(target * (p - 1) / (1 - target), 9)))
    assert pipelines.smallest_microbatches(name, p, target) == want


def test_the_fewest_interleaved_micro_batches_form_equal_groups() -> None:
    assert pipelines.smallest_microbatches("interleaved", 8, 0.9, chunks=4) == 16
    assert pipelines.smallest_microbatches("interleaved", 8, 0.9, chunks=2) == 32
    with pytest.raises(Infeasible, match="not 0\\.95"):
        pipelines.smallest_microbatches("1f1b", 8, 0.95, transfer_s=0.5)
    with pytest.raises(BadInput, match="between 0 and 1"):
        pipelines.smallest_microbatches("1f1b", 8, 1.0)


def test_the_front_contains_the_undominated_points() -> None:
    everything = pipelines.points((1, 2, 4, 8), (4, 8, 16, 32), transfer_s=0.01)
    front = pipelines.pareto(everything)

    def beats(a: pipelines.Point, b: pipelines.Point) -> bool:
        no_worse = a.utilization_frac >= b.utilization_frac and a.live_models <= b.live_models
        return no_worse and (a.utilization_frac > b.utilization_frac or a.live_models < b.live_models)

    assert not any(beats(a, b) for a in everything for b in front)
    kept = {(q.utilization_frac, q.live_models) for q in front}
    for point in everything:
        beaten = any(beats(other, point) for other in everything)
        assert beaten or (point.utilization_frac, point.live_models) in kept
    assert [q.live_models for q in front] == sorted(q.live_models for q in front)


@pytest.mark.parametrize("name", pipelines.names())
def test_message_counts_match_the_program(name: str) -> None:
    for p in (1, 2, 3, 4, 6):
        for point in pipelines.points((p,), (12, 24), names=(name,), chunks=(2, 3)):
            answer = pipelines.pipeline(name, p, point.microbatches, chunks=point.chunks, message_B=1.0)
            assert max(answer.sent_B) == point.messages


def test_an_unreachable_target_reports_the_nearest_reachable_value() -> None:
    with pytest.raises(Infeasible, match=r"0\.999993 with 1,048,576 micro-batches, not 0\.999999"):
        pipelines.smallest_microbatches("1f1b", 8, 0.999999)
