"""Ways to run the slots of a layer: what the table may say, and what its steps cost by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import device
from lockstep.describe.stacks import find_way, stack, stacks, ways
from lockstep.describe.stacks.ways import read_ways
from lockstep.describe.workload import Transformer, model
from lockstep.price.kernels.clock import OPERATIONS, Clock
from lockstep.price.kernels.slots import OF_LOSS, way_work
from lockstep.price.layout import Recipe, way

STEP = ["read and written 2"]
ALL = [one for named in ways().values() for one in named.values()]
PARTS = [part for one in ALL for part in one.parts.values()]


def clock(name: str = "h100-sxm", software: str = "hf-trainer") -> Clock:
    return Clock.of(device(name), Recipe.by(software, seq=1, batch=1))


def llama(**changes: Any) -> Transformer:
    found = model("llama3-8b")
    assert isinstance(found, Transformer)
    return found


@pytest.mark.parametrize("one", [*ALL, *PARTS], ids=lambda one: f"{one.slot}.{one.name}")
def test_a_way_takes_the_time_of_its_steps(one: Any) -> None:
    """Bytes over the memory's rate, by hand, of a million elements in half precision; and waiting for the host."""
    at, elements = clock(), 1e6
    times = {"library": at.stack.elementwise_factor, "torch": OPERATIONS, "loss": OF_LOSS, "bytes": 1.0}[one.rate]
    rate_Bps = at.device.memory_bandwidth_Bps * at.device.efficiency.stream_frac
    found = way_work(at, one, elements)
    sides = (one.forward, one.slow[0], one.takes[0]), (one.backward, one.slow[1], one.takes[1])
    waits_s = one.numbers.get("idles", 0.0) * at.launches_s[0], 0.0
    for work, (steps, slow, takes), kernels, wait_s in zip(
        (found.forward, found.backward), sides, one.kernels, waits_s, strict=True
    ):
        passes = sum(step.passes * step.times for step in steps) * slow * takes
        assert float(work.stream_s) == pytest.approx(wait_s + passes * 2 * elements * times / rate_Bps, rel=1e-12)
        assert float(work.kernels) == kernels


def test_parts_of_a_way_are_counted_with_their_own_sizes_and_repeats() -> None:
    at, whole = clock(), find_way("adapters", "fp32")
    inputs, dropout = (way_work(at, whole.parts[name], 1e6) for name in ("inputs", "dropout"))
    found = way_work(at, whole, 1e6, parts={"inputs": (3e6, 1), "dropout": (1e6, 2), "clamped": (1e6, 1)})
    expected = way_work(at, whole, 1e6) + inputs + dropout + dropout
    assert float(found.forward.stream_s) == pytest.approx(float((expected.forward + inputs.forward * 2).stream_s))
    assert float(found.backward.kernels) == float(expected.backward.kernels)
    assert way_work(at, whole, 1e6, parts={"dropout": (1e6, False)}).forward.kernels == whole.kernels[0]


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.slot}.{one.name}")
def test_every_way_has_a_source(one: Any) -> None:
    assert len(one.source) > 10


def test_every_way_is_used_by_some_stack_or_chosen_by_the_layout() -> None:
    """Losses are options; scores are in one kernel or several by the number of heads; published tables pad experts."""
    had = {one for software in stacks().values() for one in software.ways.values()}
    had |= {find_way("expert_padding", "copied"), *ways()["scores"].values(), *ways()["loss"].values()}
    others = had
    while others := {one.otherwise for one in others if one.otherwise}:
        had |= others
    assert set(ALL) - had == set()


def test_slow_steps_are_as_fast_as_their_bytes_where_memory_is_slow() -> None:
    """A graphics card has fewer bytes for each FLOP/s; kernels that wait for instructions elsewhere keep up there."""
    slow = find_way("norm", "written")
    fast, card = (way_work(clock(name), slow, 1e6).forward.stream_s for name in ("h100-sxm", "rtx-4090"))
    plain = [way_work(clock(name), find_way("norm", "one"), 1e6).forward.stream_s for name in ("h100-sxm", "rtx-4090")]
    assert float(card / plain[1]) < float(fast / plain[0])


@pytest.mark.parametrize(
    ("fields", "trait", "name"),
    [({}, "gate", "apart"), ({"fused_elementwise": True}, "gate", "one"), ({}, "norm_weight", "written"),
     ({"train": "lora:r=8"}, "norm_weight", "one"), ({}, "activation", "one")],
)  # fmt: skip
def test_a_way_falls_back_where_a_trait_is_missing(fields: dict[str, Any], trait: str, name: str) -> None:
    assert way(Recipe.by("hf-trainer", seq=1, batch=1, **fields), llama(), trait).name == name


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"forward": ["3"]}, "is not a step"),
        ({"forward": ["read 3 x"]}, "is not a step"),
        ({"forward": ["read 1e9"]}, "is not a step"),
        ({"forward": [3]}, "is not a step"),
        ({"forward": STEP, "kernels": [1]}, "kernels must be two numbers"),
        ({"forward": STEP, "slow": [1, float("nan")]}, "slow must be two numbers"),
        ({"forward": STEP, "speed": 3}, "key of the way norm.mine 'speed'"),
        ({"forward": STEP, "rate": "torhc"}, "did you mean torch"),
        ({"forward": STEP, "when": ["rmsnrm"], "else": "one"}, "did you mean rmsnorm"),
        ({"forward": STEP, "when": ["rmsnorm"]}, "`when` and `else` together"),
        ({"forward": STEP, "when": ["rmsnorm"], "else": "two"}, "other way of norm.mine 'two'"),
        ({"forward": STEP, "when": ["rmsnorm"], "else": "mine"}, "refer to one another"),
    ],
)
def test_invalid_ways_are_refused_by_name(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_ways({"norm": {"mine": entry}}, ways())


def test_a_stack_with_a_foreign_way_is_as_fast_as_the_foreign_one() -> None:
    other = stack("torchtitan").having(norm="written")
    assert other.ways["norm"] is stack("hf-trainer").ways["norm"]
    assert other.unusual["norm"] == "written"
