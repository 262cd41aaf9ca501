"""`derived`: what a captured step shows of its software: ways of slots, habits and switches, each with the operations
from which it is read, and the stack of the catalog that has most of them.

Rules read names, shapes and modules of operations, and bytes of gradients; none reads the program. What no rule can
tell is listed as not shown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from textwrap import wrap

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.describe.captured import REDUCTION, SIZES, Captured, Operation
from lockstep.describe.stacks.habits import Habits
from lockstep.describe.stacks.stack import Stack, stacks

HALF = ("bfloat16", "float16")
NUMBER = re.compile(r"(?<=\.)(?:\d+|\*)(?=\.|$)")
"""That of a layer in the name of a module; * in files that say the step at several depths."""
SLOTS = {"cross_entropy": "loss", "flash_attention": "scores"}
"""Slots whose way a switch says."""
KERNELS = {"cudnn": "cudnn", "flash": "flash2"}
"""PyTorch's fused attention, by the word in its operation."""
KINDS = {"way": "ways", "habit": "habits", "switch": "switches", "field": ""}
"""Of what is shown, and the table of a stack's file that it stands in."""
WIDTH = 110
"""Of a comment."""
LIKE = "hf-trainer-5"
"""What a program is like if no other stack has more of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A way of a slot, a habit, a switch or a field of a stack, and what it is read from."""

    kind: str
    name: str
    value: object
    operation: str
    module: str
    """With * for numbers of layers; empty where no module makes it."""
    count: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)

    @property
    def evidence(self) -> str:
        """The same in words."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.operation}, {times}" + (f", {self.module}" if self.module else "")


@dataclass(frozen=True, repr=False)
class Derived(Shown):
    """What a step shows, and the stack of the catalog that it is like."""

    captured: Captured
    path: str
    shown: tuple[Finding, ...]

    @cached_property
    def like(self) -> str:
        """The stack with most of what is shown whose kernels are PyTorch's own; of several `LIKE`, or the first."""
        eager = {name: one for name, one in stacks().items() if one.kernels == "torch"}
        agreeing = {name: sum(_has(one, shown) for shown in self.shown) for name, one in eager.items()}
        best = max(agreeing.values())
        return LIKE if agreeing[LIKE] == best else next(name for name, many in agreeing.items() if many == best)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Slots and habits of which nothing is shown; they are as in the stack that it is like."""
        known = {SLOTS.get(one.name, one.name) for one in self.shown}
        return tuple(name for name in (*stacks()[self.like].slots, *Habits.names()) if name not in known)

    @property
    def source(self) -> str:
        """What ran, and the file."""
        program = self.captured.program
        return f"{program['script']} on torch {program['torch']}, captured: {self.path}"

    @property
    def toml(self) -> str:
        """The file of a stack that has what is shown, each line with what it is read from."""
        lines = [f"like = {json.dumps(self.like)}", f"source = {json.dumps(self.source)}"]
        for kind, table in sorted(KINDS.items(), key=lambda one: one[1]):
            found = [one for one in self.shown if one.kind == kind]
            lines += [f"[{table}]"] * bool(table and found)
            lines += [f"{one.name} = {json.dumps(one.value)}  # {one.evidence}" for one in found]
        unknown = wrap(f"not shown: {', '.join(self.unknown)}", WIDTH, initial_indent="# ", subsequent_indent="#   ")
        return "\n".join([*lines, *unknown]) + "\n"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {**picked(self, "like source toml unknown"), "shown": [one.to_dict() for one in self.shown]}


def derived(captured: Captured, path: str) -> Derived:
    """What a captured step shows of its software."""
    step = _Step(captured)
    return Derived(captured, path, tuple(one for rule in RULES for one in rule(step)))


def _has(stack: Stack, one: Finding) -> bool:
    """Whether a stack has what is shown."""
    if one.kind == "way":
        way = stack.ways.get(one.name)
        return way is not None and one.value in (way.name, way.otherwise and way.otherwise.name)
    if one.kind == "habit":
        return bool(getattr(stack.habits, one.name) == one.value)
    return bool(stack.switches.get(one.name, None) == one.value or getattr(stack, one.name, None) == one.value)


class _Step:
    """Operations of a step by name and phase."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.operations = captured.operations

    def named(self, *names: str, phase: str = "forward") -> list[Operation]:
        """Those of a phase whose name is one of these, without the overload."""
        return [one for one in self.operations if one.phase == phase and short(one) in names]

    def fused(self) -> list[Operation]:
        """Fused attention, forward."""
        return [one for one in self.operations if one.phase == "forward" and "_dot_product_" in one.name]

    def attending(self) -> set[str]:
        """Modules that attend, by fused kernels or by a softmax over scores of heads."""
        scores = (one for one in self.named("_softmax", "_safe_softmax") if len(one.tensors()[0][0]) == 4)
        return {one.module for one in (*self.fused(), *scores)}

    def products(self, phase: str = "forward") -> list[Operation]:
        """Products with weights."""
        return [one for one in self.operations if one.phase == phase and one.flops and "_dot_product_" not in one.name]


def short(one: Operation) -> str:
    """The name of an operation without its library and overload."""
    return (one.name.split(".") * 2)[1]


def _said(kind: str, name: str, value: object, found: Iterable[Operation]) -> Iterator[Finding]:
    """What operations show; nothing without any."""
    if several := list(found):
        modules = Counter(NUMBER.sub("*", one.module) for one in several)
        names = Counter(short(one) for one in several)
        yield Finding(kind, name, value, names.most_common(1)[0][0], modules.most_common(1)[0][0], len(several))


