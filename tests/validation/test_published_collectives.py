"""What NCCL takes inside one node, held to its own benchmark on six devices.

ai-dynamo/aiconfigurator@095f58a, data/*/comm (Apache-2.0): all-reduce, all-gather, reduce-scatter and all-to-all of
512 B to 512 MiB among 2, 4 and 8 GPUs. Links of the catalog take copies, NVLink 5 also its rate and latency, from these
rows; their signs by collective and number of ranks are what few constants cannot all meet unless the law is right.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lockstep.base.types.arrays import Floats
from lockstep.describe.hardware import cluster
from lockstep.simulate.collectives import best_on_levels_time_s
from published_data import unpackaged

SMALLEST_B = 2**20
CLUSTERS = {
    "A100-SXM4-80GB": "dgx-a100-80gb", "H100-SXM5-80GB": "dgx-h100", "B200-SXM": "dgx-b200",
    "B300-SXM6-AC": "dgx-b300", "GB300": "gb300-nvl72", "L40S": "l40s-8",
}  # fmt: skip
OPS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
       "alltoall": "all-to-all"}  # fmt: skip
UNSTEADY = {("L40S", "all_reduce", 8), ("L40S", "reduce_scatter", 8)}
"""Levels whose measured rate jumps by half and more between neighbouring sizes."""


@cache
def errors() -> dict[tuple[str, str, int], Floats]:
    """(predicted - measured) / measured of every collective of 1 MiB and more, by device, collective and ranks."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in unpackaged("aiconfigurator_nccl.csv"):
        level, size_B = (row["gpu"], row["collective"], int(row["n_gpus"])), float(row["bytes"])
        if size_B >= SMALLEST_B:
            levels = cluster(CLUSTERS[row["gpu"]], gpus=level[2]).levels_of(level[2])
            predicted_s = float(best_on_levels_time_s(OPS[row["collective"]], levels, size_B))
            found.setdefault(level, []).append(predicted_s / (float(row["time_us"]) * 1e-6) - 1)
    return {level: np.array(several) for level, several in found.items()}


@pytest.mark.parametrize("gpu", CLUSTERS)
def test_collectives_from_one_mebibyte_on_are_priced_as_measured(gpu: str) -> None:
    every = np.concatenate([several for level, several in errors().items() if level[0] == gpu])
    assert len(every) == (80 if gpu == "GB300" else 120)
    assert float(np.median(np.abs(every))) < 0.12


def test_no_collective_and_number_of_ranks_has_a_sign() -> None:
    signs = {level: float(np.median(several)) for level, several in errors().items()}
    assert len(signs) == 68
    assert {level for level, sign in signs.items() if abs(sign) > 0.10} == UNSTEADY
    assert all(abs(signs[level]) < 0.30 for level in UNSTEADY)


def test_the_copies_of_nvlink_3_predict_gathers_that_they_were_not_fitted_to() -> None:
    """They come from all-reduces (vTrain); among two A100 a gather's own copy is a third of its time."""
    several = [errors()["A100-SXM4-80GB", op, ranks] for op in ("all_gather", "reduce_scatter") for ranks in (2, 4, 8)]
    assert float(np.median(np.abs(np.concatenate(several)))) < 0.10
