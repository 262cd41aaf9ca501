"""Measured durations on the predicted program: `Factors`, how they differ (factors.py), and `Replay`, the step then.

Time in which the device waits for its host is added to the rank's computations in proportion. Collectives of a group
and messages take the measured over the predicted transfer; if traffic that was predicted to run beside computing does
not, what it runs beside waits for it (`overlap`). The replay with all factors is compared with the measured step: its
error is the trust of all that is read from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Floats
from lockstep.explain.ranks import SHARES, AllRanks
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder, Timeline
from lockstep.simulate.program.program import COLUMNS

LINKS = ("tp", "cp", "ep", "dp")
"""Kinds of groups whose collectives say what a level of links reaches."""
MOVED = (*LINKS, "pp")


@dataclass(frozen=True)
class Factors:
    """Measured over predicted."""

    classes: Mapping[str, float]
    """Of every class of `SHARES`."""
    links: Mapping[str, float]
    """Of every kind of group."""
    stages: Floats
    """`[stages]`."""
    ranks: Floats
    """`[steps, program ranks]`; 1 of those that were not measured."""
    experts: Floats
    """Of products alone, `[steps, program ranks]`."""
    host_s: Floats
    """Seconds that the device waits for its host beyond those predicted, `[steps, program ranks]`."""
    not_hidden: tuple[str, ...]
    """Kinds of groups whose traffic was to hide and does not."""
    compared: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """(predicted, measured) seconds per step and rank of every class and kind of group, and of waiting for the host."""
    spread_frac: Mapping[str, float] = field(default_factory=dict)
    """Of every class and link, the relative standard deviation over steps and ranks, by its median absolute one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all factors that are not 1, as `replay` takes them."""
        found = [name for name, value in self.classes.items() if value != 1]
        found += [f"{name} link" for name, value in self.links.items() if value != 1]
        flags = (
            ("stages", bool((self.stages != 1).any())), ("ranks", bool((self.ranks != 1).any())),
            ("experts", bool((self.experts != 1).any())), ("host", bool((self.host_s != 0).any())),
            ("overlap", bool(self.not_hidden)),
        )  # fmt: skip
        return (*found, *(name for name, here in flags if here))


def as_predicted(one: AllRanks) -> Timeline:
    """The predicted step of all ranks, which are equal: what is predicted for slower ones is left out."""
    return Replay(one, same(one.program.ranks, max(one.stages) + 1)).timeline((), 0)


def same(ranks: int, stages: int) -> Factors:
    """Factors of a run that is as predicted."""
    alike = np.ones((1, ranks))
    return Factors({}, {}, np.ones(stages), alike, alike, np.zeros((1, ranks)), ())


class Replay:
    """Steps of the predicted program with some of the measured factors."""

    def __init__(self, one: AllRanks, found: Factors) -> None:
        self.one, self.factors = one, found
        self.steps = len(found.ranks)
        self.base_s = np.where(np.isnan(one.program.duration_s), 0.0, one.program.duration_s)
        self.part = np.array(one.part)
        self.late = self.part == "late"
        self._known: dict[tuple[frozenset[str], int], float] = {}
        computes = self.part == "compute"
        self.busy_s = np.bincount(one.program.rank, np.where(computes, self.base_s, 0.0), one.program.ranks)
        self._serial: Program | None = None

    def shares(self, chosen: Collection[str], step: int) -> Floats:
        """Seconds of every class over those predicted of all classes, `[operations, classes]`."""
        one, found = self.one, self.factors
        shares = one.shares * [found.classes.get(name, 1.0) if name in chosen else 1.0 for name in SHARES]
        if "experts" in chosen:
            shares[:, 0] *= found.experts[step][one.program.rank]
        return shares

    def durations_s(self, chosen: Collection[str], step: int) -> tuple[Floats, Floats]:
        """(seconds of every operation, of these, waiting for the host) with the factors `chosen` in a step."""
        one, found = self.one, self.factors
        rank, computes = one.program.rank, self.part == "compute"
        per = self.shares(chosen, step).sum(axis=1)
        if "stages" in chosen:
            per = per * found.stages[np.array(one.stages)[rank]]
        if "ranks" in chosen:
            per = per * found.ranks[step][rank]
        seconds = np.where(computes, self.base_s * per, self.base_s)
        late = np.zeros(len(rank))
        if "host" in chosen:
            late = np.where(
                computes, found.host_s[step][rank] * self.base_s / np.maximum(self.busy_s[rank], 1e-12), 0.0
            )
            seconds = np.maximum(seconds + late, 0.0)
        for kind, link in found.links.items():
            if f"{kind} link" in chosen:
                seconds = np.where(self.part == kind, seconds * link, seconds)
        # Ranks are written one by one, so what the prediction adds for slower ones would count twice.
        return np.where(self.late, 0.0, seconds), late

    def timeline(self, chosen: Collection[str], step: int) -> Timeline:
        """The step simulated."""
        program = self.one.program
        if "overlap" in chosen:
            if self._serial is None:
                self._serial = without_overlap(self.one, self.factors.not_hidden)
            program = self._serial
        seconds = self.durations_s(chosen, step)[0]
        return simulate(replace(program, columns={**program.columns, "duration_s": seconds}))

    def step_s(self, chosen: Collection[str]) -> float:
        """Seconds of the step, the mean over the steps measured."""
        return sum(self._step_s(frozenset(chosen), step) for step in range(self.steps)) / self.steps

    def _step_s(self, chosen: frozenset[str], step: int) -> float:
        if (chosen, step) not in self._known:
            self._known[chosen, step] = self.timeline(chosen, step).makespan_s
        return self._known[chosen, step]


def without_overlap(one: AllRanks, kinds: Collection[str]) -> Program:
    """The same program in which traffic of some kinds runs when the computations listed before it have ended, and what
    is listed after it waits: as if it were on the computations' own lane.
    """
    program = one.program
    builder = ProgramBuilder(program.ranks, program.streams)
    columns = {name: program.columns[name] for name in COLUMNS}
    for name in ("label", "op", "algorithm", "buffer", "source"):
        text = np.array([builder.name(program.name(i)) for i in range(len(program.names))] + [-1])
        columns[name] = text[columns[name]]
    builder.extend(**columns)
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(heads, program.after)
    compute = program.streams.index("compute")
    order = np.lexsort((np.arange(len(program)), program.rank))
    last: dict[tuple[int, str], int] = {}
    for i in order.tolist():
        rank, moves = int(program.rank[i]), one.part[i] in kinds and program.kind[i] == Kind.COLLECTIVE
        if moves:
            if (before := last.get((rank, "compute"))) is not None:
                builder.depend(i, before)
            last[rank, "moved"] = i
        elif program.stream[i] == compute:
            if (before := last.get((rank, "moved"))) is not None:
                builder.depend(i, before)
            last[rank, "compute"] = i
    return builder.build()