def _attention(step: _Step) -> Iterator[Finding]:
    for word, kernel in KERNELS.items():
        found = [one for one in step.fused() if f"_{word}_" in one.name]
        yield from _said("field", "attention", [kernel, *({"flash2"} - {kernel})], found)
    written = [one for one in step.named("_softmax", "_safe_softmax") if one.module in step.attending()]
    yield from _said("way", "scores", "written", written)
    yield from _said("switch", "flash_attention", False, written)
    heads = [one for one in step.named("clone") if len(one.tensors()[0][0]) == 5 and one.module in step.attending()]
    fewer = [one for one in step.fused() if one.tensors()[0][0][1] > one.tensors()[1][0][1]]
    yield from _said("habit", "repeated_heads", bool(heads), heads or fewer)


def _norms(step: _Step) -> Iterator[Finding]:
    written, kernels = step.named("rsqrt"), step.named("native_layer_norm", "_fused_rms_norm")
    yield from _said("way", "norm", "written" if written else "split", written or kernels)
    scaled = {one.module for one in written} & {one.module for one in step.named("sum", phase="backward")}
    yield from _said("way", "norm_weight", "written", (one for one in written if one.module in scaled))


def _rotary(step: _Step) -> Iterator[Finding]:
    attending = step.attending()
    yield from _said("way", "rotary", "written", (one for one in step.named("neg") if one.module in attending))
    yield from _said("way", "rotary", "complex", step.named("view_as_complex"))


def _blocks(step: _Step) -> Iterator[Finding]:
    """Functions between products: with a gate the module around them multiplies what they give."""
    halves = bool(step.named("tanh")) and bool(step.named("pow"))
    functions = step.named("silu", "gelu", "tanh")
    around = {one.module for one in step.named("mul")} | {one.module.rpartition(".")[0] for one in step.named("mul")}
    gated = [one for one in functions if short(one) != "tanh" and {one.module, one.module.rpartition(".")[0]} & around]
    yield from _said("way", "gate", "apart", gated)
    autocast = any(_is_cast(one) for one in step.named("_to_copy"))
    name = "one" if not halves else "autocast" if autocast else "written"
    yield from _said("way", "activation", name, (one for one in functions if one not in gated))


def _projections(step: _Step) -> Iterator[Finding]:
    """Before attention stands a product as wide as queries, keys and values together, or one of queries alone."""
    joint, own = list[Operation](), list[Operation]()
    for one in step.fused():
        (_, heads, _, width), (_, shared, _, _) = (shape for shape, _ in one.tensors()[:2])
        for product in step.products():
            if f"{product.module}.".startswith(f"{one.module}."):
                columns = product.tensors()[-1][0][-1]
                joint += [product] * (columns == (heads + 2 * shared) * width)
                own += [product] * (columns == heads * width and product.module != one.module)
    yield from _said("habit", "own_projections", not joint, joint or own)


def _is_cast(one: Operation) -> bool:
    """Whether it brings a matrix from fp32 to half precision."""
    (shape, first), (_, last) = one.tensors()[0], one.tensors()[-1]
    return short(one) == "_to_copy" and len(shape) == 2 and first == "float32" and last in HALF


def _autocast(step: _Step) -> Iterator[Finding]:
    """Casts in modules that multiply in half precision are those of autocast."""
    multiplying = {one.module for one in step.products()}
    casts = [one for one in step.named("_to_copy") if one.module in multiplying and _is_cast(one)]
    yield from _said("habit", "autocast", bool(casts), casts or step.products())


def _layer(module: str) -> str:
    """The layer that a module lies in: its name up to its first number."""
    found = NUMBER.search(module)
    return module[: found.end()] if found else ""


def _recomputation(step: _Step) -> Iterator[Finding]:
    """All of a layer runs again, but maybe for what nothing reads, where most of its products do."""
    again = [one for one in step.operations if one.phase == "recompute"]
    if not again:
        yield from _said("field", "recompute", "none", step.products())
        return
    modules = {one.module for one in step.products("recompute")}
    layers = {_layer(one.module) for one in again}
    inside = {one.module for one in step.products() if _layer(one.module) in layers}
    full = 2 * len(modules) > len(inside)
    yield from _said("field", "recompute", "full" if full else "selective", again)
    if full:
        yield from _said("habit", "recompute_stops", bool(inside - modules), step.products("recompute"))


def _loss(step: _Step) -> Iterator[Finding]:
    yield from _said("switch", "cross_entropy", "eager", step.named("_log_softmax"))


def _update(step: _Step) -> Iterator[Finding]:
    several = [one for one in step.operations if one.phase == "optimizer" and "_foreach_" in one.name]
    fused = [one for one in step.operations if one.phase == "optimizer" and "_fused_" in one.name]
    yield from _said("habit", "foreach_update", not fused, fused or several)
    freed = [one for one in step.captured.lives if one.category == "gradients"]
    if freed and (updates := fused or several):
        yield from _said("habit", "gradients_freed", all(one.born for one in freed), updates)


def _sharding(step: _Step) -> Iterator[Finding]:
    """FSDP2 copies what it gathers by operations of its own; other sums of gradients are those of buckets."""
    copies = [one for one in step.operations if one.name.startswith("fsdp.split_with_sizes_copy")]
    yield from _said("switch", "sharding", "fsdp2", copies)
    scattered = [one for one in step.operations if one.name == "reduce-scatter"]
    if scattered:
        yield from _said("switch", "reduce_B", float(SIZES.get(scattered[0].tensors()[0][1], 1)), scattered)
    sums = [one for one in step.operations if one.name == "all-reduce" and one.phase in ("backward", REDUCTION)]
    yield from _said("habit", "gradient_buckets", True, () if copies else sums)


RULES: tuple[Callable[[_Step], Iterator[Finding]], ...] = (
    _attention, _recomputation, _norms, _rotary, _blocks, _projections, _autocast, _loss, _update, _sharding,
)  # fmt: skip
