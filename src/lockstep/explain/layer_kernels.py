"""`layer_kernels`: which operations of a dense layer the kernels of a profile belong to.

Their names seldom say so, but products and attention stand in an order that is known:

    forward    heads in, HEADS, attention, HEADS, heads out, STREAM, up, ACTIVATION, down, STREAM
    backward   the same from the end, with two products for each

so where a kernel stands tells its group: of heads (rotary embedding, norms of queries and keys, copies), of the
activation, or of the stream (norms and residual sums). In the backward pass a sum that follows a product is one of
gradients, and counts with the stream. So do copies next to a product or to attention where software casts what these
read and give; others belong to what they stand in. Medians over layers leave out what comes before and after them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Floats, Ints
from lockstep.explain.classes import CLASSES

MATMUL, ATTENTION, COPY = (CLASSES.index(name) for name in ("matmul", "attention", "copy"))
BACKWARD = re.compile(r"bwd|bprop|backward|dot_do_o|convert_dq|dkdv", re.IGNORECASE)
"""Kernels of attention in a backward pass."""
REST_OF_PRODUCT = re.compile(r"split_?k.*reduce", re.IGNORECASE)
COPIES = re.compile(r"copy_kernel|^Memset|^Memcpy")
SUM = re.compile(r"Functor_add")
HEADS_IN, HEADS_OUT, UP, DOWN, CORE = "heads in", "heads out", "up", "down", "attention"
HEADS, ACTIVATION, STREAM = "heads", "activation", "stream"
FORWARD, BACK = "forward", "backward"
MOST_FRAC = 0.8
"""Of the attention kernels, those that must be followed by equally many products."""
Key = tuple[str, str]
"""A pass, and a group."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A product, or the kernels of attention in a pass: its places from `low` to before `high`."""

    kind: str
    """P, or attention forward (F) or backward (B)."""
    low: int
    high: int


@dataclass(slots=True)
class LayerKernels:
    """Groups of kernels of a rank."""

    group: dict[int, Key] = field(default_factory=dict)
    """By the place of a kernel, of the last step; of those outside of layers, none."""
    each: dict[tuple[str, int], list[dict[str, tuple[float, int]]]] = field(default_factory=lambda: defaultdict(list))
    """By pass and stretch between products, of every layer: seconds and kernels by group."""

    def of_layer(self, way: str, group: str) -> tuple[float, float]:
        """Seconds and kernels in one layer."""
        rows = [[one.get(group, (0.0, 0)) for one in each] for (of, _), each in self.each.items() if of == way]
        return sum(median(s for s, _ in one) for one in rows), sum(median(n for _, n in one) for one in rows)

    def tells(self, way: str) -> bool:
        """Whether any layer of that pass is known."""
        return any(of == way for of, _ in self.each)

    def add(self, other: LayerKernels) -> None:
        """Adds the layers of another step, whose kernels are then those that are known one by one."""
        self.group = other.group
        for key, rows in other.each.items():
            self.each[key] += rows


def layer_kernels(
    kind: Ints, names: Sequence[str], seconds: Floats, gated: bool, casts: bool, backward: bool = True
) -> LayerKernels:
    """The groups of kernels that ran one after another, by their class, name and time.

    Args: `gated`: whether the block is; `casts`: whether software casts what products read; `backward`: whether
    backward passes are told too, which must not run anything again. Nothing where the order is another one.
    """
    found, anchors = LayerKernels(), _anchors(kind, names)
    products = _products(anchors, gated)
    if products is None:
        return found
    passed = {"F": FORWARD, "B": BACK} if backward else {"F": FORWARD}
    first_backward = next((i for i, one in enumerate(anchors) if one.kind == "B"), len(anchors))
    for place, one in enumerate(anchors):
        if one.kind not in passed or (not backward and place > first_backward):
            continue
        way = passed[one.kind]
        for number, (group, low, high) in enumerate(_stretches(anchors, place, *products)):
            taken: dict[str, tuple[float, int]] = {}
            for i, name in _told(anchors, names, (group, low, high), way == BACK, casts):
                found.group[i] = way, name
                before = taken.get(name, (0.0, 0))
                taken[name] = before[0] + float(seconds[i]), before[1] + int(kind[i] != COPY)
            found.each[way, number].append(taken)
    return found


