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
def first_peer(rank: int, group: str, tp: int, pp: int, dp: int, order: str = "tp-cp-ep-dp-pp") -> float:
    """Lowest rank in the group of a rank; `order` of the axes, the one whose ranks are neighbours first."""
    layout = Layout(tp=tp, pp=pp, dp=dp, order=tuple(order.split("-")))
    return float(next(one for one in process_groups(layout, group) if rank in one)[0])


@decides("counted")
def last_peer(rank: int, group: str, tp: int, pp: int, dp: int, order: str) -> float:
    """Highest rank in the group of a rank."""
    layout = Layout(tp=tp, pp=pp, dp=dp, order=tuple(order.split("-")))
    return float(next(one for one in process_groups(layout, group) if rank in one)[-1])


@decides("counted")
def groups(group: str, tp: int, pp: int, dp: int) -> float:
    """Groups of one axis that divide all ranks; not a number where a rank is in none or in two."""
    found = process_groups(Layout(tp=tp, pp=pp, dp=dp), group)
    whole = sorted(rank for one in found for rank in one) == list(range(tp * pp * dp))
    return len(found) if whole else float("nan")


@decides("priced")
def node_GBps(cluster: str) -> float:
    """Rate of the links inside a node of a cluster of the catalog, one direction, in GB/s."""
    from lockstep import hardware

    return hardware.cluster(f"{cluster}:1").levels[0].link.bandwidth_Bps / 1e9


@decides("priced")
def peak_TFLOPs(device: str, dtype: str) -> float:
    """Peak rate of dense products of a device of the catalog, in TFLOP/s."""
    from lockstep import hardware

    return hardware.device(device).peak(dtype) / 1e12
