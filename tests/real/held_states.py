"""Small models of transformers' classes with drawn sizes, and the bytes of states that an optimizer holds of one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from agreement import Answers
from configurations import base_of, class_of, kinds, tables

from configuration_outcomes import changed
from lockstep.base.errors import UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer
from lockstep.describe.workload.huggingface import WRAPPERS, config_of
from lockstep.price.layout import Job, Layout, memory
from recipes import recipe_by

DRAWN = {
    "vocab_size": (131, 999, 1000, 1537), "num_hidden_layers": (1, 2, 3), "intermediate_size": (37, 96, 333, 1000),
    "moe_intermediate_size": (17, 40, 96), "shared_expert_intermediate_size": (33, 70), "num_experts": (3, 8),
    "n_inner": (61, 400), "ffn_dim": (61, 400), "d_ff": (61, 400), "tie_word_embeddings": (True, False),
    "max_position_embeddings": (61, 128),
}  # fmt: skip
"""Values of keys that a small file may have; tensors come out below and above the sizes where libraries change."""
FAMILIES = tuple(kind for kind in kinds() if kind not in (*WRAPPERS, "resnet", "vit") and not kind.endswith("_vl_text"))


def drawn(rng: random.Random, families: Sequence[str] = FAMILIES) -> tuple[dict[str, Any], torch.nn.Module]:
    """A file of a family's kind with other sizes, and its model on the CPU, whose numbers are not set."""
    while True:
        kind = rng.choice(families)
        base = base_of(kind)
        file = changed(base, {key: rng.choice(DRAWN[key]) for key in DRAWN if key in base and rng.random() < 0.7})
        try:
            config = tables()[0].CONFIG_MAPPING[kind].from_dict(json.loads(json.dumps(file)))
            with torch.device("meta"):
                model = getattr(transformers, class_of(kind))(config)
        except Exception:  # Whatever a class raises of sizes, it makes no such model.
            continue
        model = model.to_empty(device="cpu")
        model.tie_weights()
        return file, model


def after_a_step(optimizer: Any, model: torch.nn.Module) -> int:
    """Bytes of what an optimizer holds once every parameter had a gradient, without counters of steps."""
    for one in model.parameters():
        one.data.normal_(std=0.02)
        one.grad = torch.randn_like(one) if one.requires_grad else None
    optimizer.step()
    return sum(storages(list(optimizer.state.values())).values())


def storages(states: Iterable[Any]) -> dict[int, int]:
    """Bytes by storage of all tensors in states, those inside of tensors of tensors too; a counter is one number."""
    found: dict[int, int] = {}
    for one in states:
        if isinstance(one, dict):
            found |= storages(value for name, value in one.items() if name != "step")
        elif isinstance(one, list | tuple):
            found |= storages(one)
        elif isinstance(one, torch.Tensor) and hasattr(one, "__tensor_flatten__"):
            found |= storages(getattr(one, name) for name in one.__tensor_flatten__()[0])
        elif isinstance(one, torch.Tensor):
            found[one.untyped_storage()._cdata] = one.untyped_storage().nbytes()
    return found


def ours_B(file: dict[str, Any], optimizer: str, stack: str = "hf-trainer", **words: Any) -> float:
    """The same by Lockstep, of a model that one device holds; a master copy is a parameter, as in the Trainer."""
    recipe = recipe_by(stack, seq=8, batch=1, optimizer=optimizer, **words)
    job = Job(config_of(json.dumps(file), "config.json"), recipe, 1)
    return float(memory(job, cluster("b200:1", gpus=1), Layout().grid()).optimizer_B)


def of_layers(model: torch.nn.Module) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The matrices of layers, tables apart, and all other parameters: what Muon updates, and what Adam does."""
    layers = [part for one in model.modules() if isinstance(one, torch.nn.ModuleList) for part in one.modules()]
    linear = [one for one in layers if not isinstance(one, torch.nn.Embedding)]
    inside = {one for module in linear for one in module.parameters(recurse=False) if one.dim() == 2}
    return [*inside], [one for one in model.parameters() if one not in inside]


def of_matrices(kind: str) -> bool:
    """Whether all that a family's layers multiply by is matrices: torch's Muon takes no other tensors."""
    model = config_of(json.dumps(base_of(kind)), "config.json")
    return isinstance(model, Transformer) and model.experts is None and model.recurrent is None


WITHOUT_STACKS = tuple(kind for kind in FAMILIES if of_matrices(kind))
"""Families without experts and recurrent mixers."""
Maker = Callable[[torch.nn.Module], Any]


def of_parameters(made: Callable[..., Any], **words: Any) -> Maker:
    """An optimizer of all parameters of a model."""
    return lambda model: made([one for one in model.parameters() if one.requires_grad], **words)


@dataclass(frozen=True)
class Case:
    """An optimizer of a package, and what Lockstep calls it in fp32 and in half precision; empty where it has none."""

    made: Maker
    wide: str
    half: str = ""
    families: Sequence[str] = FAMILIES


def compare(answers: Answers, cases: dict[str, Case], seed: str, each: int) -> None:
    """Asks of each case, in either format, so many drawn models."""
    for name, case in cases.items():
        for dtype, called in ((torch.float32, case.wide), (torch.bfloat16, case.half)):
            rng = random.Random(f"{seed} {name} {called}")
            for _ in range(each * bool(called)):
                file, model = drawn(rng, case.families)
                model = model.to(dtype)
                theirs_B = after_a_step(case.made(model), model)
                answers.compare(f"{name} {dtype} of {file}", ours_B(file, called, wide_tables=False), theirs_B)


def refuse(answers: Answers, classes: Iterable[type], cases: Iterable[str]) -> None:
    """Asks of the classes that are not among the cases: Lockstep refuses their names."""
    for one in classes:
        if one.__name__ not in cases:
            with pytest.raises(UnknownName) as raised:
                recipe_by("hf-trainer", seq=8, batch=1, optimizer=one.__name__.lower())
            answers.refused(one.__name__, raised.value, "optimizer", "an optimizer that Lockstep has not, refused")
