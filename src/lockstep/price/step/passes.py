"""The passes of one layout on the devices of its pipeline: kernels, traffic, and what waits for what.

Every device does what the stage with the most work does; the first and the last do more (embedding, head). A device
that holds several chunks of layers shares a pass among them. Where layers are placed by hand every device and chunk
does its own work (`placed.py`). What a pass takes is what `Composition.times` says: its
pieces expose what the formulas of `lockstep.simulate.parallel` price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.records import dataclass, field, fields, replace
from lockstep.base.types.arrays import Truth
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import LayerKind
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, LayoutGrid, group_summary
from lockstep.price.step.network import Network
from lockstep.price.step.pieces import body_layers, kind_times, layer_kinds, vocabulary_traffic
from lockstep.price.step.placed import Device
from lockstep.price.step.stage import Pair, StageTimes, stage_pieces
from lockstep.price.step.step import Composition
from lockstep.simulate.parallel.data.around import Around
from lockstep.simulate.parallel.lanes import COMPUTE, Op
from lockstep.simulate.parallel.piece import Flow, Piece, total_s
from lockstep.simulate.parallel.pipeline import Placement, Times
from lockstep.simulate.parallel.pipeline.construct import held_s, routes
from lockstep.simulate.parallel.pipeline.passes import EXCHANGE
from lockstep.simulate.parallel.pipeline.schedule import Pass as Turn
from lockstep.simulate.parallel.script import IN_CELLS, Pass, Script, fitted, within

WAITING = "waiting"
"""The lane of what ranks wait for slower ones: idle time that no traffic explains."""
SLOWED = "slowed by exchange"
GENERATION = "generation"
GROUPS = {"tp": "tp", "cp": "cp", "ep": "ep", "etp": "etp", "pp": "pp", "dp": "data", "copies": "copies"}
OPS = {"tp": "all-reduce", "cp": "send", "ep": "all-to-all"}


def plain(times: StageTimes) -> StageTimes:
    """The same in plain numbers."""
    return StageTimes(*(float(np.asarray(getattr(times, f.name))) for f in fields(times)))


@dataclass(frozen=True)
class StepPasses:
    """Scripts of all passes of a step (`pipeline.passes.Scripts`)."""

    parts: Composition
    times: Times
    layout: Layout
    inside: tuple[Pair, ...]
    """Traffic of the layers, forward and backward, of every device, or once for all."""
    places: Mapping[str, str]
    """By group, its ranks and the level of the cluster that it spans."""
    by_layer: bool = False
    """Whether passes are written layer by layer."""
    last: frozenset[Turn] = frozenset()
    """Passes beside which each device reduces its gradients, where that is one whole backward pass."""
    known: dict[object, Script] = field(default_factory=dict)

    @property
    def shares(self) -> int:
        """Parts in which a device's layers are passed."""
        return 1 if self.layout.placement is Placement.BOTH_WAYS else self.layout.vpp

    @property
    def in_cells(self) -> tuple[float, float]:
        """Shares of the experts' exchange of both passes that cells run beside computing."""
        if not self.parts.hides_ep:
            return 0.0, 0.0
        exchange_s, body = self.parts.exchange_in_cells(), plain(self.parts.body)
        all_s = body.ep_forward_s, body.ep_backward_s
        shares = [float(x) / float(whole) if whole else 0.0 for x, whole in zip(exchange_s, all_s, strict=True)]
        return shares[0], shares[1]

    @property
    def devices(self) -> list[Device]:
        """What every device does."""
        return [self.parts.of(device) for device in range(self.layout.pp)]

    def inside_of(self, device: int) -> Pair:
        """Traffic of the layers of a device, forward and backward."""
        return self.inside[device if self.parts.devices else 0]

    def alone(self, device: int, one: Turn) -> Script:
        """The operations of a pass."""
        place = (device, one[2]) if self.parts.devices else ()
        key = (one[0], self._ends(device, one), one in self.last, place)
        if key not in self.known:
            found = replace(self._pass(device, one), hold=self._hold(one[0] != "W"))
            self.known[key] = self._named(found.write(Script()))
        return self.known[key]

    def together(self, device: int, pair: Sequence[Turn]) -> Script:
        """A cell: both passes in turn, beside them the experts' exchange of both, which slows them."""
        key = tuple((one[0], self._ends(device, one)) for one in pair)
        if key not in self.known:
            self.known[key] = self._named(self._cell(device, pair))
        return self.known[key]

    def name(self, part: str, op: str) -> str:
        """What traffic is called: its group, the collective, and where the group lies."""
        return f"{part} {op}{self.places.get(part, '')}"

    def _named(self, script: Script) -> Script:
        """The script with names for its traffic."""
        script.ops = [replace(op, label=self.name(op.group, op.op)) if op.group else op for op in script.ops]
        return script

    def _cell(self, device: int, pair: Sequence[Turn]) -> Script:
        script, moved = Script(), []
        start = script.mark()
        for of, one in enumerate(pair):
            whole, kept = self._pass(device, one), self.in_cells[one[0] != "F"]
            pieces = tuple(each * (1.0 - kept) if each.part == "ep" else each for each in whole.pieces)
            moved += [flow * kept for each in whole.pieces if each.part == "ep" for flow in each.flows]
            replace(whole, pieces=pieces).write(script, of)
        slowed_s = self.parts.ep_device_frac * sum(float(flow.seconds) for flow in moved)
        if slowed_s:
            script.op(Op(COMPUTE, slowed_s, op=SLOWED))
        script.join(start, script.chain(IN_CELLS, moved, start))
        if hold := self._hold(2):
            script.op(hold)
        return script

    def _hold(self, messages: int) -> Op | None:
        """Messages that hold the device after a pass."""
        seconds = messages * held_s(self.times, self.layout.pp)
        return Op(COMPUTE, seconds, op=EXCHANGE) if seconds else None

    def _ends(self, device: int, one: Turn) -> tuple[bool, bool]:
        """Whether the pass is over the chunk with the embedding, and over that with the head."""
        ways = routes(self.layout.placement, self.layout.pp, self.layout.vpp)
        here = (device, one[2])
        return any(way[0] == here for way in ways), any(way[-1] == here for way in ways)

    def _pass(self, device: int, one: Turn) -> Pass:
        """Kernels and traffic of a pass of one device and chunk."""
        step, here = one[0], self.parts.of(device)
        share = here.shares[one[2]] if here.shares else 1.0 / self.shares
        body, backward = plain(here.body), step != "F"
        kernels_s = float(body.compute_backward_s if backward else body.compute_forward_s)
        more = self._more(device, one, "backward" if backward else "forward")
        frac = here.weight_frac if here.shares else float(np.asarray(self.times.weight_frac))
        if step == "W":
            return Pass(share * float(body.weight_s), backward=True, more=tuple(each * frac for each in more))
        if step == "I":
            kernels_s, more = kernels_s - float(body.weight_s), tuple(each * (1.0 - frac) for each in more)
        pieces = fitted(self.inside_of(device)[backward], kernels_s)
        around = _around(here.around, backward, kernels_s)
        whole = here.around.reduction() if one in self.last else None
        return Pass(
            share * kernels_s,
            tuple(each * share for each in pieces),
            tuple(each * share for each in around),
            here.around.layers
            if whole or any(each.flows for each in around)
            else -(-here.around.layers // self.shares),
            self.by_layer,
            backward,
            more,
            whole,
        )

    def _more(self, device: int, one: Turn, way: str) -> tuple[Piece, ...]:
        """What the chunk with the embedding and that with the head do beyond the others."""
        pieces = []
        given = tuple(zip(self._ends(device, one), (self.parts.first, self.parts.last), strict=True))
        if self.parts.devices:
            given = ((True, self.parts.devices[device].more[one[2]]),)
        for here, times in given:
            if here:
                extra = plain(times)
                pieces.append(Piece("tp", getattr(extra, f"compute_{way}_s")))
                for part, op in OPS.items():
                    if seconds := getattr(extra, f"{part}_{way}_s"):
                        pieces.append(Piece(part, after=(Flow(op, part, 0.0, seconds),)))
        return tuple(pieces)


def _around(around: Around, backward: bool, kernels_s: float) -> tuple[Piece, ...]:
    """Data-parallel traffic and that with the host around a pass of all layers of a device."""
    way, larger = "backward" if backward else "forward", 1.0 - 1.0 / around.layers
    data = within(around.data(way).plain, larger * kernels_s)
    if not around.host.moves:
        return (data,)
    beside_s = larger * kernels_s + max(0.0, float(total_s(data.beside) - data.kernels_s))
    return data, within(around.with_host(way).plain, beside_s)


def traffic_inside(job: Job, cluster: Cluster, grid: LayoutGrid, parts: Composition) -> list[tuple[Pair, Truth]]:
    """Traffic of the layers, forward and backward, and which layouts of `grid` it is of.

    Of the stage with the most work, which layouts may differ in; of every device where layers are placed by hand.
    """
    if job.transformer is None:
        return [(((), ()), np.True_)]
    clock = Clock.of(cluster.device, job.recipe)
    shard, network = Shard(job.transformer, grid, job.recipe, clock), Network(cluster, grid)
    several: list[tuple[Counter[LayerKind], Truth]] = [(held, np.True_) for held in body_layers(job, grid)]
    if grid.split:
        several = [(held, np.True_) for _, held in job.telling_stages(grid.stages, grid.placement, grid.split)]
    elif len(several) > 1:
        kinds = layer_kinds(job, grid, shard, network)
        totals_s = np.broadcast_arrays(*(kind_times(kinds, held).total_s for held, _ in several))
        heaviest = np.argmax(totals_s, axis=0)
        several = [(held, heaviest == at) for at, (held, _) in enumerate(several) if np.any(heaviest == at)]
    found = [(stage_pieces(shard, network, held), where) for held, where in several]
    if not job.recipe.spreads(grid.stages):
        return found
    there, back = vocabulary_traffic(shard, network, parts.body)
    return [(((*forward, there), (*backward, back)), where) for (forward, backward), where in found]


def step_passes(job: Job, cluster: Cluster, layout: Layout, parts: Composition) -> StepPasses:
    """The passes of `layout`, whose times are `parts`."""
    inside = tuple(pair for pair, _ in traffic_inside(job, cluster, layout.grid(), parts))
    groups = group_summary(layout, cluster)
    if "tp" in groups:
        groups.setdefault("etp", groups["tp"])
    said = {part: groups[group] for part, group in GROUPS.items() if group in groups}
    places = {part: f" ({found['ranks']} ranks, {found['level']})" for part, found in said.items()}
    return StepPasses(parts, parts.times(), layout, inside, places)
