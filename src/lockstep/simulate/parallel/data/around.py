"""Traffic around the passes of a stage, data-parallel and with the host, and what of it passes and the step wait for.

Traffic moves layer by layer beside the kernels of other layers. A layer's share of it has nothing to hide behind: of
gathers the first layer's, of reductions the last one's. So of C seconds in L layers beside W seconds of kernels

    max(C/L, C - W (L-1)/L)

is exposed, which is the recursion of buckets (`buckets.py`) and of prefetched units (`sharded.py`) for L equal layers.
Only kernels hide traffic, not the tensor, context or expert traffic of a pass, which may need the same links; where
this hides on them too, it leaves W less. What comes once per step hides behind what the last micro-batch's own traffic
leaves of its backward pass.

The host link, the network and the kernels each work on another layer. With C1, C2, ... seconds on links and W of
kernels, L layers need sum(C)/L + W/L + (L-1)/L max(C1, C2, ..., W), as pieces through machines; what of it is not
waited for already is the host's. What the host moves once per step runs beside nothing. Activations that go to the
host (`offload.py`) come with those links, and with a share of their own that has nothing to hide behind.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.simulate.parallel.data.offload import HostTraffic
from lockstep.simulate.parallel.data.sharing import Sharing
from lockstep.simulate.parallel.data.zero import Kernels, Traffic
from lockstep.simulate.parallel.piece import Flow, Hiding, Piece, total_s


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds that a stage waits: in every forward and backward pass, and once per step."""

    forward_s: Number
    backward_s: Number
    reduce_s: Number
    """In the last backward pass, beyond what every one waits for."""
    gather_s: Number
    """For updated parameters, in the first forward pass."""
    outer_s: Number = 0.0
    """For other groups that train apart, on average over the steps between."""
    host_forward_s: Number = 0.0
    """For the host, besides."""
    host_backward_s: Number = 0.0

    @property
    def once_s(self) -> Number:
        """Of data-parallel traffic, once per step."""
        return self.reduce_s + self.gather_s + self.outer_s

    @property
    def host_s(self) -> Number:
        """For the host, in both passes."""
        return self.host_forward_s + self.host_backward_s


