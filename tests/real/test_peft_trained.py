"""peft puts adapters on small models of transformers' classes; Lockstep counts what they train, to the last parameter.

Lockstep reads the settings as it reads a configuration of TRL: with the names of modules of the class, which are drawn,
with `all-linear`, or with nothing, where peft chooses by the model's type. Other methods are asked by Lockstep's words.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from agreement import Answers, Asker
from held_states import FAMILIES, drawn

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import read_run
from lockstep.describe.workload import Transformer
from lockstep.describe.workload.huggingface import config_of
from lockstep.price.layout import Job, Layout, Recipe, trained_parameters

NO_DEFAULT = "peft has no targets for this type of model, and refuses it too"
UNNAMED = "a module that Lockstep has no name for: it says so, and leaves its adapter out"
POOLED = "an adapter on the pooler of an encoder, which Lockstep leaves out"
LATER = "peft takes its targets for Mixtral only where experts are linear layers, as in transformers 4 (findings/)"
WITH_DOWN = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2", "cohere", "granite", "smollm3")
"""Types whose layers end in a down_proj, whose input IA3 scales."""
EACH = 3
"""Questions of each family."""


pytestmark = pytest.mark.usefixtures("quiet")


def model_of(kind: str, seed: str) -> tuple[Transformer, Any]:
    """A model of a family, as Lockstep reads it and as its class makes it."""
    file, made = drawn(random.Random(f"{kind} {seed}"), (kind,))
    read = config_of(json.dumps(file), "config.json")
    assert isinstance(read, Transformer)
    return read, made


def ours(model: Transformer, train: str) -> float:
    job = Job(model, Recipe.by("trl", seq=8, batch=1, train=train), 1)
    return float(trained_parameters(job, Layout().grid(), Counter(model.kinds)).total_elems)


def theirs(made: Any, settings: peft.PeftConfig) -> int:
    found = peft.get_peft_model(made, settings)
    return sum(one.numel() for one in found.parameters() if one.requires_grad)


def read(model: Transformer, folder: Path, **words: Any) -> tuple[str, bool]:
    """What TRL's words say in Lockstep's, and whether it left a target out."""
    path = folder / "sft.json"
    path.write_text(json.dumps({"use_peft": True, "per_device_train_batch_size": 1, **words}), encoding="utf-8")
    found = read_run(path, model)
    assert found is not None
    left = [row for row in found.table if row.word == "lora_target_modules" and row.kind != "read"]
    return found.words["train"], bool(left) and "lora_target_modules" in words


def names_of(made: Any, rng: random.Random) -> list[str]:
    """Some of the last parts of names of linear layers inside of the layers of a model."""
    inside = [one for one, module in made.named_modules() if isinstance(module, torch.nn.Linear) and ".0." in f"{one}."]
    each = sorted({one.rpartition(".")[2] for one in inside} - {"0"})
    return rng.sample(each, rng.randint(1, len(each))) if each else []


def test_defaults_of_each_type(asked: Asker, tmp_path: Path) -> None:
    with asked("peft", "parameters that LoRA trains where a file names no targets") as answers:
        for kind in FAMILIES:
            model, made = model_of(kind, "defaults")
            try:
                found: int | str = theirs(made, peft.LoraConfig(r=4))
            except ValueError as error:
                found = str(error)
            try:
                train, _ = read(model, tmp_path, lora_r=4)
            except BadInput as error:
                known = "" if isinstance(found, str) else f"{found} of peft, where Lockstep refuses"
                answers.refused(f"{kind} {known}", error, known or "peft has no default", NO_DEFAULT)
                continue
            answers.compare(kind, ours(model, train), found, why=LATER if kind == "mixtral" else "")


def ask_named(answers: Answers, kind: str, number: int, folder: Path) -> None:
    """LoRA and its variants on all linear layers, or on some by the names that the class has for them."""
    rng = random.Random(f"{kind} {number}")
    model, made = model_of(kind, f"named {number}")
    names = "all-linear" if number == 0 else names_of(made, rng)
    rank, variant = rng.choice((2, 4, 8, 16)), rng.choice(("", "", "use_dora", "use_rslora"))
    if not names:
        return
    settings = peft.LoraConfig(r=rank, target_modules=names, **({variant: True} if variant else {}))
    try:
        found = theirs(made, settings)
    except Exception:  # Whatever it raises, it puts no such adapters on this model.
        return
    case = f"{kind} {names} r={rank} {variant}"
    train, left = read(model, folder, lora_r=rank, lora_target_modules=names, **({variant: True} if variant else {}))
    if left:
        answers.compare(case, "left out", "read", why=UNNAMED)
        return
    pooled = kind in ("bert", "roberta") and ("dense" in names or names == "all-linear")
    answers.compare(case, ours(model, train), found, why=POOLED if pooled else "")


def test_targets_by_the_names_of_the_class(asked: Asker, tmp_path: Path) -> None:
    with asked("peft", "parameters that LoRA and its variants train, targets drawn") as answers:
        for kind in FAMILIES:
            for number in range(EACH):
                ask_named(answers, kind, number, tmp_path)


def methods(kind: str, rng: random.Random) -> Iterator[tuple[str, peft.PeftConfig]]:
    """Other methods, in Lockstep's words and as peft is asked for them."""
    every: dict[str, Any] = {"target_modules": "all-linear"}
    rank, blocks, tokens = rng.choice((16, 64)), rng.choice((2, 4)), rng.choice((5, 20))
    yield f"vera:r={rank},targets=all-linear", peft.VeraConfig(r=rank, **every)
    yield f"oft:blocks={blocks},targets=all-linear", peft.OFTConfig(r=blocks, oft_block_size=0, **every)
    task = "SEQ_2_SEQ_LM" if kind in ("t5", "mt5") else "CAUSAL_LM"
    yield f"prompt:tokens={tokens}", peft.PromptTuningConfig(num_virtual_tokens=tokens, task_type=task)
    if kind in WITH_DOWN:
        yield "ia3:targets=all-linear", peft.IA3Config(feedforward_modules=["down_proj"], **every)


def ask_method(answers: Answers, kind: str, number: int) -> None:
    """One method beside a family's model, unless peft puts none there."""
    for place, (words, settings) in enumerate(methods(kind, random.Random(f"{kind} {number}"))):
        model, made = model_of(kind, f"method {number} {place}")
        try:
            found = theirs(made, settings)
        except Exception:  # Whatever it raises, it trains no such thing.
            continue
        why = POOLED if kind in ("bert", "roberta") and "all-linear" in words else ""
        try:
            answers.compare(f"{kind} {words}", ours(model, words), found, why=why)
        except BadInput as error:
            answers.refused(f"{kind} {words}", error, "refused by none", "")


def test_other_methods(asked: Asker) -> None:
    with asked("peft", "parameters that VeRA, OFT, IA3 and prompt tuning train") as answers:
        for kind in FAMILIES:
            ask_method(answers, kind, 0)
