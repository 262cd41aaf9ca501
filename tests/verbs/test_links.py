"""`read_network`: which links are taken for mistakes, and which levels of a cluster some ranks span."""

from __future__ import annotations

import math

import pytest

from lockstep.base.errors import BadInput
from lockstep.show.verbs.words.network import FASTEST_BPS, LONGEST_S, SLOWEST_BPS, read_network


@pytest.mark.parametrize("rate_Bps", [SLOWEST_BPS, FASTEST_BPS])
@pytest.mark.parametrize("latency_s", [0.0, LONGEST_S])
def test_the_limits_of_link_values_are_allowed(rate_Bps: float, latency_s: float) -> None:
    network = read_network(2, latency=latency_s, bandwidth=rate_Bps)
    assert (network.link.latency_s, network.link.bandwidth_Bps) == (latency_s, rate_Bps)
    assert network.inner == network.link


@pytest.mark.parametrize(
    ("latency_s", "rate_Bps", "where"),
    [
        (0.0, math.nextafter(SLOWEST_BPS, 0), "--bandwidth"),
        (0.0, math.nextafter(FASTEST_BPS, math.inf), "--bandwidth"),
        (math.nextafter(LONGEST_S, math.inf), 1e9, "--latency"),
    ],
)
def test_a_link_beyond_the_limits_is_refused(latency_s: float, rate_Bps: float, where: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_network(2, latency=latency_s, bandwidth=rate_Bps)
    assert caught.value.where == where


@pytest.mark.parametrize(("ranks", "sizes"), [(1, []), (2, [2]), (8, [8]), (16, [8, 2])])
def test_only_levels_shared_by_ranks_are_spanned(ranks: int, sizes: list[int]) -> None:
    network = read_network(ranks, cluster="dgx-h100:2")
    assert [level[0] for level in network.levels] == sizes
    assert network.node_ranks == (sizes[0] if len(sizes) == 2 else None)
