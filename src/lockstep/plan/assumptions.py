"""What an answer takes for granted, in words: every assumed constant it rests on, the one that matters most first."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.hardware import Cluster
from lockstep.layout import FRAMEWORK_B, SLACK_FRAC, Job, Recipe
from lockstep.units import format_flops, format_frac, format_size, format_time

HALF = ("bf16", "fp16")


def assumptions(job: Job, cluster: Cluster, hidden_s: float = 0.0) -> tuple[str, ...]:
    """Sentences, the most important first; `hidden_s` of a step the experts' exchange runs beside computing."""
    return tuple(_all(job, cluster, hidden_s))


def memory_assumptions(job: Job) -> tuple[str, ...]:
    """The sentences that an answer about memory alone rests on."""
    return (*job.recipe.notes, *_model(job), *_memory(job.recipe))


def _all(job: Job, cluster: Cluster, hidden_s: float) -> Iterator[str]:
    curve, recipe = cluster.device.efficiency, job.recipe
    how = curve.kind_on(cluster.device.name)
    how = f"{how}, so times are uncalibrated" if how == "assumed" else how
    how = f"{how} {curve.date}" if how == "measured" else how
    error = format_frac(curve.error_frac_on(cluster.device.name), 2)
    yield from recipe.notes
    yield from cluster.notes
    yield from _alone(cluster)
    yield f"kernel efficiency of {cluster.device.name}: curve {curve.name!r}, {how} ({curve.source}), error {error}"
    yield from _peak(cluster, recipe)
    if hidden_s:
        share = format_frac(recipe.overlap_device_frac)
        hides = "shared experts" if recipe.overlap_ep == "shared" else "the other pass of a cell"
        yield f"{format_time(hidden_s)} of experts' exchange hide beside {hides}, and slow it by {share} meanwhile"
    for level in cluster.levels:
        found = level.link.provenance.get("achieved_frac")
        if level.size > 1 and found is not None and found.kind == "assumed":
            reached = format_frac(level.link.achieved_frac)
            yield f"{level.link.name} is uncalibrated: {reached} of its wire rate (assumed)"
        rate = level.link.provenance.get("bandwidth_Bps")
        if level.size > 1 and rate is not None and rate.kind == "measured":
            yield f"{level.link.name} is calibrated: {rate.text} ({rate.date})"
    yield "model FLOPs count attention in full (no causal halving), as most published MFU figures do"
    if recipe.overlap_dp:
        yield "data-parallel traffic runs beside compute without slowing it"
    yield from _model(job)
    yield from _memory(recipe)
    price = cluster.provenance.get("price_per_hour_usd") or cluster.device.provenance.get("price_per_hour_usd")
    if price is not None:
        yield f"price per device and hour: {price.kind}, {price.text} ({price.date})"


def _peak(cluster: Cluster, recipe: Recipe) -> Iterator[str]:
    """Which peak utilisations are of, where it is not that of half precision, which most published ones are of."""
    device = cluster.device
    if recipe.dtype not in HALF:
        half = next(
            (f"; {dtype} has {format_flops(device.peak(dtype))}" for dtype in HALF if dtype in device.peak_flops), ""
        )
        yield f"MFU and HFU are of the dense {recipe.dtype} peak, {format_flops(device.peak(recipe.dtype))}{half}"


def _alone(cluster: Cluster) -> Iterator[str]:
    """That machines of one device are as many machines, which a number of devices does not say."""
    if cluster.num_devices > 1 and cluster.levels[0].size == 1:
        fabric = next(level.link.name for level in cluster.levels if level.size > 1)
        number, device = cluster.num_devices, cluster.device.name
        together = f"{device}:{number} is one machine of {number}"
        yield f"{number} machines of one {device} each, joined by {fabric}; {together}"


def _model(job: Job) -> Iterator[str]:
    if job.num_experts:
        yield "experts are equally loaded and no token is dropped"
    if job.transformer and job.transformer.mtp_layers:
        yield f"{job.transformer.mtp_layers} multi-token-prediction module(s) are trained too"
    if job.transformer:
        yield from job.transformer.notes


def _memory(recipe: Recipe) -> Iterator[str]:
    framework, slack = format_size(FRAMEWORK_B), format_frac(SLACK_FRAC)
    yield f"framework and communicators take {framework}, the allocator {slack} of what is used (assumed)"
    states = f"{recipe.parameter_B:g} parameter + {recipe.gradient_B:g} gradient"
    states += f" + {recipe.states.matrix_B:g} {recipe.optimizer}"
    yield f"{recipe.bytes_per_parameter:g} B of state per matrix parameter before sharding: {states}"
