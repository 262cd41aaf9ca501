"""Communication roofline: for each level of a cluster, whether a device spends longer moving bytes or computing.

    intensity  = FLOPs of a device per step / bytes it moves over the level       FLOP/B
    ridge      = achieved FLOP/s / achieved B/s of one device at the level        FLOP/B
    attained   = min(achieved FLOP/s, intensity * achieved B/s)                   FLOP/s
    bound      = communication where intensity < ridge, else compute

so a level binds when its traffic, alone and perfectly overlapped, takes longer than the device's kernels. The device's
own memory is the first level. FLOPs are the mean of the devices and those that a causal mask leaves where the attention
kernel is fused; bytes and seconds are of the busiest pipeline stage, its bubble left out.

No byte is counted here: traffic is what the step model asks of a cluster whose only slow part is that level (no
latency, no bound elsewhere, no switch that reduces), times the level's rate. Every byte is one that a rank sends by
rings or directly, and levels show one algorithm: across several of them collectives reduce inside before they send
outside, level by level, which is forced by making the levels further out far slower and leaving their seconds out. Over
one level an all-reduce of n ranks moves 2 (n - 1)/n of its buffer, as much as a reduce-scatter and an all-gather. A
switch that reduces would move less, and the step model prices it so: a level that binds here may not bind there.

Critical batch: the smallest global batch at which data-parallel traffic takes no longer than computing. With D bytes
per step and d per micro-batch over a level of rate W, and c seconds of kernels per micro-batch, m micro-batches satisfy

    (D + m d) / W <= m c     so    m* = ceil(D / (c W - d)),    batch* = m* * dp * micro_batch * seq   tokens.

ZeRO 0 and 1 have d = 0; ZeRO 3 has D = 0, so its ratio does not depend on the batch and there is no critical one.

Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52 (2009); the critical batch is the condition of "How
to Scale Your Model" (Austin et al. 2025), "Training", with this package's traffic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_count, format_frac
from lockstep.decide.planner.assumptions import assumptions
from lockstep.decide.planner.from_file import imported
from lockstep.decide.planner.utilisation import executed_flops
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, LayoutGrid, Memory, check, memory
from lockstep.price.step import Step, compose, priced

KINDS = ("tp", "cp", "ep", "pp", "dp")
MEMORY_LEVEL = "memory"
BOUNDLESS = 1e30
"""Factor by which parts that should not count are sped up; what is left of them is far below one byte."""
SLOW, TRACE_FRAC = 1e-5, 1e-8
"""Factor of levels further out, which no collective then crosses with more than it must; and the share of a difference
of such seconds that is rounding."""
LAYERED = ("tp", "dp")
"""Kinds whose collectives choose a way across levels."""


@dataclass(frozen=True, slots=True)
class RooflineLevel:
    """One level of the roofline, of one device."""

    name: str
    traffic_B: Mapping[str, float]
    """Bytes per step and direction by kind of traffic."""
    flops: float
    """FLOPs per step."""
    achieved_flops: float
    peak_flops: float
    achieved_Bps: float
    peak_Bps: float
    critical_microbatches: float | None = None
    """Micro-batches of a replica at which data-parallel traffic is hidden, below 1 where a part of one is enough."""
    critical_batch: int | None = None
    """Tokens; None where there is no such batch."""
    critical_why: str = ""
    """Why there is no critical batch, or what it means."""

    @property
    def bytes_B(self) -> float:
        """Bytes per step of all kinds."""
        return sum(self.traffic_B.values())

    @property
    def intensity_flop_per_B(self) -> float | None:
        """FLOPs per byte; None where nothing moves."""
        return self.flops / self.bytes_B if self.bytes_B else None

    @property
    def ridge_flop_per_B(self) -> float:
        """Intensity at which moving and computing take equally long, with achieved rates."""
        return self.achieved_flops / self.achieved_Bps

    @property
    def peak_ridge_flop_per_B(self) -> float:
        """The same with datasheet rates."""
        return self.peak_flops / self.peak_Bps

    @property
    def attained_flops(self) -> float:
        """FLOP/s that the level allows: the roofline itself."""
        intensity = self.intensity_flop_per_B
        return self.achieved_flops if intensity is None else min(self.achieved_flops, intensity * self.achieved_Bps)

    @property
    def share(self) -> float:
        """Seconds of traffic per second of computing; above 1 the level binds."""
        return self.bytes_B / self.achieved_Bps * self.achieved_flops / self.flops

    @property
    def bound(self) -> str:
        """compute, communication, or memory at the level of the device's own memory."""
        if self.share <= 1.0:
            return "compute"
        return "memory" if self.name == MEMORY_LEVEL else "communication"

    @property
    def mostly(self) -> str:
        """The kind with the most bytes."""
        return max(self.traffic_B, key=lambda kind: self.traffic_B[kind])

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "name ridge_flop_per_B peak_ridge_flop_per_B intensity_flop_per_B bound"),
            "share_of_compute": self.share,
            **picked(self, "attained_flops achieved_Bps traffic_B critical_microbatches critical_batch critical_why"),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Roofline(Shown):
    """The roofline of one layout: device memory first, then the cluster's levels, innermost first."""

    job: Job
    cluster: Cluster
    layout: Layout
    levels: tuple[RooflineLevel, ...]
    compute_s: float
    """Seconds of kernels per step of the busiest device, host launches included."""

    def level(self, name: str) -> RooflineLevel:
        """The level called `name`."""
        return next(level for level in self.levels if level.name == name)

    @property
    def binding(self) -> tuple[RooflineLevel, ...]:
        """Levels of the network whose traffic takes longer than computing, the worst first."""
        bound = [level for level in self.levels if level.bound == "communication"]
        return tuple(sorted(bound, key=lambda level: -level.share))

    @property
    def memory(self) -> Memory:
        """Memory of the fullest rank: whether the layout can run at all."""
        return memory(self.job, self.cluster, self.layout.grid())

    def regime(self) -> str:
        """The regime in words."""
        tightest = max(self.levels[1:], key=lambda level: level.share)
        waits = self.level(MEMORY_LEVEL).bound == "memory"
        kernels = "; kernels wait for device memory more than for arithmetic" if waits else ""
        if not tightest.bytes_B:
            return f"no communication{kernels}"
        share = format_frac(tightest.share)
        detail = f"{tightest.name} traffic, mostly {tightest.mostly}, takes {share} of the kernels' time"
        if self.binding:
            return f"communication bound at {' and '.join(level.name for level in self.binding)}: {detail}{kernels}"
        return f"compute bound at every level of the network: {detail}{kernels}"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "layout levels compute_s"),
            "batch_tokens": self.job.step_units,
            "regime": self.regime(),
            "assumptions": list(assumptions(self.job, self.cluster, self.layout)),
            "fits": bool(self.memory.fits),
            **imported(self.job),
        }

    def __str__(self) -> str:
        return self.regime()


