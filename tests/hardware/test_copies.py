"""What collectives lose beside their messages: copies of a rank's own, coarse pieces in a switch, a crowded host."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Cluster, cluster
from lockstep.simulate.collectives import best_on_levels_time_s, get, program_on_levels
from lockstep.simulate.collectives.cost import PlainLink
from lockstep.simulate.collectives.levels import WAYS
from lockstep.simulate.play import simulate

COPYING = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
FILE = """\
links:
  mine: {{latency: 8 us, bandwidth: 200 GB/s, start: 20 us, {words}}}
cluster:
  device: h100-sxm
  levels: [{{name: node, size: 8, link: mine{level}}}, {{name: fabric, size: 2, link: hdr, links: 80}}]
"""


def written(folder: Path, words: str, level: str = "") -> Cluster:
    """A cluster of two nodes of eight whose file says so."""
    path = folder / "mine.yaml"
    path.write_text(FILE.format(words=words, level=level))
    return cluster(path)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_collective_has_its_own_copies_once(ranks: int, tmp_path: Path) -> None:
    where, size_B = written(tmp_path, "copy_bandwidth: 400 GB/s, kept_bandwidth: 300 GB/s"), 64e6
    part_B = size_B / ranks
    message_s = 8e-6 + part_B / 200e9
    expected = {
        "all-reduce": 20e-6 + 2 * (ranks - 1) * message_s + part_B / 400e9,
        "all-gather": 20e-6 + (ranks - 1) * message_s + part_B / 400e9,
        "reduce-scatter": 20e-6 + (ranks - 1) * message_s + part_B / 400e9,
        "all-to-all": 20e-6 + (ranks - 1) * message_s + part_B / 300e9,
    }
    for op, seconds in expected.items():
        assert float(best_on_levels_time_s(op, where.levels_of(ranks), size_B)) == pytest.approx(seconds), op


@pytest.mark.parametrize(("op", "way"), [(op, way) for op in COPYING for way in WAYS[op]])
def test_simulations_of_two_nodes_include_the_copies(op: str, way: str, tmp_path: Path) -> None:
    where = written(tmp_path, "copy_bandwidth: 400 GB/s, kept_bandwidth: 300 GB/s")
    levels = where.levels_of(16)
    priced_s = float(best_on_levels_time_s(op, levels, 64e6, [way]))
    without = written(tmp_path, "achieved: 100%")
    assert priced_s > float(best_on_levels_time_s(op, without.levels_of(16), 64e6, [way]))
    assert simulate(*program_on_levels(op, levels, 64e6, way)).makespan_s == pytest.approx(priced_s, rel=1e-12)


def test_a_switch_is_as_fast_as_its_pieces_are_small() -> None:
    """With pieces of p bytes a segment has n p; two more than there are pass through the switch."""
    found = cluster("dgx-h100", gpus=8).levels[0].link
    assert found.switch is not None
    algorithm, size_B = get("all-reduce", "in-switch"), 8 * 2**20 * 16.0

    def seconds(piece_B: float) -> float:
        switch = replace(found.switch, piece_B=piece_B)
        return float(algorithm.price_time_s(8, size_B, PlainLink(0.0, found.rate_Bps, switch=switch)))

    rate_Bps = found.rate_Bps * found.switch.achieved_frac
    carried_B = 18 / 16 * size_B + 15 / 16 * size_B / 8
    assert seconds(2.0**20) == pytest.approx(25e-6 + (2 * 16 + 1) * 0.6e-6 + carried_B / rate_Bps)
    assert seconds(0.0) <= seconds(2.0**18) < seconds(2.0**20) < seconds(2.0**22)
    assert seconds(2.0**30) == pytest.approx(25e-6 + 4 * 0.6e-6 + 2 * (1 + 1 / 8) * size_B / rate_Bps)


def test_children_of_a_crowded_level_slow_one_another(tmp_path: Path) -> None:
    alone, shared = (written(tmp_path, "achieved: 100%", level) for level in ("", ", crowding: 1"))
    rates = [float(np.asarray(shared.group_levels([n, 1])[0][2])) for n in (1, 2, 4, 8)]
    assert rates == pytest.approx([200e9, 200e9, 100e9, 50e9])
    assert [float(np.asarray(alone.group_levels([n, 1])[0][2])) for n in (2, 8)] == [200e9, 200e9]
    with pytest.raises(BadInput, match="crowding"):
        written(tmp_path, "achieved: 100%", ", crowding: -1")
