"""`RankTrace`: what one rank did, as arrays: device operations with their launches, groups, and annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Bools, Floats, Ints
from lockstep.explain.classes import COMMUNICATION, UNKNOWN

TABLE_HOST = "table"
"""What stands for the host of ranks of one table."""
LOADING = re.compile(r"dataloader|data_loader|next_batch|get_batch|load_batch|fetch|^lockstep:input", re.IGNORECASE)
"""Annotations in which the host loads data."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation on the host: its name and span in seconds, and the thread that made it."""

    name: str
    start_s: float
    end_s: float
    thread: int = 0


@dataclass(frozen=True, slots=True)
class Spans:
    """Operations of a device, in order of their starts; all arrays `[operations]`, seconds from the trace's zero."""

    start_s: Floats
    end_s: Floats
    kind: Ints
    """Index in `classes.CLASSES`."""
    name: Ints
    """Index in `RankTrace.names`."""
    stream: Ints
    called_s: Floats
    """When the host began the call that launched it; NaN where that is not known."""
    group: Ints
    """Index in `RankTrace.names` of its process group; -1 where it has none or none is known."""
    op: Ints
    """Index in `RankTrace.names` of its collective; -1 for computations."""
    size_B: Floats
    peer: Ints
    """The other rank of a message, -1 elsewhere."""
    microbatch: Ints
    """The micro-batch that it belongs to, -1 where that is not known."""

    def __len__(self) -> int:
        return len(self.start_s)

    def at(self, chosen: Bools | Ints) -> Spans:
        """Some of them."""
        return Spans(*(getattr(self, name)[chosen] for name in Spans.__slots__))

    @property
    def communicates(self) -> Bools:
        """Which ones communicate."""
        return np.asarray(self.kind == COMMUNICATION)


@dataclass(frozen=True)
class RankTrace:
    """The trace of one rank."""

    path: str
    rank: int | None
    """None where the file does not say."""
    world: int | None
    device: str
    host: str
    zero_ns: int
    """Zero of all seconds here, in nanoseconds of the clock of the rank's host."""
    names: tuple[str, ...]
    spans: Spans
    marks: tuple[Mark, ...] = ()
    waits: tuple[Floats, Floats] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    """(starts, ends) of calls in which the host waited for the device."""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of every process group, by name; empty where they are not known."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What groups are for, by name, where the program said it: dp, tp, pp, ..."""
    stage: int | None = None
    unclassified: Mapping[str, float] = field(default_factory=dict)
    """Seconds of kernels that no pattern knows, by name."""
    rates: Mapping[str, tuple[float, tuple[int, ...] | None]] = field(default_factory=dict)
    """Of kernels of products whose shapes were recorded: FLOP/s, and (m, n, k, count) where there was one alone."""
    graphs: bool = False
    """Whether kernels ran from CUDA graphs, which have no launches of their own."""
    pid: int | None = None
    """The process of its host."""
    recorded: Mapping[int, float] = field(default_factory=dict)
    """When each exchange by gloo starts, by the number of its record."""
    on_host: bool = False
    """Whether the operations are the host's own, as in a run on CPUs."""

    @property
    def called(self) -> str:
        """The rank in words; the file where that does not say its rank."""
        return f"rank {self.rank}" if self.rank is not None else self.path

    def name(self, index: int) -> str:
        """Text behind an index, empty for -1."""
        return self.names[index] if index >= 0 else ""

    @cached_property
    def loading(self) -> tuple[Floats, Floats]:
        """(starts, ends) of annotations in which the host was loading data."""
        found = [(one.start_s, one.end_s) for one in self.marks if LOADING.search(one.name)]
        starts, ends = np.array(found).reshape(-1, 2).T
        return starts, ends

    @cached_property
    def launched_s(self) -> tuple[Floats, Floats]:
        """(earliest, latest) launch of each operation: a stream runs operations in the order of their launches.

        Both are `called_s` where that is known; infinite where nothing bounds the launch, as of kernels of CUDA graphs.
        """
        called_s = self.spans.called_s
        known = np.isfinite(called_s)
        low, high = np.where(known, called_s, -np.inf), np.where(known, called_s, np.inf)
        if not (known.all() or self.graphs):
            for number in np.unique(self.spans.stream[~known]).tolist():
                span = np.flatnonzero(self.spans.stream == number)
                before, after = np.maximum.accumulate(low[span]), np.minimum.accumulate(high[span][::-1])[::-1]
                low[span] = np.where(known[span], low[span], before)
                # Nothing runs before it is launched.
                high[span] = np.where(known[span], high[span], np.minimum(after, self.spans.start_s[span]))
        return low, high

    @property
    def lost_group(self) -> Bools:
        """Which operations communicate in an unknown group, of a trace that names groups elsewhere."""
        communicates = self.spans.communicates
        named = bool((self.spans.group[communicates] >= 0).any())
        return np.asarray(communicates & (self.spans.group < 0) & named)

    @property
    def unclassified_frac(self) -> float:
        """Share of the computing time in kernels of no known class."""
        computes = ~self.spans.communicates
        total_s = float((self.spans.end_s - self.spans.start_s)[computes].sum())
        return sum(self.unclassified.values()) / total_s if total_s else 0.0

    def clocked(self, rate: float, offset_s: float) -> RankTrace:
        """The same on another clock, which shows `rate` times the seconds of this one and `offset_s`."""
        if rate == 1.0 and offset_s == 0.0:
            return self

        def moved(times_s: Floats) -> Floats:
            return rate * times_s + offset_s

        spans, waits = self.spans, self.waits
        spans = replace(spans, start_s=moved(spans.start_s), end_s=moved(spans.end_s), called_s=moved(spans.called_s))
        marks = tuple(
            replace(one, start_s=rate * one.start_s + offset_s, end_s=rate * one.end_s + offset_s) for one in self.marks
        )
        return replace(self, spans=spans, marks=marks, waits=(moved(waits[0]), moved(waits[1])))


def sorted_spans(spans: Spans) -> Spans:
    """In order of starts, longer ones first; the order in which a file lists events means nothing."""
    return spans.at(order_of(spans.start_s, spans.end_s, spans.stream, spans.name))


def order_of(start_s: Floats, end_s: Floats, stream: Ints, name: Ints) -> Ints:
    """Places of operations in that order."""
    return np.lexsort((name, stream, -end_s, start_s))


def unclassified(names: tuple[str, ...], spans: Spans) -> dict[str, float]:
    """Seconds of kernels of no known class by name, the most first."""
    chosen = spans.at(spans.kind == UNKNOWN)
    total = np.bincount(chosen.name, chosen.end_s - chosen.start_s, len(names))
    order = np.argsort(-total, kind="stable")
    return {names[i]: float(total[i]) for i in order.tolist() if total[i] > 0}
