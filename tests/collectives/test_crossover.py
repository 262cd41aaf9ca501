"""Crossovers against brute force over sizes and against values solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, best_map, best_time_s, crossover, get, n_star_B

from .conformance import links, quick


@pytest.mark.parametrize(
    ("alpha", "ranks", "expected_B"),
    [(1e-6, 8, 23_529), (1e-6, 100, 191_348), (1e-6, 1024, 1_406_792), (5e-6, 8, 117_647)],
)
def test_golden_ring_tree_crossover(alpha: float, ranks: int, expected_B: float) -> None:
    found = crossover("all-reduce", ranks, PlainLink(alpha, 12.5e9), between=("ring", "tree"))
    assert found.crossover_B == pytest.approx(expected_B, abs=0.5)
    assert [region.best for region in found.regions] == ["tree", "ring"]


def test_golden_crossover_at_256_ranks_is_not_the_folklore_value() -> None:
    found = crossover("all-reduce", 256, PlainLink(10e-6, 50e9), between=("ring", "tree"))
    assert found.crossover_B == pytest.approx(17.63e6, rel=1e-3)


def test_n_star_is_latency_times_bandwidth() -> None:
    assert n_star_B(PlainLink(10e-6, 25e9)) == pytest.approx(250e3)


@quick
@given(
    ranks=st.integers(1, 2000), link=links, op=st.sampled_from(["all-reduce", "all-gather", "all-to-all", "broadcast"])
)
def test_regions_are_the_true_minimum_everywhere(ranks: int, link: PlainLink, op: str) -> None:
    found = crossover(op, ranks, link)
    edges = [region.from_B for region in found.regions]
    assert edges == sorted(edges)
    assert edges[0] == 0.0
    for region, following in zip(found.regions, found.regions[1:], strict=False):
        assert region.to_B == following.from_B
        assert region.best != following.best
        tie = [get(op, r.best).price_time_s(ranks, following.from_B, link) for r in (region, following)]
        assert tie[0] == pytest.approx(tie[1], rel=1e-9)
    for size_B in np.geomspace(1.0, 1e10, 60):
        region = [r for r in found.regions if r.from_B <= size_B][-1]
        mine = get(op, region.best).price_time_s(ranks, size_B, link)
        assert mine == pytest.approx(best_time_s(op, ranks, size_B, link), rel=1e-9)


def test_two_ranks_have_one_best_algorithm() -> None:
    found = crossover("all-gather", 2, PlainLink(1e-6, 1e9))
    assert [region.best for region in found.regions] == ["ring"]
    assert found.crossover_B is None
    assert found.to_dict()["regions"] == [{"from_B": 0.0, "to_B": None, "best": "ring"}]


def test_best_map_has_a_name_per_cell() -> None:
    link = PlainLink(1e-6, 1e10)
    found = best_map("all-reduce", [2, 8, 100], [1e2, 1e9], link, algorithms=("ring", "recursive-doubling"))
    assert found.algorithm.shape == (3, 2)
    assert found.to_dict()["best"][2] == ["recursive-doubling", "ring"]
    assert found.time_s[2, 1] == get("all-reduce", "ring").price_time_s(100, 1e9, link)


def test_two_different_algorithms_are_needed() -> None:
    with pytest.raises(BadInput, match="two different"):
        crossover("all-reduce", 8, PlainLink(1e-6, 1e9), between=("ring", "ring"))
