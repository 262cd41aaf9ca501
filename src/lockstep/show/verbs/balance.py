"""A batch split over unequal workers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput
from lockstep.base.units import list_parts, parse_count, parse_size_B, parse_time_s
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity, Size, Time
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.simulate.failures.stragglers import Balance


MOST_WORKERS = 100_000


SPEEDS = Option(
    "V,..",
    "Samples per second of each worker, e.g. 100,100,60 or 4x100,2x60; or the law of a worker's speed, e.g. "
    "lognormal:mean=100,cv=0.3, with --workers.",
)
MEMORY = Option("S,..", "Samples that fit on each worker; bytes with --sample-memory.")


@verb
def balance(
    *,
    speeds: Annotated[str | Sequence[float], SPEEDS],
    batch: Annotated[Quantity, Option("B", "Samples per step.")],
    memory: Annotated[str | None, MEMORY] = None,
    sample_memory: Annotated[Size | None, Option("S", "Memory of one sample.")] = None,
    comm: Annotated[Time, Option("T", "Communication time per step.", default="0")] = 0.0,
    workers: Annotated[Quantity | None, Option("N", "Number of workers whose speeds are drawn from a law.")] = None,
    seed: Annotated[Quantity | None, Option("N", "Random seed of the speeds.", default="0")] = None,
) -> "Balance":
    """Split of a batch over workers of `speeds` samples/s, such as `1,1,2` or `4x1.5,2x0.8`.

    `memory`: samples that fit on each worker, in the same form; or bytes, if `sample_memory` gives the size of one.
    """
    from lockstep.simulate.failures.stragglers import balance as find

    rates = _speeds(speeds, workers, seed)
    number = whole(batch, "--batch")
    most = None if memory is None else _most(memory, sample_memory, len(rates))
    if memory is None and sample_memory is not None:
        raise BadInput("has no effect without --memory", "--sample-memory")
    with flags("--speeds"):
        return find(rates, number, most=most, comm_s=parse_time_s(comm, "--comm"))


def _speeds(speeds: str | Sequence[float], workers: Quantity | None, seed: Quantity | None) -> list[float]:
    """Given speeds, or draws of a law for so many workers."""
    if isinstance(speeds, str) and ":" in speeds:
        if workers is None:
            raise BadInput("must be given with a law of speeds", "--workers")
        number = whole(workers, "--workers")
        if number > MOST_WORKERS:
            raise BadInput(f"must be at most {MOST_WORKERS:,}, got {number:,}", "--workers")
        return drawn_speeds(speeds, number, 0 if seed is None else whole(seed, "--seed", minimum=0))
    for given, flag in ((workers, "--workers"), (seed, "--seed")):
        if given is not None:
            raise BadInput("has no effect without a law in --speeds", flag)
    return _list(speeds, "--speeds") if isinstance(speeds, str) else [float(speed) for speed in speeds]


def drawn_speeds(law: str, workers: int, seed: int) -> list[float]:
    """Speeds of workers, drawn from a law of samples per second."""
    import numpy as np

    from lockstep.simulate.play import parse_law

    found: list[float] = parse_law(law, "--speeds").draw(np.random.default_rng(seed), workers).tolist()
    return found


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
