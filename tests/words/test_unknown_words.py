"""A word that a verb does not have is refused before anything is computed, and the refusal says what was meant."""

import inspect
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

import lockstep
from cli_runner import LLAMA, run
from lockstep.base.errors import BadInput
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.converge import sweep
from lockstep.show.verbs.crossover import best_algorithms
from lockstep.show.verbs.pipeline import pipeline_choices
from lockstep.show.verbs.trace import trace_step
from lockstep.show.verbs.train import training_methods
from lockstep.show.verbs.words.network import read_network
from lockstep.show.verbs.words.question import read_question

OTHERS = (best_algorithms, pipeline_choices, read_network, read_question, sweep, trace_step, training_methods)
FUNCTIONS = {**{name: getattr(lockstep, name) for name in VERBS}, **{one.__name__: one for one in OTHERS}}
DRAWS = 55
"""Keyword sets per function: more than 2,000 in all."""


class Untouchable:
    """A value that must not be looked at."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("a value was read before the words were checked")

    __eq__ = __str__ = __repr__ = __float__ = __int__ = __index__ = __bool__ = __fspath__ = __iter__ = _refuse
    __len__ = __lt__ = __format__ = __hash__ = _refuse  # type: ignore[assignment]


def words_of(function: Callable[..., Any]) -> list[str]:
    """Keywords of a function as a type checker sees them."""
    found = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            (words,) = get_args(one.annotation)
            found += sorted(words.__optional_keys__ | words.__required_keys__)
        elif one.kind is not one.VAR_POSITIONAL:
            found.append(one.name)
    return found


def misspelled(word: str, chance: random.Random) -> str:
    """The word with one letter dropped, doubled, turned with its neighbour, or another in its place."""
    at = chance.randrange(len(word))
    match chance.randrange(4):
        case 0 if len(word) > 2:
            return word[:at] + word[at + 1 :]
        case 1:
            return word[:at] + word[at] + word[at:]
        case 2 if at + 1 < len(word):
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        case _:
            return word[:at] + chance.choice("qxzj") + word[at + 1 :]


def test_enough_misspellings_are_tested() -> None:
    assert len(FUNCTIONS) * DRAWS > 2000
    assert set(VERBS) <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_misspelled_keyword_is_a_type_error_before_anything_is_computed(name: str) -> None:
    from lockstep.base.vocabulary import OPTIONS

    function = FUNCTIONS[name]
    words, chance = words_of(function), random.Random(name)
    for _ in range(DRAWS if words else 0):
        meant = chance.choice([word for word in words if len(word) > 1])
        wrong = misspelled(meant, chance)
        if wrong in words:
            continue
        beside = chance.sample(words, chance.randrange(len(words) + 1))
        given = [*beside, wrong]
        chance.shuffle(given)
        with pytest.raises(TypeError) as caught:
            function(**{word: Untouchable() for word in given})
        said = str(caught.value)
        assert said.startswith(f"{name}() got an unexpected keyword argument {wrong!r}; ")
        assert f"'{meant}'" in said or wrong in OPTIONS or f"takes {wrong!r}" in said, said


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_keyword_is_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'qqwwzz'; see help"):
        FUNCTIONS[name](qqwwzz=1)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("dtpe", "estimate() got an unexpected keyword argument 'dtpe'; did you mean 'dtype'?"),
        ("zeroo", "did you mean 'zero'?"),
        ("tp_size", "use 'tp'"),
        ("mbs", "use 'micro_batch'"),
        ("gbs", "use 'batch'"),
        ("sequence_length", "use 'seq'"),
        ("zero_stage", "use 'zero'"),
        ("bf16", 'use dtype="bf16"'),
        ("nodes", 'follows the name of the cluster, as cluster="dgx-h100:4"'),
        ("lora", 'use train="lora:r=16,targets=all-linear"'),
        ("nf4", 'use base="nf4"'),
        ("gradient_accumulation_steps", "follows from 'batch' / (dp * micro-batch), so change 'micro_batch'"),
        ("activation_checkpointing", 'recompute="selective"'),
        ("fsdp", "FSDP's full sharding is zero=3"),
        ("num_layers", "the shape belongs to the model"),
    ],
)
def test_keywords_of_other_software_are_translated(word: str, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        lockstep.estimate("llama3-8b", "dgx-h100:2", batch=128, **{word: 1})
    assert said in str(caught.value)


def test_verbs_that_choose_an_option_say_so() -> None:
    with pytest.raises(TypeError, match=r"scaling chooses it itself; estimate takes 'tp'"):
        lockstep.scaling("gpt2", "dgx-h100", batch=64, tp=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"use 'micro_batch'; scaling chooses it itself"):
        lockstep.scaling("gpt2", "dgx-h100", batch=64, mbs=2)  # type: ignore[call-arg]


def test_keywords_are_checked_for_every_import_path_of_a_verb() -> None:
    for verb in (lockstep.plan, import_module("lockstep.show.verbs.plan").plan):
        with pytest.raises(
            TypeError, match=r"plan\(\) got an unexpected keyword argument 'offlaod'; did you mean 'off"
        ):
            verb("gpt2", "dgx-h100", batch=64, offlaod="optimizer")  # type: ignore[call-arg]
    assert list(inspect.signature(lockstep.plan).parameters)[:2] == ["model", "cluster"]
    assert (lockstep.estimate.__doc__ or "").startswith("Step time, memory")


FLAGS = [
    ("--lora", "--train lora:r=16,targets=all-linear"),
    ("--nodes", "the number of nodes follows the name of the cluster, as --cluster dgx-h100:4"),
    ("--tp-size", "use --tp"),
    ("--tensor-model-parallel-size", "use --tp"),
    ("--mbs", "use --micro-batch"),
    ("--global-batch-size", "use --batch"),
    ("--seq-length", "use --seq"),
    ("--bf16", "use --dtype bf16"),
    ("--deepspeed", "specify what DeepSpeed should do, as --zero 2"),
    ("--num-layers", "the shape belongs to the model"),
    ("--model", "MODEL is given without one"),
    ("--clutser", "did you mean --cluster?"),
    ("--qqwwzz", "see lockstep estimate --help"),
]


@pytest.mark.parametrize(("flag", "said"), FLAGS)
def test_flags_of_other_software_are_translated(flag: str, said: str) -> None:
    message = run("estimate", *LLAMA, flag, "4").refusal()
    assert message.startswith(f"{flag}: no such flag; ")
    assert said in message


def test_no_flag_is_suggested_for_its_letters_alone() -> None:
    message = run("estimate", *LLAMA, "--lora", "8").refusal()
    assert "--plot" not in message
    assert "--overlap" not in message


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("finetune", "fine-tuning all parameters is training"),
        ("search", "plan searches"),
        ("pln", "did you mean plan?"),
    ],
)
def test_commands_of_other_software_are_translated(command: str, said: str) -> None:
    assert said in run(command).refusal()


@pytest.mark.parametrize(
    ("name", "said", "never"),
    [
        ("gemma-3n-e4b", "such models are not supported", "gemma-7b"),
        ("Grok-1", "such models are not supported", "gpt2"),
        ("rwkv-7b", "state-space or linear-attention layers", "gemma"),
        ("gpt-4", "its shape was never published", "did you mean"),
        ("llama9-8b", "it is not in the catalog", "llama3-8b"),
        ("llama3-8", "did you mean llama3-8b?", "llama3-70b"),
    ],
)
def test_an_unknown_model_is_not_mistaken_for_another(name: str, said: str, never: str) -> None:
    message = run("estimate", name, "-c", "dgx-h100", "--batch", "8").refusal()
    assert said in message
    assert never not in message


def test_a_cluster_with_another_number_is_not_suggested() -> None:
    assert "did you mean" not in run("estimate", "gpt2", "-c", "dgx-b303:4", "--batch", "8").refusal()
    assert "did you mean dgx-h100" in run("estimate", "gpt2", "-c", "dgx-h10:4", "--batch", "8").refusal()
    assert "use aws-p5" in run("estimate", "gpt2", "-c", "p5.48xlarge:4", "--batch", "8").refusal()


def test_values_of_other_software_are_translated() -> None:
    with pytest.raises(BadInput, match="unknown optimizer 'FusedAdam'; use adamw"):
        lockstep.estimate("gpt2", "dgx-h100", batch=64, optimizer="FusedAdam")
    with pytest.raises(BadInput, match="unknown recompute 'block'; use full"):
        lockstep.estimate("gpt2", "dgx-h100", batch=64, recompute="block")


OWN = "layers: 4\nhidden: 512\nvocab: 100\nattention: {heads: 8}\nmlp: {ffn: 2048}\n"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("layers", "num_hidden_layers"), ("hidden", "hidden_size"), ("vocab", "vocab_size"),
        ("heads", "num_attention_heads"), ("ffn", "intermediate_size"),
    ],
)  # fmt: skip
def test_keys_of_other_files_are_translated(ours: str, theirs: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OWN.replace(f"{ours}:", f"{theirs}:"), encoding="utf-8")
    message = run("estimate", str(file), "-c", "dgx-h100", "--batch", "8").refusal()
    assert theirs in message
    assert f"; use {ours}" in message


def test_a_flag_before_the_command_is_explained_too() -> None:
    assert run("--qqwwzz").refusal() == "--qqwwzz: no such flag; see lockstep --help"
