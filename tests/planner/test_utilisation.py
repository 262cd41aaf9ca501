"""MFU and HFU: HFU is at most 1 and no convention changes it; MFU is shown with what it counts."""

from __future__ import annotations

import random

import pytest

import lockstep
from cli_runner import run
from effort import drawn
from lockstep.base.errors import LockstepError
from lockstep.base.units import format_frac
from lockstep.decide.planner.estimate import Estimate

MODELS = (
    "gpt2", "llama3-8b", "llama3.1-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", "bert-large", "gemma2-9b",
    "mistral-7b", "vit-b-16", "t5-base", "resnet50",
)  # fmt: skip
CLUSTERS = ("dgx-h100:16", "dgx-a100-80gb:16", "dgx-b200:16", "h200:128", "rtx-4090:128")
CONVENTIONS = ("full", "causal", "6n")
SAID = {"full": "in full; ", "causal": "as the causal mask", "6n": "not counted"}
LONG = {"batch": 4, "cp": 32, "dp": 4, "seq": "4Mi"}


def question(draw: random.Random) -> dict[str, object]:
    """A drawn question on 128 devices."""
    tp, cp = draw.choice((1, 1, 2, 8)), draw.choice((1, 2, 16, 32, 16))
    words: dict[str, object] = {"tp": tp, "cp": cp, "dp": max(1, 128 // (tp * cp)), "gpus": 128}
    words |= {"batch": 128, "recompute": draw.choice(("none", "selective", "full")), "flash": draw.random() < 0.8}
    words |= {"dtype": draw.choice(("bf16", "bf16", "fp8", "fp16")), "train": draw.choice(("full", "full", "dpo"))}
    if draw.random() < 0.9:
        words["seq"] = 2 ** draw.randint(10, 22)
    return words


def answered(draw: random.Random) -> list[Estimate]:
    """A drawn question that has an answer, answered by each convention; nothing where no rule allows it."""
    model, cluster, words = draw.choice(MODELS), draw.choice(CLUSTERS), question(draw)
    try:
        return [lockstep.estimate(model, cluster, mfu_convention=name, **words) for name in CONVENTIONS]
    except LockstepError:
        return []


def test_hardware_utilisation_is_at_most_one_by_every_convention() -> None:
    draw, seen = random.Random(49), 0
    while seen < drawn(150):
        found = answered(draw)
        if not found:
            continue
        seen += 1
        full, causal, six = found
        about = full.job.model.name, str(full.layout), full.job.recipe.seq
        assert full.hfu_frac == causal.hfu_frac == six.hfu_frac, about
        assert 0 < causal.mfu_frac <= full.mfu_frac, about
        assert causal.mfu_frac <= causal.hfu_frac * (1 + 1e-12) <= 1, about
        for one in found:
            assert one.utilisation.causal_mfu_frac == pytest.approx(causal.mfu_frac, rel=1e-12), about


def test_attention_of_millions_of_tokens_stays_below_the_peak() -> None:
    """Nearly all FLOPs are attention's, of which the fused kernel executes half of what the full count has."""
    found = lockstep.estimate("llama3.1-8b", "dgx-h100:16", **LONG)
    assert found.hfu_frac == pytest.approx(found.mfu_frac / 2, rel=0.02)
    assert found.mfu_frac > 1 > found.hfu_frac
    assert "which can exceed 100 %" in str(found.utilisation)


def test_hardware_flops_by_hand() -> None:
    """GPT-2 at 1,024 tokens with all layers recomputed: two per weight and layer forward, four for both gradients, two
    again, and of the scores and weighted values the half that a causal mask leaves, or all without a fused kernel.
    """
    layers, hidden, vocab, seq, batch = 12, 768, 50257, 1024, 64
    for flash, keys in ((True, seq / 2), (False, seq)):
        found = lockstep.estimate("gpt2", "dgx-a100-40gb:1", batch=batch, dp=8, recompute="full", flash=flash)
        layer = 2 * 12 * hidden**2 + 4 * keys * hidden
        by_hand = (4 * layers * layer + 3 * 2 * hidden * vocab) * seq * batch
        available = found.step_time_s * 8 * found.cluster.device.peak("bf16")
        assert found.hfu_frac == pytest.approx(by_hand / available, rel=1e-9)


@pytest.mark.parametrize(("convention", "said"), list(SAID.items()))
def test_the_verdict_states_how_attention_is_counted(convention: str, said: str) -> None:
    words = ("llama3-8b", "-c", "dgx-h100:1", "--batch", "64", "--seq", "32Ki", "--mfu-convention", convention)
    for verb in ("estimate", "plan"):
        asked = (*words, "--tp", "8", "--recompute", "full")
        told = " ".join(run(verb, *asked).out.split())
        answer = run(verb, *asked, "--json").json()
        answer = answer["plans"][0] if verb == "plan" else answer
        verdict = told.split("Where the time goes")[0].split("Best layouts")[0]
        assert f"{format_frac(answer['mfu_frac'])} MFU (attention " in verdict
        assert said in verdict
        assert (f"{format_frac(answer['causal_mfu_frac'])} with only" in verdict) == (convention == "full")


def test_short_sequences_get_no_note_on_attention() -> None:
    """Of GPT-3 at 2,048 tokens attention is a fortieth; a model that sees both ways has no mask to count by."""
    for model, words in (("gpt3-175b", {"tp": 8, "seq": 2048}), ("bert-large", {})):
        found = lockstep.estimate(model, "dgx-h100:1", batch=64, **words).utilisation
        assert found.counted == ""
        assert str(found) == f"{format_frac(found.mfu_frac)} MFU"
