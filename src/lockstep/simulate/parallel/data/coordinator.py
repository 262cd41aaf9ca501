"""What DeepSpeed's ZeRO-3 gathers and holds in a micro-batch, by limits in elements of parameters.

Every module fetches its parameters before its forward and before its backward pass, and gives them up after it. From
the second micro-batch on the order of all fetches is known, and

    kept        after a pass are parameters that persist (`param_persistence_threshold` elements or fewer), those that
                are used again before `max_reuse_distance` elements of other modules are, and those whose next use the
                prefetch has passed already
    prefetched  with every fetch are the next parameters in order that are not there, until `prefetch_bucket_size`
                elements are asked for, or `max_live_parameters` are there

A module without parameters (a container, an activation) prefetches too. Recomputed modules fetch once more: by the time
that the last one of a layer waits for its input, it has been fetched for the backward pass, and recomputation stops
inside it. What persists is gathered once per step, after the update.

Source: DeepSpeed 0.19.8, runtime/zero/partitioned_param_coordinator.py (fetch_sub_module, release_sub_module,
__params_to_release, reset_step) and parameter_offload.py (mark_persistent_parameters); counts on two ranks are in
tests/parallel/data/deepspeed_gathers.csv.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, fields
from lockstep.base.units import parse_count


@dataclass(frozen=True, slots=True)
class Limits:
    """DeepSpeed's limits by its own names, in elements, with its defaults (0.19.8, runtime/zero/config.py)."""

    max_reuse_distance: int = 10**9
    max_live_parameters: int = 10**9
    prefetch_bucket_size: int = 5 * 10**7
    param_persistence_threshold: int = 10**5
    reduce_bucket_size: int = 5 * 10**8
    """Of stages 1 to 3: gradients that are reduced together, in a buffer of this size."""

    @property
    def changed(self) -> dict[str, int]:
        """Those that differ from the defaults, by name."""
        usual = Limits()
        names = [one.name for one in fields(self)]
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}


@lru_cache(maxsize=64)
def read_limits(text: str, where: str | None = "--gather-limits") -> Limits:
    """Limits as `max_reuse_distance=0,prefetch_bucket_size=5e7`. Raises BadInput, UnknownName."""
    names = [one.name for one in fields(Limits)]
    found: dict[str, int] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = part.partition("=")
        if name not in names:
            raise UnknownName("limit of gathers", name, names, where)
        number = parse_count(value, where)
        if not (number >= 0 and number == int(number)):
            raise BadInput(f"{name} must be a whole number of elements from 0 on, got {value!r}", where)
        found[name] = int(number)
    return Limits(**found)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One parameter, or several of one module that are alike."""

    elems: float
    key: int
    """Equal for a parameter that two modules share."""
    copies: int = 1

    def persists(self, limits: Limits) -> bool:
        """Whether it stays whole from step to step."""
        return self.elems <= limits.param_persistence_threshold * self.copies


@dataclass(frozen=True, slots=True)
class Module:
    """A module with parameters of its own, or with modules inside."""

    tensors: tuple[Tensor, ...] = ()
    inside: tuple[Module, ...] = ()
    layer: bool = False
    recomputed: bool = False
    """Its forward pass runs again in its backward pass."""
    looked_up: bool = False
    """Its inputs have no gradient, so nothing tells that its backward pass has ended."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Shares of all parameters; a pass may gather some twice."""

    forward_frac: float
    backward_frac: float
    once_frac: float
    """Gathered once per step."""
    held_frac: float
    """Whole on a rank, at most from the loss until the last layer's backward pass ends, when activations take most."""
    most_frac: float
    """Whole on a rank, at most in the backward pass."""


Event = tuple[Module, bool]
"""A module that is fetched, or (False) given up."""


def forward(module: Module) -> Iterator[Event]:
    """The events of a forward pass."""
    yield module, True
    for one in module.inside:
        yield from forward(one)
    yield module, False


def backward(module: Module) -> Iterator[Event]:
    """The events of a backward pass."""
    yield module, True
    events = [event for one in reversed(module.inside) for event in backward(one)]
    if module.recomputed:
        last = next(place for place, (_, fetches) in enumerate(events) if not fetches)
        events[last:last] = _again(module)
    yield from events
    if not module.looked_up:
        yield module, False


