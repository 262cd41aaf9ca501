"""Cost of waiting for the slowest worker."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_number, parse_time_s
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.named import Engine, Law
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import ENGINE, SEED, STORE

if TYPE_CHECKING:
    from lockstep.simulate.failures.stragglers import StragglerCost


MOST_WORKERS = 100_000

SLOW_FACTOR = 2.0


LAW = Option("LAW", "Law of a worker's step time: lognormal:mean=50ms,cv=0.2, exponential:mean=1s, trace:times.csv ...")
MITIGATION = Option("M", "Mitigation: none, backup:k, drop:k, bounded:s (steps ahead) or local:K.", default="none")
ABOVE = Option("T", "Computing time; adds the probability that any worker takes longer.")
DRAWS = Option("N", "Number of simulated times of workers, e.g. 400M; in blocks of 4M.", default="4M")


@verb
def stragglers(
    *,
    workers: Annotated[Quantity, Option("N", "Number of workers whose gradients make up a batch.")],
    law: Annotated[str | Law, LAW],
    mitigation: Annotated[str, MITIGATION] = "none",
    comm: Annotated[Time, Option("T", "Communication time per synchronisation.", default="0")] = 0.0,
    slow: Annotated[Quantity, Option("N", "Number of workers that are always slow.", default="0")] = 0,
    slow_factor: Annotated[Quantity | None, Option("F", "Slowdown of the slow workers.", default="2")] = None,
    above: Annotated[Time | None, ABOVE] = None,
    draws: Annotated[Quantity, DRAWS] = "4M",
    seed: Annotated[Quantity, SEED] = 0,
    engine: Annotated[str | Engine, ENGINE] = "serial",
    store: Annotated[str | Path | None, STORE] = None,
    progress: Progress | None = None,
) -> "StragglerCost":
    """Cost of waiting for the slowest of `workers`, with a mitigation; `slow` workers are always slower by a factor.

    `engine` and `store`: where blocks of `draws` are simulated, and the file that keeps them. `progress` hears
    (done, total) of the simulation now and then.
    """
    asked = {name: value for name, value in locals().items() if name not in ("engine", "store", "progress")}
    from lockstep.base.engines import find_engine
    from lockstep.show.verbs.words.many import swept_file
    from lockstep.simulate.failures.stragglers import parse_mitigation
    from lockstep.simulate.failures.stragglers import stragglers as find
    from lockstep.simulate.play import parse_law, unseen

    number = whole(workers, "--workers")
    if number > MOST_WORKERS:
        raise BadInput(f"must be at most {MOST_WORKERS:,}, got {number:,}", "--workers")
    drawn = parse_law(law, "--law") if isinstance(law, str) else law
    chosen = parse_mitigation(mitigation, "--mitigation")
    with flags("--mitigation"):
        chosen.check(number)
        launched = chosen.launched(number)
        if launched > 2 * MOST_WORKERS:
            raise BadInput(f"{launched} workers in total are more than {2 * MOST_WORKERS:,}", "mitigation")
    always = whole(slow, "--slow", minimum=0)
    if always > launched:
        raise BadInput(f"{always} slow workers of {launched}", "--slow")
    if slow_factor is not None and not always:
        raise BadInput("needs --slow, the number of slower workers", "--slow-factor")
    factor = SLOW_FACTOR if slow_factor is None else parse_number(slow_factor, "--slow-factor")
    if factor <= 0:
        raise BadInput("a factor on times must be above 0", "--slow-factor")
    slowdown = [1.0] * (launched - always) + [factor] * always if always else []
    numbers = whole(draws, "--draws", minimum=2)
    with flags("--workers"), swept_file(store, "stragglers", asked) as file:
        return find(
            number, drawn, chosen, comm_s=parse_time_s(comm, "--comm"), slowdown=slowdown,
            above_s=None if above is None else parse_time_s(above, "--above"),
            numbers=numbers, seed=whole(seed, "--seed", minimum=0), engine=find_engine(engine), file=file,
            progress=progress or unseen,
        )  # fmt: skip
