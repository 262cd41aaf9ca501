"""What an answer takes for granted, in words: every assumed constant it rests on, the one that matters most first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.base.types.plain import plain
from lockstep.base.units import format_bandwidth, format_flops, format_frac, format_size, format_time
from lockstep.decide.planner.interval import Ends, explained
from lockstep.decide.planner.support import support
from lockstep.decide.planner.utilisation import HALF
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.cluster import HOST_STREAM_FRAC
from lockstep.describe.hardware.source import Provenance
from lockstep.describe.stacks import Stack, differences, stacks
from lockstep.describe.workload import PLAIN
from lockstep.price.kernels.clock import WIDE_FRAC, Clock
from lockstep.price.layout import (
    FRAMEWORK_B,
    HOST_USABLE_FRAC,
    KEEP,
    OFFLOAD,
    PAGED,
    SLACK_FRAC,
    Job,
    Layout,
    Recipe,
    busiest_rank_frac,
    choices_of,
    divides_states,
    load_of,
    mean_states_B,
    natural_load,
    sharing_in,
    state_bytes,
)
from lockstep.price.step import Step
from lockstep.simulate.parallel.expert.visited import visited_frac

HOST_FRAC = 0.1
"""Share of a step from which on time of the host is worth a sentence."""
COUNTED = {
    "full": "model FLOPs count attention in full (no causal halving), as most published MFU figures do",
    "causal": "model FLOPs count the attention that a causal mask leaves, half of it in full",
    "6n": "model FLOPs are six for every parameter that a token uses; attention is not counted",
}
"""What utilisation counts, by convention."""
UNLIKE = ", though a released model's rarely are on other text: see --routing natural"
"""What routing that is not forced was reported to give, and where: tokens per expert of 16 layers, counted there."""
HIDDEN_BEHIND = {
    "cells": "the other pass of a cell", "shared": "shared experts", "passes": "the passes of another micro-batch",
}  # fmt: skip
"""What hides the experts' exchange, by overlap."""


def assumptions(
    job: Job, cluster: Cluster, layout: Layout, step: Step | None = None, ends: Ends | None = None
) -> tuple[str, ...]:
    """Sentences that the times of a layout rest on, the most important first; with its `step`, in seconds too, and with
    what its interval depends on, in that."""
    return tuple(_all(job, cluster, layout, step, ends))


def memory_assumptions(job: Job, cluster: Cluster, layout: Layout) -> tuple[str, ...]:
    """The sentences that an answer about memory alone rests on."""
    host = _host_memory(cluster) if _offloads(job, layout) else ()
    return (*_chosen(job), *_model(job, layout), *_memory(job, layout), *host)


def _all(job: Job, cluster: Cluster, layout: Layout, step: Step | None, ends: Ends | None) -> Iterator[str]:
    curve, recipe = cluster.device.efficiency, job.recipe
    how, name = curve.kind_on(cluster.device.name), curve.name
    how = f"{how}, so times are uncalibrated" if how == "assumed" else how
    if curve.devices and cluster.device.name not in curve.devices:
        name = f"{name}, borrowed from {curve.devices[0]}"
    how = f"{how} {curve.date}" if how == "measured" else how
    error = format_frac(curve.error_frac_on(cluster.device.name), 2)
    yield from _chosen(job)
    yield from cluster.notes
    yield from _alone(cluster)
    if ends is not None:
        yield explained(ends, cluster.device)
        if (late_frac := float(ends.host_frac)) >= HOST_FRAC:
            more = "larger micro-batches, fewer experts per rank" if job.num_experts else "larger micro-batches"
            late = format_frac(late_frac, 2)
            yield f"the device waits for the host, else the step would be {late} shorter; {more} or --cuda-graphs help"
    yield f"kernel efficiency of {cluster.device.name}: curve {name}, {how} ({curve.source}), error {error}"
    yield from _software(job, cluster)
    yield _supported(job, cluster)
    yield from _peak(cluster, recipe)
    yield from _scaled(recipe)
    if _offloads(job, layout):
        yield from _host_traffic(cluster, layout)
        yield from _kept(recipe)
        yield from _host_memory(cluster)
    if step is not None and (hidden_s := float(step.ep_hidden_s)):
        share = format_frac(recipe.exchange_device_frac)
        hides = HIDDEN_BEHIND[recipe.overlap_ep]
        yield f"{format_time(hidden_s)} of expert exchange are hidden behind {hides}, and slow it by {share} meanwhile"
    for level in cluster.levels:
        found = level.link.provenance.get("achieved_frac")
        if level.size > 1 and found is not None and found.kind == "assumed":
            reached = format_frac(level.link.achieved_frac)
            yield f"{level.link.name} is uncalibrated: {reached} of its wire rate (assumed)"
        rate = level.link.provenance.get("bandwidth_Bps")
        if level.size > 1 and rate is not None and rate.kind == "measured":
            yield f"{level.link.name} is calibrated: {rate.text} ({rate.date})"
    yield f"{COUNTED[recipe.mfu_convention]}; HFU counts what kernels execute"
    if recipe.local_steps > 1:
        yield f"the step is the mean of {recipe.local_steps:,}, after which groups of ranks average their parameters"
        yield "what training apart costs in convergence is not in it: see `lockstep converge outer-momentum`"
    if recipe.recompute_layers:
        yield f"{recipe.recompute_layers} layers of each stage, or chunk, are recomputed; others keep all activations"
    if recipe.spreads(layout.pp):
        yield "embedding and head are spread over stages; the wait for the first and the last logits is not in the time"
    yield from _sharding(job, layout)
    if slowed_frac := Clock.of(cluster.device, recipe).traffic_device_frac:
        yield f"traffic that overlaps with compute slows it by {format_frac(slowed_frac)} meanwhile"
    elif recipe.overlap_dp:
        yield "data-parallel traffic overlaps with compute without slowing it"
    yield from _jitter(job, cluster, step)
    yield from _model(job, layout)
    yield from _exchange(job, layout)
    yield from _memory(job, layout)
    price = cluster.provenance.get("price_per_hour_usd") or cluster.device.provenance.get("price_per_hour_usd")
    if price is not None:
        yield f"price per device and hour: {price.kind}, {price.text} ({price.date})"


