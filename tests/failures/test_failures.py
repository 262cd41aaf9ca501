"""What stops a job: rates that add up, correlated events, laws of gaps, copies at peers, the published table."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import hardware
from lockstep.base.errors import BadInput
from lockstep.simulate.failures import (
    Cause,
    Failures,
    Weibull,
    composed,
    copy_time_s,
    finish_probability_frac,
    llama3,
    of_cluster,
    parse_gap_law,
    recoverable_frac,
    survival_frac,
)
from lockstep.simulate.play import Exponential

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
HOUR_S, DAY_S = 3600.0, 86_400.0


def test_llama3_failure_rate_is_one_every_three_hours() -> None:
    """419 unexpected interruptions on 16,384 devices in 54 days: 3.1 h, about 50,700 hours per device."""
    table = llama3()
    assert (table.count, table.devices, table.time_s) == (419, 16_384, 54 * DAY_S)
    assert table.mtbf_s == pytest.approx(3.093 * HOUR_S, rel=1e-4)
    assert table.device_mtbf_s == pytest.approx(50_680 * HOUR_S, rel=1e-3)
    assert all("2407.21783" in row.source for row in table.rows)


def test_llama3_composes_to_itself_and_scales() -> None:
    table = llama3()
    assert table.failures(16_384).mtbf_s == pytest.approx(table.mtbf_s)
    assert table.failures(512).mtbf_s == pytest.approx(table.mtbf_s * 32)
    assert table.failures(512).share_frac("device") == pytest.approx((148 + 72 + 19 + 17 + 6 + 6) / 419)


@pytest.mark.parametrize("devices", [8, 512, 16_384])
def test_causes_grow_with_the_devices_or_their_nodes(devices: int) -> None:
    """A cause counted k times in T on 16,384 devices comes k devices / 16,384 times in T, whatever it strikes."""
    table = llama3()
    for cause in table.failures(devices).causes:
        count = sum(row.count for row in table.rows if row.kind == cause.kind)
        assert cause.units == devices / (1 if cause.kind == "device" else 8)
        assert cause.units / cause.unit_mtbf_s * table.time_s == pytest.approx(count * devices / 16_384)
        assert cause.nodes_lost == (cause.kind in ("device", "node"))


def test_the_catalog_agrees_with_the_table() -> None:
    cluster = hardware.cluster("dgx-h100:2048")
    assert of_cluster(cluster).mtbf_s == pytest.approx(llama3().mtbf_s, rel=1e-3)


@EXAMPLES
@given(st.integers(1, 100_000), st.floats(1e4, 1e10))
def test_devices_alone_divide_the_mtbf(devices: int, unit_s: float) -> None:
    assert composed(devices, device_mtbf_s=unit_s).mtbf_s == pytest.approx(unit_s / devices)


@EXAMPLES
@given(st.lists(st.floats(1e3, 1e9), min_size=1, max_size=6))
def test_rates_add_up_and_more_causes_never_help(units_s: list[float]) -> None:
    parts = [Failures((Cause("node", 1, unit_s),)) for unit_s in units_s]
    whole = sum(parts[1:], parts[0])
    assert whole.rate_per_s == pytest.approx(sum(part.rate_per_s for part in parts))
    assert whole.mtbf_s <= min(units_s) * (1 + 1e-12)


def test_composition_equals_simulated_parts() -> None:
    """The first failure among all parts, drawn part by part, comes after the composed MTBF on average (4 sigma)."""
    found = composed(64, device_mtbf_s=100.0, node_mtbf_s=50.0, rack_mtbf_s=80.0, software_mtbf_s=9.0)
    generator = np.random.default_rng(1)
    first = np.full(20_000, np.inf)
    for cause in found.causes:
        for _ in range(round(cause.units)):
            first = np.minimum(first, generator.exponential(cause.unit_mtbf_s, len(first)))
    assert first.mean() == pytest.approx(found.mtbf_s, abs=4 * found.mtbf_s / math.sqrt(len(first)))


def test_a_rack_is_one_event_that_loses_many_nodes() -> None:
    found = composed(64, devices_per_node=8, nodes_per_rack=4, rack_mtbf_s=1e6, power_mtbf_s=1e7)
    assert [(cause.kind, cause.units, cause.nodes_lost) for cause in found.causes] == [("rack", 2, 4), ("power", 1, 8)]
    shown = found.to_dict()
    assert [row["mtbf_s"] for row in shown["causes"]] == [5e5, 1e7]
    assert 1 / shown["mtbf_s"] == pytest.approx(1 / 5e5 + 1 / 1e7)


def test_without_failure_causes_nothing_fails() -> None:
    assert composed(8).mtbf_s == math.inf
    assert finish_probability_frac(1e9, math.inf) == 1.0
    assert finish_probability_frac(3.0, 1.0) == pytest.approx(math.exp(-3))


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.0, 2.0])
def test_weibull_draws_have_its_mean_and_tail(shape: float) -> None:
    law = Weibull(100.0, shape)
    drawn = law.draw(np.random.default_rng(2), 100_000)
    error = drawn.std() / math.sqrt(len(drawn))
    assert drawn.mean() == pytest.approx(100.0, abs=4 * error)
    tail = law.survival_frac(150.0)
    assert (drawn > 150).mean() == pytest.approx(tail, abs=4 * math.sqrt(tail * (1 - tail) / len(drawn)))


def test_a_weibull_of_shape_one_is_exponential() -> None:
    assert Weibull(100.0, 1.0).survival_frac(30.0) == pytest.approx(math.exp(-0.3))


def test_failure_laws_are_parsed_from_text(tmp_path: Path) -> None:
    trace = tmp_path / "gaps.csv"
    trace.write_text("time_s\n1h\n3h\n2h\n")
    assert parse_gap_law("exponential:mean=3h") == Exponential(3 * HOUR_S)
    assert parse_gap_law("weibull:mean=3h,shape=0.7") == Weibull(3 * HOUR_S, 0.7)
    law = parse_gap_law(f"trace:{trace}")
    assert law.mean_s == 2 * HOUR_S
    assert set(law.draw(np.random.default_rng(0), 100).tolist()) == {HOUR_S, 2 * HOUR_S, 3 * HOUR_S}


@pytest.mark.parametrize(
    "text",
    ["gauss:mean=1", "exponential:", "weibull:mean=3h", "weibull:mean=0,shape=1", "weibull:mean=1h,shape=9999",
     "exponential:mean=0", "trace:nowhere.csv", "weibull:mean=1h,shape=1,x=2"],
)  # fmt: skip
def test_bad_laws_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_gap_law(text, "--law")


@pytest.mark.parametrize(("nodes", "copies"), [(6, 2), (6, 3), (8, 2), (4, 4), (3, 1)])
def test_survival_matches_a_count_of_all_losses(nodes: int, copies: int) -> None:
    groups = [set(range(first, first + copies)) for first in range(0, nodes, copies)]
    for lost in range(nodes + 1):
        outcomes = [
            not any(group <= set(gone) for group in groups) for gone in itertools.combinations(range(nodes), lost)
        ]
        assert survival_frac(nodes, copies, lost) == pytest.approx(sum(outcomes) / len(outcomes), abs=1e-15)


@pytest.mark.parametrize(("nodes", "copies"), [(6, 2), (6, 3), (8, 2), (8, 4), (3, 1)])
@pytest.mark.parametrize("spread", [True, False])
def test_survival_of_neighbour_blocks_matches_a_count_of_all_placements(nodes: int, copies: int, spread: bool) -> None:
    if spread:
        groups = [{first + i * nodes // copies for i in range(copies)} for first in range(nodes // copies)]
    else:
        groups = [set(range(first, first + copies)) for first in range(0, nodes, copies)]
    for lost in range(nodes + 1):
        blocks = [{(start + i) % nodes for i in range(lost)} for start in range(nodes)]
        survived = sum(not any(group <= block for group in groups) for block in blocks) / nodes
        failures = Failures((Cause("rack", 1, 1.0, lost),))
        assert recoverable_frac(failures, nodes, copies, spread=spread) == pytest.approx(survived)


def test_peers_in_other_racks_survive_a_rack() -> None:
    found = composed(512, device_mtbf_s=1e8, rack_mtbf_s=1e7, software_mtbf_s=1e6)
    assert recoverable_frac(found, 64, 2, spread=True) == 1.0
    beside = recoverable_frac(found, 64, 2, spread=False)
    assert beside == pytest.approx(1 - found.share_frac("rack"))
    assert copy_time_s(64e9, 64, 2, 1e9) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [lambda: Cause("ghost", 1, 1.0), lambda: Cause("node", -1, 1.0), lambda: Cause("node", 1, 0.0),
     lambda: Cause("node", 1, 1.0, -1), lambda: composed(0), lambda: composed(8, nodes_per_rack=0),
     lambda: survival_frac(7, 2, 1), lambda: survival_frac(4, 2, 5), lambda: Weibull(0.0, 1.0)],
)  # fmt: skip
def test_bad_input_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput):
        wrong()  # type: ignore[operator]
