"""Shard the states, or cut the model into pipeline stages?

    1  ZeRO-1 where it fits: the same traffic as plain data parallelism, optimizer states spread
    2  ZeRO-3 where its gathers hide behind computing: traffic on the busiest level at most the seconds of kernels
    3  the rest of the node for tensor parallelism, then the fewest stages, with ZeRO-1: a stage sends only its borders
    4  the same with full recomputation, which costs a forward pass;  5  ZeRO-3 in the open, with stages if need be
The first that fits is taken. The usual threshold is a number of parameters; what decides is whether ZeRO-3's bytes,
which do not shrink with the batch per device, hide behind its FLOPs, which do.
Source: ZeRO (arXiv 1910.02054), section 7; D. Narayanan et al., arXiv 2104.04473, section 5.2 and takeaways 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.units import format_frac, format_size
from lockstep.decide.planner.guide.draft import RECOMPUTED, Draft, Finding, Rule, first_that_fits
from lockstep.decide.planner.guide.rules.micro_batch import largest
from lockstep.decide.planner.guide.traffic import busiest

MILD = RECOMPUTED[:-1]


def decide(draft: Draft) -> Finding:
    """Takes the first of the ways above that fits."""
    plain = _plain(draft, MILD[-1])
    said = f"with ZeRO-{plain.layout.zero} a device holds {format_size(plain.memory_B)}"
    numbers = {"zero1_B": plain.memory_B, "capacity_B": draft.cluster.device.memory_B}
    whole = first_that_fits(_sharded(draft, RECOMPUTED))
    if not plain.fits and whole is not None:
        share, size = _traffic_share(whole), format_size(whole.memory_B)
        said += f", with ZeRO-3 {size} and traffic of {format_frac(share, 2)} of the kernels' time"
        numbers |= {"zero3_B": whole.memory_B, "zero3_traffic_share": share}
    found = first_that_fits(_ways(draft))
    if found is None:
        return Finding("neither fits", said, draft.thinnest(), numbers)
    words = [f"tp {found.layout.tp}"] if found.layout.tp > draft.layout.tp else []
    words += [f"{found.layout.pp} stages"] if found.layout.pp > draft.layout.pp else []
    return Finding(", ".join([*words, f"ZeRO-{found.layout.zero}"]), said, found, numbers)


def _plain(draft: Draft, recompute: str) -> Draft:
    """ZeRO-1, unless there is nothing to shard over."""
    zero = 1 if draft.layout.dp * draft.layout.cp > 1 else 0
    return draft.change(zero=zero, recompute=recompute if draft.job.transformer else "none")


def _sharded(draft: Draft, kinds: tuple[str, ...]) -> Iterator[Draft]:
    """ZeRO-3, where there is something to shard over."""
    if draft.layout.dp * draft.layout.cp > 1:
        yield from (draft.change(zero=3, recompute=each) for each in (kinds if draft.job.transformer else ("none",)))


def _ways(draft: Draft) -> Iterator[Draft]:
    """The drafts of the five steps, in order; each is one that keeps the rules where this one does."""
    for kinds in (MILD, RECOMPUTED[-1:]):
        yield from (_plain(draft, each) for each in kinds)
        yield from (each for each in _sharded(draft, kinds) if each.fits and _traffic_share(each) <= 1)
        yield from (_plain(cut, each) for cut in _cut(draft) for each in kinds)
    yield from _sharded(draft, RECOMPUTED)
    yield from (cut.thinnest() for cut in _cut(draft))


def _cut(draft: Draft) -> list[Draft]:
    """The model cut finer: over the devices of a node, then into more and more stages."""
    if draft.job.transformer is None:
        return []
    wider = draft.inside()
    return [*wider, *(wider[-1] if wider else draft).allowed("pp")]


def _traffic_share(draft: Draft) -> float:
    """Seconds of traffic per second of kernels on the busiest level, with the largest micro-batch that fits."""
    best = largest(draft)
    return busiest(best).share if best.keeps_rules else math.inf


RULE = Rule(
    "sharding", "Shard, or pipeline?", "ZeRO, arXiv 1910.02054, section 7; arXiv 2104.04473, takeaway 2", decide
)
