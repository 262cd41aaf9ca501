"""A word that means nothing for a question is refused at its flag; what a planner answers may be asked again."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import lockstep
from cli_runner import LLAMA, run
from lockstep.base.errors import BadInput, LockstepError
from lockstep.base.types.plain import plain

LLAMA_WORDS = ("llama3-8b", "dgx-h100:2")
MIXTURE = ("mixtral-8x7b", "dgx-h100:2")
IMAGES = ("resnet50", "dgx-a100-80gb:2")
REFUSED: list[tuple[tuple[str, str], dict[str, Any], dict[str, Any]]] = [
    (LLAMA_WORDS, {}, {"vpp": 4}),
    (LLAMA_WORDS, {}, {"schedule": "zb-h1"}),
    (LLAMA_WORDS, {}, {"schedule": "gpipe"}),
    (LLAMA_WORDS, {"dp": 16}, {"overlap_pp": True}),
    (LLAMA_WORDS, {"dp": 16}, {"overlap_tp": "all"}),
    (LLAMA_WORDS, {}, {"shard": 2}),
    (LLAMA_WORDS, {}, {"overlap_ep": "shared"}),
    (LLAMA_WORDS, {"dp": 16, "overlap": False}, {"overlap_device": 0.5}),
    (LLAMA_WORDS, {"tp": 8, "gpus": 8, "overlap_tp": "none"}, {"overlap_device": 0.5}),
    (LLAMA_WORDS, {}, {"dispatch_bytes": 1}),
    (LLAMA_WORDS, {"dp": 16}, {"recompute_modules": "layernorm"}),
    (LLAMA_WORDS, {"recompute": "selective"}, {"recompute_modules": "moe_act"}),
    (LLAMA_WORDS, {"recompute": "selective"}, {"recompute_modules": "core_attn,mla_up_proj"}),
    (MIXTURE, {"recompute": "selective"}, {"recompute_modules": "mlp"}),
    (LLAMA_WORDS, {}, {"order": "pp-dp-cp-ep-tp"}),
    (LLAMA_WORDS, {"tp": 8, "gpus": 8}, {"zero": 1}),
    (LLAMA_WORDS, {"tp": 8, "gpus": 8}, {"reduce_bytes": 2}),
    (MIXTURE, {"zero": 3}, {"dispatch_bytes": 1}),
    (MIXTURE, {"zero": 3, "ep": 8}, {"overlap_ep": "shared"}),
    (MIXTURE, {"zero": 3, "ep": 8, "overlap": False}, {"overlap_device": 0.5}),
    (IMAGES, {}, {"flash": False}),
    (IMAGES, {}, {"dropout": True}),
    (IMAGES, {}, {"cached_bytes": 1}),
    (IMAGES, {}, {"recompute": "selective"}),
]


def flag(words: dict[str, Any]) -> str:
    """The flag of the one word."""
    return f"--{next(iter(words)).replace('_', '-')}"


@pytest.mark.parametrize(("question", "with_words", "idle"), REFUSED)
def test_options_without_effect_are_refused(
    question: tuple[str, str], with_words: dict[str, Any], idle: dict[str, Any]
) -> None:
    for verb in (lockstep.estimate, lockstep.memory):
        with pytest.raises(BadInput) as caught:
            verb(*question, batch=256, **with_words, **idle)
        assert caught.value.where == flag(idle), str(caught.value)


def test_the_command_line_refuses_options_without_effect() -> None:
    message = run("estimate", *LLAMA, "--vpp", "4").refusal()
    assert message == "--vpp: there are no pipeline stages here; give --pp above 1"
    for verb in ("plan", "guide", "scaling"):
        found = run(verb, *LLAMA, "--dispatch-bytes", "1").refusal()
        assert found == "--dispatch-bytes: llama3-8b has no experts; leave it out"


HOLDS: list[tuple[tuple[str, str], dict[str, Any]]] = [
    (LLAMA_WORDS, {"vpp": 1, "schedule": "1f1b", "zero": 0, "shard": 0, "recompute": "none"}),
    (LLAMA_WORDS, {"overlap": False, "overlap_tp": "none", "overlap_pp": False}),
    (LLAMA_WORDS, {"tp": 8, "gpus": 8, "overlap": False, "zero": 0}),
    (LLAMA_WORDS, {"gpus": 1, "zero": 3, "offload": "parameters"}),
    (LLAMA_WORDS, {"pp": 4, "vpp": 2, "overlap_pp": True, "order": "pp-dp-cp-ep-tp"}),
    (MIXTURE, {"zero": 3, "ep": 8, "overlap_ep": "none", "dispatch_bytes": 1.03125}),
    (IMAGES, {"flash": True, "dropout": False, "recompute": "none", "overlap_tp": "gradients"}),
]


@pytest.mark.parametrize(("question", "words"), HOLDS)
def test_options_that_restate_the_default_are_accepted(question: tuple[str, str], words: dict[str, Any]) -> None:
    lockstep.memory(*question, batch=256, **words)


VALUES: dict[str, tuple[Any, ...]] = {
    "vpp": (2, 4), "schedule": ("gpipe", "interleaved", "zb-h1", "dualpipe"), "overlap_pp": (True,),
    "overlap_tp": ("all",), "shard": (2, 4), "zero": (1, 2, 3), "overlap_ep": ("shared",), "overlap_device": (0.95,),
    "dispatch_bytes": (1,), "recompute_modules": ("layernorm", "moe_act", "mla_up_proj", "mlp", "core_attn,layernorm"),
    "recompute": ("selective", "full"), "flash": (False,), "dropout": (True,), "cached_bytes": (1,),
    "cached_attention_bytes": (1,), "sequence_parallel": (True,), "micro_batch": (2, 4), "optimizer": ("sgd",),
}  # fmt: skip
BASES: list[tuple[tuple[str, str], dict[str, Any]]] = [
    (LLAMA_WORDS, {"dp": 16}),
    (LLAMA_WORDS, {"tp": 2}),
    (LLAMA_WORDS, {"pp": 4}),
    (LLAMA_WORDS, {"tp": 8, "gpus": 8}),
    (LLAMA_WORDS, {"recompute": "selective", "tp": 2, "pp": 2}),
    (MIXTURE, {"zero": 3, "ep": 8}),
    (("qwen1.5-moe-a2.7b", "dgx-h100:2"), {"ep": 4, "tp": 1}),
    (
        ("deepseek-v2-lite", "dgx-h100:2"),
        {"ep": 4, "pp": 2, "recompute": "selective", "schedule": "dualpipe", "vpp": 2},
    ),
    (IMAGES, {"dp": 16}),
]


def answer(question: tuple[str, str], words: dict[str, Any]) -> str:
    """What an estimate computes, without what it was asked."""
    given = {"micro_batch": 1} | ({"seq": 4096} if question != IMAGES else {})
    found = plain(lockstep.estimate(*question, batch=256, **given | words))
    return json.dumps({key: found[key] for key in found if key not in ("layout", "recipe", "groups", "assumptions")})


@pytest.mark.parametrize(("question", "base"), BASES)
def test_accepted_options_change_the_answer(question: tuple[str, str], base: dict[str, Any]) -> None:
    """The law behind the table: a word given is refused, or the numbers are others than without it."""
    plainly = answer(question, base)
    for word, values in VALUES.items():
        for value in values:
            if base.get(word) == value:
                continue
            try:
                assert answer(question, {**base, word: value}) != plainly, (word, value)
            except LockstepError:
                continue


def test_layouts_of_the_planner_can_be_passed_back() -> None:
    chance = random.Random(5)
    questions = [("gpt2", "dgx-h100", 1), ("llama3-8b", "dgx-h100:2", 16), ("mixtral-8x7b", "dgx-h100:4", 32)]
    for model, cluster, gpus in questions:
        found = lockstep.plan(model, cluster, gpus=gpus, batch=64, top=40)
        for one in chance.sample(found.plans, min(8, len(found.plans))):
            words: dict[str, Any] = one.layout.to_dict()
            again = lockstep.estimate(model, cluster, gpus=gpus, batch=64, **words)
            assert again.layout == one.layout


LINK = {"latency": "5us", "bandwidth": "25GB/s"}
LAYER = {"hidden": 64, "heads": 4, "seq": 32, "flops": "1T"}
FOUND = lockstep.estimate("gpt2", "dgx-h100", batch=64)
OTHERS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (lockstep.pipeline, (), {"stages": 4, "microbatches": 8}, {"weight_s": 0.5}),
    (lockstep.pipeline, (), {"stages": 1, "microbatches": 8}, {"transfer_s": 0.5}),
    (
        lockstep.overlap,
        (),
        {"layers": 4, "backward": 1, "gradients": "1GB", "sweep": True, **LINK},
        {"bucket_size": "9MB"},
    ),
    (lockstep.experts, (), {"experts": 8, "tokens": 64, "ranks": 4, **LINK}, {"temperature": 2}),
    (lockstep.tensor, (), {**LAYER, "ranks": 1, **LINK}, {"overlap": "all"}),
    (lockstep.tensor, (), {**LAYER, "ranks": 1, **LINK}, {"sequence_parallel": True}),
    (lockstep.tensor, (), {**LAYER, "ranks": 1, **LINK}, {"run": True}),
    (lockstep.checkpoint, (), {"mtbf": "6h", "write": "60s"}, {"nodes": 4}),
    (lockstep.checkpoint, (), {"mtbf": "6h", "write": "60s"}, {"campaigns": 50}),
    (lockstep.checkpoint, (), {"node_mtbf": "1y", "cluster": "dgx-h100:4", "write": "60s"}, {"nodes": 8}),
    (lockstep.campaign, (FOUND,), {"tokens": "1B", "campaigns": 2}, {"sample_size": 8}),
    (lockstep.campaign, (FOUND,), {"tokens": "1B", "campaigns": 2}, {"batch": 8}),
    (lockstep.campaign, (FOUND,), {"tokens": "1B", "campaigns": 2}, {"tp": 2}),
    (lockstep.campaign, (FOUND,), {"tokens": "1B", "campaigns": 2}, {"cluster": "dgx-h100:4"}),
    (lockstep.export, (FOUND,), {"to": "megatron"}, {"zero": 1}),
    (lockstep.cite, (FOUND,), {}, {"dtype": "fp8"}),
    (lockstep.cite, (), {}, {"cluster": "dgx-h100"}),
    (lockstep.cite, (), {}, {"dtype": "fp8"}),
    (lockstep.converge, (), {}, {"seed": 3}),
]


@pytest.mark.parametrize(("verb", "about", "words", "idle"), OTHERS)
def test_every_verb_refuses_options_without_effect(
    verb: Callable[..., Any], about: tuple[Any, ...], words: dict[str, Any], idle: dict[str, Any]
) -> None:
    with pytest.raises(BadInput) as caught:
        verb(*about, **words, **idle)
    assert caught.value.where == flag(idle), str(caught.value)


def test_listing_experiments_takes_no_settings_and_running_one_no_group() -> None:
    with pytest.raises(BadInput, match="needs an experiment"):
        lockstep.converge(settings={"a": 1})  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="leave it out to run one"):
        lockstep.converge("staleness", group="staleness")  # type: ignore[call-overload]
    assert run("cite").code == 0
    assert "--seed" in run("converge", "--seed", "3").refusal()
    assert run("cite", "--tp", "2").refusal().startswith("--tp: has no effect on all papers")
