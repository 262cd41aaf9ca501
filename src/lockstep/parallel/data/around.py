"""Data-parallel traffic and traffic with the host as pieces around the passes of one layout.

A layer's share of it has nothing to hide behind: of gathers the first layer's, of reductions the last one's. The rest
runs beside the kernels of the other layers. The exposed seconds of these pieces are those of `zero.waits` and
`offload.host_waits`, which price whole grids of layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lockstep.parallel.data.offload import HostTraffic
from lockstep.parallel.data.zero import Exposed, Kernels, Traffic
from lockstep.parallel.piece import Flow, Hiding, Piece, total_s


@dataclass(frozen=True, slots=True)
class Around:
    """The data-parallel traffic of one layout: plain numbers, whose pieces expose what `zero.waits` says."""

    zero: int
    moved: Traffic
    kernels: Kernels
    layers: int
    overlap: bool
    parameter_B: float
    """Bytes of all parameters of the stage, and of all its gradients on the network."""
    gradient_B: float

    @property
    def gather(self) -> Flow:
        """One all-gather of the stage's parameters."""
        return Flow("all-gather", "dp", self.parameter_B, float(self.moved.gather_s))

    @property
    def scatter(self) -> Flow:
        """One reduce-scatter of the stage's gradients."""
        return Flow("reduce-scatter", "dp", self.gradient_B, float(self.moved.scatter_s))

    @property
    def once(self) -> Flow:
        """What is reduced once per step."""
        if self.zero == 1:
            return replace(self.scatter, seconds=float(self.moved.scatter_s + self.moved.replicas_s))
        seconds = self.moved.reduce_s if self.zero == 0 else self.moved.replicas_s
        return Flow("all-reduce", "dp", self.gradient_B, float(seconds))

    def forward(self) -> Piece:
        """Of every forward pass."""
        gathers = (self.gather,) if self.zero == 3 else ()
        return self._around("forward", gathers, (), float(self.moved.met_gather_s))

    def backward(self) -> Piece:
        """Of every backward pass."""
        return self._around("backward", *self._each())

    def last(self) -> Piece | None:
        """What the last backward pass adds to its own, on a lane of its own; what lies beside includes its own."""
        flow, own = self.once, self.backward()
        if not flow.seconds:
            return None
        if not self.overlap:
            return Piece("dp", after=(flow,))
        gathers, scatters, met_s = self._each()
        once_met_s = float(self.moved.met_scatter_s) * {0: 2.0, 1: 1.0}.get(self.zero, 0.0)
        both = self._around("backward", gathers, (*scatters, flow), met_s + once_met_s)
        seconds = total_s(both.beside) + total_s(own.after)
        return Piece(
            "dp", both.kernels_s, beside=(replace(flow, seconds=seconds),), after=(flow * (1.0 / self.layers),)
        )

    def hiding(self, microbatches: int, waits: Exposed) -> Hiding:
        """Of a whole step: all traffic less what is exposed, and what its kernels would hide besides."""
        if not self.overlap:
            return Hiding()
        gather_s, scatter_s, larger = self.gather.seconds, self.scatter.seconds, 1.0 - 1.0 / self.layers
        forward_s = gather_s if self.zero else 0.0
        backward_s = {0: self.once.seconds, 1: self.once.seconds, 2: scatter_s}.get(self.zero, gather_s + scatter_s)
        forwards, backwards = (microbatches if self.zero >= zero else 1 for zero in (3, 2))
        all_s = forwards * forward_s + backwards * backward_s + (self.once.seconds if self.zero >= 2 else 0.0)
        exposed_s = microbatches * (waits.forward_s + waits.backward_s) + waits.once_s
        sides = ((forwards if self.zero else 0, "forward", forward_s), (backwards, "backward", backward_s))
        slack_s = sum(
            times * max(0.0, larger * (float(self.kernels.beside(way)[0]) - each_s)) for times, way, each_s in sides
        )
        return Hiding(max(0.0, all_s - float(exposed_s)), slack_s)

    def _each(self) -> tuple[tuple[Flow, ...], tuple[Flow, ...], float]:
        """(gathers, scatters, seconds of them on shared links) of every backward pass."""
        gathers = (self.gather,) if self.zero == 3 else ()
        scatters = (self.scatter,) if self.zero >= 2 else ()
        met_s = (len(gathers) * self.moved.met_gather_s) + (len(scatters) * self.moved.met_scatter_s)
        return gathers, scatters, float(met_s)

    def _around(self, way: str, gathers: tuple[Flow, ...], scatters: tuple[Flow, ...], met_s: float) -> Piece:
        """Gathers before use and reductions after it, a layer's share of either with nothing to hide behind.

        Links are busy longer where the experts' exchange has them to itself, and where tensor or context traffic hides
        on some of them (`taken`) while `met_s` of this traffic needs those.
        """
        kernels_s = float(getattr(self.kernels, f"{way}_s"))
        if not self.overlap:
            return Piece("dp", 0.0, before=gathers, after=scatters)
        larger, one = 1.0 - 1.0 / self.layers, 1.0 / self.layers
        free_s, taken_s = (float(each) for each in self.kernels.beside(way))
        beside = tuple(flow * larger for flow in (*gathers, *scatters))
        all_s = total_s(beside)
        if beside:
            alone_s = one * total_s((*gathers, *scatters))
            links_s = max(all_s, min(met_s, all_s + alone_s) + taken_s * larger - alone_s) if taken_s else all_s
            busy_s = links_s + (kernels_s - free_s) * larger
            beside = (*beside[:-1], replace(beside[-1], seconds=beside[-1].seconds + busy_s - all_s))
        return Piece(
            "dp",
            larger * kernels_s,
            before=tuple(flow * one for flow in gathers),
            beside=beside,
            after=tuple(flow * one for flow in scatters),
        )


