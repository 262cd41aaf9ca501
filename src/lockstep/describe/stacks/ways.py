"""Ways in which software runs a slot of a layer, the kernels between its matrix products: `ways.toml`.

    [SLOT.WAY]
    when = ["rmsnorm"]              traits of model and recipe that it takes; without them it is the way `else`
    else = "one"
    rate = "library"                whose kernels: the software's library, torch's operations, or a loss's
    forward = ["WHAT PASSES", ...]  passes that read or write an element in half precision, so that fp32 counts two
    backward = ["WHAT PASSES xTIMES"]    a step that takes so many times as long as its bytes on H100
    slow = [1.32, 1.2]              the same of all steps, forward and backward
    takes = [1.17, 1.35]            times as long as its bytes on any device
    kernels = [10, 13]              launched forward and backward; without it one for each step
    saves = ["WHAT NUMBERS FORMAT"] kept for the backward pass for each element, beyond what every way keeps; FORMAT is
                                    one of `base/types/saved.py`, without it half precision
    source = "..."
    [SLOT.WAY.PART]                 the same of what comes with it on other numbers, or of numbers in fp32: `PARTS`

and numbers that other formulas read: `NUMBERS`.

What a device makes of `xTIMES` and `slow`: `Clock.instruction_bound`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import BadInput, UnknownName, shown
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.saved import FORMATS, Saved

TRAITS = (
    "rmsnorm", "trained", "autocast", "unfused", "unstretched", "gelu_new", "relu2", "interpreted", "no_autocast",
    "unquantised",
    "nf4", "scaled", "fp32_adapters", "compiled", "torch_context",
)  # fmt: skip
"""Of a model: its norm, its activation, no factor on sines and cosines. Of a recipe: whether the model's own weights
are trained, torch.autocast or none, elementwise kernels of their own, frozen matrices as other parameters or in nf4,
products in fp8 or narrower formats, torch's context parallelism. Of software: Python launches its kernels one by one,
or compiled code does, adapters are kept in fp32."""
RATES = ("library", "torch", "loss", "bytes")
KEYS = ("when", "else", "rate", "forward", "backward", "slow", "takes", "kernels", "saves", "source")
PARTS = {
    "keys": "keys and values, beside queries",
    "queries_together": "queries of several sequences",
    "keys_together": "keys and values of several sequences",
    "sorted": "rows of several experts that come from other ranks",
    "gate": "numbers between an expert's products",
    "each": "all tokens of a rank, once for each of its experts",
    "biases": "rows of an expert that has biases, once for each expert of a rank",
    "biased": "rows of all experts of a rank that have biases",
    "clamped": "numbers of gate and up of experts with biases",
    "later": "queries, once for every part of attention after the first",
    "exchanged": "queries, once for every part of attention of several",
    "keys_exchanged": "keys and values, once for every part of attention",
    "inputs": "what an adapter reads",
    "dropout": "what its dropout reads",
    "joined": "numbers of heads that are turned in part, those that are",
    "rest": "the others of such heads",
    "widened": "instead of the way, where its numbers are fp32; without it, the way over twice the bytes",
    "mixed": "instead of the way, where torch.autocast lets it read half precision and fp32",
    "parallel": "instead of `mixed`, where attention and feed-forward block read one input",
    "normed": "instead of `mixed`, where norms give what is added",
    "rounded": "instead of `mixed`, of norms that multiply by their weights in fp32",
}
OF_FORMAT = ("widened", "mixed", "parallel", "normed", "rounded")
WIDENED = ("norm", "norm_weight", "rotary", "gate", "activation", "residual", "input", "output", "input_sum")
"""Slots whose numbers are fp32 in some layouts, so that those parts of a way are read (`price/kernels/slots.py`)."""
NUMBERS = {
    "passing_B": "bytes of a number of it while its gradients are made",
    "weighing": "numbers besides each that is weighed, in the format of the weights, while their gradients are made",
    "exposed": "of the traffic of grouped products, the share beyond that of one product",
    "idles": "launches that the device waits for, forward",
    "apart": "1 where each of a rank's experts has kernels of its own",
    "again": "times that products are computed again backward: what A gives and its gradient, or a loss's logits",
}
STEP = re.compile(r"(?P<what>\S.*?) (?P<passes>\d+(\.\d+)?)( x(?P<times>\d+(\.\d+)?))?")
SAVED = re.compile(rf"(?P<what>\S.*?) (?P<numbers>\d+(\.\d+)?)( (?P<format>{'|'.join(FORMATS)}))?")
MOST = 1000.0
"""Passes of a step and how many times as long it takes, and kernels of a way."""
SAVING = ("norm", "norm_weight", "rotary", "gate", "activation", "residual", "scores", "permutation", "loss")
"""Slots of which software may keep more than every way does; of a loss it is all that is held at its peak."""
FROM_LAYOUT = {"scores": ("kernel", "written")}
"""By slot, the ways that software has; heads and layout choose the others (`price/kernels/scores.py`)."""
Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a way: what it does, its passes, and how many times as long as its bytes it takes on H100."""

    what: str
    passes: float
    times: float = 1.0

    def __str__(self) -> str:
        return f"{self.what} {self.passes:g}" + (f" x{self.times:g}" if self.times != 1.0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How software runs a slot."""

    slot: str
    name: str
    rate: str
    forward: tuple[Step, ...] = ()
    backward: tuple[Step, ...] = ()
    kernels: Pair
    slow: Pair = (1.0, 1.0)
    takes: Pair = (1.0, 1.0)
    saves: tuple[Saved, ...] = ()
    when: tuple[str, ...] = ()
    otherwise: Way | None = None
    source: str = ""
    parts: Mapping[str, Way] = field(default_factory=dict, hash=False)
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)
    passes: Pair = field(init=False)
    """Passes forward and backward, as many as there are."""
    slower: tuple[tuple[Step, ...], tuple[Step, ...]] = field(init=False)
    """Steps that take longer than their bytes."""

    def __post_init__(self) -> None:
        sides = self.forward, self.backward
        passes = tuple(math.fsum(step.passes for step in steps) for steps in sides)
        slower = tuple(tuple(step for step in steps if step.times != 1.0) for steps in sides)
        object.__setattr__(self, "passes", passes)
        object.__setattr__(self, "slower", slower)

    def of(self, traits: Collection[str]) -> Way:
        """This way, or the other one where a trait that it takes is missing."""
        if self.otherwise is None or all(trait in traits for trait in self.when):
            return self
        return self.otherwise.of(traits)

    def to_dict(self) -> Json:
        """Plain JSON form: its row of the table, and the passes that its steps add up to, forward and backward."""
        other = None if self.otherwise is None else self.otherwise.name
        row: Json = {"way": self.name, "when": list(self.when), "else": other, **picked(self, "rate passes kernels")}
        steps = {side: [str(one) for one in getattr(self, side)] for side in ("forward", "backward")}
        steps["saves"] = [str(one) for one in self.saves]
        return {**row, **steps, **picked(self, "slow takes numbers parts source")}


Ways = dict[str, dict[str, Way]]


@cache
def ways() -> Ways:
    """Every way that is known, by slot and name; the first of a slot is the usual one."""
    return read_ways(shipped_table("lockstep.describe.stacks", "ways.toml"), {})


@cache
def usual_ways() -> dict[str, Way]:
    """By slot, the way of software that says no other; that of the loss is an option (`Options.cross_entropy`)."""
    return {slot: next(iter(named.values())) for slot, named in ways().items() if slot != "loss"}


def find_way(slot: str, name: str) -> Way:
    """The way of that name. Raises UnknownName for one of a slot that there is not, or that the slot does not have."""
    return chosen(slot, name, ways())


def chosen(slot: str, name: object, known: Mapping[str, Mapping[str, Way]]) -> Way:
    """The way of that name among those `known`. Raises UnknownName."""
    if slot not in known:
        raise UnknownName("slot of a layer", slot, known)
    if not isinstance(name, str) or name not in known[slot]:
        raise UnknownName(f"way to run {slot}", name, known[slot])
    return known[slot][name]


def read_ways(entries: Mapping[str, Any], known: Mapping[str, Mapping[str, Way]]) -> Ways:
    """Ways by slot and name, beside those that are `known`. Raises BadInput that names slot, way and key."""
    found: Ways = {slot: dict(named) for slot, named in known.items()}
    for slot, named in entries.items():
        waiting = dict(_table(slot, named))
        for name, entry in waiting.items():
            _table(f"{slot}.{name}", entry)
        while waiting:
            ready = [name for name, entry in waiting.items() if str(entry.get("else")) not in waiting]
            if not ready:
                place = f"{slot}.{next(iter(waiting))}"
                raise BadInput(f"{slot}: {', '.join(waiting)} refer to one another by else", place)
            for name in ready:
                found.setdefault(slot, {})[name] = _way(slot, name, waiting.pop(name), found.get(slot, {}))
        found[slot] = {name: found[slot][name] for name in [*known.get(slot, {}), *named]}
    return found


def _table(where: str, value: object) -> Json:
    if not isinstance(value, dict):
        raise BadInput(f"{where} must be a table, got {shown(value)}", where)
    return value


def _way(slot: str, name: str, entry: Json, others: Mapping[str, Way]) -> Way:
    where = f"{slot}.{name}"
    known = [key for key in (*KEYS, *PARTS, *NUMBERS) if key != "saves" or (slot in SAVING and "." not in name)]
    for key in entry:
        if key not in known:
            raise UnknownName(f"key of the way {where}", key, known, f"{where}.{key}")
    traits, sides = _texts(where, "when", entry), [_texts(where, side, entry) for side in ("forward", "backward")]
    for trait in traits:
        if trait not in TRAITS:
            raise UnknownName(f"trait of the way {where}", trait, TRAITS, f"{where}.when")
    other, rate, source = entry.get("else"), entry.get("rate", "torch"), entry.get("source", "")
    if ("when" in entry) != (other is not None):
        raise BadInput(f"{where} needs `when` and `else` together", where)
    if other is not None and str(other) not in others:
        raise UnknownName(f"other way of {where}", str(other), others, f"{where}.else")
    if rate not in RATES:
        raise UnknownName(f"rate of the way {where}", str(rate), RATES, f"{where}.rate")
    if not isinstance(source, str):
        raise BadInput(f"source of {where} must be text, got {shown(source)}", f"{where}.source")
    forward, backward = (
        tuple(_step(where, one, f"{where}.{side}") for one in steps)
        for side, steps in zip(("forward", "backward"), sides, strict=True)
    )
    return Way(
        slot=slot, name=name, rate=rate, forward=forward, backward=backward,
        kernels=_pair(where, "kernels", entry.get("kernels", (len(forward), len(backward)))),
        slow=_pair(where, "slow", entry.get("slow", (1, 1))), takes=_pair(where, "takes", entry.get("takes", (1, 1))),
        saves=tuple(_saved(where, one) for one in _texts(where, "saves", entry)),
        when=tuple(traits), otherwise=None if other is None else others[str(other)], source=source,
        parts={key: _part(slot, name, key, entry[key]) for key in PARTS if key in entry},
        numbers={key: _number(where, key, entry[key]) for key in NUMBERS if key in entry},
    )  # fmt: skip


def _part(slot: str, name: str, key: str, entry: object) -> Way:
    return _way(slot, f"{name}.{key}", _table(f"{slot}.{name}.{key}", entry), {})


def _texts(where: str, key: str, entry: Json) -> Sequence[Any]:
    found = entry.get(key, ())
    if not isinstance(found, list | tuple):
        raise BadInput(f"{key} of {where} must be a list, got {shown(found)}", f"{where}.{key}")
    return found


def _step(where: str, text: object, place: str) -> Step:
    match = STEP.fullmatch(text) if isinstance(text, str) else None
    if match is None or max(float(match["passes"]), float(match["times"] or 1)) > MOST:
        raise BadInput(
            f'{where}: {shown(text)} is not a step; write "what it does 3", which ends in its passes, '
            'or "what it does 3 x1.5"',
            place,
        )
    return Step(match["what"], float(match["passes"]), float(match["times"] or 1))


def _saved(where: str, text: object) -> Saved:
    match = SAVED.fullmatch(text) if isinstance(text, str) else None
    if match is None or float(match["numbers"]) > MOST:
        raise BadInput(
            f'{where}: {shown(text)} is not a tensor; write "what it is 1", its numbers for each element, '
            f'or "what it is 1 fp32" with one of {", ".join(FORMATS)}',
            f"{where}.saves",
        )
    return Saved(match["what"], float(match["numbers"]), match["format"] or FORMATS[0])


def _number(where: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise BadInput(f"{where}: {key} must be a number up to {MOST:g}, got {shown(value)}", f"{where}.{key}")
    return float(value)


def _pair(where: str, key: str, value: object) -> Pair:
    numbers = value if isinstance(value, list | tuple) else ()
    if len(numbers) != 2 or not all(type(one) in (int, float) and 0 <= one <= MOST for one in numbers):
        raise BadInput(f"{where}: {key} must be two numbers, forward and backward, got {value!r}", f"{where}.{key}")
    return float(numbers[0]), float(numbers[1])
