"""Ranges of links: where nobody measured them, at which ends a cluster is priced, and what a file may say."""

from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster, link, links
from lockstep.simulate.collectives import best_on_levels_time_s


def test_unmeasured_links_of_the_catalog_have_a_range() -> None:
    for one in links():
        assumed = one.provenance["achieved_frac"].kind == "assumed"
        low, high = one.range_frac
        assert (low < one.achieved_frac <= high) if assumed else (low == one.achieved_frac == high), one.name
        assert high <= 1


def test_changing_the_share_of_a_link_scales_its_switch() -> None:
    one = link("nvlink4")
    assert one.switch is not None
    half = one.reaching(one.achieved_frac / 2)
    assert half.switch is not None
    assert half.rate_Bps == pytest.approx(one.rate_Bps / 2)
    assert half.switch.achieved_frac == pytest.approx(one.switch.achieved_frac / 2)
    assert half.range_frac == (half.achieved_frac, half.achieved_frac)


def test_a_cluster_can_be_set_to_the_ends_of_its_link_ranges() -> None:
    slow, fast = cluster("cloud-h100:4").links_range
    names = [level.link.range_frac for level in cluster("cloud-h100:4").levels]
    assert [level.link.achieved_frac for level in slow.levels] == [low for low, _ in names]
    assert [level.link.achieved_frac for level in fast.levels] == [high for _, high in names]
    alone = replace(cluster("cloud-h100:1"), host=None)
    assert alone.links_range == (alone, alone)


FILE = """\
links:
  mine: {{latency: 8 us, bandwidth: 200 Gbit/s, achieved: 85%, {ends}}}
cluster: {{device: h100-sxm, levels: [{{name: node, size: 8, link: mine}}]}}
"""


def test_a_file_may_set_the_range_of_a_link(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.format(ends="lowest: 60%, highest: 90%"))
    assert cluster(path).levels[0].link.range_frac == (0.6, 0.9)
    path.write_text(FILE.format(ends="lowest: 90%"))
    with pytest.raises(BadInput, match="must rise"):
        cluster(path)


def test_a_file_may_set_the_start_and_copy_costs_of_collectives(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.format(ends="start: 20 us, copy_bandwidth: 400 GB/s"))
    found = cluster(path)
    joined = found.levels[0].link
    assert (joined.start_s, joined.copy_Bps) == (20e-6, 400e9)
    for ranks in (2, 8):
        messages, part_B = 2 * (ranks - 1), 64e6 / ranks
        ring_s = joined.start_s + messages * (joined.latency_s + part_B / joined.rate_Bps) + part_B / joined.copy_Bps
        assert float(best_on_levels_time_s("all-reduce", found.levels_of(ranks), 64e6)) == pytest.approx(ring_s)
