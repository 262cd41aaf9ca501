"""What the memory that is left could be spent on: all that is listed fits, and what is one step larger does not."""

from dataclasses import replace
from typing import Any

import pytest

import lockstep
from lockstep.decide.planner.room import room
from lockstep.price.layout import broken_by, memory

CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama3-8b", "dgx-h100:8", {"batch": 256, "seq": 8192, "zero": 3, "recompute": "full", "micro_batch": 1}),
    (
        "llama3-8b", "a100-sxm-40gb:1",
        {"batch": 16, "seq": 4096, "train": "lora:r=16", "base": "nf4", "recompute": "full", "stack": "hf-trainer",
         "micro_batch": 1},
    ),
    (
        "mixtral-8x7b", "dgx-h100:8",
        {"batch": 128, "seq": 2048, "ep": 8, "zero": 1, "recompute": "full", "micro_batch": 1,
         "optimizer": "adamw-bf16-moments"},
    ),
    ("llama3-8b", "dgx-a100-80gb:1", {"batch": 64, "seq": 4096, "zero": 3, "offload": "parameters", "micro_batch": 1}),
)  # fmt: skip


@pytest.mark.parametrize(("model", "machine", "words"), CASES)
def test_every_listed_use_of_memory_fits_and_needs_more(model: str, machine: str, words: dict[str, Any]) -> None:
    found = lockstep.memory(model, machine, **words)
    assert found.room
    for use in found.room:
        assert float(found.memory.total_B) < use.memory_B <= found.memory.capacity_B
        flag, _, value = use.words.removeprefix("--").partition(" ")
        if flag in ("micro-batch", "seq", "recompute", "zero", "offload"):
            again = lockstep.memory(model, machine, **{**words, flag.replace("-", "_"): value})
            assert float(again.memory.total_B) == use.memory_B
    speeds = [use.tokens_per_s for use in found.room]
    assert speeds == sorted(speeds, reverse=True)


@pytest.mark.parametrize(("model", "machine", "words"), CASES)
def test_twice_as_much_does_not_fit(model: str, machine: str, words: dict[str, Any]) -> None:
    found = lockstep.memory(model, machine, **words)
    listed = dict(use.words.removeprefix("--").split(" ", 1) for use in found.room if use.words.startswith("--"))
    job, layout = found.job, found.layout
    if "seq" in listed:
        longer = replace(job, recipe=replace(job.recipe, seq=2 * int(listed["seq"])))
        assert not memory(longer, found.cluster, layout.grid()).fits
    if "micro-batch" in listed:
        larger = replace(layout, micro_batch=2 * int(listed["micro-batch"]))
        assert broken_by(larger, job) or not memory(job, found.cluster, larger.grid()).fits


def test_a_layout_that_does_not_fit_has_no_uses_of_free_memory() -> None:
    found = lockstep.estimate("llama3-70b", "rtx-4090:1", batch=1, seq=2048, dp=1)
    assert not found.memory.fits
    assert room(found) == ()