@dataclass(frozen=True, slots=True)
class Around:
    """The traffic around the passes of one layout or of a grid of them."""

    sharing: Sharing
    moved: Traffic
    kernels: Kernels
    layers: int
    overlap: bool
    parameter_B: Number = 0.0
    """Bytes of all parameters of the stage, and of all its gradients on the network."""
    gradient_B: Number = 0.0
    copied_B: Number = 0.0
    """Bytes of the gradients of a shard, which copies of it sum."""
    host: HostTraffic = field(default_factory=HostTraffic)
    local_steps: int = 1
    """Steps after which groups of ranks agree (`local.py`)."""
    device_frac: float = 0.0
    """Share of the device that the traffic takes from the kernels beside it."""
    forwards: Number = 1.0
    """Forward passes for each backward pass: with frozen copies of the model there are more."""

    @property
    def outer(self) -> Flow:
        """What a step sends on average between groups that train apart."""
        if self.local_steps == 1:
            return Flow("all-reduce", "dp", 0.0, 0.0)
        seconds = np.where(self.sharing.sharded, self.moved.replicas_s, self.moved.reduce_s)
        size_B = np.where(self.sharing.sharded, self.copied_B, self.gradient_B)
        return Flow("all-reduce", "dp", size_B, seconds) * (1.0 / self.local_steps)

    @property
    def once(self) -> tuple[Flow, ...]:
        """What is reduced once per step: gradients among all ranks or in shard groups, and across such groups."""
        moved, sharing = self.moved, self.sharing
        sharded_s = np.where(sharing.scatters, 0.0, moved.scatter_s)
        seconds = np.where(sharing.sharded, sharded_s, moved.reduce_s * (self.local_steps == 1))
        scattered = np.all(sharing.sharded & ~sharing.scatters) and not np.any(sharing.all_reduces)
        op = "reduce-scatter" if scattered else "all-reduce"
        return Flow(op, "dp", self.gradient_B, seconds), *self._copies(~np.asarray(sharing.sums_copies))

    @property
    def renewed(self) -> Flow:
        """What is gathered once per step, of updated parameters."""
        share = np.where(self.sharing.gathers_once, 1.0, self.sharing.once_frac)
        op = "broadcast" if np.all(self.sharing.broadcasts) else "all-gather"
        return Flow(op, "dp", self.parameter_B, self.moved.gather_s) * share

    @property
    def waits(self) -> Exposed:
        """What passes and the step wait for: the exposed seconds of all pieces."""
        forward, backward = self.data("forward"), self.data("backward")
        host_s = (self._host("forward", forward).exposed_s, self._host("backward", backward).exposed_s)
        backward_s = backward.exposed_s
        last_s, updated_s = self._last().exposed_s, self._updated().exposed_s
        return Exposed(forward.exposed_s, backward_s, last_s - backward_s, updated_s, self.outer.seconds, *host_s)

    def data(self, way: str) -> Piece:
        """Data-parallel traffic around every `forward` or `backward` pass."""
        return self._piece(way, *self._each(way))

    def with_host(self, way: str) -> Piece:
        """Traffic with the host around every pass."""
        return self._host(way, self.data(way))

    def reduction(self) -> Piece | None:
        """What the last backward pass of one layout adds, on a lane of its own beside the pass's own traffic."""
        flows = tuple(flow for flow in self.once if flow.seconds)
        if not flows:
            return None
        if not self.overlap or self.sharing.reduces_late:
            return Piece("dp", after=flows).plain
        whole, own = self._last(), self.data("backward")
        longer = (total_s(whole.beside) + total_s(own.after)) / total_s(flows)
        one, larger = 1.0 / self.layers, 1.0 - 1.0 / self.layers
        beside = tuple(replace(flow * larger, seconds=flow.seconds * longer) for flow in flows)
        after = tuple(flow * one for flow in flows)
        return replace(whole, before=(), beside=beside, after=after).plain

    def _each(self, way: str) -> tuple[tuple[Flow, ...], tuple[Flow, ...], Number]:
        """(gathers, scatters, seconds of them on shared links) of every pass."""
        sharing, moved = self.sharing, self.moved
        gathered = sharing.gathers_forward if way == "forward" else sharing.gathers_backward
        share = sharing.forward_frac if way == "forward" else sharing.backward_frac
        gathered_s, met_s = np.where(gathered, moved.gather_s, 0.0), np.where(gathered, moved.met_gather_s, 0.0) * share
        gathers = (Flow("all-gather", "dp", self.parameter_B, gathered_s) * share,)
        if way == "forward":
            return (gathers[0] * self.forwards,), (), met_s * self.forwards
        scattered_s = np.where(sharing.scatters, moved.scatter_s, 0.0)
        op = "all-reduce" if np.all(sharing.all_reduces) else "reduce-scatter"
        scatters = (Flow(op, "dp", self.gradient_B, scattered_s), *self._copies(sharing.sums_copies))
        return gathers, scatters, met_s + np.where(sharing.scatters, moved.met_scatter_s, 0.0)

    def _copies(self, when: Truth) -> tuple[Flow, ...]:
        """The sum of a shard's gradients across its copies, for layouts that have them and sum them so."""
        seconds = np.where(self.sharing.sharded & when & (self.local_steps == 1), self.moved.replicas_s, 0.0)
        return (Flow("all-reduce", "copies", self.copied_B, seconds),) if np.any(seconds) else ()

    def _last(self) -> Piece:
        """Around the last backward pass: its own traffic, and what comes once per step."""
        gathers, scatters, met_s = self._each("backward")
        if self.sharing.reduces_late:
            own = self._piece("backward", gathers, scatters, met_s)
            return replace(own, after=(*own.after, *self.once))
        reductions = np.where(self.sharing.sharded, np.where(self.sharing.scatters, 0.0, 1.0), 2.0)
        return self._piece("backward", gathers, (*scatters, *self.once), met_s + reductions * self.moved.met_scatter_s)

    def _updated(self) -> Piece:
        """Around the first forward pass: the gather of updated parameters."""
        if self.sharing.gathers_late:
            return Piece("dp", before=(self.renewed,))
        return self._piece("forward", (self.renewed,), (), self.moved.met_gather_s)

    def _piece(self, way: str, gathers: tuple[Flow, ...], scatters: tuple[Flow, ...], met_s: Number) -> Piece:
        """Gathers before use and reductions after it, a layer's share of either with nothing to hide behind.

        Links are busy longer where the experts' exchange has them to itself, and where tensor or context traffic hides
        on some of them (`taken`) while `met_s` of this traffic needs those. The pass takes no less than its kernels,
        which the traffic slows.
        """
        if not self.overlap:
            return Piece("dp", before=gathers, after=scatters)
        one, larger = 1.0 / self.layers, 1.0 - 1.0 / self.layers
        kernels_s = getattr(self.kernels, f"{way}_s")
        free_s, taken_s = self.kernels.beside(way)
        *others, last = (flow * larger for flow in (*gathers, *scatters))
        all_s = total_s((*others, last))
        links_s, alone_s = all_s, total_s((*gathers, *scatters)) - all_s
        if np.any(taken_s):
            longer_s = larger * np.minimum(taken_s, free_s) - alone_s
            links_s = np.maximum(all_s, np.minimum(met_s, all_s + alone_s) + longer_s)
        more_s = np.where(all_s > 0, links_s - all_s + (kernels_s - free_s) * larger, 0.0)
        if self.device_frac:
            slowed_s = larger * kernels_s + self.device_frac * all_s
            more_s = np.where(all_s > 0, np.maximum(more_s, slowed_s - all_s), more_s)
        return Piece(
            "dp",
            larger * kernels_s,
            before=tuple(flow * one for flow in gathers),
            beside=(*others, replace(last, seconds=last.seconds + more_s)),
            after=tuple(flow * one for flow in scatters),
        )

    def _host(self, way: str, data: Piece) -> Piece:
        """Transfers around a pass. What the slowest link takes longer than kernels and `data` is waited for."""
        if not self.host.moves:
            return Piece("host")
        both_s = self.host.way(way)
        if not self.overlap:
            up, down = (Flow("copy", "host", 0.0, seconds) for seconds in both_s)
            return Piece("host", before=(up,), after=(down,))
        one, larger = 1.0 / self.layers, 1.0 - 1.0 / self.layers
        alone_s = self.host.alone(way, one)
        gathers, scatters, _ = self._each(way)
        others_s = getattr(self.kernels, f"taken_{way}_s") + getattr(self.kernels, f"exchange_{way}_s")
        up_s, down_s = (all_s - part_s for all_s, part_s in zip(both_s, alone_s, strict=True))
        own_s = np.maximum(up_s, down_s)
        longest_s = np.maximum(own_s, larger * (total_s((*gathers, *scatters)) + others_s))
        beside_s = data.kernels_s + np.maximum(0.0, total_s(data.beside) - data.kernels_s)
        busy_s = np.where((up_s + down_s > 0) & (longest_s > beside_s), longest_s, own_s)
        up, busy, down = (Flow("copy", "host", 0.0, seconds) for seconds in (alone_s[0], busy_s, alone_s[1]))
        return Piece("host", beside_s, before=(up,), beside=(busy,), after=(down,))

    def hiding(self, microbatches: Whole, waits: Exposed) -> Hiding:
        """Data-parallel traffic of a whole step that hides, and what the same kernels would hide besides."""
        if not self.overlap:
            return Hiding()
        gathers, scatters, _ = self._each("backward")
        each_s, once_s = total_s((*gathers, *scatters)), total_s(self.once)
        sharing, each = self.sharing, self.sharing.scatters | self.sharing.gathers_backward
        forwards, backwards = (np.where(often, microbatches, 1) for often in (sharing.gathers_forward, each))
        forward_s, backward_s = np.where(sharing.sharded, self.moved.gather_s, 0.0), np.where(each, each_s, once_s)
        forward_s = forward_s * np.where(sharing.gathers_forward, sharing.forward_frac, 1.0)
        all_s = forwards * forward_s + backwards * backward_s + np.where(each, once_s, 0.0) + self.outer.seconds
        exposed_s = microbatches * (waits.forward_s + waits.backward_s) + waits.once_s
        gathering = sharing.sharded & (not sharing.gathers_late)
        sides = ((forwards * gathering, "forward", forward_s), (backwards, "backward", backward_s))
        kernels_s = [times * np.maximum(0.0, self.kernels.beside(way)[0] - side_s) for times, way, side_s in sides]
        return Hiding(np.maximum(0.0, all_s - exposed_s), (1.0 - 1.0 / self.layers) * sum(kernels_s))

    def host_hiding(self, microbatches: Whole, waits: Exposed) -> Hiding:
        """The same of the transfers of all passes: one way goes beside the other."""
        host, kernels = self.host, self.kernels
        moved_s = [np.add(*host.way(way)) for way in ("forward", "backward")]
        sides = zip(moved_s, (kernels.forward_s, kernels.backward_s), strict=True)
        slack_s = sum(np.where(side_s > 0, np.maximum(0.0, kernels_s - side_s), 0.0) for side_s, kernels_s in sides)
        hidden_s = np.maximum(0.0, sum(moved_s) - waits.host_s)
        return Hiding(microbatches * hidden_s, microbatches * slack_s)