def _anchors(kind: Ints, names: Sequence[str]) -> list[Anchor]:
    """Products and attention in order; kernels of attention without a product between are of one pass."""
    found: list[Anchor] = []
    for i in np.flatnonzero((kind == MATMUL) | (kind == ATTENTION)).tolist():
        if kind[i] == ATTENTION:
            way = "B" if BACKWARD.search(names[i]) else "F"
            low = i
            if found and found[-1].kind != "P":
                last = found.pop()
                way, low = max(way, last.kind, key="FB".index), last.low
            found.append(Anchor(way, low, i + 1))
        elif REST_OF_PRODUCT.search(names[i]) and found:
            found[-1] = Anchor(found[-1].kind, found[-1].low, i + 1)
        else:
            found.append(Anchor("P", i, i + 1))
    return found


def _products(anchors: Sequence[Anchor], gated: bool) -> tuple[int, int] | None:
    """Products that give queries, keys and values, and that give up and gate; None where their number is another."""
    counts: Counter[int] = Counter()
    last, since = "", 0
    for one in anchors:
        if one.kind == "P":
            since += 1
            continue
        if last == one.kind == "F":
            counts[since] += 1
        last, since = one.kind, 0
    ways = {heads + up + 2: (heads, up) for heads in (1, 3) for up in ((1, 2) if gated else (1,))}
    if not counts:
        return None
    (number, often), *_ = counts.most_common(1)
    return ways.get(number) if often >= MOST_FRAC * counts.total() else None


def _stretches(anchors: Sequence[Anchor], place: int, heads: int, up: int) -> Iterator[tuple[str, int, int]]:
    """(group, first kernel, one after the last) of a layer's pass with the attention `anchors[place]`; none of a pass
    that is not whole. Products and attention are stretches of their own, in which `_told` finds them.
    """
    core = anchors[place]
    order = [HEADS_IN] * heads + [CORE] + [HEADS_OUT] + [UP] * up + [DOWN]
    at = heads
    if core.kind == "B":
        order = [name for name in reversed(order) for _ in range(1 if name == CORE else 2)]
        at = order.index(CORE)
    first, last = place - at, place - at + len(order)
    here = anchors[max(0, first) : last]
    if first < 0 or len(here) < len(order) or any(one.kind != "P" for i, one in enumerate(here) if i != at):
        return
    follows = anchors[last : last + 1]
    for i, (name, one) in enumerate(zip(order, here, strict=True)):
        yield name, one.low, one.high
        if i + 1 < len(order):
            yield _between(name, order[i + 1]), one.high, here[i + 1].low
        elif follows and follows[0].kind == "P":
            yield STREAM, one.high, follows[0].low


def _between(name: str, following: str) -> str:
    """The group of what stands between two products."""
    pair = {name, following}
    if pair <= {UP, DOWN}:
        return ACTIVATION
    return STREAM if pair == {HEADS_OUT, UP} else HEADS


def _told(
    anchors: Sequence[Anchor], names: Sequence[str], stretch: tuple[str, int, int], backward: bool, casts: bool
) -> Iterator[tuple[int, str]]:
    """Each kernel of a stretch and its group."""
    group, low, high = stretch
    if group not in (HEADS, ACTIVATION, STREAM):
        yield from ((i, group) for i in range(low, high))
        return
    copies = [bool(COPIES.search(names[i])) for i in range(low, high)]
    begin = next((i for i, one in enumerate(copies) if not one), len(copies))
    end = len(copies) - next((i for i, one in enumerate(reversed(copies)) if not one), len(copies))
    for i in range(low, high):
        outside = not begin <= i - low < end
        summed = backward and i - low == begin and SUM.search(names[i])
        yield i, STREAM if (outside and casts) or summed else group
