"""The verbs about unequal work: `stragglers`, `balance`, `experts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lockstep.api.calling import verb
from lockstep.api.network import LinkWords, flags, read_network
from lockstep.api.quantity import Quantity, Size, Time
from lockstep.api.question import whole
from lockstep.errors import BadInput
from lockstep.simulate import Law, Progress, parse_law, unseen
from lockstep.units import list_parts, parse_count, parse_number, parse_size_B, parse_time_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.failures.stragglers import Balance, StragglerCost
    from lockstep.parallel.expert import MoeLayer

MOST_WORKERS = 100_000
SLOW_FACTOR = 2.0


@verb
def stragglers(
    *,
    workers: Quantity,
    law: str | Law,
    mitigation: str = "none",
    comm: Time = 0.0,
    slow: Quantity = 0,
    slow_factor: Quantity | None = None,
    seed: Quantity = 0,
    progress: Progress | None = None,
) -> StragglerCost:
    """Cost of waiting for the slowest of `workers`, with a mitigation; `slow` workers are always slower by a factor.

    `progress` hears (done, total) of the simulation now and then.
    """
    from lockstep.failures.stragglers import parse_mitigation
    from lockstep.failures.stragglers import stragglers as find

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
    with flags("--workers"):
        return find(
            number, drawn, chosen, comm_s=parse_time_s(comm, "--comm"), slowdown=slowdown,
            seed=whole(seed, "--seed", minimum=0), progress=progress or unseen,
        )  # fmt: skip


@verb
def balance(
    *,
    speeds: str | Sequence[float],
    batch: Quantity,
    memory: str | None = None,
    sample_memory: Size | None = None,
    comm: Time = 0.0,
) -> Balance:
    """Split of a batch over workers of `speeds` samples/s, such as `1,1,2` or `4x1.5,2x0.8`.

    `memory`: samples that fit on each worker, in the same form; or bytes, if `sample_memory` gives the size of one.
    """
    from lockstep.failures.stragglers import balance as find

    rates = _list(speeds, "--speeds") if isinstance(speeds, str) else [float(speed) for speed in speeds]
    number = whole(batch, "--batch")
    most = None if memory is None else _most(memory, sample_memory, len(rates))
    if memory is None and sample_memory is not None:
        raise BadInput("has no effect without --memory", "--sample-memory")
    with flags("--speeds"):
        return find(rates, number, most=most, comm_s=parse_time_s(comm, "--comm"))


@verb
def experts(
    *,
    experts: Quantity,
    top_k: Quantity = 2,
    tokens: Quantity,
    ranks: Quantity,
    skew: Quantity = 0.0,
    capacity_factor: Quantity | None = None,
    token_size: Size = 8192,
    shared: Quantity = 0,
    temperature: Quantity | None = None,
    noise: Quantity = 1.0,
    placement: str = "contiguous",
    seed: Quantity = 0,
    **link: Unpack[LinkWords],
) -> MoeLayer:
    """Load, drops and all-to-all of one mixture-of-experts layer; `tokens` of all ranks together."""
    from lockstep.parallel.expert import experts as find

    number = whole(ranks, "--ranks")
    if temperature is not None and not parse_number(skew, "--skew"):
        raise BadInput("flattens the popularity of experts, which is flat without --skew", "--temperature")
    network = read_network(number, **link)
    with flags("--experts"):
        return find(
            whole(experts, "--experts"),
            whole(top_k, "--top-k"),
            whole(tokens, "--tokens"),
            number,
            network.inner,
            skew=parse_number(skew, "--skew"),
            capacity_factor=None if capacity_factor is None else parse_number(capacity_factor, "--capacity-factor"),
            token_B=parse_size_B(token_size, "--token-size"),
            shared=whole(shared, "--shared", minimum=0),
            temperature=1.0 if temperature is None else parse_number(temperature, "--temperature"),
            noise=parse_number(noise, "--noise"),
            placement=placement,
            node_ranks=network.node_ranks,
            outer=network.link if network.node_ranks else None,
            seed=whole(seed, "--seed", minimum=0),
        )


def _list(text: str, where: str, size: bool = False) -> list[float]:
    """Numbers from `1,1,2` or `4x1.5,2x0.8`."""
    found: list[float] = []
    for part in list_parts(text, where):
        count, cross, value = part.partition("x")
        times = whole(count, where) if cross else 1
        if times + len(found) > MOST_WORKERS:
            raise BadInput(f"more than {MOST_WORKERS:,} workers", where)
        one = value if cross else part
        found += [parse_size_B(one, where) if size else parse_count(one, where)] * times
    return found


def _most(memory: str, sample_memory: Size | None, workers: int) -> list[int]:
    """Samples that fit on every worker; one value holds for all."""
    if sample_memory is None:
        fitting = [int(number) for number in _list(memory, "--memory")]
    else:
        sample_B = parse_size_B(sample_memory, "--sample-memory")
        if sample_B == 0:
            raise BadInput("a sample must take more than 0 bytes", "--sample-memory")
        fitting = [int(size_B / sample_B) for size_B in _list(memory, "--memory", size=True)]
    return fitting * workers if len(fitting) == 1 else fitting
