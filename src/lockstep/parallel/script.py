"""`Script`: the operations of one pass on the lanes of one device, written from its kernels and pieces.

Kernels are on lane `compute`, traffic on the lane named after its part (tp, cp, ep, dp, host). A script has one first
operation; the others wait for earlier ones of the same script. What a script takes, alone on its device, is

    kernels + sum of exposed seconds of its pieces                             (`piece.py`)

Traffic of neighbouring layers (data-parallel, host) runs beside a whole segment of the pass. It shares links with the
pass's own traffic, so its span includes the seconds in which the pass waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lockstep.parallel.piece import Flow, Piece, total_s

COMPUTE = "compute"
LANES = (COMPUTE, "tp", "cp", "ep", "dp", "gradients", "host")
"""Lanes of a device; `gradients` is for what comes once per step beside a pass that has traffic of its own."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a script. Without `op` it computes, and without `label` it is called as its pass."""

    lane: str
    seconds: float
    after: tuple[int, ...] = ()
    op: str = ""
    group: str = ""
    size_B: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Operations in order, and those that all must have ended when the pass has."""

    ops: tuple[Op, ...]
    ends: tuple[int, ...]


@dataclass(slots=True)
class Writer:
    """Adds operations one behind another; `front` are those that the next one waits for."""

    ops: list[Op] = field(default_factory=list)
    front: tuple[int, ...] = ()

    @property
    def script(self) -> Script:
        """What was written."""
        return Script(tuple(self.ops), self.front)

    def add(self, op: Op, after: Sequence[int] | None = None) -> tuple[int]:
        """One operation behind `after` (the front, if None); returns its place."""
        waits = self.front if after is None else after
        if self.ops and not waits:
            self._open()
            waits = (0,)
        self.ops.append(replace(op, after=tuple(waits)))
        return (len(self.ops) - 1,)

    def _open(self) -> None:
        """Puts a start before operations that begin together, so that one operation is the first."""
        later = [replace(one, after=tuple(i + 1 for i in one.after) or (0,)) for one in self.ops]
        self.ops[:] = [Op(COMPUTE, 0.0, op="start", label="start"), *later]
        self.front = tuple(i + 1 for i in self.front)

    def compute(self, seconds: float, label: str = "") -> None:
        """Kernels."""
        if seconds > 0:
            self.front = self.add(Op(COMPUTE, seconds, label=label))

    def flow(self, lane: str, flow: Flow, after: Sequence[int] | None = None, stretch_s: float = 0.0) -> tuple[int, ...]:
        """Traffic on a lane; returns what waits for it."""
        seconds = float(flow.seconds) + stretch_s
        if seconds <= 0:
            return self.front if after is None else tuple(after)
        return self.add(Op(lane, seconds, op=flow.op, group=flow.group, size_B=float(flow.size_B)), after)

    def flows(self, lane: str, flows: Iterable[Flow]) -> None:
        """Traffic that what follows waits for."""
        for flow in flows:
            self.front = self.flow(lane, flow)

    def piece(self, piece: Piece) -> None:
        """Kernels of a piece and the traffic before, beside and after them."""
        self.flows(piece.part, piece.before)
        kernels_s = float(piece.kernels_s)
        if total_s(piece.beside) > 0:
            self._together([(COMPUTE, kernels_s, piece.beside[:0]), (piece.part, 0.0, piece.beside)])
        else:
            self.compute(kernels_s)
        self.flows(piece.part, piece.after)

    def _together(self, chains: Sequence[tuple[str, float, tuple[Flow, ...]]]) -> None:
        """Chains of operations that start together; the front waits for the ends of all."""
        mark = self._mark()
        ends: list[int] = []
        for lane, seconds, flows in chains:
            front: tuple[int, ...] = mark
            if seconds > 0:
                front = self.add(Op(lane, seconds), front)
            for flow in flows:
                front = self.flow(lane, flow, front)
            ends += [i for i in front if i not in ends and i not in mark]
        self.front = tuple(ends) or mark

    def _mark(self) -> tuple[int, ...]:
        """The front; a start of no duration where nothing has been written."""
        if not self.ops:
            self.front = self.add(Op(COMPUTE, 0.0, op="start", label="start"), ())
        return self.front

    def segment(self, kernels_s: float, pieces: Sequence[Piece], share: float) -> None:
        """A share of a pass: kernels beside which nothing runs, then the pieces."""
        loose_s = kernels_s - sum(float(one.kernels_s) for one in pieces)
        self.compute(share * loose_s)
        for one in pieces:
            self.piece(one * share)


def fitted(pieces: Sequence[Piece], kernels_s: float) -> tuple[Piece, ...]:
    """The same exposed traffic in a pass that has only `kernels_s` seconds of kernels, as where weights wait."""
    wanted_s = sum(float(one.kernels_s) for one in pieces)
    if wanted_s <= kernels_s:
        return tuple(pieces)
    return tuple(within(one, float(one.kernels_s) * kernels_s / wanted_s) for one in pieces)


def within(piece: Piece, kernels_s: float) -> Piece:
    """A piece with other kernels and the same exposed seconds: traffic that nobody waits for is drawn shorter."""
    beside_s = float(total_s(piece.beside))
    if not beside_s:
        return replace(piece, kernels_s=kernels_s)
    excess_s = max(0.0, beside_s - float(piece.kernels_s))
    seconds = kernels_s + excess_s if excess_s else min(beside_s, kernels_s)
    beside = tuple(replace(one, seconds=one.seconds * seconds / beside_s) for one in piece.beside)
    return replace(piece, kernels_s=kernels_s, beside=beside)


def exposed_s(pieces: Iterable[Piece]) -> float:
    """Seconds by which pieces lengthen a pass."""
    return float(np.sum([one.exposed_s for one in pieces])) if pieces else 0.0
