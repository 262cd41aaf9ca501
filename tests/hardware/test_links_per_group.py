"""A collective that uses fewer links of a node than its ranks have a share of."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import price_step

PORT_Bps = 12.5e9 * 0.9


def limited(links: int | None) -> Cluster:
    """Four nodes of eight devices with four ports each, of which a collective uses so many."""
    found = cluster("jean-zay-a100:4")
    node, fabric = found.levels
    return replace(found, levels=(node, replace(fabric, links_per_group=links)))


def rate_Bps(machine: Cluster, members: int) -> float:
    """Bytes per second of a whole group with so many members in each of four nodes."""
    return members * float(np.asarray(machine.group_levels([members, 4])[1][2]))


@pytest.mark.parametrize(("members", "ports"), [(8, 1.0), (4, 1.0), (2, 1.0), (1, 0.5)])
def test_one_group_gets_one_port_or_its_share_of_all(members: int, ports: float) -> None:
    assert rate_Bps(limited(1), members) == pytest.approx(ports * PORT_Bps)


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_as_many_ports_as_there_are_limit_nothing(members: int) -> None:
    assert rate_Bps(limited(4), members) == rate_Bps(limited(None), members)


def test_groups_side_by_side_fill_all_ports() -> None:
    """Two groups of four use two ports, four groups of two all four."""
    assert 2 * rate_Bps(limited(1), 4) == pytest.approx(2 * PORT_Bps)
    assert 4 * rate_Bps(limited(1), 2) == pytest.approx(4 * PORT_Bps)


def test_the_benchmark_of_the_machine_is_met() -> None:
    """All-reduce of 4 GB over 4 nodes: 10.6 GB/s were measured, of four ports of 12.5 GB/s."""
    assert rate_Bps(cluster("jean-zay-a100:4"), 8) == pytest.approx(10.6e9, rel=0.1)


def test_a_step_waits_as_much_longer_for_gradients() -> None:
    job = Job(model("llama2-7b"), Recipe(seq=2048, batch=64).having(overlap_dp=False), 32)
    one, all_ports = (price_step(job, limited(links), Layout(dp=32).grid()) for links in (1, None))
    ratio = float(np.asarray(one.dp_comm_s / all_ports.dp_comm_s).item())
    assert 2.0 < ratio <= 4.0


def test_no_link_is_no_number_of_links() -> None:
    with pytest.raises(BadInput, match="links_per_group"):
        limited(0)
