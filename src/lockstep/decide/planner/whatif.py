"""`scaled`: the same cluster with some of its rates, sizes and delays multiplied, for every question of "what if"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lockstep.describe.hardware import Cluster, Level


def scaled(
    cluster: Cluster,
    *,
    peak_flops: float = 1.0,
    memory_bandwidth: float = 1.0,
    memory: float = 1.0,
    bandwidth: float | Sequence[float] = 1.0,
    latency: float = 1.0,
    host: float = 1.0,
) -> Cluster:
    """`cluster` with each kind of number multiplied by its factor.

    `bandwidth` is one factor or one per level, innermost first. `latency` scales the links' latency and reduction time,
    `host` all host times of the software and gaps between kernels. Rates go up with their factor, times too.
    """
    device, curve = cluster.device, cluster.device.efficiency
    factors = [bandwidth] * len(cluster.levels) if isinstance(bandwidth, float | int) else list(bandwidth)
    return replace(
        cluster,
        device=replace(
            device,
            peak_flops={dtype: rate * peak_flops for dtype, rate in device.peak_flops.items()},
            memory_bandwidth_Bps=device.memory_bandwidth_Bps * memory_bandwidth,
            memory_B=device.memory_B * memory,
            efficiency=replace(
                curve,
                launch_s=curve.launch_s * host,
                gap_s=curve.gap_s * host,
                host_factor=curve.host_factor * host,
            ),
        ),
        levels=tuple(_level(level, factor, latency) for level, factor in zip(cluster.levels, factors, strict=True)),
    )


NAMES = ("peak_flops", "memory_bandwidth", "intra_bw", "inter_bw", "latency", "host")
"""Numbers of a cluster that `changed` multiplies; intra_bw is the innermost level, inter_bw all levels outside it."""


def changed(cluster: Cluster, name: str, factor: float) -> Cluster:
    """`cluster` with one of NAMES, or the memory of its devices, multiplied by `factor`."""
    if name not in ("intra_bw", "inter_bw"):
        return scaled(cluster, **{name: factor})
    inner = [level == 0 for level in range(len(cluster.levels))]
    return scaled(cluster, bandwidth=[factor if one == (name == "intra_bw") else 1.0 for one in inner])


def _level(level: Level, bandwidth: float, latency: float) -> Level:
    """One level with a faster or slower link."""
    link = level.link
    return replace(
        level,
        link=replace(
            link,
            bandwidth_Bps=link.bandwidth_Bps * bandwidth,
            latency_s=link.latency_s * latency,
            start_s=link.start_s * latency,
            reduce_s_per_B=link.reduce_s_per_B * latency,
            copy_Bps=link.copy_Bps / latency if link.copy_Bps and latency else None,
            kept_Bps=link.kept_Bps / latency if link.kept_Bps and latency else None,
        ),
    )
