"""What is trained, as settings of `--train`: an objective, and adapters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lockstep.decide.planner.imports.said import Said

NAMES = {
    "linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
}
"""Megatron's modules by the names of Hugging Face."""
EVERY = ("all-linear", "all_linear")


def objective(name: str, refers: bool) -> list[str]:
    """An objective with the frozen reference or without."""
    return [name if refers else f"{name}:reference=none"]


def adapters(said: Said, word: str, rank: int, targets: Iterable[object] | str, dropout_frac: float) -> list[str]:
    """Adapters of that rank on modules, on all matrices where none is named; `word` names the modules in the file."""
    named = [targets] if isinstance(targets, str) else list(targets)
    modules = [str(one).rpartition(".")[2] for one in named]
    if any(one in EVERY for one in modules):
        modules = []
    if not all(re.fullmatch(r"\w{1,60}", one) for one in modules):
        raise said.refuse(word, "must name modules, e.g. q_proj")
    full = [name for one in modules for name in NAMES.get(one, (one,))]
    dropout = f",dropout={dropout_frac:g}" if dropout_frac else ""
    return [f"lora:r={rank},targets={'+'.join(dict.fromkeys(full)) or 'all-linear'}{dropout}"]
