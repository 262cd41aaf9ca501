"""`levers`: what would make a run fit that does not: each change alone, the first few together, more or other devices.

Every change is a word of the command line, and asked of the whole search: the least memory of any layout, and the
fastest step of those that fit. Changes that keep what is trained are put together first, those that save most before
others; adapters come after all of them. More devices are tried in powers of two, other devices by their price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.pins import Pins
from lockstep.decide.planner.search import search
from lockstep.describe.hardware import Cluster, clusters
from lockstep.describe.workload import Model, Transformer
from lockstep.price.layout import OFFLOAD, Job, Recipe

ADAPTED = "lora:r=16,targets=all-linear"
MOST_TIMES = 64
"""Of the devices asked for: more are not tried."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked again, changed."""

    recipe: Recipe
    pins: Pins


@dataclass(frozen=True, slots=True)
class Lever:
    """A change, or several, and what the search finds with them."""

    words: tuple[str, ...]
    """As on the command line."""
    memory_B: float
    """Of the layout that needs least."""
    saved_B: float
    step_time_s: float | None
    """Of the fastest layout that fits; None where none does."""
    host_full: bool = False
    """Layouts fit on the device, and what they offload exceeds the host's memory."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "words": " ".join(self.words),
            "memory_B": self.memory_B,
            "saved_B": self.saved_B,
            "step_time_s": self.step_time_s,
            "host_full": self.host_full,
        }


@dataclass(frozen=True, slots=True)
class Machines:
    """Other hardware on which the run fits as it is."""

    cluster: str
    """Its name in the catalog; that of the cluster asked for, where only the number of devices differs."""
    device: str
    devices: int
    step_time_s: float
    price_per_hour_usd: float | None
    """Of all devices."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Levers:
    """What would make a run fit."""

    alone: tuple[Lever, ...]
    """Changes one by one, those that save most first."""
    together: Lever | None
    """The first changes that make it fit together; None where a single one does, or all together do not."""
    more: Machines | None
    """The fewest devices of the same kind that fit, in powers of two of those asked for."""
    other: Machines | None
    """As many devices with more memory: those of the catalog that cost least and fit."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "alone": [one.to_dict() for one in self.alone],
            **{
                name: None if one is None else one.to_dict()
                for name, one in (("together", self.together), ("more", self.more), ("other", self.other))
            },
        }


def levers(model: Model, cluster: Cluster, recipe: Recipe, pins: Pins) -> Levers:
    """What would make `model` fit on `cluster`, where nothing does."""
    asked = Question(recipe, pins)
    needed_B = _found(model, cluster, asked).memory_B
    alone = []
    for words, question in _changes(model, asked):
        found = _found(model, cluster, question, (words,), needed_B)
        if found.memory_B < needed_B:
            alone.append(found)
    alone.sort(key=lambda one: -one.saved_B)
    fits = any(one.step_time_s is not None for one in alone if not one.words[0].startswith("--train"))
    together = None if fits else _together(model, cluster, asked, [one.words[0] for one in alone], needed_B)
    return Levers(tuple(alone), together, _more(model, cluster, asked), _other(model, cluster, asked))


def _changes(model: Model, asked: Question) -> Iterator[tuple[str, Question]]:
    """Every change that is not made already, in words."""
    recipe = asked.recipe
    for offload in OFFLOAD[max(map(OFFLOAD.index, asked.pins.offload)) + 1 :]:
        yield f"--offload {offload}", replace(asked, pins=replace(asked.pins, offload=(offload,)))
    if recipe.states.matrix_states_B >= 8:
        yield "--optimizer adamw-8bit", replace(asked, recipe=replace(recipe, optimizer="adamw-8bit"))
    if recipe.gradient_B > 2 and recipe.adapters is None:
        yield "--gradient-bytes 2", replace(asked, recipe=replace(recipe, gradient_B=2.0))
    if not isinstance(model, Transformer):
        return
    if recipe.loss_kind not in ("chunked", "tiled") and model.has_head:
        yield "--cross-entropy chunked", replace(asked, recipe=recipe.having(cross_entropy="chunked"))
    if not recipe.update_in_backward and recipe.adapters is None and recipe.local_steps == 1:
        yield "--update-in-backward", replace(asked, recipe=replace(recipe, update_in_backward=True))
    if not recipe.offload_layers:
        yield "--offload-layers all", replace(asked, recipe=replace(recipe, offload_layers="all"))
    objective = recipe.objective
    if objective.name == "dpo" and objective.forwards > 1 and recipe.adapters is None:
        yield "--train dpo:reference=precomputed", _trained(asked, "dpo:reference=precomputed")
    adapted = ADAPTED if objective.forwards == 1 else f"{recipe.train},{ADAPTED}"
    if objective.models > 1:
        return
    if recipe.adapters is None:
        yield f"--train {adapted}", _trained(asked, adapted)
    if recipe.base is None and (recipe.adapters is None or recipe.adapters.above_narrow):
        train = recipe.train if recipe.adapters is not None else adapted
        words = "--base nf4" if recipe.adapters is not None else f"--train {adapted} --base nf4"
        yield words, replace(asked, recipe=replace(recipe, train=train, base="nf4"))


def _trained(asked: Question, train: str) -> Question:
    return replace(asked, recipe=replace(asked.recipe, train=train))


def _together(model: Model, cluster: Cluster, asked: Question, words: list[str], needed_B: float) -> Lever | None:
    """Changes one after another until something fits: first those that keep what is trained, then with adapters."""
    for keeping in (True, False):
        made: list[str] = []
        question = asked
        wanted = [one for one in words if not one.startswith("--train")]
        if not keeping:
            wanted = [one for one in words if "--base nf4" in one or "--train" in one][:1] + wanted
        for one in wanted:
            fresh = dict(_changes(model, question)).get(one)
            if fresh is None:
                continue
            made = [*(kept for kept in made if kept.split()[0] != one.split()[0]), one]
            question = fresh
            found = _found(model, cluster, question, tuple(made), needed_B)
            if found.step_time_s is not None:
                return found
    return None


def _more(model: Model, cluster: Cluster, asked: Question) -> Machines | None:
    """The fewest devices that fit, in powers of two of those there are."""
    times = 2
    while times <= MOST_TIMES:
        found = _machines(model, cluster, times * cluster.num_devices, asked)
        if found is not None:
            return found
        times *= 2
    return None


def _other(model: Model, cluster: Cluster, asked: Question) -> Machines | None:
    """The cheapest machines with as many devices, of more memory, that the software runs on and that fit."""
    larger = [
        (one.price_per_hour_usd, one.name, one)
        for one in clusters()
        if one.price_per_hour_usd is not None
        and one.device.memory_B > cluster.device.memory_B
        and one.device.vendor in asked.recipe.software.vendors
    ]
    tried: set[str] = set()
    for _, _, one in sorted(larger, key=lambda entry: entry[:2]):
        if one.device.name in tried:
            continue
        tried.add(one.device.name)
        found = _machines(model, one, cluster.num_devices, asked)
        if found is not None:
            return found
    return None


def _machines(model: Model, cluster: Cluster, devices: int, asked: Question) -> Machines | None:
    """So many devices of a cluster; None where they do not fill it evenly or the run does not fit."""
    try:
        sized = cluster.resized(devices)
    except BadInput:
        return None
    step_s = _found(model, sized, asked).step_time_s
    if step_s is None:
        return None
    price = sized.price_per_hour_usd
    all_price = None if price is None else price * devices
    return Machines(cluster.name, sized.device.name, devices, step_s, all_price)


def _found(
    model: Model, cluster: Cluster, question: Question, words: tuple[str, ...] = (), needed_B: float = 0.0
) -> Lever:
    """What a search finds, called `words`, where `needed_B` were needed before."""
    job = Job(model, question.recipe, cluster.num_devices)
    found = search(job, cluster, question.pins.space(job, cluster.devices_per_unit(0)), top=1)
    if found.best:
        memory_B = min(one.memory_B for one in (*found.front, *found.best))
        return Lever(words, memory_B, needed_B - memory_B, found.best[0].step_time_s)
    host = found.host_miss is not None
    memory_B = cluster.device.memory_B if host else found.nearest_miss.memory_B if found.nearest_miss else math.inf
    return Lever(words, memory_B, needed_B - memory_B, None, host)
