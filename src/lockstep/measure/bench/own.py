"""Lockstep's collectives, run from their programs, behind the same face as torch's own."""

from __future__ import annotations

from lockstep.measure.bench.built_in import Prepared
from lockstep.measure.bench.definition import pattern
from lockstep.measure.execute.lanes import lanes_of
from lockstep.measure.execute.runner import Runner
from lockstep.measure.execute.settled import settled
from lockstep.measure.launch import Rank
from lockstep.program import extents

ELEMENT_B = 4.0


def own(op: str, algorithm: str, rank: Rank, elems: int) -> Prepared:
    """The program of an algorithm on `elems` float32 elements."""
    import torch

    program = settled(op, algorithm, rank.ranks, elems * ELEMENT_B, ELEMENT_B)
    scratch = {name: int(extent[rank.number]) for name, extent in extents(program).items() if name != "data"}
    buffers = {name: torch.zeros(size, device=rank.device) for name, size in scratch.items()}
    before = pattern(rank.number, elems, rank.device)
    buffers["data"] = before.clone()
    title = f"{op}_{algorithm}".replace("-", "_")
    runner = Runner(rank, lanes_of(program, rank.number), buffers, title, {})
    whole = buffers["output"] if op == "all-to-all" else buffers["data"]
    own_share = op in ("reduce-scatter", "scatter")
    result = whole[rank.number * (elems // rank.ranks) :] if own_share else whole
    return Prepared(lambda: buffers["data"].copy_(before), runner.run, result, runner.close)
