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

import pytest
import torch
import transformers
from agreement import Answers, Asker
from configurations import base_of, class_of, tables
from held_states import FAMILIES, Case, after_a_step, compare, drawn, of_parameters, ours_B, refuse
from transformers.training_args import OptimizerNames

from lockstep.decide.planner.imports import read_run
from lockstep.describe.workload import embedding_weights, head_weights, layer_weights, modules_of, stored_weights
from lockstep.describe.workload.huggingface import config_of

TABLES = ("Embedding",)
PRICED_AS_ADAMW = "Lockstep's import says that it has no such optimizer"


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


def muon(model: torch.nn.Module) -> Any:
    """Muon for matrices of layers and AdamW for the rest, as torch's Muon asks; one optimizer of both."""
    matrices = set()
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList):
            matrices |= {one for one in module.parameters() if one.dim() == 2}
    rest = [one for one in model.parameters() if one not in matrices]
    return Both(torch.optim.Muon([*matrices]), torch.optim.AdamW(rest))


class Both:
    """Two optimizers that take their steps together."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers

    @property
    def state(self) -> dict[Any, Any]:
        return {key: value for one in self.optimizers for key, value in one.state.items()}

    def step(self) -> None:
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
}


def test_states_are_those_of_torch_to_the_byte(asked: Asker) -> None:
    with asked("torch", "bytes of states of its optimizers, models drawn") as answers:
        compare(answers, CASES, "torch", 8)
        every = [one for one in vars(torch.optim).values() if isinstance(one, type)]
        refuse(answers, every, {name.partition(" ")[0] for name in CASES} | {"Optimizer", "Muon"})
        for _ in ():
            muon


def trained(file: dict[str, Any], model: Any, name: str, half: bool, folder: Path) -> tuple[Any, Path]:
    """The optimizer that the Trainer makes, and its arguments as it writes them."""
    arguments = transformers.TrainingArguments(output_dir=str(folder), optim=name, use_cpu=True, report_to=[])
    trainer = transformers.Trainer(model=model, args=arguments)
    path = folder / "training_args.json"
    path.write_text(arguments.to_json_string(), encoding="utf-8")
    return trainer.create_optimizer(), path
