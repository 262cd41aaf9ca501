"""Falcon with one key head has no fused attention in transformers (`findings/`), whatever the other software has."""

from __future__ import annotations

import pytest

import lockstep


@pytest.mark.parametrize(
    ("model", "stack", "fused"),
    [
        ("falcon-7b", "hf-trainer-5", False),
        ("falcon-7b", "trl", False),
        ("falcon-7b", "megatron-te", True),
        ("falcon-40b", "hf-trainer-5", True),
        ("llama3-8b", "hf-trainer-5", True),
    ],
)
def test_attention_is_fused_where_the_class_has_a_kernel(model: str, stack: str, fused: bool) -> None:
    found = lockstep.estimate(model, "dgx-h100:2", batch=16, zero=3, stack=stack)
    assert found.job.recipe.flash_attention == fused
    assert any("never runs a fused kernel" in note for note in found.assumptions()) == (not fused)
    if model == "falcon-7b" and not fused:
        told = lockstep.estimate(model, "dgx-h100:2", batch=16, zero=3, stack=stack, flash=True)
        assert told.job.recipe.flash_attention
        assert float(told.memory.total_B) < float(found.memory.total_B)
