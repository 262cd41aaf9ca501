"""The verb about a whole run: `campaign`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

from lockstep.api.checkpointing import LONGEST_S, SHORTEST_MTBF_S, bounded_time_s, simulated_runs
from lockstep.api.network import flags
from lockstep.api.question import Quantity, located, whole
from lockstep.api.verbs import best_estimate, positive
from lockstep.api.words import LayoutWords
from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.layout import Layout
from lockstep.plan import Estimate, Plan
from lockstep.plan.search import Progress
from lockstep.units import (
    parse_bandwidth_Bps,
    parse_count,
    parse_frac,
    parse_money_usd,
    parse_power_W,
    parse_size_B,
    parse_time_s,
)
from lockstep.workload import Model

if TYPE_CHECKING:
    from lockstep.campaign import Campaign, Market, Operation, Ramp, Target
    from lockstep.reliability import GapLaw

SCALING_LAW = "besiroglu"


def campaign(
    model: str | Model | Plan | Estimate,
    cluster: str | Cluster | None = None,
    layout: Layout | None = None,
    *,
    tokens: Quantity | None = None,
    loss: Quantity | None = None,
    compute_optimal: bool = False,
    scaling_law: str | None = None,
    critical_batch_tokens: Quantity | None = None,
    warmup_steps: Quantity = 0,
    ramp_from: Quantity | None = None,
    ramp_tokens: Quantity | None = None,
    mtbf: Quantity | None = None,
    node_mtbf: Quantity | None = None,
    law: str | None = None,
    detection: Quantity | None = None,
    restart: Quantity | None = None,
    write: Quantity | None = None,
    storage_bandwidth: Quantity | None = None,
    async_frac: Quantity = 0.0,
    interval: Quantity | None = None,
    straggler_cv: Quantity = 0.0,
    eval_every: Quantity | None = None,
    eval_tokens: Quantity | None = None,
    data_bandwidth: Quantity | None = None,
    sample_size: Quantity | None = None,
    price: Quantity | None = None,
    reserved_discount: Quantity | None = None,
    spot_discount: Quantity | None = None,
    preemption: Quantity | None = None,
    power: Quantity | None = None,
    pue: Quantity = 1.0,
    carbon: Quantity | None = None,
    campaigns: Quantity = 1000,
    seed: Quantity = 0,
    progress: Progress | None = None,
    **words: Unpack[LayoutWords],
) -> Campaign:
    """A whole run from its first step to its target: days, device hours, money, failures, and what to change.

    The target: `tokens`, or a `loss`, or `compute_optimal`, both by a `scaling_law`. Without a layout the planner's
    best. Failures: `mtbf` of the job, `node_mtbf`, or a `law` of gaps; otherwise what is known of the cluster.
    `carbon` in kg per kWh. Raises Infeasible when nothing fits, when the loss is never reached, or when failures leave
    no time.
    """
    from lockstep.campaign import Scenario
    from lockstep.campaign import campaign as find

    market = _market(reserved_discount, spot_discount, preemption)
    found = best_estimate(model, cluster, layout, words)
    scenario = Scenario(
        found,
        _target(found, tokens, loss, compute_optimal, scaling_law, critical_batch_tokens),
        _operation(
            found, mtbf=mtbf, node_mtbf=node_mtbf, law=law, detection=detection, restart=restart, write=write,
            storage_bandwidth=storage_bandwidth, async_frac=async_frac, interval=interval, straggler_cv=straggler_cv,
            eval_every=eval_every, eval_tokens=eval_tokens, data_bandwidth=data_bandwidth, sample_size=sample_size,
        ),
        _ramp(ramp_from, ramp_tokens),
        None if price is None else positive(parse_money_usd(price, "--price"), "--price"),
    )  # fmt: skip
    with flags("--write"):
        return find(
            scenario,
            market=market,
            power_W=None if power is None else positive(parse_power_W(power, "--power"), "--power"),
            pue=parse_count(pue, "--pue"),
            carbon_kg_per_kWh=None if carbon is None else parse_count(carbon, "--carbon"),
            warmup_steps=whole(warmup_steps, "--warmup-steps", minimum=0),
            campaigns=simulated_runs(campaigns),
            seed=whole(seed, "--seed", minimum=0),
            progress=progress,
        )


def _target(
    found: Estimate, tokens: Quantity | None, loss: Quantity | None, compute_optimal: bool, law: str | None,
    critical_batch_tokens: Quantity | None,
) -> Target:  # fmt: skip
    """Exactly one way to say how long to train."""
    from lockstep.campaign import for_compute, for_loss, for_tokens, in_batches, scaling_law

    if (tokens is not None) + (loss is not None) + compute_optimal != 1:
        raise BadInput("give one of --tokens, --loss and --compute-optimal", "--tokens")
    if tokens is not None:
        if law is not None:
            raise BadInput("needs --loss or --compute-optimal, not --tokens", "--scaling-law")
        target = for_tokens(positive(parse_count(tokens, "--tokens"), "--tokens"))
    else:
        chosen, model = scaling_law(law or SCALING_LAW, "--scaling-law"), found.job.model
        with located("--compute-optimal" if loss is None else "--loss"):
            target = for_compute(chosen, model) if loss is None else for_loss(chosen, model, parse_count(loss))
    if critical_batch_tokens is None:
        return target
    critical = positive(parse_count(critical_batch_tokens, "--critical-batch-tokens"), "--critical-batch-tokens")
    return in_batches(target, critical)


def _operation(
    found: Estimate, *, mtbf: Quantity | None, node_mtbf: Quantity | None, law: str | None, detection: Quantity | None,
    restart: Quantity | None, write: Quantity | None, storage_bandwidth: Quantity | None, async_frac: Quantity,
    interval: Quantity | None, straggler_cv: Quantity, eval_every: Quantity | None, eval_tokens: Quantity | None,
    data_bandwidth: Quantity | None, sample_size: Quantity | None,
) -> Operation:  # fmt: skip
    """How the run is operated; what was not given keeps the library's default."""
    from lockstep.campaign import Operation

    gaps, device_mtbf_s = _failures(found, mtbf, node_mtbf, law)
    if write is not None and storage_bandwidth is not None:
        raise BadInput("give --write or --storage-bandwidth, not both", "--write")
    if (eval_every is None) != (eval_tokens is None):
        raise BadInput("--eval-every and --eval-tokens belong together", "--eval-every")
    times_s = {
        name: bounded_time_s(given, f"--{flag}")
        for name, flag, given in (
            ("detection_s", "detection", detection), ("restart_s", "restart", restart), ("write_s", "write", write),
            ("interval_s", "interval", interval),
        )
        if given is not None
    }  # fmt: skip
    rates_Bps = {
        name: positive(parse_bandwidth_Bps(given, f"--{flag}"), f"--{flag}")
        for name, flag, given in (
            ("storage_Bps", "storage-bandwidth", storage_bandwidth), ("data_Bps", "data-bandwidth", data_bandwidth),
        )
        if given is not None
    }  # fmt: skip
    if found.cluster.storage_write_Bps is not None and write is None:
        rates_Bps.setdefault("storage_Bps", found.cluster.storage_write_Bps)
    if sample_size is not None:
        rates_Bps["sample_B"] = parse_size_B(sample_size, "--sample-size")
    evaluated = 0.0 if eval_tokens is None else positive(parse_count(eval_tokens, "--eval-tokens"), "--eval-tokens")
    hidden_frac = parse_frac(async_frac, "--async")
    if hidden_frac > 1:
        raise BadInput(f"must be from 0 to 1, got {hidden_frac:g}", "--async")
    return Operation(
        device_mtbf_s=device_mtbf_s,
        law=gaps,
        hidden_frac=hidden_frac,
        straggler_cv=parse_frac(straggler_cv, "--straggler-cv"),
        eval_every=None if eval_every is None else whole(eval_every, "--eval-every"),
        eval_tokens=evaluated,
        **times_s,
        **rates_Bps,
    )


