"""Sums through the memory of peers: both ways by hand, and never beyond a node."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.describe.hardware import cluster
from lockstep.simulate.parallel.group import collective_s
from lockstep.simulate.parallel.peer_sum import peer_sum_s

GROUP = ((4, 2e-6, 100e9, 0.0, None, 0.0, None),)


def test_few_bytes_are_read_at_once_and_more_in_parts() -> None:
    assert peer_sum_s(GROUP, 1000.0, 3e-6) == pytest.approx(3e-6 + 2 * 2e-6 + 3 * 1000 / 100e9)
    assert peer_sum_s(GROUP, 1e6, 3e-6) == pytest.approx(3e-6 + 3 * 2e-6 + 1.5 * 1e6 / 100e9)


def test_ranks_on_two_nodes_have_no_memory_in_common() -> None:
    machine = cluster("dgx-h100:2")
    assert peer_sum_s(machine.levels_of(16), 1000.0, 3e-6) == np.inf


def test_small_sums_are_faster_than_a_library_and_large_ones_are_not() -> None:
    """An in-switch sum of a library moves each byte once, a reading of peers twice."""
    group = cluster("dgx-h100:1").levels_of(8)
    assert peer_sum_s(group, 64e3, 3e-6) < collective_s("all-reduce", group, 64e3)
    assert peer_sum_s(group, 1e9, 3e-6) > collective_s("all-reduce", group, 1e9)
