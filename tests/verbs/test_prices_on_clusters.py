"""Verbs that hold an all-reduce inside an answer price it on a cluster as `collective` and a training step do."""

from __future__ import annotations

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.simulate.collectives.levels.hierarchical import deployed

SIZE_B = 200e6
CLUSTER, RACKS, PODS, ALONE = "dgx-h100:8", "gb200-nvl72:4", "tpu-v4-pods", "workstation-4090:4"
BUCKET = ("overlap", "--layers", "4x5ms:50MB", "--bucket-size", "1GB")
WORKERS = ("speedup", "--compute", "10s", "--size", "200MB")
ALGORITHMS = (None, "ring", "hierarchical")


def listed_s(ranks: int, cluster: str, algorithm: str | None) -> float:
    """What `collective` says of the algorithm; without one the fastest of those that a training step chooses from."""
    found = lockstep.collective("all-reduce", ranks=ranks, size=SIZE_B, cluster=cluster)
    usual = ("ring", "hierarchical") if found.network.spans_levels else deployed("all-reduce") or ()
    chosen = [algorithm] if algorithm else usual
    return min(row.time_s for row in found.comparison.rows if row.algorithm in chosen)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("ranks", "cluster"), [(64, CLUSTER), (16, CLUSTER), (8, CLUSTER), (6, CLUSTER), (128, RACKS), (4, ALONE)]
)
def test_one_bucket_takes_as_long_as_its_all_reduce(ranks: int, cluster: str, algorithm: str | None) -> None:
    found = lockstep.overlap(
        layers="4x5ms:50MB", bucket_size="1GB", ranks=ranks, cluster=cluster,
        **({"algorithm": algorithm} if algorithm else {}),
    )  # fmt: skip
    step, wanted_s = found.sweep.best.step, listed_s(ranks, cluster, algorithm)
    assert float(step.comm_s) == pytest.approx(wanted_s, rel=1e-12)
    assert float(step.step_s) == pytest.approx(20e-3 + wanted_s, rel=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("cluster", [CLUSTER, RACKS, ALONE])
def test_workers_exchange_for_the_time_of_their_all_reduce(cluster: str, algorithm: str | None) -> None:
    found = lockstep.speedup(compute=10, size=SIZE_B, cluster=cluster, **({"exchange": algorithm} if algorithm else {}))
    several = found.tried[1:] if len(found.tried) < 20 else found.tried[[1, 2, 6, 7, -2, -1]]
    for workers in several.tolist():
        exchange_s = float(found.time_s(workers)) - 10 / workers
        assert exchange_s == pytest.approx(listed_s(workers, cluster, algorithm), rel=1e-9)
    times_s = found.time_s(found.tried)
    assert found.best_workers == found.tried[np.argmin(times_s)]
    assert times_s.tolist() == [float(found.time_s(number)) for number in found.tried]


def test_workers_fill_whole_units_of_the_cluster() -> None:
    found = lockstep.speedup(compute=10, size=SIZE_B, cluster=CLUSTER)
    assert found.tried.tolist() == [*range(1, 9), 16, 24, 32, 40, 48, 56, 64]
    assert lockstep.speedup(compute=10, size=SIZE_B, cluster=CLUSTER, workers=20).tried[-1] == 16
    rows = lockstep.speedup(compute=10, size=SIZE_B, cluster=RACKS).to_dict()["rows"]
    assert [row["workers"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 144, 288]
    with pytest.raises(BadInput, match="12 workers do not fill whole units of dgx-h100's levels"):
        found.time_s([8, 12])


def test_the_priced_algorithm_is_stated() -> None:
    assert run(*BUCKET, "-c", CLUSTER, "--json").json()["algorithm"] is None
    assert run(*WORKERS, "-c", CLUSTER, "--json").json()["exchange"] is None
    assert "the fastest all-reduce across the levels of dgx-h100" in " ".join(run(*BUCKET, "-c", CLUSTER).out.split())
    assert "ring all-reduce across the levels of dgx-h100" in " ".join(
        run(*BUCKET, "-c", CLUSTER, "--algorithm", "ring").out.split()
    )
    assert "whole units of dgx-h100's levels" in " ".join(run(*WORKERS, "-c", CLUSTER).out.split())


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ((*BUCKET, "--ranks", "64", "--algorithm", "tree"), "--algorithm: tree is for one link"),
        ((*BUCKET, "--ranks", "8", "--algorithm", "bidirectional-ring"), "--algorithm: bidirectional-ring needs 2"),
        ((*BUCKET, "--ranks", "12"), "--ranks: 12 ranks do not fill whole nodes of 8"),
        ((*BUCKET, "--ranks", "128"), "--ranks: 128 ranks on the 64 devices"),
        ((*WORKERS, "--exchange", "tree"), "--exchange: tree is for one link"),
        ((*WORKERS, "--exchange", "parameter-server"), "--exchange: parameter-server has no way across the levels"),
        ((*WORKERS, "--exchange", "pigeon"), "--exchange: unknown"),
        ((*WORKERS, "--workers", "128"), "--workers: 128 workers on the 64 devices of dgx-h100"),
    ],
)
def test_ranks_that_do_not_fit_the_cluster_levels_are_refused(words: tuple[str, ...], refused: str) -> None:
    assert run(*words, "-c", CLUSTER).refusal().startswith(refused)


def test_within_one_level_every_algorithm_is_priced() -> None:
    """Eight workers share one level, so a tree, or a parameter server, has its time there."""
    for name in ("tree", "parameter-server"):
        assert lockstep.speedup(compute=10, size=SIZE_B, cluster=CLUSTER, workers=8, exchange=name).tried[-1] == 8
    found = lockstep.overlap(layers="4x5ms:50MB", bucket_size="1GB", cluster=CLUSTER, algorithm="tree")
    assert float(found.sweep.best.step.comm_s) == pytest.approx(listed_s(8, CLUSTER, "tree"), rel=1e-12)
