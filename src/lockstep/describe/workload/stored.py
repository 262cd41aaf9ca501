"""`stored_weights`: the weights of one layer as the tensors of Transformers' modules, which optimizers have states of.

Weights are listed as layouts cut them; modules hold some of them as one tensor, and some as several. Source:
transformers 5.24, models/*/modeling_*.py, to which tests/real holds every family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from lockstep.describe.workload.modules import JOINT, SEPARATE, Modules
from lockstep.describe.workload.weight import Weight

ALWAYS = {
    "experts": ("expert gate", "expert up"),
    "recurrent in": ("recurrent in", "recurrent in shared"),
    "convolution": ("convolution", "convolution shared"),
}
"""Weights that are one tensor in every class: of all experts of a layer gate and up, of a recurrent mixer what groups
share and what they do not.
"""

DELTA = ("delta in 1", "delta in 2", "delta in 3", "delta in 4")
"""What reads the input of a gated delta net, where that is stored as several."""


@lru_cache(maxsize=512)
def stored_weights(weights: tuple[Weight, ...], modules: Modules = SEPARATE) -> tuple[Weight, ...]:
    """The weights of one layer as tensors of a class: matrices that are joint are one, and a layer's routed experts one
    of three dimensions. One that is joined is cut as the wider of its parts.
    """
    groups = {part: word for word in modules.joint for part in JOINT[word]}
    groups |= {part: word for word, parts in ALWAYS.items() for part in parts}
    found: dict[str | int, Weight] = {}
    for number, one in enumerate(parted_weights(weights, modules)):
        part, bias, _ = one.name.partition(" bias")
        group = groups.get(part)
        if one.copies > 1:
            one = _of_experts(one, modules)
            group = None if modules.flat_experts else group
        key = number if group is None else group + bias
        found[key] = _joined(found[key], one) if key in found else one
    return tuple(found.values())


def _joined(one: Weight, other: Weight) -> Weight:
    """Two weights beside one another; channels of a convolution come first."""
    axis = 0 if len(one.shape) == 3 and one.shape[1] == 1 else len(one.shape) - 1
    shape = [*one.shape]
    shape[axis] += other.shape[axis]
    return replace(max(one, other, key=lambda weight: weight.elems), shape=tuple(shape))


def _of_experts(one: Weight, modules: Modules) -> Weight:
    """All experts' copies as one tensor: one after another along the inner width, or along a dimension of its own."""
    if not modules.flat_experts:
        return replace(one, shape=(one.copies, *one.shape), copies=1, used=1)
    hidden, inner = one.shape if one.name != "expert down" else one.shape[::-1]
    return replace(one, shape=(one.copies * inner, hidden), copies=1, used=1)


def parted_weights(weights: Iterable[Weight], modules: Modules) -> Iterator[Weight]:
    """Weights that are listed as one and stored as several, and those that are listed with a dimension more."""
    weights = tuple(weights)
    by_name = {one.name: one for one in weights}
    for one in weights:
        if modules.delta and one.name == "recurrent in shared":
            yield from _of_delta(by_name, modules.delta)
        elif one.name == "decay" and len(one.shape) == 3:
            yield replace(one, shape=(one.shape[0], one.shape[-1]))
        elif one.name == "recurrent norms":
            rank, state = by_name["time step up"].shape[0], by_name["decay"].shape[-1]
            yield from (replace(one, name=f"{one.name} {at}", shape=(w,)) for at, w in enumerate((rank, state, state)))
        elif not (modules.delta and one.name == "recurrent in"):
            yield one


def _of_delta(by_name: dict[str, Weight], tensors: str) -> Iterator[Weight]:
    """What reads the input of a gated delta net: queries, keys, values and gates, a strength and a step per head."""
    heads, inner = by_name["decay"].shape[0], by_name["recurrent out"].shape[0]
    whole, shared = by_name["recurrent in"], by_name["recurrent in shared"].shape[1]
    widths = (shared + 2 * inner, 2 * heads) if tensors == "two" else (shared + inner, inner, heads, heads)
    for name, width in zip(DELTA, widths, strict=False):
        yield replace(whole, name=name, shape=(whole.shape[0], width))