def _failures(
    found: Estimate, mtbf: Quantity | None, node_mtbf: Quantity | None, law: str | None
) -> tuple[GapLaw | None, float]:
    """(law given, mean time between failures per device); the cluster's own when nothing is given."""
    from lockstep.reliability import parse_gap_law

    if (mtbf is not None) + (node_mtbf is not None) + (law is not None) > 1:
        raise BadInput("give one of --mtbf, --node-mtbf and --law", "--mtbf")
    if mtbf is None and node_mtbf is None and law is None:
        known = found.cluster.mtbf_s
        return None, math.inf if known is None else known
    if node_mtbf is not None:
        node = found.cluster.devices_per_unit(0)
        return None, _mtbf_s(parse_time_s(node_mtbf, "--node-mtbf"), "--node-mtbf") * node
    gaps = None if law is None else parse_gap_law(law, "--law")
    where = "--mtbf" if gaps is None else "--law"
    job_s = parse_time_s(mtbf, where) if gaps is None else gaps.mean_s
    return gaps, _mtbf_s(job_s, where) * found.job.devices


def _mtbf_s(time_s: float, where: str) -> float:
    if not SHORTEST_MTBF_S <= time_s <= LONGEST_S:
        raise BadInput(f"a failure every {time_s:g} s; must be from 1 ms to 3,000 years", where)
    return time_s


def _ramp(ramp_from: Quantity | None, ramp_tokens: Quantity | None) -> Ramp | None:
    from lockstep.campaign import Ramp

    if ramp_from is None and ramp_tokens is None:
        return None
    if ramp_from is None or ramp_tokens is None:
        raise BadInput("--ramp-from and --ramp-tokens belong together", "--ramp-from")
    return Ramp(parse_count(ramp_from, "--ramp-from"), parse_count(ramp_tokens, "--ramp-tokens"))


def _market(reserved: Quantity | None, spot: Quantity | None, preemption: Quantity | None) -> Market:
    from lockstep.campaign import Market

    return Market(
        reserved_discount_frac=None if reserved is None else parse_frac(reserved, "--reserved-discount"),
        spot_discount_frac=None if spot is None else parse_frac(spot, "--spot-discount"),
        preemption_s=None if preemption is None else _mtbf_s(parse_time_s(preemption, "--preemption"), "--preemption"),
    )