def _software(job: Job, cluster: Cluster) -> Iterator[str]:
    """Whose kernels and time on the host are priced."""
    recipe, clock = job.recipe, Clock.of(cluster.device, job.recipe)
    software, (name, kernel) = recipe.software, clock.attention
    launch, step = format_time(float(clock.launch_s)), format_time(float(clock.step_s))
    yield f"software {software.name}: {launch} to launch a kernel, {step} between steps ({software.kind})"
    yield from _changed(software)
    if job.attends and recipe.flash_attention:
        yield f"attention kernel {name}: rates of {kernel.source or 'the efficiency curve'}"
        if job.transformer and job.transformer.positions == "relative":
            yield "relative positions are added inside the fused attention kernel at no cost; see --no-flash"


def _changed(software: Stack) -> Iterator[str]:
    """What software does otherwise than that of the catalog."""
    base = stacks()[software.like]
    if software.name != base.name:
        yield f"{software.name} is like {base.name} ({software.source}), except where the following says otherwise"
    for one in differences(base, software):
        if one.kind == "way":
            yield f"{one.name} runs as {one.b.name!r}, not as {base.name}'s own {one.a.name!r}"
        else:
            usual = f"which {base.name} leaves alone" if one.a is None else f"not {plain(one.a)} as {base.name} has it"
            yield f"{one.name} is {plain(one.b)}, {usual}"


def _supported(job: Job, cluster: Cluster) -> str:
    """What published steps the answer can be held to."""
    found = support(cluster.device, job.recipe.software, job.recipe.dtype)
    together = f"{found.device}, {found.stack} and {found.dtype}"
    if found.level == "none":
        return f"{found.stack} is not known to run on {found.device} in {found.dtype}: nothing measured is behind this"
    if found.level == "extrapolated":
        return f"no published step is of {together} together: extrapolated from others (lockstep support)"
    how = "some of them fitted to" if found.level == "fitted" else "none of them fitted to"
    error = format_frac(found.error_frac or 0.0, 2)
    return f"{found.rows} published steps are of {together}, {how}: median error {error} where none would be"


def _jitter(job: Job, cluster: Cluster, step: Step | None) -> Iterator[str]:
    """By how much ranks differ, and what that costs."""
    ranks = job.recipe.rank_law(cluster.rank_spread_frac)
    laws = {"from pass to pass": job.recipe.jitter, "from rank to rank": ranks}
    said = [f"{where} by {law}" for where, law in laws.items() if law is not None]
    if said:
        waited = "for the slowest" if step is None else f"{format_time(float(step.waiting_s))} of a step"
        yield f"kernels differ {' and '.join(said)}: ranks wait {waited}"
    elif job.devices > 1:
        yield "all ranks take equally long for the same work; --jitter and --rank-jitter tell by how much they differ"


