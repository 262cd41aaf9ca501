"""torchao's optimizers take a step of small models, and hold as many bytes of states as Lockstep has, to the byte."""

from __future__ import annotations

import torch
import torchao.optim
from agreement import Asker
from held_states import Case, compare, of_parameters, refuse

KINDS = {"8bit": 256, "4bit": 128, "Fp8": 256}
"""Ends of names of classes, and elements that share a scale by default."""
BLOCKS = (64, 512, 2048)
MOVED = "CPUOffloadOptimizer"
"""Moves states of another optimizer to the host, and needs a GPU to begin with."""


def cases() -> dict[str, Case]:
    """Every class, and those of AdamW with other blocks."""
    found = {}
    for bits, usual in KINDS.items():
        names = [f"adamw-{bits.lower()}-torchao{half}" for half in ("", "-bf16")]
        adam, adamw = (getattr(torchao.optim, f"{kind}{bits}") for kind in ("Adam", "AdamW"))
        found |= {one.__name__: Case(of_parameters(one, block_size=usual), *names) for one in (adam, adamw)}
        for block in BLOCKS:
            called = [f"{name}:block={block}" for name in names]
            found[f"{adamw.__name__} in blocks of {block}"] = Case(of_parameters(adamw, block_size=block), *called)
    return found


def test_states_are_those_of_torchao_to_the_byte(asked: Asker) -> None:
    # Updates are compiled for each shape by default, which takes minutes and changes no state.
    with (
        torch.compiler.set_stance("force_eager"),
        asked("torchao", "bytes of states of its optimizers, models drawn") as answers,
    ):
        compare(answers, cases(), "torchao", 5)
        classes = [getattr(torchao.optim, name) for name in torchao.optim.__all__ if name != MOVED]
        refuse(answers, classes, {name.partition(" ")[0] for name in cases()})
