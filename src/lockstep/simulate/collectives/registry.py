"""The table of algorithms: `register` one per file, look up with `get(op, algorithm)` and `algorithms(op)`.

Other packages offer theirs as entry points `OP.NAME` of the group `lockstep.collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, field
from lockstep.base.registry import Registry
from lockstep.base.types.arrays import Array, Number
from lockstep.base.types.plain import Json
from lockstep.base.units import format_size
from lockstep.simulate.collectives.bounds import lower_bound_s
from lockstep.simulate.collectives.cost import (
    Cost,
    Counts,
    LinkLike,
    PlainLink,
    SwitchedLink,
    SwitchLike,
    Terms,
    as_float,
    used_by,
)
from lockstep.simulate.collectives.op import OPS, op_of
from lockstep.simulate.collectives.rounds import Rounds, everyone
from lockstep.simulate.collectives.shares import Split

if TYPE_CHECKING:
    from lockstep.simulate.program import Program

MOST_OPERATIONS = 2_000_000
"""Of a program that is built: 0.8 GB, and some seconds of Python."""
OPERATION_B = 400
"""Memory of one while it is built and simulated, measured."""
ROUND_OPERATIONS = 200
"""A round of any number of messages takes as long as this many operations in rounds of many, measured."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm of one collective: closed form, counts and program.

    `terms(ranks, size_B, link, split, **choices)` and `counts(...)` are the closed forms, `write(...)` the program.
    """

    op: str
    name: str
    terms: Callable[..., Terms]
    counts: Callable[..., Counts]
    formula: str
    source: str
    ports: int = 1
    """Send and receive ports used at once; the link's rate is per port."""
    in_switch: bool = False
    """Whether the switch between the ranks reduces and copies: only over a link that has such a switch, at its rate."""
    dominated_by: str = ""
    """An algorithm never slower, so that `best` may skip this one; empty when there is none."""
    stale: bool = False
    """Whether a rank may get a result in which others' newest contributions are missing: cheaper, and not the same."""
    choices: tuple[str, ...] = ()
    """Names of the extra keyword arguments, such as `segments`."""
    examples: tuple[Mapping[str, object], ...] = ()
    """Values of them worth trying, each of which some numbers of ranks allow: the conformance tests try them."""
    message_count: str = ""
    """Messages of n ranks and elements of each, of p elements: what `messages` shows."""
    deployed: bool = False
    """Whether libraries run it within one level of a cluster, which the planner prices then."""
    write: Callable[..., None] = field(repr=False, kw_only=True)
    """`write(rounds, members, start, stop, **choices)` adds the rounds of groups `members` [groups, places] on
    elements [start, stop), each [] or [groups]."""
    pieces: Callable[..., int] = field(default=lambda ranks, **choices: ranks, repr=False, kw_only=True)
    """Number of equal pieces a fluid buffer is cut into by the program."""
    settle: Callable[..., Json] = field(default=lambda *given, **choices: choices, repr=False, kw_only=True)
    """Choices that depend on ranks, size, link and split, such as the best number of segments."""
    copies: Callable[..., Number] = field(default=lambda ranks, **choices: 0, repr=False, kw_only=True)
    """Most operations of the program that are no messages and no reductions."""
    helpers: Callable[..., int] = field(default=lambda ranks, **choices: 0, repr=False, kw_only=True)
    """Ranks beside the group, such as parameter servers; numbered after it."""

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise UnknownName("collective", self.op, OPS)

    def price_time_s(
        self, ranks: Number, size_B: Number, link: LinkLike, element_B: float = 0.0, **choices: object
    ) -> Number:
        """Seconds, without the rest of `price`: the same closed form, little memory, for search."""
        link = self.over(link)
        return self.terms(ranks, size_B, link, Split(element_B), **choices).time_s(link)

    def over(self, link: LinkLike) -> LinkLike:
        """The link as this algorithm uses it: in its switch where that reduces, if the link says what it can do."""
        switch: SwitchLike | None = getattr(link, "switch", None) if self.in_switch else None
        if switch is None:
            return used_by(self.op, link)
        rate_Bps = link.bandwidth_Bps * switch.achieved_frac
        return SwitchedLink(switch.latency_s, rate_Bps, switch.start_s, switch.to_owner, switch.piece_B)

    def price(self, ranks: Number, size_B: Number, link: LinkLike, element_B: float = 0.0, **choices: object) -> Cost:
        """Cost of the collective; broadcasts over ranks, size and link.

        Args: `ranks` in the group; `size_B` as in nccl-tests; `element_B` > 0 for shares of whole elements.
        Raises: BadInput for ranks < 1, negative or non-finite sizes, unknown choices.
        """
        check_arguments(ranks, size_B, link)
        self.check_choices(choices)
        ranks, size_B, link = as_float(ranks), as_float(size_B), self.over(link)
        split = Split(element_B)
        terms = self.terms(ranks, size_B, link, split, **choices)
        counts = self.counts(ranks, size_B, link, split, **choices)
        return Cost(
            time_s=terms.time_s(link),
            latency_steps=terms.steps,
            critical_B=terms.critical_B,
            critical_reduced_B=terms.reduced_B,
            messages=counts.messages,
            total_B=counts.total_B,
            total_reduced_B=counts.total_reduced_B,
            bytes_sent_per_rank_B=(counts.total_B - counts.switch_B) / ranks,
            lower_bound_s=lower_bound_s(self.op, ranks, size_B, link, self.ports, element_B, self.in_switch),
            algorithm=self.name,
        )

    def operations(
        self, ranks: Number, size_B: Number, link: LinkLike, element_B: float = 0.0, **choices: object
    ) -> Number:
        """Most operations of the program: start, both ends of every message, its reduction, copies. Broadcasts."""
        split, link = Split(element_B), self.over(link)
        counts = self.counts(ranks, size_B, link, split, **choices)
        settled = self.settle(ranks, size_B, link, split, **choices)
        starts = ranks if getattr(link, "start_s", 0.0) else 0
        return starts + (2 + op_of(self.op).adds) * counts.messages + self.copies(ranks, **settled)

    def work(self, ranks: Number, size_B: Number, link: LinkLike, element_B: float = 0.0, **choices: object) -> Number:
        """Operations of the program, with what its rounds cost as operations: a forecast of its making. Broadcasts."""
        steps = self.terms(ranks, size_B, self.over(link), Split(element_B), **choices).steps
        return self.operations(ranks, size_B, link, element_B, **choices) + ROUND_OPERATIONS * steps

    def program(
        self,
        ranks: int,
        size_B: float,
        link: LinkLike | None = None,
        element_B: float = 0.0,
        order: Sequence[int] | None = None,
        **choices: object,
    ) -> Program:
        """The program whose simulation `price` equals, on buffers of whole elements.

        Without `element_B` the buffer has as many elements as the algorithm cuts pieces, so that all are equal. `order`
        relabels: order[i] is the rank that plays member i. `link` settles choices that depend on it, as in `price`.
        Raises BadInput, also for more than MOST_OPERATIONS.
        """
        link = link or PlainLink(0.0, 1.0)
        check_arguments(ranks, size_B, link)
        self.check_choices(choices)
        check_work(f"{self.op} {self.name}", ranks, float(self.work(ranks, size_B, link, element_B, **choices)))
        settled = self.settle(ranks, size_B, self.over(link), Split(element_B), **choices)
        pieces = self.pieces(ranks, **settled)
        num_elems = int(Split(element_B).elements(size_B)) if element_B else pieces
        rounds = Rounds(ranks + self.helpers(ranks, **settled), element_B or size_B / pieces)
        if self.in_switch:
            rounds = Rounds.with_switches(ranks, 1, ranks, rounds.element_B)
        members = everyone(ranks) if order is None else np.asarray(order)[np.newaxis, :]
        self.begin(rounds, members, link)
        self.write(rounds, members, np.zeros(1, np.int64), np.full(1, num_elems), **settled)
        return rounds.build()

    def begin(self, rounds: Rounds, members: Array, link: LinkLike) -> None:
        """What comes before `write`: messages take `over(link)` where that is not the network's own link."""
        used = self.over(link)
        rounds.over = used if self.in_switch or used is not link else None
        talks = members.shape[1] > 1 or self.op == "parameter-server"
        rounds.start(members, getattr(used, "start_s", 0.0) if talks else 0.0)

    def check_choices(self, choices: Json) -> None:
        """Raise UnknownName for a choice this algorithm does not have."""
        for name in choices:
            if name not in self.choices:
                raise UnknownName(f"choice of {self.op} {self.name}", name, self.choices or ("(none)",))


