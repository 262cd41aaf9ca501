"""Messages and elements of one synchronisation, counted from the programs: the rows of the command `messages`.

The three paradigms for n workers and p parameters: all-to-all n (n - 1) messages of p; parameter server 2 n of p;
ring 2 n (n - 1) of p/n.
"""

from __future__ import annotations

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.simulate.collectives.cost import PlainLink
from lockstep.simulate.collectives.registry import Algorithm, algorithms, get

PARADIGMS = ("all-to-all", "parameter-server", "ring")
# Larger programs are counted by the closed form, which equals the count (tests/collectives).
MOST_COUNTED = 300_000
MOST_WORKERS_COUNTED = 2_000


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One program: how many messages, elements per message (mean) and in all. `counted`: from the program itself."""

    program: str
    messages: int
    message_elems: float
    total_elems: int
    formula: str
    counted: bool


@dataclass(frozen=True, slots=True, repr=False)
class Messages(Shown):
    """Rows of `messages`."""

    workers: int
    params: int
    rows: tuple[MessageRow, ...]

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return picked(self)


def message_programs() -> tuple[str, ...]:
    """Names that `messages` accepts: the three paradigms, then the other all-reduce algorithms."""
    others = [name for name in algorithms("all-reduce") if name not in (*PARADIGMS, "full-exchange")]
    return (*PARADIGMS, *others)


def messages(workers: int, params: int, program: str | None = None) -> Messages:
    """Messages to sum `params` parameters over `workers` workers, by `program` or by the three paradigms.

    Raises BadInput, UnknownName.
    """
    for name, value in (("workers", workers), ("params", params)):
        if value < 1 or value != int(value):
            raise BadInput(f"{name} = {value}: it must be a whole number, at least 1", name)
    if program == "all":
        names: tuple[str, ...] = message_programs()
    elif program is None:
        names = PARADIGMS
    elif program in message_programs():
        names = (program,)
    else:
        raise UnknownName("program", program, (*message_programs(), "all"))
    workers, params = int(workers), int(params)
    return Messages(workers, params, tuple(_row(name, workers, params) for name in names))


def _algorithm(name: str) -> Algorithm:
    if name == "parameter-server":
        return get("parameter-server", "synchronous")
    return get("all-reduce", "full-exchange" if name == "all-to-all" else name)


def _row(name: str, workers: int, params: int) -> MessageRow:
    algorithm = _algorithm(name)
    # Pipelined trees are counted unsegmented; m segments multiply the messages, not the elements.
    choices: Json = {"segments": 1} if "segments" in algorithm.choices else {}
    link = PlainLink(0.0, 1.0)
    cost = algorithm.price(workers, params, link, element_B=1.0, **choices)
    count, total = round(float(cost.messages)), round(float(cost.total_B))
    counted = count <= MOST_COUNTED and workers <= MOST_WORKERS_COUNTED
    if counted:
        built = algorithm.program(workers, params, link, element_B=1.0, **choices)
        count, total = built.num_messages, int(built.sent_elems().sum())
    mean = total / count if count else 0.0
    return MessageRow(name, count, int(mean) if mean == int(mean) else mean, total, algorithm.message_count, counted)