def _again(module: Module) -> list[Event]:
    """The events of a forward pass that runs again inside a layer, and stops inside its last module."""
    events = [event for one in module.inside for event in forward(one)]
    while not events[-1][1]:
        events.pop()
    return events


class _Run:
    """One micro-batch whose order of fetches is known."""

    def __init__(self, events: Sequence[Event], limits: Limits) -> None:
        self.limits, self.step, self.live, self.next = limits, 0, 0.0, 0
        fetched = [module for module, fetches in events if fetches]
        self.queue = [(one, step) for step, module in enumerate(fetched) for one in module.tensors]
        self.passed: dict[int, int] = {}
        self.there: dict[int, float] = {}
        self.begun = [0.0]
        for module in fetched:
            self.begun.append(self.begun[-1] + sum(one.elems for one in module.tensors))
        self.uses: dict[int, list[int]] = {}
        for one, step in reversed(self.queue):
            self.uses.setdefault(one.key, []).append(step)
        self.there |= {one.key: one.elems for one, _ in self.queue if one.persists(limits)}
        self.whole = sum(self.there.values())

    def gather(self, tensors: Sequence[Tensor]) -> float:
        """Elements that are brought of those that are not there."""
        missing = {one.key: one.elems for one in tensors if one.key not in self.there}
        elems = sum(missing.values())
        self.there |= missing
        self.live, self.whole = self.live + elems, self.whole + elems
        return elems

    def fetch(self, module: Module) -> float:
        """Elements gathered for a module, and for later ones."""
        found = self.gather(module.tensors)
        waiting = {one.key for one in module.tensors if self.passed.get(one.key, -1) < self.step}
        seen: set[int] = set()
        while self.next < len(self.queue) and len(seen) < len(waiting):
            one, step = self.queue[self.next]
            self.passed[one.key] = step
            seen.add(one.key)
            self.next += 1
        room = min(self.limits.max_live_parameters - self.live, self.limits.prefetch_bucket_size)
        asked: dict[int, Tensor] = {}
        elems = 0.0
        while self.next < len(self.queue) and elems < room:
            one, step = self.queue[self.next]
            self.passed[one.key] = max(self.passed.get(one.key, -1), step)
            if one.key not in self.there and one.key not in asked:
                asked[one.key], elems = one, elems + one.elems
            self.next += 1
        self.step += 1
        return found + self.gather(list(asked.values()))

    def give_up(self, module: Module) -> None:
        """Frees what is neither near nor passed by the prefetch."""
        for one in module.tensors:
            uses = self.uses[one.key]
            while uses and uses[-1] < self.step:
                uses.pop()
            near = bool(uses) and self.begun[uses[-1]] - self.begun[self.step] < self.limits.max_reuse_distance
            kept = one.persists(self.limits) or near or self.passed.get(one.key, -1) > self.step
            if not kept and one.key in self.there:
                elems = self.there.pop(one.key)
                self.live, self.whole = self.live - elems, self.whole - elems


def gathered(model: Module, limits: Limits) -> Gathered:
    """What a micro-batch of `model` gathers under `limits`, as shares of its parameters."""
    first, second = list(forward(model)), list(backward(model))
    run = _Run([*first, *second], limits)
    whole = {one.key: one.elems for one, _ in run.queue}
    total, once = max(1.0, sum(whole.values())), run.whole
    forward_elems, _ = _passed(run, first)
    ends = next((place for place, (module, fetches) in enumerate(second) if module.layer and not fetches), len(second))
    early_elems, held = _passed(run, second[: ends + 1])
    late_elems, most = _passed(run, second[ends + 1 :])
    found = forward_elems, early_elems + late_elems, once, held, max(held, most)
    return Gathered(*(elems / total for elems in found))


def _passed(run: _Run, events: Sequence[Event]) -> tuple[float, float]:
    """(elements gathered, most that are whole) while so many events pass."""
    moved, most = 0.0, run.whole
    for module, fetches in events:
        if fetches:
            moved, most = moved + run.fetch(module), max(most, run.whole)
        else:
            run.give_up(module)
    return moved, most
