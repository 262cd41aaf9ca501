"""Traces of real runs whose causes their authors have published; read from the folder that LOCKSTEP_TRACES names."""

from __future__ import annotations

import json

import pytest

import lockstep
from lockstep.explain.changes import changes
from lockstep.explain.measure import measure
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.read.operations_csv import read_operations
from lockstep.explain.seen import see
from lockstep.explain.whatif import what_if
from published_traces import published_trace


def seen(name: str):
    """One file, measured."""
    return see([read_kineto(published_trace(name))])


def test_gradient_traffic_moved_into_the_backward_pass_is_found() -> None:
    """The reduce-scatter is what changed most: 9.2 to 8.1 ms in the open (KellerJordan/modded-nanogpt, 2025-10-31)."""
    before, after = (seen(f"modded_nanogpt_20251031_{when}.rank0.json.gz") for when in ("before", "after"))
    first = changes(before, after)[0]
    assert first.operation == "dp reduce-scatter, exposed"
    assert first.captured_before_s == pytest.approx(9.2e-3, abs=0.05e-3)
    assert first.captured_after_s == pytest.approx(8.1e-3, abs=0.05e-3)
    for one in (before, after):
        assert one.traces[0].unclassified_frac < 0.01
        assert one.steps == (11, 12)


def test_an_overloaded_last_stage_is_found() -> None:
    """Stage 3 costs a factor 1.23 by itself; the authors' slowdowns (arXiv 2505.05713) are met within 0.05."""
    truth = json.loads(published_trace("straggler_bytedance_ST.truth.json").read_text())
    found = what_if(read_operations(published_trace("straggler_bytedance_ST.csv.gz")))
    assert found.worst_stage == 3
    assert found.whole == pytest.approx(truth["slowdown_all_steps"], abs=0.01)
    for stage, factor in truth["slowdown_by_stage"].items():
        assert found.by_stage[int(stage)] == pytest.approx(factor, abs=0.02)
    for op in ("forward-compute", "backward-compute", "grads-reduce-scatter", "optimizer", "params-all-gather"):
        assert found.by_op[op] == pytest.approx(truth["slowdown_by_optype"][op], abs=0.005)


def test_a_rank_that_is_last_once_is_not_a_straggler() -> None:
    """In one step of 30 a rank costs the others more than 1 % of it; of all steps that is 0.04 %."""
    assert not measure(read_operations(published_trace("straggler_bytedance_ST.csv.gz"))).stragglers


def test_a_trace_of_another_run_names_no_cause() -> None:
    """One rank of a ResNet beside a batch that it did not have: no cause, and least of all a slow rank."""
    trace = published_trace("tracelens_resnet_8xmi300x.rank0.json.gz")
    found = lockstep.diagnose(trace, model="resnet50", cluster="mi300x:1", batch=64).beside
    assert found is not None
    assert not found.causes
    assert any("no cause is named" in one for one in found.not_known)


def test_a_sleeping_rank_is_found() -> None:
    """20 ms a step on rank 1 of 2, over gloo, whose records say no groups: rank 1 stays late, by its host."""
    names = [f"gloo_cpu_ddp_sleep20ms_on_rank1.rank{rank}.json.gz" for rank in (0, 1)]
    found = measure([read_kineto(published_trace(name)) for name in names])
    (slow,) = found.stragglers
    assert (slow.rank, slow.kind) == (1, "stays")
    assert slow.cost_s > 0.015
    late = {one.rank: one.host_late_s or 0.0 for one in found.ranks}
    assert late[1] - late[0] > 0.015


@pytest.mark.parametrize(
    ("name", "device", "matmul_frac"),
    [
        ("hta_ddp_2xa100.rank0.json.gz", "NVIDIA A100-PG509-200", 0.35),
        ("tracelens_resnet_8xmi300x.rank0.json.gz", "AMD Instinct MI300X", 0.2),
        ("hta_mi250_minitoy.json.gz", "AMD Radeon Graphics", 0.2),
    ],
)
def test_kernels_of_other_devices_are_classified(name: str, device: str, matmul_frac: float) -> None:
    """Kernels of A100 and of AMD's are told apart, and parts add up."""
    one = seen(name)
    assert one.traces[0].device == device
    assert one.traces[0].unclassified_frac < 0.05
    for partition, parts in zip(one.partitions[0], one.parts()[0], strict=True):
        assert sum(parts.values()) == pytest.approx(partition.window.seconds, rel=1e-12)
    computing = sum(sum(partition.compute_s.values()) for partition in one.partitions[0])
    products = sum(partition.compute_s.get("matmul", 0.0) for partition in one.partitions[0])
    assert matmul_frac / 2 < products / computing < 2 * matmul_frac


def test_unmatched_collectives_are_reported() -> None:
    """Two of 128 ranks without metadata: said, not guessed."""
    names = [f"hta_sampled_128ranks.rank{rank}.json.gz" for rank in (0, 1)]
    found = measure([read_kineto(published_trace(name)) for name in names])
    assert any("could not be matched" in line for line in found.not_known)
    assert not any(part.part.endswith(".waiting") for part in found.parts)
