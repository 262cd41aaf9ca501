"""No collective on a cluster of the catalog is faster than its links: per rank, and per unit of every level."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Cluster, clusters
from lockstep.show.verbs.words.network import read_network
from lockstep.simulate.collectives import algorithms, bus_bandwidth_Bps, get, ops, times_on_levels

SIZES_B = (1e3, 1e7, 1e9)
STANDARD = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "scatter", "gather")

every_cluster = pytest.mark.parametrize("shelved", clusters(), ids=lambda shelved: shelved.name)


def a_few_units(shelved: Cluster) -> Cluster:
    """Two of the units of the innermost level."""
    return shelved.resized(2 * shelved.devices_per_unit(0))


def must_cross_B(op: str, units: int, unit_ranks: int, size_B: float, in_switch: bool = False) -> float:
    """Bytes that some unit sends, or some unit receives, whoever reduces where; sizes as in nccl-tests.

    A switch that reduces takes every element of every unit once and gives its sum once.
    """
    others = (units - 1) / units
    return {
        "all-reduce": size_B if in_switch else 2 * others * size_B,
        "all-to-all": unit_ranks * others * size_B,
        "broadcast": size_B,
        "reduce": size_B,
    }.get(op, others * size_B)


@every_cluster
def test_no_bytes_cross_a_link_faster_than_its_rate(shelved: Cluster) -> None:
    """The bus bandwidth is that of the bytes of a ring; in a switch that reduces fewer cross."""
    where = a_few_units(shelved)
    node = where.devices_per_unit(0)
    for ranks in {min(2, node), min(8, node)}:
        for op in ops():
            for size_B in SIZES_B:
                rows = lockstep.collective(op, ranks=ranks, size=size_B, cluster=where).comparison.rows
                assert {row.ports for row in rows} == {1}
                for row in rows:
                    in_switch = get(op, row.algorithm).in_switch
                    if op in STANDARD and ranks > 1:
                        crossed_B = must_cross_B(op, ranks, 1, size_B, in_switch)
                        assert crossed_B <= row.time_s * where.levels[0].link.bandwidth_Bps * (1 + 1e-9)
                    if not in_switch:
                        assert row.bus_bandwidth_Bps <= where.levels[0].link.bandwidth_Bps * (1 + 1e-9)


@every_cluster
def test_nothing_crosses_a_level_faster_than_all_its_ports(shelved: Cluster) -> None:
    where = a_few_units(shelved)
    node = where.devices_per_unit(0)
    network, fabric = read_network(2 * node, cluster=where), where.levels[1]
    leaves_Bps = fabric.link.bandwidth_Bps * fabric.links_per_child
    for op in STANDARD:
        for size_B in SIZES_B:
            least_s = must_cross_B(op, 2, node, size_B) / leaves_Bps
            assert min(times_on_levels(op, network.levels, size_B).values()) >= least_s * (1 - 1e-9)
            for name in algorithms(op):
                if get(op, name).ports == 1 and not get(op, name).in_switch:
                    flat_s = get(op, name).price(2 * node, size_B, network.link).time_s
                    rate_Bps = bus_bandwidth_Bps(op, 2 * node, size_B, flat_s)
                    assert rate_Bps <= leaves_Bps / node * (1 + 1e-9), name


@pytest.mark.parametrize("op", STANDARD)
def test_simulations_and_bounds_of_two_nodes_keep_to_the_ports(op: str) -> None:
    found = lockstep.collective(op, ranks=16, size=1e8, cluster="dgx-h100:2", simulate=True)
    rows = found.comparison.rows
    times = [row.time_s for row in rows]
    assert [row.simulated_s for row in rows] == pytest.approx(times, rel=1e-12)
    assert min(times) >= must_cross_B(op, 2, 8, 1e8) / 400e9
    assert all(0 < row.lower_bound_s <= min(times) * (1 + 1e-9) for row in rows)


def test_lower_bounds_hold_where_two_levels_are_equally_fast(tmp_path: Path) -> None:
    """A rank talks over the ports of both levels at once, so it may be faster than either of them."""
    path = tmp_path / "even.yaml"
    link = "link: {latency: 1us, bandwidth: 10GB/s}"
    path.write_text(
        "cluster:\n  name: even\n  device: h100-sxm\n  levels:\n"
        f"    - {{name: node, size: 2, {link}}}\n    - {{name: fabric, size: 2, links: 2, {link}}}\n"
    )
    for op in STANDARD:
        rows = lockstep.collective(op, ranks=4, size=1e8, cluster=path).comparison.rows
        assert all(0 < row.lower_bound_s <= row.time_s * (1 + 1e-12) for row in rows)
    exchange = lockstep.collective("all-to-all", ranks=4, size=1e8, cluster=path, algorithm="direct").comparison.rows[0]
    # Two of the three peers are in the other node: half of the buffer through the rank's own adapter.
    assert exchange.time_s == pytest.approx(2e-6 + 0.5 * 1e8 / 10e9)


def test_algorithms_needing_more_ports_are_skipped_with_a_note_on_a_cluster() -> None:
    found = lockstep.collective("all-reduce", ranks=8, size="1GB", cluster="dgx-h100:1")
    assert "bidirectional-ring" not in [row.algorithm for row in found.comparison.rows]
    assert any("bidirectional-ring needs 2 ports" in line for line in found.assumptions)
    one = lockstep.collective("all-reduce", ranks=8, size="1GB", cluster="dgx-h100:1", algorithm="ring")
    assert not any("bidirectional-ring" in line for line in one.assumptions)
    plain = lockstep.collective("all-reduce", ranks=8, size="1GB", latency="5us", bandwidth="450GB/s")
    assert "bidirectional-ring" in [row.algorithm for row in plain.comparison.rows]


def test_an_algorithm_for_more_ports_than_a_device_has_is_refused() -> None:
    names, where = "ring,bidirectional-ring", "dgx-h100:1"
    with pytest.raises(BadInput, match="needs 2 ports per rank") as caught:
        lockstep.collective("all-reduce", ranks=8, size="1GB", cluster=where, algorithm=names)
    assert caught.value.where == "--algorithm"
    with pytest.raises(BadInput, match="needs 2 ports per rank") as caught:
        lockstep.crossover("all-reduce", ranks=8, cluster=where, between=names)
    assert caught.value.where == "--between"


def test_a_ring_pays_for_reductions_only_on_links_with_a_reduction_cost(tmp_path: Path) -> None:
    """With a reduction cost between nodes only: price = simulation, and 15/16 of the buffer is added at that rate."""
    path, times = tmp_path / "adding.yaml", {}
    for cost in ("", ", reduce_bandwidth: 20GB/s"):
        path.write_text(
            "cluster:\n  name: adding\n  device: h100-sxm\n  levels:\n"
            "    - {name: node, size: 8, link: {latency: 3us, bandwidth: 450GB/s}}\n"
            f"    - {{name: fabric, size: 2, links: 8, link: {{latency: 5us, bandwidth: 50GB/s{cost}}}}}\n"
        )
        rows = lockstep.collective("all-reduce", ranks=16, size=7e8, cluster=path, simulate=True).comparison.rows
        assert [row.simulated_s for row in rows] == pytest.approx([row.time_s for row in rows], rel=1e-12)
        times[cost] = {row.algorithm: row.time_s for row in rows}
    free, paid = times.values()
    # Of what a rank adds in eight channels, an eighth came from the other node; in phases it adds half of an eighth.
    assert paid["ring"] - free["ring"] == pytest.approx(15 / 16 * 7e8 / 8 / 20e9)
    assert paid["hierarchical"] - free["hierarchical"] == pytest.approx(1 / 2 * 7e8 / 8 / 20e9)