def check_work(name: str, ranks: int, operations: float) -> None:
    """Raise BadInput when a program of so many operations is not built."""
    if operations > MOST_OPERATIONS:
        memory = format_size(OPERATION_B * operations)
        raise BadInput(
            f"{name} on {ranks:,} ranks is about {operations:.2g} operations ({memory}), "
            f"and at most {MOST_OPERATIONS:,} are simulated; use fewer ranks, or an algorithm with fewer messages",
            "ranks",
        )


REGISTRY = Registry("algorithm", "lockstep.collectives", Algorithm, lambda found: f"{found.op}.{found.name}")
register = REGISTRY.register


def ops() -> tuple[str, ...]:
    """Names of the collectives."""
    return tuple(OPS)


def algorithms(op: str) -> tuple[str, ...]:
    """Names of the algorithms of one collective, in order of registration, then those of other packages.

    Raises UnknownName.
    """
    return _names(op, REGISTRY.every())


def among_ranks(op: str) -> tuple[str, ...]:
    """Names of the algorithms that ranks run by themselves, without a switch that reduces."""
    return _names(op, (algorithm for algorithm in REGISTRY.every() if not algorithm.in_switch))


def own_algorithms(op: str) -> tuple[str, ...]:
    """Lockstep's own of them: what is chosen, and what is claimed, does not depend on what else is installed."""
    return _names(op, REGISTRY.own.values())