def roofline(job: Job, cluster: Cluster, layout: Layout) -> Roofline:
    """The roofline of `layout`. Raises Infeasible when the layout breaks a rule."""
    check(layout, job)
    grid, bare = layout.grid(), _without_overlap(job)
    compute_s = float(_step(bare, scaled(cluster, bandwidth=BOUNDLESS, latency=0.0), grid).compute_s)
    flops = device_flops(job, layout)
    levels = [_memory_level(bare, cluster, layout, flops)]
    for index in range(len(cluster.levels)):
        levels.append(_network_level(bare, cluster, layout, index, flops, compute_s))
    return Roofline(job, cluster, layout, tuple(levels), compute_s)


def device_flops(job: Job, layout: Layout) -> float:
    """Mean FLOPs of a device per step, recomputation included; a fused causal kernel skips what the mask hides."""
    return executed_flops(job, layout) / job.devices


def _without_overlap(job: Job) -> Job:
    """The job with all traffic in the open, so that the step model shows every byte of it."""
    return replace(
        job, recipe=replace(job.recipe, overlap_dp=False, overlap_tp="none", overlap_ep="none", overlap_pp=False)
    )


def _step(job: Job, cluster: Cluster, grid: LayoutGrid) -> Step:
    return priced(compose(job, cluster, grid), grid)


def _only(
    cluster: Cluster, level: int | None, memory_bandwidth: float = BOUNDLESS, beyond: int | None = None
) -> Cluster:
    """`cluster` with nothing that takes time but the links of `level` (None: none of them), and slow ones `beyond`."""
    places = range(len(cluster.levels))
    bandwidth = [SLOW if beyond is not None and index > beyond else BOUNDLESS for index in places]
    if level is not None:
        bandwidth[level] = 1.0
    plain = [replace(one, link=replace(one.link, switch=None)) for one in cluster.levels]
    return scaled(
        replace(cluster, levels=tuple(plain)), peak_flops=BOUNDLESS, memory_bandwidth=memory_bandwidth,
        bandwidth=bandwidth, latency=0.0, host=0.0,
    )  # fmt: skip


