"""What a ring takes on NVLink 3 by the number of its ranks, held to NCCL's own measurements on A100.

VIA-Research/vTrain, trace/a100 (MIT licence): 512 all-reduces of 1 MB to 1 GB among 2, 4, 6 and 8 GPUs of one node.
"""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.base.types.arrays import Floats
from lockstep.describe.hardware import cluster, link
from lockstep.simulate.collectives import best_on_levels_time_s
from published_data import unpackaged


def _measured() -> tuple[Floats, Floats, Floats]:
    """Ranks, bytes and seconds of every all-reduce."""
    rows = unpackaged("vtrain_a100_nccl_allreduce.csv")
    columns = [[float(row[name]) for row in rows] for name in ("n_ranks", "size_bytes", "time_us_oop")]
    ranks, size_B, time_us = np.array(columns)
    return ranks, size_B, time_us * 1e-6


@pytest.mark.parametrize("group", [2, 4, 6, 8])
def test_all_reduces_of_every_group_size_are_priced_as_measured(group: int) -> None:
    ranks, size_B, measured_s = (column[_measured()[0] == group] for column in _measured())
    levels = cluster("a100-80gb-4xhdr", gpus=group).levels_of(group)
    errors = np.asarray(best_on_levels_time_s("all-reduce", levels, size_B)) / measured_s - 1
    assert len(ranks) == 128
    assert np.abs(errors).mean() < 0.025
    assert abs(errors.mean()) < 0.015


def test_the_law_predicts_an_unseen_group_size() -> None:
    ranks, size_B, measured_s = _measured()
    terms = np.stack([np.ones_like(ranks), 2 * (ranks - 1), 2 * (ranks - 1) * size_B / ranks, size_B / ranks], axis=1)
    relative = terms / measured_s[:, np.newaxis]
    whole = np.linalg.lstsq(relative, np.ones(len(ranks)), rcond=None)[0]
    found = link("nvlink3")
    assert found.copy_Bps is not None
    known = [found.start_s, found.latency_s, 1 / found.rate_Bps, 1 / found.copy_Bps]
    assert known == pytest.approx(whole, rel=0.02)
    for group in (2, 4, 6, 8):
        others = ranks != group
        constants = np.linalg.lstsq(relative[others], np.ones(others.sum()), rcond=None)[0]
        assert np.abs(relative[~others] @ constants - 1).mean() < 0.03