def host_piece(host: HostTraffic, way: str, exposed_s: float, data: Piece, kernels_s: float, layers: int) -> Piece:
    """Transfers of one pass of `layers` layers as a piece around it, of which `exposed_s` are waited for.

    The host link, the network of `data` and the kernels each work on another layer: what the link takes longer than
    both is waited for, besides the first or last layer's share.
    """
    up_s = float(getattr(host, f"up_{way}_s"))
    down_s = float(host.down_backward_s) if way == "backward" else 0.0
    up, down = (Flow("copy", "host", 0.0, seconds) for seconds in (up_s, down_s))
    if not data.beside and exposed_s >= (up_s + down_s) * (1.0 - 1e-12):
        return Piece("host", before=(up,), after=(down,))
    larger, one = 1.0 - 1.0 / layers, 1.0 / layers
    beside_s = kernels_s * larger + max(0.0, float(total_s(data.beside)) - float(data.kernels_s))
    excess_s = max(0.0, exposed_s - one * (up_s + down_s))
    under_way_s = beside_s + excess_s if excess_s else min(max(up_s, down_s) * larger, beside_s)
    beside = (replace(up, seconds=under_way_s),)
    return Piece("host", beside_s, before=(up * one,), beside=beside, after=(down * one,))


def host_hiding(host: HostTraffic, waits: tuple[Any, Any], kernels: Kernels, microbatches: int) -> Hiding:
    """Of the transfers of all passes: all of them less what is exposed; one way goes beside the other."""
    sides = [(host.up_forward_s, kernels.forward_s), (host.up_backward_s + host.down_backward_s, kernels.backward_s)]
    moved_s, beside_s = (np.array([float(one[place]) for one in sides]) for place in (0, 1))
    slack_s = float(np.maximum(0.0, beside_s - moved_s)[moved_s > 0].sum())
    hidden_s = max(0.0, float(moved_s.sum()) - float(waits[0] + waits[1]))
    return Hiding(microbatches * hidden_s, microbatches * slack_s)
