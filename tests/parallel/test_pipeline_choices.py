"""Stage partition against brute force; the memory-utilisation front; the fewest micro-batches for a target."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.errors import BadInput, Infeasible
from lockstep.parallel import pipeline as pipelines

examples = settings(max_examples=50, derandomize=True, deadline=None)


@examples
@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.data())
def test_partition_is_the_best_of_all(layers: list[int], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(layers)))
    first, last = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    found = pipelines.partition(layers, stages, first_s=first, last_s=last)

    def slowest(cuts: tuple[int, ...]) -> int:
        sums = [sum(layers[a:b]) for a, b in pairwise((0, *cuts, len(layers)))]
        sums[0] += first
        sums[-1] += last
        return max(sums)

    assert found.slowest_s == min(map(slowest, combinations(range(1, len(layers)), stages - 1)))
    assert slowest(found.starts[1:-1]) == found.slowest_s
    assert sum(found.sizes) == len(layers)
    assert min(found.sizes) >= 1
    assert sum(found.stage_s) == sum(layers) + first + last


def test_partition_gives_the_stage_with_the_head_fewer_layers() -> None:
    assert pipelines.partition([1.0] * 30, 8, first_s=1.0, last_s=1.0).sizes == (3, 4, 4, 4, 4, 4, 4, 3)
    with pytest.raises(BadInput, match="3 layers cannot fill 4 stages"):
        pipelines.partition([1.0] * 3, 4)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("p", [1, 2, 8, 64])
def test_fewest_micro_batches(name: str, target: float, p: int) -> None:
    """m >= e (p - 1) / (1 - e); for p = 8 and 90 % that is 63, not 10."""
    want = max(1, math.ceil(round(target * (p - 1) / (1 - target), 9)))
    assert pipelines.smallest_microbatches(name, p, target) == want


def test_fewest_micro_batches_are_a_multiple_of_the_stages_when_interleaved() -> None:
    assert pipelines.smallest_microbatches("interleaved", 8, 0.9, chunks=4) == 16
    assert pipelines.smallest_microbatches("interleaved", 8, 0.9, chunks=2) == 32
    with pytest.raises(Infeasible, match="not 0\\.95"):
        pipelines.smallest_microbatches("1f1b", 8, 0.95, transfer_s=0.5)
    with pytest.raises(BadInput, match="between 0 and 1"):
        pipelines.smallest_microbatches("1f1b", 8, 1.0)


def test_front_is_what_no_point_beats() -> None:
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
def test_messages_counted_from_the_program(name: str) -> None:
    for p in (1, 2, 3, 4, 6):
        for point in pipelines.points((p,), (12, 24), names=(name,), chunks=(2, 3)):
            answer = pipelines.pipeline(name, p, point.microbatches, chunks=point.chunks, message_B=1.0)
            assert max(answer.sent_B) == point.messages


def test_a_target_out_of_reach_is_told_apart_from_what_is_reached() -> None:
    with pytest.raises(Infeasible, match=r"0\.999993 with 1,048,576 micro-batches, not 0\.999999"):
        pipelines.smallest_microbatches("1f1b", 8, 0.999999)