def _sharding(job: Job, layout: Layout) -> Iterator[str]:
    """Whose traffic of sharded states it is, where software differs."""
    recipe = job.recipe
    if layout.zero < 2 and recipe.sharding == "any":
        return
    found = sharing_in(job, layout.grid())
    who = "" if recipe.sharding == "any" else f" by {recipe.sharding}"
    times = "after every micro-batch" if found.scatters else "once per step"
    whole = ", and add up whole until then" if layout.zero >= 2 and not found.scatters else ""
    ways = {True: "before every forward and backward pass", False: "before every forward pass"}
    gathered = ways[bool(found.gathers_backward)] if found.gathers_forward else "once per step"
    yield f"ZeRO-{layout.zero}{who}: gradients are reduced {times}{whole}; parameters are gathered {gathered}"
    if found.held_frac is not None:
        forward, backward, held = (
            format_frac(float(np.max(one))) for one in (found.forward_frac, found.backward_frac, found.held_frac)
        )
        yield (
            f"within DeepSpeed's limits in elements (--gather-limits) a forward pass gathers {forward} and a backward "
            f"pass {backward} of the parameters, of which {held} stay whole from the one to the other"
        )


def _peak(cluster: Cluster, recipe: Recipe) -> Iterator[str]:
    """Which peak utilisations are of, where it is not that of half precision, which most published ones are of."""
    device = cluster.device
    if recipe.dtype not in HALF:
        half = next(
            (f"; {dtype} has {format_flops(device.peak(dtype))}" for dtype in HALF if dtype in device.peak_flops), ""
        )
        yield f"MFU and HFU are of the dense {recipe.dtype} peak, {format_flops(device.peak(recipe.dtype))}{half}"


def _scaled(recipe: Recipe) -> Iterator[str]:
    """Which products a format with scales by block leaves alone."""
    wide = WIDE_FRAC.get(recipe.dtype)
    if wide:
        said = "as NVIDIA's recipe keeps the first and the last blocks (arXiv 2509.25149)"
        yield f"{format_frac(wide)} of the products stay in bf16 with {recipe.dtype}, {said}; attention does too"


def _alone(cluster: Cluster) -> Iterator[str]:
    """That machines of one device are as many machines, which a number of devices does not say."""
    if cluster.num_devices > 1 and cluster.levels[0].size == 1:
        fabric = next(level.link.name for level in cluster.levels if level.size > 1)
        number, device = cluster.num_devices, cluster.device.name
        together = f"{device}:{number} is one machine of {number}"
        yield f"{number} machines of one {device} each, joined by {fabric}; {together}"


def _host_traffic(cluster: Cluster, layout: Layout) -> Iterator[str]:
    host = cluster.known_host
    rate, reached = format_bandwidth(cluster.host_bandwidth_Bps), format_frac(host.link.achieved_frac)
    wire, kind = _source(host.link.provenance, "bandwidth_Bps"), _kind(host.link.provenance, "achieved_frac")
    sharing = min(host.devices_per_link, cluster.devices_per_host)
    shared = f", shared by {sharing} devices ({_source(host.provenance, 'devices_per_link')})" if sharing > 1 else ""
    yield (
        f"host link {host.link.name}: {rate} per device and direction, {reached} ({kind}) of "
        f"{format_bandwidth(host.link.bandwidth_Bps)} ({wire}){shared}"
    )
    if layout.offload == OFFLOAD[PAGED]:
        yield "optimizer states that find no room come from the host for every update and go back, one after the other"
        return
    yield "what a pass moves to or from the host overlaps with compute of other layers; updates overlap with nothing"
    if layout.offload == OFFLOAD[KEEP]:
        return
    if host.memory_bandwidth_Bps is None:
        yield "the rate of host memory is not given, so an update on the host is taken to need no time"
        return
    memory, share = format_bandwidth(host.memory_bandwidth_Bps), format_frac(HOST_STREAM_FRAC)
    source = _source(host.provenance, "memory_bandwidth_Bps")
    yield f"the host updates at {share} of its memory's {memory} (assumed; rate {source}), all its devices together"


def _offloads(job: Job, layout: Layout) -> bool:
    """Whether anything goes to host memory."""
    return layout.offload != OFFLOAD[KEEP] or bool(job.recipe.offload_layers)


def _kept(recipe: Recipe) -> Iterator[str]:
    """Activations on the host."""
    if not recipe.offload_layers:
        return
    layers = "all layers" if recipe.offload_layers == "all" else f"{recipe.offload_layers} layers"
    yield f"kept activations of {layers} of a stage go to the host in forward passes and come back in backward passes"
    if recipe.sharding == "deepspeed":
        yield "DeepSpeed's copies of them overlap with nothing: their memory is not pinned"


def _host_memory(cluster: Cluster) -> Iterator[str]:
    host = cluster.known_host
    if host.memory_B is None:
        yield f"host memory of {cluster.name} is not given, so whether the offloaded states fit in it is not checked"
        return
    size, usable = format_size(host.memory_B), format_frac(HOST_USABLE_FRAC)
    source, devices = _source(host.provenance, "memory_B"), cluster.devices_per_host
    per = "1 device" if devices == 1 else f"{devices} devices"
    yield f"host memory: {size} for {per} ({source}), of which offloaded states may fill {usable} (assumed)"