def _memory_level(job: Job, cluster: Cluster, layout: Layout, flops: float) -> RooflineLevel:
    """Device memory: bytes of all kernels (fused attention counts none) and of the update, against arithmetic alone."""
    device, grid = cluster.device, layout.grid()
    bare = _only(cluster, None, memory_bandwidth=1.0)
    curve = replace(bare.device.efficiency, matmul_bytes_factor=1.0, stream_frac=1.0)
    moved = _step(job, replace(bare, device=replace(bare.device, efficiency=curve)), grid)
    update_s = 0.0 if grid.on_host else moved.optimizer_s  # otherwise the host
    arithmetic = scaled(cluster, memory_bandwidth=BOUNDLESS, bandwidth=BOUNDLESS, latency=0.0, host=0.0)
    return RooflineLevel(
        name=MEMORY_LEVEL,
        traffic_B={
            "kernels": float(moved.compute_s) * device.memory_bandwidth_Bps,
            "update": float(update_s) * device.memory_bandwidth_Bps,
        },
        flops=flops,
        achieved_flops=flops / float(_step(job, arithmetic, grid).compute_s),
        peak_flops=device.peak(job.recipe.dtype),
        achieved_Bps=device.memory_bandwidth_Bps * device.efficiency.stream_frac,
        peak_Bps=device.memory_bandwidth_Bps,
        critical_why="data-parallel traffic leaves the device",
    )


def _network_level(
    job: Job, cluster: Cluster, layout: Layout, index: int, flops: float, compute_s: float
) -> RooflineLevel:
    """One level of the network."""
    grid, level = layout.grid(), cluster.levels[index]
    rate_Bps = cluster.bandwidth_per_device_Bps(index)
    alone, *apart = (
        _seconds(job, _only(cluster, here, beyond=beyond), grid)
        for here, beyond in ((index, None), (index, index), (None, index))
    )
    layered = {name: _apart(*(one[name] for one in apart)) for name in (*LAYERED, "once", "each")}
    moved_B = {name: _whole(seconds * rate_Bps) for name, seconds in (alone | layered).items()}
    once_B, each_B = moved_B.pop("once"), moved_B.pop("each")
    microbatches = int(grid.microbatches(job.recipe.batch))
    room_B = compute_s / microbatches * rate_Bps
    critical, why = critical_batch(once_B, each_B, room_B, layout, job.sequence_units)
    return RooflineLevel(
        name=level.name,
        traffic_B=moved_B,
        flops=flops,
        achieved_flops=flops / compute_s,
        peak_flops=cluster.device.peak(job.recipe.dtype),
        achieved_Bps=rate_Bps,
        peak_Bps=rate_Bps / level.link.achieved_frac,
        critical_microbatches=critical_microbatches(once_B, each_B, room_B),
        critical_batch=critical,
        critical_why=why,
    )


def _seconds(job: Job, cluster: Cluster, grid: LayoutGrid) -> dict[str, float]:
    """Seconds of traffic by kind, and of the data-parallel part once per step and with each micro-batch."""
    parts = compose(job, cluster, grid)
    step, waits = priced(parts, grid), parts.waits
    each = {"once": float(waits.once_s), "each": float(waits.forward_s + waits.backward_s)}
    return {kind: float(getattr(step, f"{kind}_comm_s")) for kind in KINDS} | each


def _apart(with_s: float, without_s: float) -> float:
    """The seconds that one level adds to those of slower ones."""
    return with_s - without_s if with_s - without_s > TRACE_FRAC * with_s else 0.0


def _whole(size_B: float) -> float:
    """Bytes, with the traces that boundless parts leave taken away."""
    return 0.0 if size_B < 1e-3 else size_B


def critical_microbatches(once_B: float, each_B: float, room_B: float) -> float | None:
    """D / (c W - d), not rounded: from bytes once per step, with each micro-batch, and movable while one is computed.

    None where no number of them hides the traffic, or where none is there once per step.
    """
    return once_B / (room_B - each_B) if once_B and each_B < room_B else None


def critical_batch(once_B: float, each_B: float, room_B: float, layout: Layout, seq: int) -> tuple[int | None, str]:
    """(tokens or None, why), from bytes once per step, with each micro-batch, and movable while one is computed."""
    if not once_B and not each_B:
        return None, "no data-parallel traffic at this level"
    share, exact = each_B / room_B, critical_microbatches(once_B, each_B, room_B)
    if not once_B:
        verdict = "binds at any batch" if share > 1.0 else "never binds"
        return None, (
            f"paid on every micro-batch ({format_frac(share)} of its compute), so it {verdict}; "
            "only the micro-batch changes that, not the batch"
        )
    if exact is None:
        return None, f"each micro-batch brings traffic for {format_frac(share)} of its compute: it binds at any batch"
    microbatches = math.ceil(exact)
    sequences = microbatches * layout.dp * layout.micro_batch
    batches = "micro-batch" if microbatches == 1 else "micro-batches"
    less = f"; {format_frac(exact)} of one would hide it" if exact < 1 else ""
    return sequences * seq, f"{microbatches} {batches}, {format_count(sequences)} sequences{less}"
