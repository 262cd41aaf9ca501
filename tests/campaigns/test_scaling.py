"""Scaling: every row is the planner's answer for that size; where more devices stop helping; deadline and budget."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from effort import share
from lockstep.decide.campaigns import Scaling, Size

SMALL = ("scaling", "gpt2", "-c", "ethernet-25-v100:8", "--batch", "256")


@pytest.fixture(scope="module")
def strong() -> Scaling:
    return lockstep.scaling("gpt2", "ethernet-25-v100:8", batch=256, tokens="10G", mtbf="12h")


def test_rows_are_the_planners(strong: Scaling) -> None:
    assert [one.devices for one in strong.sizes] == [1, 2, 4, 8, 16, 32, 64]
    for one in strong.sizes:
        best = lockstep.plan("gpt2", "ethernet-25-v100", gpus=one.devices, batch=256, top=1).best
        assert one.estimate.layout == best.layout
        assert one.estimate.step_time_s == best.step_time_s


def test_failures_grow_with_the_devices(strong: Scaling) -> None:
    """The MTBF given is that of the whole cluster's job; one device fails 64 times more rarely."""
    mtbfs = [one.run.mtbf_s for one in strong.sizes if one.run]
    assert mtbfs[-1] == pytest.approx(12 * 3600)
    assert mtbfs[0] == pytest.approx(64 * 12 * 3600)


def test_speedup_efficiency_and_marginal_are_ratios_of_days(strong: Scaling) -> None:
    first = strong.sizes[0]
    for before, one in zip(strong.sizes, strong.sizes[1:], strict=False):
        assert one.speedup == pytest.approx(_days(first) / _days(one))
        assert one.efficiency_frac == pytest.approx(one.speedup / one.devices)
        assert one.marginal_frac == pytest.approx(_days(before) / _days(one) - 1)


def test_larger_sizes_beyond_the_last_helping_one_gain_little(strong: Scaling) -> None:
    last = strong.last_helping
    larger = [one for one in strong.sizes if one.devices > last.devices]
    assert larger, "25 Gbit/s for eight GPUs is too little for GPT-2"
    assert all((one.speedup / last.speedup - 1) / (one.devices / last.devices - 1) < 0.5 for one in larger)
    smaller = [one for one in strong.sizes if one.devices < last.devices]
    for one in smaller:
        gains = [(more.speedup / one.speedup - 1) / (more.devices / one.devices - 1) for more in strong.sizes
                 if more.devices > one.devices]  # fmt: skip
        assert max(gains) >= 0.5


def test_the_serial_share_is_karp_and_flatts(strong: Scaling) -> None:
    last = strong.sizes[-1]
    assert strong.serial_frac == pytest.approx((1 / last.speedup - 1 / 64) / (1 - 1 / 64))


def _days(one: Size | None) -> float:
    assert one is not None
    assert one.run is not None
    return one.run.days


def test_a_deadline_picks_the_fewest_devices_and_a_budget_the_fastest_size(strong: Scaling) -> None:
    middle = strong.sizes[3]
    tight = replace(strong, deadline_s=_days(middle) * 86_400 * 1.001)
    assert tight.for_deadline is middle
    assert replace(strong, deadline_s=1.0).for_deadline is None
    costs = {one.devices: one.run.cost_usd for one in strong.sizes if one.run and one.run.cost_usd}
    for budget in sorted(costs.values()):
        chosen = replace(strong, budget_usd=budget * 1.0001).for_budget
        assert chosen is not None
        assert costs[chosen.devices] <= budget * 1.0001
        paid = [one for one in strong.sizes if costs[one.devices] <= budget * 1.0001]
        assert _days(chosen) == min(_days(one) for one in paid)
    assert replace(strong, budget_usd=0.01).for_budget is None


def test_weak_scaling_keeps_the_batch_per_device() -> None:
    answer = run(*SMALL, "--weak", "--json").json()
    assert {row["batch"] / row["gpus"] for row in answer["rows"]} == {4.0}
    assert answer["serial_frac"] is None
    odd = run("scaling", "gpt2", "-c", "ethernet-25-v100:8", "--batch", "96", "--weak", "--json").json()
    assert [one["gpus"] for one in odd["skipped"]] == [1]


def test_a_critical_batch_makes_weak_scaling_worse() -> None:
    words = ("--weak", "--tokens", "10G", "--json")
    plain, critical = (run(*SMALL, *words, *more).json() for more in ((), ("--critical-batch-tokens", "64k")))
    assert critical["rows"][-1]["efficiency_frac"] < plain["rows"][-1]["efficiency_frac"]


