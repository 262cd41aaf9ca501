"""An answer about a cluster has one time per algorithm, over its own levels, in table, picture and trace."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.show.verbs.crossover import best_algorithms
from lockstep.show.verbs.words.network import read_network
from lockstep.show.views import collective as view
from lockstep.simulate.collectives import get, program_on_levels, sent_on_levels, times_on_levels
from lockstep.simulate.collectives.levels import WAYS
from lockstep.simulate.program import Kind

FINDING: dict[str, Any] = {"ranks": 256, "size": "700MB", "cluster": "dgx-a100-80gb:32"}
ONE_LINK: dict[str, Any] = {"ranks": 8, "size": 7e8, "latency": 1e-6, "bandwidth": 1e10}
every_way = pytest.mark.parametrize(("op", "way"), [(op, way) for op, ways in WAYS.items() for way in ways])


@pytest.mark.parametrize("op", WAYS)
def test_each_algorithm_has_one_time_and_the_headline_is_the_fastest(op: str) -> None:
    found = lockstep.collective(op, **FINDING)
    times = {row.algorithm: row.time_s for row in found.comparison.rows}
    assert list(times) == [row["algorithm"] for row in found.to_dict()["rows"]] == list(WAYS[op])
    assert times == times_on_levels(op, read_network(256, cluster=FINDING["cluster"]).levels, 700e6)
    assert times[found.comparison.best] == min(times.values())
    assert all(0 < row.lower_bound_s <= row.time_s * (1 + 1e-12) for row in found.comparison.rows)
    assert not [key for key in found.to_dict() if key.startswith("over_levels")]
    out = Console(file=io.StringIO(), width=110)
    view.render(found, out)
    first, *lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in times]
    assert listed == sorted(times, key=times.__getitem__)
    assert first.startswith(f"{listed[0]} over the cluster's levels: ")
    headline = first.rpartition(": ")[2]
    assert headline in next(line for line in lines if line.split()[:1] == listed[:1])


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_one_node_is_priced_by_its_innermost_level(ranks: int) -> None:
    found = lockstep.collective("all-reduce", ranks=ranks, size="16MB", cluster="dgx-a100-80gb:1")
    levels = cluster("dgx-a100-80gb:1").levels_of(ranks)
    (ring,) = (row.time_s for row in found.comparison.rows if row.algorithm == "ring")
    assert ring == pytest.approx(float(times_on_levels("all-reduce", levels, 16e6)["ring"]), rel=1e-12)


@pytest.mark.parametrize("where", [FINDING, {**FINDING, "ranks": 8}, ONE_LINK])
def test_the_picture_shows_the_times_of_the_table(where: dict[str, Any]) -> None:
    found = lockstep.collective("all-reduce", **where)
    (axes,) = view.plot_sizes(found).axes
    lines = [line for line in axes.lines if len(line.get_xdata()) > 1]
    best = next(row for row in found.comparison.rows if row.algorithm == found.comparison.best)
    assert len(lines) == len(found.comparison.rows)
    names = [str(line.get_label()) for line in lines]
    assert sum("nowhere fastest" in name for name in names) <= 1
    for row, line, name in zip(found.comparison.rows, lines, names, strict=True):
        ports = f" ({row.ports} ports)" if row.ports > 1 else ""
        assert name == row.algorithm + ports or "nowhere fastest" in name or name.startswith("_")
        assert row is not best or name == row.algorithm + ports
        logs = (np.log(np.asarray(data, dtype=np.float64)) for data in line.get_data())
        assert np.interp(np.log(7e8), *logs) == pytest.approx(np.log(row.time_s), abs=0.02)
    (marked,) = [line for line in axes.lines if str(line.get_label()).startswith(f"{best.algorithm} at 668 MiB: ")]
    assert [float(axis[0]) for axis in marked.get_data()] == [7e8, best.time_s]


@every_way
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), size_B=st.sampled_from((10.0, 1e5, 1e9)))
def test_stated_messages_and_bytes_equal_those_of_the_program(
    op: str, way: str, sizes: list[int], size_B: float
) -> None:
    levels = [(size, 1e-6 * (i + 1), 1e10 / (i + 1)) for i, size in enumerate(sizes)]
    program, _ = program_on_levels(op, levels, size_B, way)
    sends = program.kind == Kind.SEND
    level = np.zeros(int(sends.sum()), dtype=np.int64)
    for unit in np.cumprod(sizes)[:-1]:
        level += program.rank[sends] // unit != program.peer[sends] // unit
    sent = sent_on_levels(op, levels, size_B, way)
    counted_B = np.bincount(level, weights=program.size_B[sends], minlength=len(sizes))
    assert [float(over.total_B) for over in sent.over] == pytest.approx(counted_B.tolist(), rel=1e-9)
    counted = np.bincount(level, minlength=len(sizes)).tolist()
    assert [round(float(over.messages)) for over in sent.over] == counted


@every_way
def test_counted_latencies_in_series_equal_those_of_the_price(op: str, way: str) -> None:
    levels = [(8, 1.0, 1e30), (4, 1.0, 1e30)]
    assert sent_on_levels(op, levels, 1.0, way).latency_steps == pytest.approx(times_on_levels(op, levels, 1.0)[way])


def test_single_link_algorithms_are_refused_on_a_cluster_with_the_alternatives() -> None:
    with pytest.raises(BadInput, match=r"rabenseifner is for one link; the ways across .* are ring and hier") as caught:
        lockstep.collective("all-reduce", **FINDING, algorithm="ring,rabenseifner")
    assert caught.value.where == "--algorithm"
    with pytest.raises(BadInput, match="ring and hierarchical") as caught:
        lockstep.crossover("all-reduce", ranks=16, cluster="dgx-h100:2", between="ring,tree")
    assert caught.value.where == "--between"
    with pytest.raises(BadInput, match="gossip has no way across the levels of dgx-a100-80gb") as caught:
        lockstep.collective("gossip", **FINDING)
    assert caught.value.where == "OP"
    with pytest.raises(BadInput, match="at least two different"):
        lockstep.crossover("all-reduce", ranks=16, cluster="dgx-h100:2", between="ring")
    (row,) = lockstep.collective("all-reduce", **FINDING, algorithm="ring").comparison.rows
    assert row.algorithm == "ring"


def test_a_cluster_with_one_level_is_priced_as_one_link() -> None:
    network = read_network(8, cluster="dgx-h100:4")
    rows = lockstep.collective("all-reduce", ranks=8, size="64MB", cluster="dgx-h100:4").comparison.rows
    assert len({row.algorithm for row in rows}) == len(rows) > len(WAYS["all-reduce"])
    assert all(row.time_s == get("all-reduce", row.algorithm).price(8, 64e6, network.link).time_s for row in rows)
    single = lockstep.collective("all-reduce", ranks=4, size="1MB", cluster="workstation-4090:4").comparison.rows
    assert all(row.cross_node_B == row.total_B > 0 for row in single)


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "all-to-all"])
def test_algorithms_tie_at_the_crossover_size(op: str) -> None:
    where: dict[str, Any] = {"ranks": 32, "cluster": "dgx-h100:4"}
    found, levels = lockstep.crossover(op, **where), read_network(**where).levels
    for before, after in zip(found.regions, found.regions[1:], strict=False):
        times = times_on_levels(op, levels, after.from_B)
        assert before.to_B == after.from_B
        assert times[before.best] == pytest.approx(times[after.best], rel=1e-9)
    for region in found.regions:
        middle_B = 2 * region.from_B + 1 if region.to_B is None else (region.from_B + region.to_B) / 2
        assert lockstep.collective(op, size=middle_B, **where).comparison.best == region.best
    drawn = best_algorithms(op, **where)
    assert drawn.ranks == (2, 4, 8, 16, 32)
    for i, ranks in enumerate(drawn.ranks):
        for j in (0, 11, 22):
            times = [
                row.time_s
                for row in lockstep.collective(
                    op, ranks=ranks, size=drawn.sizes_B[j], cluster="dgx-h100:4"
                ).comparison.rows
            ]
            assert drawn.time_s[i, j] == pytest.approx(min(times), rel=1e-12)


@pytest.mark.parametrize("way", [None, *WAYS["all-reduce"]])
def test_the_trace_lasts_as_long_as_the_table_states(way: str | None, tmp_path: Path) -> None:
    words: dict[str, Any] = {"ranks": 16, "size": "100MB", "cluster": "dgx-h100:2", "algorithm": way}
    traced = lockstep.trace("all-reduce", out=tmp_path / "way.json", **words)
    comparison = lockstep.collective("all-reduce", **words).comparison
    best = next(row for row in comparison.rows if row.algorithm == comparison.best)
    assert traced.timeline.makespan_s == pytest.approx(best.time_s, rel=1e-12)


def test_ranks_that_partly_fill_a_level_are_refused(tmp_path: Path) -> None:
    """Levels of 8 x 4 ranks would answer for 32 of 48."""
    path, link = tmp_path / "three.yaml", "link: {latency: 5us, bandwidth: 50GB/s}"
    levels = "".join(
        f"    - {{name: {name}, size: {size}, {link}}}\n" for name, size in zip("abc", (8, 4, 4), strict=True)
    )
    path.write_text(f"cluster:\n  name: three\n  device: h100-sxm\n  levels:\n{levels}")
    words: dict[str, Any] = {"size": "1MB", "cluster": path}
    assert lockstep.collective("all-reduce", ranks=64, **words).comparison.ranks == 64
    for refused in (lockstep.collective, lambda op, **given: lockstep.trace(op, out=tmp_path / "x.json", **given)):
        with pytest.raises(BadInput, match="48 ranks do not fill whole units of three's levels; try 32") as caught:
            refused("all-reduce", ranks=48, **words)
        assert caught.value.where == "--ranks"
