"""The verb about a whole run: `campaign`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.layout import Layout
from lockstep.planner import Estimate, Plan
from lockstep.planner.search import Progress
from lockstep.types.plain import Json
from lockstep.units import parse_count, parse_frac, parse_money_usd, parse_number, parse_power_W, parse_time_s
from lockstep.verbs.estimate import best_estimate
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.failures import bounded_mtbf_s, simulated_runs
from lockstep.verbs.words.network import flags
from lockstep.verbs.words.operations import read_operation
from lockstep.verbs.words.quantity import Quantity
from lockstep.verbs.words.question import positive, whole
from lockstep.verbs.words.shared import OPERATION_WORDS, LayoutWords, OperationWords
from lockstep.verbs.words.targets import read_target
from lockstep.workload import Model

if TYPE_CHECKING:
    from lockstep.campaigns import Campaign, Market, Ramp


class CampaignWords(LayoutWords, OperationWords, total=False):
    """Keywords of verbs about whole runs: those of a layout and those of its operation."""


@verb
def campaign(
    model: str | Path | Model | Plan | Estimate,
    cluster: str | Path | Cluster | None = None,
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
    **words: Unpack[CampaignWords],
) -> Campaign:
    """A whole run from its first step to its target: days, device hours, money, failures, and what to change.

    The target: `tokens`, or a `loss`, or `compute_optimal`, both by a `scaling_law`. Without a layout the planner's
    best. Failures: `mtbf` of the job, `node_mtbf`, or a `law` of gaps; otherwise what is known of the cluster.
    `carbon` in kg per kWh. Raises Infeasible when nothing fits, when the loss is never reached, or when failures leave
    no time.
    """
    from lockstep.campaigns import Scenario
    from lockstep.campaigns import campaign as find

    operation: Json = {name: words.pop(name) for name in OPERATION_WORDS if name in words}  # type: ignore[misc]
    market = _market(reserved_discount, spot_discount, preemption)
    found = best_estimate(model, cluster, layout, words)
    target = read_target(
        found.job.model, tokens=tokens, loss=loss, compute_optimal=compute_optimal, scaling_law=scaling_law,
        critical_batch_tokens=critical_batch_tokens,
    )  # fmt: skip
    if target is None:
        raise BadInput("give one of --tokens, --loss and --compute-optimal", "--tokens")
    with flags("--write"):
        return find(
            Scenario(
                found,
                target,
                read_operation(found.cluster, operation),
                _ramp(ramp_from, ramp_tokens),
                None if price is None else positive(parse_money_usd(price, "--price"), "--price"),
            ),
            market=market,
            power_W=None if power is None else positive(parse_power_W(power, "--power"), "--power"),
            pue=parse_number(pue, "--pue"),
            carbon_kg_per_kWh=None if carbon is None else parse_number(carbon, "--carbon"),
            warmup_steps=whole(warmup_steps, "--warmup-steps", minimum=0),
            campaigns=simulated_runs(campaigns),
            seed=whole(seed, "--seed", minimum=0),
            progress=progress,
        )


def _ramp(ramp_from: Quantity | None, ramp_tokens: Quantity | None) -> Ramp | None:
    from lockstep.campaigns import Ramp

    if ramp_from is None and ramp_tokens is None:
        return None
    if ramp_from is None or ramp_tokens is None:
        raise BadInput("--ramp-from and --ramp-tokens belong together", "--ramp-from")
    return Ramp(parse_count(ramp_from, "--ramp-from"), parse_count(ramp_tokens, "--ramp-tokens"))


def _market(reserved: Quantity | None, spot: Quantity | None, preemption: Quantity | None) -> Market:
    from lockstep.campaigns import Market

    return Market(
        reserved_discount_frac=None if reserved is None else parse_frac(reserved, "--reserved-discount"),
        spot_discount_frac=None if spot is None else parse_frac(spot, "--spot-discount"),
        preemption_s=None
        if preemption is None
        else bounded_mtbf_s(parse_time_s(preemption, "--preemption"), "--preemption"),
    )