def _names(op: str, among: Iterable[Algorithm]) -> tuple[str, ...]:
    if op not in OPS:
        raise UnknownName("collective", op, OPS)
    return tuple(algorithm.name for algorithm in among if algorithm.op == op)


def get(op: str, algorithm: str) -> Algorithm:
    """The algorithm; raises UnknownName with close names, and BadInput for one that its package cannot give."""
    key = f"{op}.{algorithm}"
    if key not in REGISTRY:
        raise UnknownName(f"algorithm of {op}", algorithm, algorithms(op))
    return REGISTRY.get(key)


def check_arguments(ranks: Number, size_B: Number, link: LinkLike) -> None:
    """Raise BadInput unless ranks are whole and >= 1, sizes and latencies >= 0, bandwidths > 0, all finite."""
    ranks = np.asarray(ranks)
    if np.any(ranks < 1) or np.any(ranks != np.floor(ranks)):
        raise BadInput(f"ranks = {ranks.min()}: a group has a whole number of ranks, at least 1", "ranks")
    for name, value, smallest in (
        ("size_B", size_B, 0.0),
        ("latency_s", link.latency_s, 0.0),
        ("bandwidth_Bps", link.bandwidth_Bps, np.nextafter(0.0, 1.0)),
        ("reduce_s_per_B", getattr(link, "reduce_s_per_B", 0.0), 0.0),
        ("start_s", getattr(link, "start_s", 0.0), 0.0),
    ):
        value = np.asarray(value)
        if not np.all(np.isfinite(value)) or np.any(value < smallest):
            allowed = "above 0" if name == "bandwidth_Bps" else "at least 0"
            raise BadInput(f"{name} = {value.min()}: it must be finite and {allowed}", name)
