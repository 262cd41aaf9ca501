"""`Pass`, kernels and traffic of one pass on one device, and `Script`, its operations on the lanes of that device.

Kernels are on lane `compute`, traffic on the lane named after its part (tp, cp, ep, pp, dp, host). A script has one
first operation; all others wait for earlier ones of the script. Alone on its device it takes

    kernels + sum of the exposed seconds of its pieces                                                  (`piece.py`)

A pass over L layers is written as two segments, of L - 1 layers and of one, or as L segments when each layer is to be
seen, which takes as long. Traffic of other layers (data-parallel, host) runs beside all segments but one: a forward
pass ends with the layer alone (the first one's gather has nothing to hide behind), a backward pass begins with it (the
last one's scatter has nothing). Traffic of other layers shares links with the pass's own, so its span includes the
seconds in which the pass waits for that, and those that are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lockstep.base.records import dataclass, field, replace
from lockstep.simulate.parallel.lanes import COMPUTE, Op
from lockstep.simulate.parallel.piece import Flow, Piece, total_s

PARTS = ("tp", "cp", "ep", "pp", "dp", "host")
GRADIENTS = "gradients"
"""The lane of what comes once per step beside a pass that has data-parallel traffic of its own."""
IN_CELLS = "ep in cells"
"""The lane of the exchange that runs beside both passes of a cell, as the passes' own traffic goes on."""
LANES = (COMPUTE, *PARTS, GRADIENTS, IN_CELLS)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of one micro-batch, in plain numbers."""

    kernels_s: float
    """All kernels of the layers, those of pieces among them."""
    pieces: tuple[Piece, ...] = ()
    """Traffic of the layers."""
    around: tuple[Piece, ...] = ()
    """Traffic of neighbouring layers: data-parallel first, then with the host."""
    layers: int = 1
    by_layer: bool = False
    """Whether each layer is written, rather than all that are alike together."""
    backward: bool = False
    more: tuple[Piece, ...] = ()
    """What only this device does, at the end of a forward and the start of a backward pass: embedding or head."""
    once: Piece | None = None
    """Traffic once per step beside this pass, which nobody but the step's end waits for."""
    hold: Op | None = None
    """Messages that hold the device when the pass has ended."""

    @property
    def seconds(self) -> float:
        """Until the next pass may begin."""
        more_s = sum(float(one.kernels_s) + float(one.exposed_s) for one in self.more)
        return self.kernels_s + sum(float(one.exposed_s) for one in (*self.pieces, *self.around)) + more_s

    def write(self, script: Script, of: int = 0) -> Script:
        """Adds the operations of the pass to `script`, as pass `of` of a cell."""
        script.of = of
        if self.backward:
            script.pieces(self.more)
        for each in reversed(self.around):
            script.flows(each.part, each.before)
        script.layers(self)
        for each in self.around:
            script.flows(each.part, each.after)
        if not self.backward:
            script.pieces(self.more)
        if self.hold:
            script.op(self.hold)
        if self.once:
            script.late = script.chain(GRADIENTS, self.once.after, tuple(sorted({*script.late, *script.ends})))
        return script


@dataclass(slots=True)
class Script:
    """Operations in order, added one behind another."""

    ops: list[Op] = field(default_factory=list)
    ends: tuple[int, ...] = ()
    """Those that the next one waits for, and that have ended when the pass has."""
    late: tuple[int, ...] = ()
    """Those that only the step waits for."""
    of: int = 0
    layer: int = 0

    def add(self, op: Op, after: tuple[int, ...]) -> tuple[int, ...]:
        """One operation that waits for `after`; returns what waits for it."""
        self.ops.append(replace(op, after=after, of=self.of, layer=self.layer))
        return (len(self.ops) - 1,)

    def op(self, op: Op) -> tuple[int, ...]:
        """One operation behind the last one."""
        self.ends = self.add(op, self.ends)
        return self.ends

    def compute(self, seconds: float) -> None:
        """Kernels."""
        if seconds > 0:
            self.op(Op(COMPUTE, seconds))

    def chain(self, lane: str, flows: Iterable[Flow], after: tuple[int, ...], longer_s: float = 0.0) -> tuple[int, ...]:
        """Traffic on a lane, the last of it longer by `longer_s`; returns what waits for it."""
        moving = [flow for flow in flows if flow.seconds > 0]
        for flow in moving:
            seconds = float(flow.seconds) + (longer_s if flow is moving[-1] else 0.0)
            after = self.add(Op(lane, seconds, op=flow.op, group=flow.group, size_B=float(flow.size_B)), after)
        return after

    def flows(self, lane: str, flows: Iterable[Flow]) -> None:
        """Traffic that what follows waits for."""
        self.ends = self.chain(lane, flows, self.ends)

    def mark(self) -> tuple[int, ...]:
        """Where operations begin together: the last one, or a start of no duration if they would be the first."""
        return self.ends if self.ops else self.op(Op(COMPUTE, 0.0, op="start"))

    def join(self, start: tuple[int, ...], others: Iterable[int]) -> None:
        """What follows waits for `others` too, which began at `start`."""
        self.ends = tuple(sorted({*self.ends, *others} - set(start))) or start

    def pieces(self, several: Iterable[Piece]) -> None:
        """Of each: traffic before kernels, kernels with traffic beside them, traffic after both."""
        for each in several:
            self.flows(each.part, each.before)
            start = self.mark() if total_s(each.beside) > 0 else self.ends
            self.compute(float(each.kernels_s))
            self.join(start, self.chain(each.part, each.beside, start))
            self.flows(each.part, each.after)

    def segment(self, one: Pass, share: float) -> None:
        """A share of a pass: kernels that have no traffic beside them, then the pieces."""
        self.compute(share * (one.kernels_s - sum(float(each.kernels_s) for each in one.pieces)))
        self.pieces(each * share for each in one.pieces)

    def layers(self, one: Pass) -> None:
        """All layers of a pass, in segments."""
        apart = one.once is not None or any(each.beside for each in one.around)
        if not apart and not one.by_layer:
            self.segment(one, 1.0)
            return
        many = one.layers if one.by_layer else min(2, one.layers)
        alone, each = 1.0 / one.layers, (1.0 - 1.0 / one.layers) / max(1, many - 1)
        alone_at = 0 if one.backward else many - 1
        for place in range(many):
            self.layer = place + 1 if one.by_layer else 0
            if place == alone_at:
                self.segment(one, alone)
            else:
                self.beside_segment(one, each, 1.0 / (many - 1), place == many - 2 + one.backward)
        self.layer = 0

    def beside_segment(self, one: Pass, share: float, part: float, last: bool) -> None:
        """A share of a pass beside a part of the traffic of neighbouring layers."""
        start, ends = self.mark(), set[int]()
        waits_s = share * sum(float(each.exposed_s) for each in one.pieces)
        for each in one.around:
            ends |= set(self.chain(each.part, (flow * part for flow in each.beside), start, waits_s))
        if one.once:
            # What the pass waits for besides has the links first.
            held_s = float(one.hold.seconds) if one.hold else 0.0
            others_s = sum(float(each.exposed_s) - float(total_s(each.before)) for each in one.around[1:])
            after = tuple(sorted({*start, *self.late}))
            more_s = waits_s + others_s * part + (held_s if last else 0.0)
            self.late = self.chain(GRADIENTS, (flow * part for flow in one.once.beside), after, more_s)
        self.segment(one, share)
        self.join(start, ends)


def fitted(pieces: Sequence[Piece], kernels_s: float) -> tuple[Piece, ...]:
    """The same exposed traffic in a pass of only `kernels_s` of kernels, as where weight gradients wait."""
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
