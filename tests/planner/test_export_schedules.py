"""Pipelines that programs refuse or take with a flag: what exports say of them.

What torch's own classes build of what is exported is asked in tests/real/test_torch_exports.py.
"""

from __future__ import annotations

import pytest

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import TARGETS
from placed_pipelines import placed


@pytest.mark.parametrize(
    ("target", "schedule", "chunks", "microbatches", "why"),
    [
        ("torchtitan", "1f1b", 1, 3, "torch needs at least as many"),
        ("torchtitan-cli", "1f1b", 1, 3, "torch needs at least as many"),
        ("torchtitan", "breadth-first", 1, 8, "one chunk per device"),
        ("megatron", "interleaved", 2, 3, "interleaving with 3 micro-batches on 4 stages"),
        ("bridge", "interleaved", 2, 3, "interleaving with 3 micro-batches on 4 stages"),
    ],
)
def test_pipelines_that_the_software_rejects_are_refused(
    target: str, schedule: str, chunks: int, microbatches: int, why: str
) -> None:
    with pytest.raises(Infeasible, match=why):
        TARGETS[target](placed(schedule, 4, microbatches, chunks, zero=0 if target in ("megatron", "bridge") else 2))


@pytest.mark.parametrize(("microbatches", "group"), [(4, None), (8, None), (5, 5), (6, 6), (7, 7), (10, 5), (15, 5)])
def test_megatron_exports_set_a_group_size_for_uneven_micro_batches(microbatches: int, group: int | None) -> None:
    """What forward_backward_pipelining_with_interleaving of Megatron Core 0.19 asks of a group: p to m, no rest."""
    text = TARGETS["megatron"](placed("interleaved", 4, microbatches, 2, zero=0))
    flag = "--microbatch-group-size-per-virtual-pipeline-stage"
    assert [line.split()[1] for line in text.splitlines() if line.startswith(flag)] == [str(group)] * (
        group is not None
    )
    size = group or 4
    assert 4 <= size <= microbatches
    assert microbatches % size == 0


def test_a_search_interleaves_only_what_megatron_core_runs_too() -> None:
    """A layout with fewer micro-batches than stages is priced where it is named."""
    asked = {"batch": 12, "seq": 512, "schedule": "interleaved", "zero": 1}
    found = lockstep.plan("llama3-8b", "dgx-h100:1", pp=4, **asked).plans
    of_step = {(one.accumulation_steps, one.layout.pp) for one in found}
    assert (6, 4) in of_step
    assert all(steps >= stages for steps, stages in of_step)
    few = lockstep.estimate("llama3-8b", "dgx-h100:1", pp=4, vpp=2, dp=2, micro_batch=2, **asked)
    assert few.accumulation_steps == 3
