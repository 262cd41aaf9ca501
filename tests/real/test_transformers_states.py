"""States of optimizers of torch, and of those that transformers' Trainer makes by the name of `optim`, to the byte.

Models are small ones of transformers' classes with drawn sizes; every parameter gets a gradient, and one step is taken.
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitsandbytes
import pytest
import torch
import transformers
from agreement import Answers, Asker
from configurations import base_of, class_of, tables
from held_states import (
    FAMILIES,
    WITHOUT_STACKS,
    Case,
    after_a_step,
    compare,
    drawn,
    of_layers,
    of_parameters,
    ours_B,
    refuse,
)
from transformers.training_args import OptimizerNames

from lockstep.decide.planner.imports import read_run
from lockstep.describe.workload import (
    embedding_weights,
    head_weights,
    layer_weights,
    modules_of,
    stored_weights,
)
from lockstep.describe.workload.huggingface import config_of

UNKNOWN = "an optimizer that Lockstep has not: its states are taken as AdamW's, which the reading of the file says"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


Shapes = Counter[tuple[int, ...]]


def unturned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape whose last two sides are in order: classes differ in which comes first."""
    return (*shape[:-2], *sorted(shape[-2:]))


def ours(kind: str) -> Shapes:
    """Trained tensors of Lockstep's model of a family's small file."""
    model = config_of(json.dumps(base_of(kind)), "config.json")
    lists = [layer_weights(model, one) for one in model.kinds] + [(*embedding_weights(model), *head_weights(model))]
    modules = modules_of(model.model_type)
    stored = [one for weights in lists for one in stored_weights(tuple(weights), modules) if one.trained]
    return Counter(unturned(one.shape) for one in stored)


def theirs(kind: str) -> Shapes:
    """Those of its class, without corrections of routers, which no gradient trains."""
    with torch.device("meta"):
        model = getattr(transformers, class_of(kind))(tables()[0].CONFIG_MAPPING[kind].from_dict(base_of(kind)))
    model.tie_weights()
    named = [one for name, one in model.named_parameters() if not name.endswith("correction_bias")]
    return Counter(unturned(tuple(one.shape)) for one in named)


def test_tensors_have_the_shapes_of_the_class(asked: Asker) -> None:
    with asked("transformers", "shapes of all tensors of a family's model") as answers:
        for kind in FAMILIES:
            answers.compare(kind, ours(kind), theirs(kind))


class Muon:
    """torch's Muon for matrices of layers and its AdamW for the rest, as the Muon of torch asks its users to do."""

    def __init__(self, model: torch.nn.Module) -> None:
        matrices, rest = of_layers(model)
        self.optimizers = torch.optim.Muon(matrices), torch.optim.AdamW(rest)

    @property
    def state(self) -> dict[Any, Any]:
        """Of both."""
        return {key: value for one in self.optimizers for key, value in one.state.items()}

    def step(self) -> None:
        """Of both."""
        for one in self.optimizers:
            one.step()


CASES = {
    "Adam": Case(of_parameters(torch.optim.Adam), "adam"),
    "AdamW": Case(of_parameters(torch.optim.AdamW), "adamw", "adamw-bf16"),
    "AdamW fused": Case(of_parameters(torch.optim.AdamW, fused=True), "adamw", "adamw-bf16"),
    "AdamW foreach": Case(of_parameters(torch.optim.AdamW, foreach=True), "adamw", "adamw-bf16"),
    "SGD": Case(of_parameters(torch.optim.SGD), "sgd", "sgd-bf16"),
    "SGD with momentum": Case(of_parameters(torch.optim.SGD, momentum=0.9), "sgd-momentum"),
    "Adafactor": Case(of_parameters(torch.optim.Adafactor), "adafactor-torch", "adafactor-torch-bf16"),
    "Muon": Case(Muon, "muon", "muon-bf16", WITHOUT_STACKS),
}


def test_states_are_those_of_torch_to_the_byte(asked: Asker) -> None:
    with asked("torch", "bytes of states of its optimizers, models drawn") as answers:
        compare(answers, CASES, "torch", 8)
        every = [one for one in vars(torch.optim).values() if isinstance(one, type)]
        refuse(answers, every, {name.partition(" ")[0] for name in CASES} | {"Optimizer"})


def trained(name: str, model: Any, folder: Path, **more: Any) -> tuple[Any, Path]:
    """The optimizer that the Trainer makes, and its arguments as it writes them, with those of a script around it.

    bitsandbytes remembers the places of the last model's tables for the life of the process (`findings/`).
    """
    bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()
    arguments = transformers.TrainingArguments(output_dir=str(folder), optim=name, use_cpu=True, report_to=[])
    trainer = transformers.Trainer(model=model, args=arguments)
    path = folder / "arguments.json"
    path.write_text(json.dumps(arguments.to_dict() | more), encoding="utf-8")
    return trainer.create_optimizer(), path


def ask_trainer(answers: Answers, name: str, half: bool, number: int, folder: Path) -> None:
    """Compares one name of `optim`, unless the Trainer does not make it here (a package, or a GPU, is missing)."""
    file, model = drawn(random.Random(f"trainer {name} {half} {number}"))
    model = model.to(torch.bfloat16) if half else model
    try:
        made, path = trained(name, model, folder, **({"dtype": "bfloat16", "dataset_name": "any"} if half else {}))
        theirs_B = after_a_step(made, model)
    except Exception:  # Whatever it raises, it makes no step.
        return
    read = read_run(path)
    assert read is not None
    case = f"{name} half={half} of {file}"
    (kind,) = (row.kind for row in read.table if row.word == "optim")
    if kind != "read":
        answers.compare(case, kind, "read", why=UNKNOWN)
        return
    words = {key: read.words[key] for key in ("stack", "optimizer")}
    answers.compare(case, ours_B(file, **words), theirs_B)


def test_states_are_those_of_the_trainer_to_the_byte(asked: Asker, tmp_path: Path) -> None:
    # torchao compiles its updates for each shape by default, which takes minutes and changes no state.
    with (
        torch.compiler.set_stance("force_eager"),
        asked("transformers", "bytes of states by the name of TrainingArguments' optim, models drawn") as answers,
    ):
        for name in OptimizerNames:
            for number in range(4):
                ask_trainer(answers, name.value, number % 2 == 1, number, tmp_path)
    assert answers.agree > 50
