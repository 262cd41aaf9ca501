"""Low-rank adapters as `--train` has them: rank, targets and dropout.

A target is the last part of a module's name; one that Lockstep has no setting for is said and left out. Without targets
peft takes those of the model's family (`targets.toml`), and refuses families for which it has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, Transformer, all_weights, is_linear
from lockstep.describe.workload.adapter_words import MOST_RANK
from lockstep.describe.workload.adapters import GROUPS, JOINED, NAMES, SAVED

ALL = ("all", "all-linear", "linear")
PLAIN = re.compile(r"[\w.*-]+")
"""Of a target that is no regular expression."""


@cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """What `targets.toml` has: defaults and names."""
    return shipped_table("lockstep.decide.planner.imports.tuning", "targets.toml")


def defaults(said: Said, word: str, model: Model | None) -> tuple[str, ...]:
    """The targets that peft takes by itself. Raises BadInput, at `word`, for a family without any."""
    family = model.model_type if isinstance(model, Transformer) else ""
    if not family:
        said.open(word, "peft chooses the targets by the model's type, which is not known here; q_proj and v_proj")
        return ("q_proj", "v_proj")
    found = tables()["defaults"].get(family)
    if found is None:
        raise said.refuse(word, f"needs target modules: peft has no default for models of type {family}")
    return tuple(found)


def saved(said: Said, word: str) -> str:
    """The setting for modules that are trained whole; notes those that have none."""
    given = said[word] or ()
    names = [one.strip() for one in given.split(",")] if isinstance(given, str) else [str(one) for one in given]
    if missing := [one for one in names if one not in SAVED]:
        said.leave(word, f"{', '.join(missing)}, trained whole beside adapters")
    kept = [one for one in names if one in SAVED]
    return f",save={'+'.join(kept)}" if kept else ""


def lora(
    said: Said, words: tuple[str, str, str], targets: Sequence[str] | str | None, model: Model | None, save: str = ""
) -> str:
    """`lora:r=...` from the settings for rank, dropout, targets and, where the software has one, modules to save;
    `targets` None means those that peft takes.
    """
    rank, dropout, where = words
    if not 1 <= said[rank] <= MOST_RANK:
        raise said.refuse(rank, f"must be from 1 to {MOST_RANK}, got {said[rank]}")
    share = said[dropout] or 0
    if share >= 1:
        raise said.refuse(dropout, f"must be below 1, got {share:g}")
    named = named_targets(said, where, defaults(said, where, model) if targets is None else targets, model)
    kept = saved(said, save) if save else ""
    return f"lora:r={said[rank]},targets={named}" + (f",dropout={share:g}" if share else "") + kept


def named_targets(said: Said, where: str, given: Sequence[str] | str, model: Model | None = None) -> str:
    """Targets of a model's class in Lockstep's terms, joined by `+`; notes those that have none."""
    family = model.model_type if isinstance(model, Transformer) else ""
    each = [part.strip() for part in given.split(",")] if isinstance(given, str) else [str(one) for one in given]
    if any(one in ALL for one in each):
        return "all-linear"
    found: dict[str, None] = {}
    missing: list[str] = []
    for one in each:
        names = targets_of(one, family)
        found |= dict.fromkeys(names)
        if not names:
            missing.append(one)
    twice = [one for joined in JOINED if joined in found for one in found if one != joined and _shares(joined, one)]
    kept = [one for one in found if one not in twice]
    if missing or not kept:
        taken = "" if kept else "; all linear layers are taken"
        said.leave(where, f"adapters on {', '.join(missing) or 'nothing'}{taken}")
    return _grouped(kept) or "all-linear"


def target_sizes(named: str, model: Transformer) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of the linear layers that targets joined by `+` name in a model's first layer that has them."""
    targets = [one for word in named.split("+") for one in GROUPS.get(word, (word,))]
    weights = [one for one in all_weights(model) if is_linear(one)]
    found: dict[str, tuple[int, int]] = {}
    for target in targets:
        for one in weights:
            if one.name in NAMES[target]:
                found.setdefault(target, (one.shape[0], one.shape[1]))
    return found


def _shares(joined: str, one: str) -> bool:
    return bool(set(NAMES[joined]) & set(NAMES[one]))


def _grouped(targets: list[str]) -> str:
    """Targets joined by `+`, or the setting for several that are just these."""
    linear = {*GROUPS["attention"], *GROUPS["mlp"]}
    if set(targets) == linear:
        return "attention+mlp"
    return next((word for word, members in GROUPS.items() if set(members) == set(targets)), "+".join(targets))


def targets_of(module: str, family: str = "") -> tuple[str, ...]:
    """The targets in Lockstep's terms for a module's name, whole or its last part, in models of a type."""
    if not PLAIN.fullmatch(module):
        return ()
    last = module.rpartition(".")[2]
    own = tables()["of_type"].get(family, {}).get(last)
    name = tables()["names"].get(last, last)
    return tuple(own or (name,) * (name in NAMES))
