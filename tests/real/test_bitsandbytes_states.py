"""bitsandbytes' optimizers take a step of small models on the CPU, and hold as many bytes as Lockstep has."""

from __future__ import annotations

import bitsandbytes.optim
import torch
from agreement import Asker
from held_states import Case, compare, of_parameters, refuse

NAMES = {"Adam": "adam", "AdamW": "adamw", "Lion": "lion"}
EIGHT = {"Adam": "adamw-8bit", "AdamW": "adamw-8bit", "Lion": "lion-8bit"}
CLASSES = {
    name: one
    for name, one in vars(bitsandbytes.optim).items()
    if isinstance(one, type) and issubclass(one, torch.optim.Optimizer) and one.__module__.startswith("bitsandbytes.")
}


def cases() -> dict[str, Case]:
    """Every class of Adam and Lion, paged ones too, and of SGD; in half precision states stay fp32 or eight bits."""
    found = {}
    for name, one in CLASSES.items():
        kind = name.removeprefix("Paged").removesuffix("8bit").removesuffix("32bit")
        if kind in NAMES:
            wide = EIGHT[kind] if name.endswith("8bit") else NAMES[kind]
            half = "adamw" if wide == "adam" else wide
            found[name] = Case(of_parameters(one), wide, f"{half}-no-master")
    momentum = {"lr": 1e-3, "momentum": 0.9}
    return found | {
        name: Case(of_parameters(CLASSES[name], **momentum), "sgd-momentum") for name in ("SGD", "SGD32bit")
    }


def test_states_are_those_of_bitsandbytes_to_the_byte(asked: Asker) -> None:
    with asked("bitsandbytes", "bytes of states of its optimizers, models drawn") as answers:
        compare(answers, cases(), "bitsandbytes", 6)
        refuse(answers, CLASSES.values(), cases())
