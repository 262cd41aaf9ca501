"""Kernel work of a layer's operations (`describe/workload/graph.py`): products, and what lies between them.

A product is written (m, n, k) for m x k by k x n. Operations between products are slots, which software runs in a way
of its own (`describe/stacks/ways.toml`), or one of the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts, Operation, modules_of
from lockstep.describe.workload.graph import QKV, UP
from lockstep.describe.workload.operation import Width
from lockstep.describe.workload.weight import Cut, ways
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.copies import copied_heads
from lockstep.price.kernels.experts import choice_work, clamped, exchanged_rows
from lockstep.price.kernels.norms import norm_work, stream_norm_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import inner_work, slot_work, stream_work
from lockstep.price.layout import way
from lockstep.price.layout.sharing import one_product, repeats_heads

NOTHING = Passes(Work(), Work())
CORES = ("core", "crossing core", "scan")
"""What mixes rows of a sequence."""


def priced(shard: Shard, operations: Iterable[Operation]) -> Passes:
    """The work of some operations of a layer."""
    found = NOTHING
    for _, work in operation_works(shard, operations):
        found += work
    return found


def operation_works(shard: Shard, operations: Iterable[Operation]) -> Iterator[tuple[tuple[Operation, ...], Passes]]:
    """The work of each; products that stand together and read the same are made in one kernel, unless the software has
    each apart (`Habits.own_projections`).
    """
    for kernel, several in groupby(operations, key=lambda one: _kernel(shard, one)):
        if kernel:
            yield (together := tuple(several)), _product(shard, together)
        else:
            for one in several:
                yield (one,), BETWEEN[one.does](shard, one)


def _kernel(shard: Shard, one: Operation) -> str:
    """The kernel of a product; "" for what is none."""
    word = {QKV: "qkv", UP: "gate_up"}.get(one.beside)
    apart = word and one.part in ("mixer", "dense") and not one_product(shard.recipe, shard.model, word)
    return one.name if apart else one.beside


def elements(shard: Shard, one: Operation) -> Number:
    """Numbers of an operation on the rank."""
    return _rows(shard, one) * _columns(shard, one.widths)


def _rows(shard: Shard, one: Operation) -> Number:
    """Rows of an operation on the rank."""
    if one.rows == "experts":
        return shard.expert_rows
    return shard.tokens if one.rows == "tokens" else shard.loose_tokens


def _columns(shard: Shard, widths: Iterable[Width]) -> Number:
    """Numbers in a row on the rank; those cut alike are added up before arrays come in."""
    whole: dict[tuple[Cut, int], float] = {}
    for one in widths:
        cut = one.cut, one.kv_heads
        whole[cut] = whole.get(cut, 0.0) + one.numbers
    grid = shard.grid
    return sum(numbers / ways(*cut, grid.tp, grid.expert_tp) for cut, numbers in whole.items())


def _product(shard: Shard, several: Sequence[Operation]) -> Passes:
    """One kernel for products that read the same."""
    first = several[0]
    count = shard.local_experts if first.rows == "experts" else 1
    columns = _columns(shard, [width for one in several for width in one.widths])
    return shard.product(_rows(shard, first) / count, columns, _columns(shard, [first.inner or Width(0)]), count)


def _norms(shard: Shard, one: Operation) -> Passes:
    """Norms of the stream, or of what products give."""
    count, placement = len(one.widths), shard.model.norm_placement
    of_stream = {"output": 0, "sandwich": count - count // 2}.get(placement, count) if one.does == "norm" else 0
    numbers = elements(shard, one) / count
    return stream_norm_work(shard, numbers, of_stream) + norm_work(shard, numbers, count - of_stream)


def _residual(shard: Shard, one: Operation) -> Passes:
    """The slot is two sums, under torch.autocast of half precision with the stream."""
    count, model = len(one.widths), shard.model
    numbers = elements(shard, one) / count
    if "mixed" not in way(shard.recipe, model, "residual").parts:
        return stream_work(shard, "residual", numbers, count / 2)
    normed = model.norm_placement in ("output", "sandwich") and not modules_of(model.model_type).wide_norms
    part = "normed" if normed else "parallel" if model.parallel_block else "mixed"
    return inner_work(shard, "residual", numbers, count / 2, part=part)


def _joined_gradients(shard: Shard, one: Operation) -> Passes:
    """Gradients of what one product gives, copied together, and once more where they were turned head by head; of
    products of their own those of what was turned.
    """
    kernels, widths, turned = 1, one.widths, shard.model.positions == "rotary"
    if one.part == "mixer" and _of_transformers(shard):
        if not one_product(shard.recipe, shard.model, "qkv"):
            widths = widths[:2] * turned
            kernels = len(widths)
        elif turned:
            widths, kernels = widths * 2, 2
    numbers = _rows(shard, one) * _columns(shard, widths)
    return Passes(Work(), shard.clock.stream(2.0 * numbers * shard.clock.element_B, kernels))


def _repeated_heads(shard: Shard, one: Operation) -> Passes:
    """Keys and values for every query that shares them, where software makes them so."""
    if not repeats_heads(shard.recipe):
        return NOTHING
    return shard.elementwise(2 * elements(shard, one), 1.0, 1.0, kernels=2)


def _copied_heads(shard: Shard, one: Operation) -> Passes:
    """In modules of transformers, what attention gives is copied where heads that are turned in part are joined, as it
    then lies head by head; written attention copies queries and what it gives.
    """
    queries, keys, _ = one.widths
    found, rotary = copied_heads(shard, _columns(shard, [queries]), _columns(shard, [keys])), shard.model.rotary
    count = 1 * (rotary is not None and rotary.share_frac < 1.0) if shard.recipe.flash_attention else 2
    if count and _of_transformers(shard):
        numbers = _rows(shard, one) * _columns(shard, [queries])
        found += shard.operations(numbers, 2.0 * count, 0.0, count, 0)
    return found


def _of_transformers(shard: Shard) -> bool:
    """Whether it runs modules of transformers operation by operation."""
    return shard.recipe.habits.own_projections and not shard.clock.stack.compiled


def _rotary(shard: Shard, one: Operation) -> Passes:
    """Norms of queries and keys give fp32 under torch.autocast, as their weights are, unless they round."""
    rotary = shard.model.rotary
    if shard.model.attention.qk_norm != "none" and not modules_of(shard.model.model_type).wide_norms:
        return stream_work(shard, "rotary", elements(shard, one))
    return inner_work(shard, "rotary", elements(shard, one), share=1.0 if rotary is None else rotary.share_frac)


def _slot(shard: Shard, one: Operation) -> Passes:
    work = slot_work if one.part in ("experts", "shared") else inner_work
    return work(shard, one.does, elements(shard, one))


def _experts(shard: Shard) -> Experts:
    if shard.model.experts is None:
        raise TypeError(f"{shard.model.name} has no experts")
    return shard.model.experts


def _passes(forward: float, backward: float, kernels: int = 1) -> Callable[[Shard, Operation], Passes]:
    return lambda shard, one: shard.elementwise(elements(shard, one), forward, backward, kernels)


BETWEEN: dict[str, Callable[[Shard, Operation], Passes]] = {
    "norm": _norms,
    "residual": _residual,
    "head norms": _norms,
    "output gate": _passes(3.0, 5.0),
    "joined gradients": _joined_gradients,
    "repeated heads": _repeated_heads,
    "rotary": _rotary,
    "latent rotary": _passes(4.0, 4.0, 4),
    "copied heads": _copied_heads,
    "crossing sum": _passes(0.0, 3.0),
    "gate": _slot,
    "activation": _slot,
    "choice": lambda shard, _: choice_work(shard, _experts(shard)),
    "clamped": lambda shard, _: clamped(shard, _experts(shard)),
    "exchanged rows": lambda shard, _: exchanged_rows(shard, _experts(shard)),
}
"""What prices an operation that is no product, by what it does; the cores are `core_work`."""
