"""The longest sequence of a step is alone in its micro-batch, and has to fit there."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lockstep
from lockstep.decide.planner.longest import WHOLE, longest_B
from lockstep.decide.planner.rollout import Rollout
from lockstep.price.layout import is_safe, memory

MACHINE = ("qwen2.5-7b", "dgx-h100:1")
ASKED = {"prompts": 16, "group": 8, "prompt_tokens": 512}


def trained(response: str, trainer: str, **words: object) -> Rollout:
    return lockstep.rollout(*MACHINE, **ASKED, response=response, trainer=trainer, **words)


def test_answers_alike_need_what_a_micro_batch_of_one_needs() -> None:
    found = trained("1536", "zero=3,micro-batch=1")
    assert found.step is not None
    trainer = found.step.trainer
    (phase,) = (one for one in found.step.phases if one.name == "train")
    assert phase.device_B == pytest.approx(float(trainer.memory.total_B), rel=1e-12)


def test_a_longer_answer_takes_the_memory_of_a_job_of_that_length() -> None:
    found = trained("lognormal:mean=1k,cv=1", "zero=3,micro-batch=1", max_response="8k")
    assert found.step is not None
    trainer = found.step.trainer
    tokens = -(-found.most_tokens // WHOLE) * WHOLE
    assert tokens - WHOLE < 512 + 8192 <= tokens
    long = replace(trainer.job, recipe=replace(trainer.job.recipe, seq=tokens))
    wanted = float(memory(long, trainer.cluster, trainer.layout.grid()).total_B)
    (phase,) = (one for one in found.step.phases if one.name == "train")
    assert phase.device_B == pytest.approx(wanted, rel=1e-12)
    assert phase.device_B > float(trainer.memory.total_B)


def test_a_layout_that_holds_the_mean_but_not_the_longest_does_not_fit() -> None:
    short, long = (
        trained("lognormal:mean=1k,cv=1", "zero=3,micro-batch=1", max_response=most) for most in ("4k", "64k")
    )
    assert short.step is not None
    assert long.step is not None
    assert short.step.fits
    assert not long.step.fits
    assert long.step.trainer.memory.total_B < long.step.trainer.memory.capacity_B


@pytest.mark.parametrize("most", ["4k", "16k", "32k"])
def test_a_plan_holds_the_longest(most: str) -> None:
    found = trained("lognormal:mean=1k,cv=1", "plan", max_response=most)
    assert found.step is not None
    trainer = found.step.trainer
    held = longest_B(trainer.job, trainer.cluster, trainer.layout.grid(), found.most_tokens)
    assert is_safe(float(held), trainer.cluster.device.memory_B)


def test_a_plan_for_the_trainer_leaves_room_as_plan_does() -> None:
    """The fastest layout of these 48 devices holds the longest answer in 78.7 of 79.1 GiB, an even chance of none."""
    words = {"prompts": 128, "group": 8, "prompt_tokens": 512, "response": "lognormal:mean=2k,cv=1"}
    found = lockstep.rollout(
        "qwen3-32b", "dgx-h100:8", **words, max_response="16k", train_batch=256, trainer="plan", split=16, staleness=1
    )
    assert found.step is not None
    (phase,) = (one for one in found.step.phases if one.name == "train")
    assert is_safe(phase.device_B, phase.capacity_B)


def test_padded_micro_batches_are_as_long_in_all_their_sequences() -> None:
    """TRL pads, so that four answers may all be as long as the longest; verl fills micro-batches up by tokens."""
    words = {"trainer": "zero=3,micro-batch=4", "max_response": "4k", "stack": "trl"}
    padded, packed = (trained("lognormal:mean=1k,cv=1", **words, software=name) for name in ("trl", "verl"))
    assert padded.step is not None
    assert packed.step is not None
    held = (
        {one.name: one.device_B for one in padded.step.phases},
        {one.name: one.device_B for one in packed.step.phases},
    )
    trainer = padded.step.trainer
    tokens = -(-padded.most_tokens // WHOLE) * WHOLE
    long = replace(trainer.job, recipe=replace(trainer.job.recipe, seq=tokens))
    assert held[0]["train"] == pytest.approx(float(memory(long, trainer.cluster, trainer.layout.grid()).total_B))
    assert held[0]["train"] > held[1]["train"]
