"""Replicas and groups of ranks in a grid of tensor, pipeline and data parallelism."""

from __future__ import annotations

from lockstep.check.evidence.claims.deciders import decides
from lockstep.price.layout import Layout
from lockstep.price.layout.groups import process_groups


@decides("counted")
def replicas(gpus: int, tp: int, pp: int) -> float:
    """Model replicas: groups of the pipeline over those that one replica has."""
    layout = Layout(tp=tp, pp=pp, dp=gpus // (tp * pp))
    return len(process_groups(layout, "pp")) / tp


@decides("counted")
def first_peer(rank: int, group: str, tp: int, pp: int, dp: int) -> float:
    """Lowest rank in the group of a rank."""
    return float(next(one for one in process_groups(Layout(tp=tp, pp=pp, dp=dp), group) if rank in one)[0])
