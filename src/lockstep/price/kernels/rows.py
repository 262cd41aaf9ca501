"""`layer_rows`: the kernels of a layer operation by operation, in the order of its passes, for those who look inside.

The operations of `describe/workload/graph.py` stand where they run: a norm begins each block and a residual sum ends
it. What software adds around them follows at the end. The rows of a layer add up to its work (`layer.py`), and what
recomputation runs again to that of `recompute.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.describe.workload import FULL, SELECTIVE, LayerKind, Operation, layer_operations, run_again
from lockstep.price.kernels.adapters import adapter_work
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.layer import FIRST, added_first, added_last, core_works, of_parts
from lockstep.price.kernels.operations import CORES, operation_works
from lockstep.price.kernels.recompute import stops_early
from lockstep.price.kernels.shard import Passes, Shard

ADAPTERS = "adapters"
BLOCKS = (("mixer",), ("crossing",), ("dense", "router", "experts", "shared"))
"""Parts of a layer that stand between a norm and a residual sum."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation, several products that are one kernel, or something that software adds."""

    name: str
    passes: Passes
    operations: tuple[Operation, ...] = ()
    """None of what software adds."""

    @property
    def mixes(self) -> bool:
        """Whether it mixes rows of a sequence: attention or a scan, without weights of its own."""
        return any(one.does in CORES for one in self.operations)


def layer_rows(shard: Shard, kind: LayerKind) -> tuple[Row, ...]:
    """The kernels of one layer, in the order of its forward pass."""
    graphs = shard.recipe.cuda_graphs == "attention"
    operations = layer_operations(shard.model, kind)
    works = dict(operation_works(shard, [one for one in operations if one.does not in CORES]))
    cores = [(one,) for one in operations if one.does in CORES]
    works |= dict(zip(cores, core_works(shard, kind), strict=True))
    rows = [
        Row(_name(several), work.replayed if graphs and several[0].part in FIRST else work, several)
        for several, work in works.items()
    ]
    first = (Row(name, work.replayed if graphs else work) for name, work in added_first(shard, kind))
    last = added_last(shard, kind, of_parts(shard, kind, *FIRST, "dense"))
    found = [*_in_blocks(operations, rows), *first, *(Row(name, work) for name, work in last)]
    if shard.adapters is not None:
        found.append(Row(ADAPTERS, adapter_work(shard, shard.adapters, kind)))
    return tuple(one for one in found if _runs(one.passes.forward) or _runs(one.passes.backward))


def rows_again(shard: Shard, kind: LayerKind, rows: Iterable[Row]) -> tuple[Row, ...]:
    """What recomputation runs again of a layer with these `rows` in one layout, as forward work, in the order in which
    it runs. Of full recomputation it is what one layer runs again, though a stage may do so in some of its layers only.
    """
    mode, operations = shard.grid.recompute, layer_operations(shard.model, kind)
    cores = [one for one in rows if one.mixes]
    if np.all(mode == FULL):
        found = [*rows]
    elif np.all(mode == SELECTIVE):
        again = run_again(operations, shard.recipe.recompute_modules)
        works = operation_works(shard, [one for one in again if one.does not in CORES])
        whole = any(one.does in CORES for one in again)
        found = [*_in_blocks(operations, [Row(_name(of), work, of) for of, work in works] + whole * cores)]
    else:
        return ()
    unread = stops_early(shard, kind)
    return tuple(
        Row(one.name, Passes(one.passes.forward, Work()), one.operations)
        for one in found
        if not (unread and any(of.part == "dense" and of.edge == "last" for of in one.operations))
    )


def _name(several: tuple[Operation, ...]) -> str:
    """What operations in one kernel are called: if several are, by what they are together."""
    return several[0].beside if len(several) > 1 else several[0].name


def _runs(work: Work) -> bool:
    return bool(np.any(work.device_s) or np.any(work.kernels))


def _in_blocks(operations: Sequence[Operation], rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of operations in the order in which they run: of those of the stream, an equal share in each block."""
    rows = sorted(rows, key=lambda one: operations.index(one.operations[0]))
    blocks = [parts for parts in BLOCKS if any(one.part in parts for one in operations)]
    share = 1.0 / len(blocks)
    around = [
        Row(one.name, Passes(one.passes.forward * share, one.passes.backward * share), one.operations)
        for one in rows
        if one.operations[0].part == "stream"
    ]
    for parts in blocks:
        yield from (one for one in around if one.operations[0].does == "norm")
        yield from (one for one in rows if one.operations[0].part in parts)
        yield from (one for one in around if one.operations[0].does != "norm")
