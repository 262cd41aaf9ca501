"""What PyTorch's pipelines hold besides activations: buffers for every micro-batch, and outputs of the last stage."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.layout.pipelined import pipelined_B

MODEL = model("llama3-8b")
BATCH, SEQ, PP = 16, 8192, 4


def held(stage: int, software: str = "torchtitan", **layout: Any) -> tuple[float, float]:
    """Bytes held throughout a step, and what joining outputs takes, of 16 sequences on four stages."""
    job = Job(MODEL, Recipe.by(software, seq=SEQ, batch=BATCH), PP * layout.get("tp", 1))
    always_B, joined_B = pipelined_B(job, Layout(pp=PP, zero=3, **layout).grid(), stage)
    return float(always_B), float(joined_B)


def test_pipelines_buffer_input_and_output_gradient_of_every_micro_batch() -> None:
    """As torch's tracker counts them on one of four stages over a fake process group: two for each, at the ends one."""
    assert isinstance(MODEL, Transformer)
    between_B, logits_B = (2.0 * BATCH * SEQ * width for width in (MODEL.hidden, MODEL.vocab))
    assert held(0) == (between_B, 0.0)
    assert held(1) == held(2) == (2.0 * between_B, 0.0)
    assert held(3) == (between_B + logits_B, logits_B)


def test_larger_micro_batches_are_fewer_and_more_chunks_have_more_buffers() -> None:
    assert held(1, micro_batch=4) == held(1)
    chunks = {"schedule": "interleaved", "vpp": 2}
    assert held(1, **chunks)[0] == pytest.approx(2 * held(1)[0])
    assert held(0, **chunks)[0] == pytest.approx(3 * held(0)[0])


def test_ranks_that_split_sequences_and_vocabulary_hold_their_share() -> None:
    split = {"tp": 8, "sequence_parallel": True}
    for stage in range(PP):
        assert held(stage, **split) == pytest.approx([size_B / 8 for size_B in held(stage)])


def test_other_software_allocates_pipeline_buffers_on_demand() -> None:
    assert held(1, "megatron-te") == held(3, "megatron-te") == (0.0, 0.0)
