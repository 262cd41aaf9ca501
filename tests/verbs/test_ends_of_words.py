"""The ends of what words of the library may say: reached they are allowed, a step further they are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.base.errors import BadInput
from lockstep.base.units import parse_size_B
from lockstep.show.verbs import balance, bench, pipeline, plan, rig, speedup, stragglers, train
from lockstep.show.verbs.words import algorithms, failures, processes, question, recipe

LINK: dict[str, Any] = {"latency": 1e-6, "bandwidth": 1e9}
DAY_S, YEAR_S = 86_400, 365.25 * 86_400
Read = Callable[[Any], object]


def sizes(count: int) -> list[int]:
    return bench._sizes(f"1:{2 ** (count - 1)}", parse_size_B)


def straggling(number: int, mitigation: str = "none") -> object:
    return stragglers.stragglers(workers=number, law="constant:value=1s", mitigation=mitigation)


def choices(number: int) -> object:
    return pipeline.pipeline_choices(stages=1, microbatches=number)


def task(steps: int) -> object:
    return train._task([], None, 4, steps, 64, "sgd", None, "float32", 0)


MOST: dict[str, tuple[Read, int, str]] = {
    "seq": (lambda n: question.whole(n, "--seq"), 10**8, "--seq"),
    "batch": (lambda n: question.whole(n, "--batch"), 10**9, "--batch"),
    "devices": (lambda n: question.whole(n, "--gpus"), 10**7, "--gpus"),
    "parameters": (lambda n: question.whole(n, "--params"), 10**13, "--params"),
    "another number": (lambda n: question.whole(n, "--pp"), 10**9, "--pp"),
    "layouts": (lambda n: plan.plan("gpt2", "dgx-a100-40gb:1", batch=64, top=n), 1000, "--top"),
    "ranks of a collective": (lambda n: algorithms.read_group(n, LINK), 10**6, "--ranks"),
    "workers of a speed-up": (lambda n: speedup.speedup(compute=1, size=1e6, workers=n, **LINK), 10**6, "--workers"),
    "simulated runs": (failures.simulated_runs, 100_000, "--campaigns"),
    "layers": (pipeline.few_layers, 4096, "--layers"),
    "sizes": (sizes, 64, "--sizes"),
    "ranks of a rig": (lambda n: rig._group("star", n, 2), 16, "--ranks"),
    "workers that are waited for": (lambda n: straggling(n), 100_000, "--workers"),
    "workers beside those": (lambda n: straggling(100_000, f"backup:{n}"), 100_000, "--mitigation"),
    "speeds": (lambda n: len(balance._list(f"2x1,{n - 2}x3", "--speeds")), 100_000, "--speeds"),
    "micro-batches of a choice": (lambda n: choices(n), 2**16, "--microbatches"),
    "the largest of several": (
        lambda n: pipeline.pipeline_choices(stages=1, microbatches=f"1,{n}"),
        2**16,
        "--microbatches",
    ),
    "steps of training": (lambda n: task(n), 10**6, "--steps"),
}
"""Whole numbers at most: how one is read, the largest, and where a larger one is refused."""


@pytest.mark.parametrize(("read", "most", "where"), MOST.values(), ids=MOST)
def test_the_maximum_is_allowed_and_the_next_number_is_not(read: Read, most: int, where: str) -> None:
    read(most)
    with pytest.raises(BadInput) as caught:
        read(most + 1)
    assert caught.value.where == where


LEAST: dict[str, tuple[Read, int, str]] = {
    "usual": (lambda n: question.whole(n, "--pp"), 1, "--pp"),
    "from nothing": (lambda n: question.whole(n, "--zero", minimum=0), 0, "--zero"),
    "simulated runs, for an interval": (failures.simulated_runs, 2, "--campaigns"),
    "bytes of a benchmark": (lambda n: bench._one(str(n), parse_size_B), 1, "--sizes"),
}


@pytest.mark.parametrize(("read", "least", "where"), LEAST.values(), ids=LEAST)
def test_the_minimum_is_allowed_and_the_previous_number_is_not(read: Read, least: int, where: str) -> None:
    read(least)
    with pytest.raises(BadInput) as caught:
        read(least - 1)
    assert caught.value.where == where


RANGES: dict[str, tuple[Read, float, float, bool, bool]] = {
    "between failures": (lambda x: failures.bounded_mtbf_s(x, "--x"), 1e-3, 1e11, True, True),
    "a time": (lambda x: failures.bounded_time_s(x, "--x"), 0.0, 1e11, True, True),
    "a share": (lambda x: failures.share_frac(x, "--x"), 0.0, 1.0, True, True),
    "a wait": (processes.longest_wait_s, 0.0, 30 * DAY_S, False, True),
    "bytes of a number": (lambda x: recipe._number_B(x, "--x"), 0.0, 8.0, False, True),
    "a delay of the rig": (lambda x: rig._delay_s(x, "--x"), 0.0, 1.0, True, True),
    "a share of the device": (lambda x: recipe._device_frac(x, "--x"), 0.0, 1.0, True, False),
}
"""How a real number is read, its ends, and whether each of them is allowed."""


@pytest.mark.parametrize(("read", "low", "high", "with_low", "with_high"), RANGES.values(), ids=RANGES)
def test_ranges_include_their_bounds_where_stated(
    read: Read, low: float, high: float, with_low: bool, with_high: bool
) -> None:
    read(math.nextafter(low, high))
    read(math.nextafter(high, low))
    for end, allowed in ((low, with_low), (high, with_high)):
        if allowed:
            read(end)
        else:
            with pytest.raises(BadInput):
                read(end)
    for beyond in (math.nextafter(low, -math.inf), math.nextafter(high, math.inf)):
        with pytest.raises(BadInput):
            read(beyond)


def test_times_are_limited_to_the_stated_3_000_years() -> None:
    with pytest.raises(BadInput, match="3,000 years"):
        failures.bounded_time_s(3200 * YEAR_S, "--x")
    failures.bounded_time_s(3000 * YEAR_S, "--x")


@pytest.mark.parametrize(
    ("text", "found"),
    [("4:40", [4, 8, 16, 32]), ("4:32", [4, 8, 16, 32]), ("4:40:3", [4, 12, 36]), ("4:4", [4]), ("9,4,9", [4, 9]),
     ("1KB:16MB:4", [1000 * 4**power for power in range(7)])],
)  # fmt: skip
def test_sizes_grow_by_their_factor_and_double_without_one(text: str, found: list[int]) -> None:
    assert bench._sizes(text, parse_size_B) == found


@pytest.mark.parametrize("text", ["4:8:2:2", "8:4", "4:8:1", "0", "4,,8", "x"])
def test_empty_sizes_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        bench._sizes(text, parse_size_B)
    assert caught.value.where == "--sizes"


@pytest.mark.parametrize("methods", ["synchronous", "parameter-server", "synchronous,parameter-server"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 16, 48])
def test_the_default_batch_is_near_64_and_divides_by_four_per_rank(methods: str, ranks: int) -> None:
    from lockstep.run.train import find_method

    chosen = [find_method(name) for name in methods.split(",")]
    unit = 4 * math.lcm(*(ranks - one.helpers for one in chosen))
    found = train._usual_batch(chosen, ranks)
    multiples = [unit * number for number in range(1, 65)]
    assert abs(found - 64) == min(abs(one - 64) for one in multiples)
    assert found in multiples


@pytest.mark.parametrize("given", [1, 2, 7])
def test_the_default_number_of_ranks_is_two(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert processes.world(given) == given
    assert processes.world(None) == 2


def test_sizes_of_a_rig_are_whole_numbers_of_32_bits_from_one_per_rank_to_16_megabytes() -> None:
    group = rig._group("star", 4, 2)
    assert rig._sizes_B("16,16000000,16", group) == [16, 16_000_000]
    for size_B in (12, 18, 16_000_004):
        with pytest.raises(BadInput) as caught:
            rig._sizes_B(size_B, group)
        assert caught.value.where == "--size"


def test_nodes_of_a_rig_share_its_ranks_evenly() -> None:
    assert (rig._group("uplinks", 8, 2).ranks, rig._group("uplinks", 8, 2).node_ranks) == (8, 4)
    assert rig._group("flat", 8, 3).node_ranks == 8
    for ranks, nodes, where in ((8, 3, "--nodes"), (8, 1, "--nodes"), (1, 2, "--ranks")):
        with pytest.raises(BadInput) as caught:
            rig._group("uplinks", ranks, nodes)
        assert caught.value.where == where


@pytest.mark.parametrize(("text", "found"), [("1,1,2", [1, 1, 2]), ("4x1.5,2x0.8", [1.5] * 4 + [0.8] * 2)])
def test_lists_expand_repeat_counts(text: str, found: list[float]) -> None:
    assert balance._list(text, "--speeds") == found


def test_one_memory_applies_to_all_workers_in_whole_samples() -> None:
    assert balance._most("5", None, 3) == [5, 5, 5]
    assert balance._most("5,6,7", None, 3) == [5, 6, 7]
    assert balance._most("2x10MB,35MB", "10MB", 3) == [1, 1, 3]
    with pytest.raises(BadInput):
        balance._most("1MB", 0, 1)


def test_slow_workers_are_twice_as_slow_by_default() -> None:
    """All of one worker's steps are its own, so that twice as slow is twice the time."""
    usual, said = (
        stragglers.stragglers(workers=1, law="constant:value=1s", slow=1, **words) for words in ({}, {"slow_factor": 3})
    )
    assert usual.mean_step_s == pytest.approx(2)
    assert said.mean_step_s == pytest.approx(3)