def _source(provenance: Provenance, name: str) -> str:
    found = provenance.get(name)
    return "assumed" if found is None else f"{found.kind}: {found.text}"


def _kind(provenance: Provenance, name: str) -> str:
    found = provenance.get(name)
    return "assumed" if found is None else found.kind


def _chosen(job: Job) -> Iterator[str]:
    """What was chosen on the user's behalf, and what of the model is left out."""
    yield from job.recipe.notes
    if job.transformer:
        yield from job.transformer.notes
        if job.transformer.patches is not None:
            yield job.transformer.patches.describe()
        if job.transformer.modulation is not None:
            yield "latents are read as an autoencoder stored them; no moving average of the weights is held"
    if job.crosses:
        yield (
            f"a sequence is a pair: {job.recipe.seq:,} tokens into the encoder and as many out of the decoder; tokens "
            "are counted once, those that go in"
        )


def _model(job: Job, layout: Layout) -> Iterator[str]:
    moe, routing = job.transformer.experts if job.transformer else None, job.recipe.routing
    load = load_of(moe, job.recipe) if moe else None
    if moe and load is None:
        yield "experts are equally loaded and no token is dropped" + (UNLIKE if job.recipe.fine_tunes else "")
    elif moe:
        busiest = float(np.asarray(busiest_rank_frac(moe, job.recipe, layout.grid())))
        yield f"routing {routing}: the busiest rank of experts has {busiest:.3g} times the mean; no token is dropped"
        if routing == "natural":
            one = natural_load(moe, job.recipe)
            unequal = f"natural routing is as unequal as a measured load, {one.spread:g} of the mean"
            yield f"{unequal}: {one.what}; {one.source}"
    if job.transformer and job.transformer.mtp_layers:
        yield f"{job.transformer.mtp_layers} multi-token-prediction module(s) are trained too"
    if job.crosses or (job.images and job.transformer):
        yield "no measured step of a model of this kind is known: its kernels are priced as those of decoders of text"
    if job.transformer and job.transformer.recurrent:
        unknown = "no measured times of recurrent layers are known"
        yield f"{unknown}: their products run at the rate of any, the rest at that of memory"


def _exchange(job: Job, layout: Layout) -> Iterator[str]:
    """How far tokens travel to their experts."""
    moe = job.transformer.experts if job.transformer else None
    if moe is None or layout.ep == 1:
        return
    choices = choices_of(moe)
    if job.recipe.once_per_node(choices.limited):
        load, known = load_of(moe, job.recipe), not choices.limited and choices.experts % layout.ep == 0
        apart = visited_frac(choices, layout.ep, load.skew) if load is not None and known else None
        devices = choices.units_of[layout.ep] if apart is None else apart.sum()
        yield f"a token goes once to each device that has experts of its, {devices:.3g} of {layout.ep} on average"
    else:
        yield f"each of a token's {moe.top_k} copies travels to its expert by itself"


def _memory(job: Job, layout: Layout) -> Iterator[str]:
    recipe = job.recipe
    framework, slack = format_size(FRAMEWORK_B), format_frac(SLACK_FRAC)
    yield f"framework and communicators take {framework}, the allocator {slack} of what is used (assumed)"
    objective = recipe.objective
    if objective.name != PLAIN.name:
        yield objective.describe()
    if objective.generation_frac:
        yield f"generation takes {format_frac(objective.generation_frac)} of the step, as given: serving is not priced"
    if recipe.adapters is not None:
        kept = "kept as other parameters are" if recipe.habits.half_adapters else "in fp32 with gradients and moments"
        kept = "cast to bf16 above a base of bitsandbytes" if recipe.casts_adapters else kept
        yield f"{recipe.adapters.describe()} are trained, {kept}; all else is frozen"
        if recipe.adapters.saved:
            yield f"copies of {' and '.join(recipe.adapters.saved)} are trained whole, as wide as the frozen ones"
        if recipe.base is not None:
            used = "used wide" if recipe.restores else "used as they are"
            yield f"matrices of blocks are stored in {recipe.base}, {recipe.base_B:.3g} B each, and {used}"
        return
    if layout.zero == 0 and np.any(divides_states(recipe, layout.grid())):
        yield f"{recipe.software.name} divides optimizer states in bf16 at ZeRO 0 as at ZeRO 1"
    each = state_bytes(recipe, layout.grid(), mean_states_B(job))
    states = f"{float(each.parameter_B):g} parameter + {float(each.gradient_B):g} gradient"
    states += f" + {float(each.optimizer_B):g} {recipe.optimizer}"
    which = "matrix parameter" if recipe.states.tensor_B is None else "parameter, on average,"
    yield f"{float(each.total_B):g} B of state per {which} before sharding: {states}"
