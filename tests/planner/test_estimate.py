"""What an estimate says beside its seconds: accumulation steps, and its timeline."""

from __future__ import annotations

import pytest

import lockstep
from cli_runner import run

ASKED = ("gpt2", "dgx-a100-40gb:1")


@pytest.mark.parametrize(("dp", "micro_batch", "steps"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (4, 2, 8)])
def test_a_replica_adds_up_as_many_micro_batches_as_its_share_of_the_batch_has(
    dp: int, micro_batch: int, steps: int
) -> None:
    words = {"batch": 64, "tp": 8 // dp, "micro_batch": micro_batch}
    found = lockstep.estimate(*ASKED, **words).to_dict()
    assert found["accumulation_steps"] == steps == 64 // dp // micro_batch


def test_the_best_plan_says_its_own() -> None:
    best = lockstep.plan(*ASKED, batch=64).to_dict()["plans"][0]
    layout = best["layout"]
    assert best["accumulation_steps"] * layout["dp"] * layout["micro_batch"] == 64
    told = run("plan", "gpt2", "--cluster", "dgx-a100-40gb:1", "--batch", "64").out
    assert f"({best['accumulation_steps']} accumulation step" in told


def test_a_timeline_has_one_span_for_the_layers_of_a_pass_unless_asked() -> None:
    found = lockstep.estimate(*ASKED, batch=64, tp=2, pp=2)
    usual, whole, each = (
        one.program for one in (found.timeline(), found.timeline(by_layer=False), found.timeline(by_layer=True))
    )
    assert len(usual) == len(whole) < len(each)
