"""Every number that a rule of the guide gives is recomputed from its definition, and its sentence says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from lockstep.base.units import format_bandwidth, format_frac, format_size
from lockstep.decide.planner.guide import guide
from lockstep.decide.planner.guide.draft import Draft
from lockstep.decide.planner.roofline import roofline
from lockstep.describe.workload import parameters
from lockstep.price.layout import Layout
from lockstep.show.verbs.words.question import read_question

PANEL = [
    ("gpt2", "dgx-a100-40gb:1", 64, None),
    ("llama3-8b", "ethernet-25-v100:4", 32, None),
    ("llama2-7b", "dgx-a100-40gb:64", 96, None),
    ("llama3-8b", "dgx-h100:8", 64, 1048576),
    ("gpt3-175b", "dgx-a100-80gb:128", 1536, None),
    ("mixtral-8x7b", "dgx-h100:16", 512, None),
    ("deepseek-v2", "hgx-h800:32", 1024, None),
    ("palm-540b", "tpu-v5e:512", 4096, None),
    ("llama3-405b", "dgx-h100:1", 8, None),
]
Numbers = Mapping[str, float]


def one_device(before: Draft, after: Draft, numbers: Numbers) -> None:
    held = before.change(recompute="full").memory
    assert numbers["states_B"] == held.parameters_B + held.gradients_B + held.optimizer_B
    assert numbers["rest_B"] == pytest.approx(float(held.activations_B + held.buffers_B))
    assert numbers["capacity_B"] == before.cluster.device.memory_B


def experts(before: Draft, after: Draft, numbers: Numbers) -> None:
    counted = parameters(before.job.model)
    resting = {"experts": before.job.num_experts, "resting_frac": (counted.total - counted.active) / counted.total}
    assert numbers == (pytest.approx(resting) if before.job.num_experts else {})


def width(before: Draft, after: Draft, numbers: Numbers) -> None:
    short = replace(before, job=replace(before.job, recipe=replace(before.job.recipe, seq=1)))
    assert numbers["weights_B"] == short.thinnest().memory_B
    assert numbers["capacity_B"] == before.cluster.device.memory_B


def context(before: Draft, after: Draft, numbers: Numbers) -> None:
    held = before.thinnest().memory
    assert numbers["sequence_B"] == float(held.activations_B + held.buffers_B)
    assert (numbers["total_B"], numbers["capacity_B"]) == (float(held.total_B), held.capacity_B)


def batch(before: Draft, after: Draft, numbers: Numbers) -> None:
    devices, sequences = before.job.devices, before.job.recipe.batch
    assert (numbers["batch"], numbers["replicas_at_most"]) == (sequences, math.gcd(devices, sequences))
    if "devices_per_replica" in numbers:
        assert numbers["devices_per_replica"] * after.layout.dp == devices


def node(before: Draft, after: Draft, numbers: Numbers) -> None:
    cluster, levels = before.cluster, len(before.cluster.levels)
    assert numbers == {
        "tp": before.layout.tp,
        "node": min(cluster.levels[0].size, before.job.devices),
        "inner_Bps": cluster.bandwidth_per_device_Bps(0),
        "outer_Bps": cluster.bandwidth_per_device_Bps(levels - 1),
    }


def sharding(before: Draft, after: Draft, numbers: Numbers) -> None:
    zero = int(before.layout.dp * before.layout.cp > 1)
    assert numbers["zero1_B"] == before.change(zero=zero, recompute="selective").memory_B
    assert numbers["capacity_B"] == before.cluster.device.memory_B
    if "zero3_B" in numbers:
        assert numbers["zero3_B"] <= numbers["capacity_B"]
        assert numbers["zero3_B"] in [
            before.change(zero=3, recompute=each).memory_B for each in ("none", "selective", "full")
        ]


def recomputation(before: Draft, after: Draft, numbers: Numbers) -> None:
    assert numbers == {f"{each}_B": before.change(recompute=each).memory_B for each in ("none", "selective", "full")}
    assert numbers["none_B"] >= numbers["selective_B"] >= numbers["full_B"]


def micro_batch(before: Draft, after: Draft, numbers: Numbers) -> None:
    assert numbers["micro_batch"] == after.layout.micro_batch >= before.layout.micro_batch
    assert numbers["accumulated"] == after.job.recipe.batch // (after.layout.dp * after.layout.micro_batch)
    assert numbers["memory_B"] == after.memory_B


def network(before: Draft, after: Draft, numbers: Numbers) -> None:
    if not numbers:
        return
    for key, draft in (("traffic_share", before), ("staged_traffic_share", after)):
        if key in numbers:
            levels = roofline(draft.job, draft.cluster, draft.layout).levels[1:]
            assert numbers[key] == pytest.approx(max(one.share for one in levels))
    assert numbers.get("staged_traffic_share", 0) <= numbers["traffic_share"]


def bubble(before: Draft, after: Draft, numbers: Numbers) -> None:
    stages, each = before.layout.pp, before.microbatches
    assert (stages == 1) == (not numbers)
    if stages > 1:
        assert numbers["microbatches"] == each
        assert numbers["bubble_frac"] == pytest.approx((stages - 1) / (each + stages - 1))
    if "interleaved_bubble_frac" in numbers:
        left = (stages - 1) / (after.layout.vpp * each + stages - 1)
        assert numbers["interleaved_bubble_frac"] == pytest.approx(left)


ORACLES: dict[str, Callable[[Draft, Draft, Numbers], None]] = {
    "one device": one_device, "experts": experts, "width": width, "context": context, "batch": batch, "node": node,
    "sharding": sharding, "recomputation": recomputation, "micro-batch": micro_batch, "network": network,
    "bubble": bubble,
}  # fmt: skip
SHOWN = {"_B": format_size, "_frac": format_frac, "_Bps": format_bandwidth}
UNSAID = {"capacity_B", "zero3_traffic_share"}


@pytest.mark.parametrize("case", PANEL, ids=lambda case: f"{case[0]} on {case[1]}")
def test_numbers_of_a_rule_match_its_definition_and_sentence(case: tuple[str, str, int, int | None]) -> None:
    name, machine, batch_, seq = case
    asked = read_question(name, machine, batch=batch_, seq=seq)
    found = guide(asked.model, asked.cluster, asked.recipe)
    assert {rule.name for rule, _ in found.findings} == set(ORACLES)
    before = Draft(found.job, found.cluster, Layout(dp=found.job.devices))
    for rule, finding in found.findings:
        ORACLES[rule.name](before, finding.draft, finding.numbers)
        for key, number in finding.numbers.items():
            for ending, shown in SHOWN.items():
                if key.endswith(ending) and key not in UNSAID:
                    assert shown(number) in finding.because, (rule.name, key)
        before = finding.draft
    assert found.layout == before.layout
