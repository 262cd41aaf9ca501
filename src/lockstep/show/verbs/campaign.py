"""The verb about a whole run: `campaign`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_count, parse_frac, parse_money_usd, parse_number, parse_power_W, parse_time_s
from lockstep.show.verbs.estimate import best_estimate
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.failures import bounded_mtbf_s, simulated_runs
from lockstep.show.verbs.words.named import Cluster, Engine, Estimate, Layout, Model, Plan
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.operations import read_operation
from lockstep.show.verbs.words.option import Option, taken
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import positive, whole
from lockstep.show.verbs.words.shared import (
    CLUSTER,
    ENGINE,
    MODEL,
    SEED,
    STORE,
    LayoutWords,
    OperationWords,
    TargetWords,
)
from lockstep.show.verbs.words.targets import read_target

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Campaign, Market, Ramp


_BATCH = "Batch size and learning rate at the start"
_MONEY = "Money and energy"


class CampaignWords(LayoutWords, OperationWords, TargetWords, total=False):
    """Keywords of verbs about whole runs: those of a layout, of its operation and of its target."""


RAMP_FROM = Option("N", "Tokens per step at the start of a batch ramp.", panel=_BATCH)
PRICE = Option("P", "Dollars per device-hour, instead of the catalog's price.", panel=_MONEY)
RESERVED_DISCOUNT = Option("FRAC", "Discount for reserved devices, to compare with.", panel=_MONEY)
SPOT_DISCOUNT = Option("FRAC", "Discount for spot devices, to compare with; needs --preemption.", panel=_MONEY)
PREEMPTION = Option("T", "Mean time until one spot node is preempted.", panel=_MONEY)
PUE = Option("X", "Power of the facility divided by that of its equipment.", panel=_MONEY, default="1")
CARBON = Option("X", "Carbon intensity of the grid, in kg of CO2 per kWh, e.g. 0.4.", panel=_MONEY)


@verb
def campaign(
    model: Annotated[str | Path | Model | Plan | Estimate, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    *,
    warmup_steps: Annotated[Quantity, Option("N", "Steps over which the learning rate rises.", panel=_BATCH)] = 0,
    ramp_from: Annotated[Quantity | None, RAMP_FROM] = None,
    ramp_tokens: Annotated[Quantity | None, Option("N", "Tokens over which the batch grows.", panel=_BATCH)] = None,
    price: Annotated[Quantity | None, PRICE] = None,
    reserved_discount: Annotated[Quantity | None, RESERVED_DISCOUNT] = None,
    spot_discount: Annotated[Quantity | None, SPOT_DISCOUNT] = None,
    preemption: Annotated[Quantity | None, PREEMPTION] = None,
    power: Annotated[Quantity | None, Option("W", "Power per device.", panel=_MONEY, default="its TDP")] = None,
    pue: Annotated[Quantity, PUE] = 1.0,
    carbon: Annotated[Quantity | None, CARBON] = None,
    campaigns: Annotated[Quantity, Option("N", "Number of simulated runs.", default="1000")] = 1000,
    seed: Annotated[Quantity, SEED] = 0,
    engine: Annotated[str | Engine, ENGINE] = "serial",
    store: Annotated[str | Path | None, STORE] = None,
    progress: Progress | None = None,
    **words: Unpack[CampaignWords],
) -> "Campaign":
    """A whole run from its first step to its target: days, device hours, money, failures, and what to change.

    The target: `tokens`, or a `loss`, or `compute_optimal`, both by a `scaling_law`. Without a layout the planner's
    best. Failures: `mtbf` of the job, `node_mtbf`, or a `law` of gaps; otherwise what is known of the cluster.
    `carbon` in kg per kWh. `engine` and `store`: where runs are simulated, and the file that keeps them. Raises
    Infeasible when nothing fits, when the loss is never reached, or when failures leave no time.
    """
    asked = {name: value for name, value in locals().items() if name not in ("words", "engine", "store", "progress")}
    from lockstep.base.engines import find_engine
    from lockstep.decide.campaigns import Scenario
    from lockstep.decide.campaigns import campaign as find
    from lockstep.show.verbs.words.many import swept_file
    from lockstep.simulate.failures.simulation import MOST_CAMPAIGNS

    asked |= words
    operation, aim = taken(words, OperationWords), taken(words, TargetWords)
    market = _market(reserved_discount, spot_discount, preemption)
    found = best_estimate(model, cluster, layout, words)
    target = read_target(found.job.model, aim, found.job.recipe)
    if target is None:
        raise BadInput("give one of --tokens, --loss and --compute-optimal", "--tokens")
    with flags("--write"), swept_file(store, "campaign", asked, engine) as file:
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
            campaigns=simulated_runs(campaigns, MOST_CAMPAIGNS),
            seed=whole(seed, "--seed", minimum=0),
            engine=find_engine(engine),
            file=file,
            progress=progress,
        )


def _ramp(ramp_from: Quantity | None, ramp_tokens: Quantity | None) -> "Ramp | None":
    from lockstep.decide.campaigns import Ramp

    if ramp_from is None and ramp_tokens is None:
        return None
    if ramp_from is None or ramp_tokens is None:
        raise BadInput("--ramp-from and --ramp-tokens belong together", "--ramp-from")
    return Ramp(parse_count(ramp_from, "--ramp-from"), parse_count(ramp_tokens, "--ramp-tokens"))


def _market(reserved: Quantity | None, spot: Quantity | None, preemption: Quantity | None) -> "Market":
    from lockstep.decide.campaigns import Market

    return Market(
        reserved_discount_frac=None if reserved is None else parse_frac(reserved, "--reserved-discount"),
        spot_discount_frac=None if spot is None else parse_frac(spot, "--spot-discount"),
        preemption_s=None
        if preemption is None
        else bounded_mtbf_s(parse_time_s(preemption, "--preemption"), "--preemption"),
    )