def test_the_table_states_where_more_devices_stop_helping(tmp_path: Path) -> None:
    picture = tmp_path / "scaling.svg"
    words = ("--tokens", "10G", "--mtbf", "1d", "--deadline", "30d", "--budget", "1")
    shown = " ".join(run(*SMALL, *words, "--plot", str(picture)).out.split())
    assert "stops helping: over half of what they add is lost" in shown
    assert "devices are done within 30 d" in shown
    assert "No size is paid for by $1" in shown
    assert picture.read_text().lstrip().startswith("<?xml")


def test_sizes_with_fewer_nodes_than_copies_are_left_out() -> None:
    """Eight nodes of eight devices: four copies stand on four and on eight nodes; what is left is priced as alone."""
    words = {"batch": 256, "tokens": "10G", "mtbf": "12h", "write": "5min"}
    copied = lockstep.scaling("gpt2", "ethernet-25-v100:8", **words, copies=4)
    assert [one.devices for one in copied.sizes] == [32, 64]
    assert {devices for devices, _ in copied.skipped} == {1, 2, 4, 8, 16}
    assert all("--copies: 4 copies need as many nodes" in why for _, why in copied.skipped)
    alone = lockstep.campaign("gpt2", "ethernet-25-v100:8", **words, copies=4)
    assert copied.sizes[-1].run is not None
    assert copied.sizes[-1].run.wall_s == pytest.approx(alone.run.wall_s)
    assert run(*SMALL, "--tokens", "10G", "--copies", "3").refusal().startswith("--copies: 8 nodes do not form")


def test_failure_rates_are_recomputed_for_every_size() -> None:
    """A power feed carries the job whatever its size; devices fail in proportion; a rack takes half of four copies."""
    words = {"batch": 256, "tokens": "10G", "copies": 2, "write": "5min"}
    found = lockstep.scaling("gpt2", "ethernet-25-v100:8", **words, device_mtbf="64d", power_mtbf="1d")
    for one in found.sizes:
        assert one.run is not None
        assert 86_400 / one.run.mtbf_s == pytest.approx(1 + one.devices / 64)
        assert one.run.pattern.hard_frac == pytest.approx(1 / (1 + one.devices / 64))
    racks = lockstep.scaling("gpt2", "ethernet-25-v100:8", **words, rack_mtbf="1d")
    lost = {one.devices: one.run.pattern.hard_frac for one in racks.sizes if one.run}
    assert lost == {16: 1.0, 32: 1.0, 64: 0.0}


@pytest.mark.parametrize(
    ("words", "flag"),
    [(("--deadline", "30d"), "--deadline"), (("--budget", "1000"), "--budget"), (("--tokens", "0"), "--tokens"),
     (("--critical-batch-tokens", "1M"), "--critical-batch-tokens"), (("--scaling-law", "kaplan"), "--scaling-law"),
     (("--tokens", "1G", "--spares", "1"), "--spares"), (("--mtbf", "6h"), "--mtbf"), (("--async", "1"), "--async")],
)  # fmt: skip
def test_bad_input_names_its_flag(words: tuple[str, ...], flag: str) -> None:
    assert run(*SMALL, *words).refusal().startswith(f"{flag}: ")


def test_a_model_too_large_for_every_size_exits_with_1() -> None:
    session = run("scaling", "llama3-405b", "-c", "dgx-h100:1", "--batch", "64", "--json")
    assert session.code == 1
    assert "fits on no part" in session.json()["why"]


def _drawn() -> list[tuple[str, str, dict[str, Any]]]:
    draw = random.Random(6)
    models, machines = ("llama3-8b", "gpt2-xl", "qwen3-4b"), ("dgx-h100:2", "dgx-a100-40gb:4", "ethernet-25-v100:4")
    return [
        (draw.choice(models), draw.choice(machines),
         {"batch": draw.choice((32, 64, 96)), "seq": draw.choice((512, 1024)), "weak": draw.random() < 0.3,
          "tokens": draw.choice((None, "10G"))})
        for _ in range(24)
    ]  # fmt: skip


@pytest.mark.parametrize(("model", "machine", "words"), [
    ("llama3-8b", "dgx-h100:4", {"batch": 64}), *share(_drawn(), 8)
])  # fmt: skip
def test_no_size_is_more_efficient_than_the_best(model: str, machine: str, words: dict[str, Any]) -> None:
    """Where the smallest size recomputes everything, the others were said to be 131 % of what they could be."""
    found = lockstep.scaling(model, machine, **words)
    rates = [1 / one.run.wall_s if one.run else one.estimate.tokens_per_s for one in found.sizes]
    each = [rate / one.devices for rate, one in zip(rates, found.sizes, strict=True)]
    assert [one.efficiency_frac for one in found.sizes] == pytest.approx([one / max(each) for one in each])
    assert max(one.efficiency_frac for one in found.sizes) == 1.0
    assert found.base.efficiency_frac == 1.0
    assert found.to_dict()["base_gpus"] == found.base.devices
    assert found.serial_frac is None or -1e-9 <= found.serial_frac <= 1 + 1e-9
