"""The best number of workers for a data-parallel step."""

from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.units import parse_frac, parse_size_B, parse_time_s
from lockstep.show.verbs.words.about import needing
from lockstep.show.verbs.words.algorithms import check_algorithm
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.kinds import LINK
from lockstep.show.verbs.words.network import flags, read_network
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import Quantity, Size, Time
from lockstep.show.verbs.words.question import positive, whole
from lockstep.show.verbs.words.shared import SIZE, LinkWords

if TYPE_CHECKING:
    from lockstep.decide.campaigns import SpeedUp


MOST_WORKERS = 1_000_000


WORKERS = Option(
    "N",
    "Largest number of workers to try; on a cluster, those that fill whole units of its levels.",
    default="4096; on a cluster all",
)
SERIAL = Option("FRAC", "Share of --compute that more workers do not shorten.", default="0")
EXCHANGE = Option(
    "A",
    "Gradient exchange: an all-reduce algorithm or parameter-server.",
    default="ring; on a cluster the fastest across its levels",
)
ALONE_PAYS = Switch("Compare with a single worker that pays for the same exchange; otherwise it pays for none.")


@verb
@needing(LINK)
def speedup(
    *,
    compute: Annotated[Time, Option("T", "Compute time of a step on one worker.")],
    size: Annotated[Size, SIZE],
    workers: Annotated[Quantity | None, WORKERS] = None,
    serial: Annotated[Quantity, SERIAL] = 0.0,
    exchange: Annotated[str | None, EXCHANGE] = None,
    alone_pays: Annotated[bool, ALONE_PAYS] = False,
    **link: Unpack[LinkWords],
) -> "SpeedUp":
    """Speed-up of a data-parallel step against the laws of Amdahl and Gustafson, and the best number of workers.

    `compute`: one worker's step; `size`: bytes exchanged; `exchange`: an all-reduce algorithm or parameter-server,
    ring; on a cluster the fastest way across its levels, for the numbers of workers that fill whole units.
    """
    from lockstep.decide.campaigns import SpeedUp

    network = read_network(1, **link)
    machine = network.cluster
    usual, most = ("ring", 4096) if machine is None else (None, machine.num_devices)
    number = most if workers is None else whole(workers, "--workers")
    if number > MOST_WORKERS:
        raise BadInput(f"must be at most {MOST_WORKERS:,}, got {number:,}", "--workers")
    with flags("--exchange"):
        found = SpeedUp(
            compute_s=positive(parse_time_s(compute, "--compute"), "--compute"),
            size_B=parse_size_B(size, "--size"),
            network=machine or network.link,
            exchange=usual if exchange is None else exchange,
            serial_frac=parse_frac(serial, "--serial"),
            most_workers=number,
            alone_pays=alone_pays,
        )
    if exchange is not None:
        check_algorithm(*found.collective, "--exchange", read_network(int(found.tried[-1]), **link))
    return found
