"""A step over the machine: which devices lie where, and what each of them does at a moment of the simulated step.

A device computes while an operation runs on its lane `compute`; it sends where a message or a collective runs and
nothing computes, as in `Timeline.exposed_s`; else it waits, for others or for slower ranks. All devices of a pipeline
stage do the same, so nodes that hold the same stages are drawn as one where there are more than MOST_NODES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout.groups import group_summary
from lockstep.price.layout.nodes import WHERE, rank_coordinates
from lockstep.price.step import message_B
from lockstep.price.step.passes import GROUPS, SLOWED, WAITING
from lockstep.show.views.page.columns import packed
from lockstep.show.views.page.timeline import timeline_form
from lockstep.show.views.parts.ranks import numbers
from lockstep.simulate.parallel.pipeline.passes import EXCHANGE
from lockstep.simulate.parallel.script import PARTS
from lockstep.simulate.program import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.base.types.arrays import Array
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.simulate.program import Timeline

MOST_NODES = 64
"""Nodes that are drawn one by one; of more, one for each different set of stages, and of these as many."""
WAYS = {"F": "forward", "B": "backward", "I": "backward", "W": "backward"}
"""What passes are, by the first letter of their names."""
NAMES = {
    EXCHANGE: "pipeline exchange",
    "send": "pipeline send",
    "recv": "pipeline receive",
    "norm": "norm of gradients",
}
"""What traffic is called that has no group in its name."""
KINDS = {"etp": "tp", "norm": "dp", SLOWED.partition(" ")[0]: "ep"}
"""Kinds of traffic by the first word of a name, where that is not the kind itself; else it is the pipeline's."""
LAST = 1.0 - 1e-9
"""Of the step, its last moment."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is drawn: what it is called, and the pipeline stage of each of its devices, -1 for one not used."""

    name: str
    alike: int
    """How many nodes it stands for."""
    stages: list[int]
    frame: str = ""
    """The unit of the next level that it lies in, where there is one below the outermost."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a device sends: the kind, the level of the cluster that it crosses (-1 inside a host), its name, bytes."""

    kind: str
    level: int
    text: str
    size_B: float


@dataclass(frozen=True, slots=True)
class Doing:
    """What a device does at a moment."""

    text: str = ""
    """Of its pass, or of what else it computes; empty where it computes nothing."""
    traffic: tuple[Traffic, ...] = ()

    @property
    def state(self) -> str:
        """forward, backward or other, where it computes; else sending or waiting."""
        return (WAYS.get(self.text[0], "other") if self.text else "") or ("sending" if self.traffic else "waiting")


def nodes_of(one: Estimate) -> list[Node]:
    """All nodes where they are few, else one for each set of stages."""
    level, unit = one.cluster.levels[0].name, min(one.cluster.devices_per_unit(0), one.layout.world)
    stage = rank_coordinates(one.layout).get(WHERE, np.zeros(one.layout.world, dtype=np.int64))
    rows = np.concatenate((stage, np.full(-len(stage) % unit, -1))).reshape(-1, unit)
    if len(rows) <= MOST_NODES:
        frame = _frames(one, unit)
        return [Node(f"{level} {at}", 1, row.tolist(), frame(at)) for at, row in enumerate(rows)]
    _, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    alike = [np.flatnonzero(of.reshape(-1) == kind) for kind in np.argsort(first)]
    return [
        Node(f"{level}{'s' if len(same) > 1 else ''} {numbers(same.tolist())}", len(same), rows[same[0]].tolist())
        for same in alike
    ]


def _frames(one: Estimate, unit: int) -> Callable[[int], str]:
    """What says in which unit of the second level a node lies."""
    if len(one.cluster.levels) < 3:
        return lambda _: ""
    each = max(1, one.cluster.devices_per_unit(1) // unit)
    return lambda at: f"{one.cluster.levels[1].name} {at // each}"


@dataclass(frozen=True)
class Machine:
    """What `doing` needs to know of an estimate beside its timeline."""

    timeline: Timeline
    levels: dict[str, int]
    """By kind of traffic, the outermost level that it crosses."""
    message_B: float
    """Bytes that each device hands to a neighbouring stage."""

    @classmethod
    def of(cls, one: Estimate) -> Machine:
        """The simulated step of an estimate. Raises BadInput for a step that is too long to be drawn."""
        known, names = group_summary(one.layout, one.cluster), [level.name for level in one.cluster.levels]
        levels = {part: names.index(known[group]["level"]) for part, group in GROUPS.items() if group in known}
        clock = Clock.of(one.cluster.device, one.job.recipe)
        sent_B = 0.0 if one.job.transformer is None else message_B(one.job, one.layout.grid(), clock) / one.layout.tp
        return cls(one.timeline(), {"host": -1, **levels}, float(np.asarray(sent_B)))

    def traffic(self, text: str, size_B: float = 0.0) -> Traffic:
        """What an operation called `text` sends."""
        word = text.partition(" ")[0]
        kind = KINDS.get(word) or (word if word in PARTS else "pp")
        level = self.levels.get(word, self.levels.get(kind, 0))
        return Traffic(kind, level, NAMES.get(text, text), size_B or (self.message_B if kind == "pp" else 0.0))

    def doing(self, frac: float) -> list[Doing]:
        """What every stage does when `frac` of the step has passed."""
        line, at_s = self.timeline, min(frac, LAST) * self.timeline.makespan_s
        active = np.flatnonzero((line.start_s <= at_s) & (at_s < line.end_s))
        return [self._stage(active[line.program.rank[active] == stage]) for stage in range(line.program.ranks)]

    def _stage(self, ids: Array) -> Doing:
        program, computes, moves = self.timeline.program, "", []
        for i in ids.tolist():
            kind, lane = Kind(int(program.kind[i])), program.streams[int(program.stream[i])]
            text = program.name(int(program.label[i])) or program.name(int(program.op[i])) or kind.name.lower()
            if kind == Kind.COMPUTE:
                computes = computes if lane == WAITING else text
            else:
                moves.append(self.traffic(text, float(program.size_B[i])))
        return Doing(computes, tuple(moves))


def note(one: Estimate) -> str:
    """What is drawn as one, in words."""
    nodes = nodes_of(one)
    drawn, all_nodes = nodes[:MOST_NODES], sum(node.alike for node in nodes)
    said = f"All devices of a pipeline stage do the same, {one.job.devices // one.layout.pp:,} of each."
    if len(nodes) < all_nodes:
        said += f" Of {all_nodes:,} {one.cluster.levels[0].name}s, those with the same stages are drawn as one."
    if len(drawn) < len(nodes):
        said += f" The first {len(drawn)} of {len(nodes):,} different ones are drawn."
    return said


def joins(one: Estimate) -> str:
    """Which links are drawn, in words."""
    own, *beyond = one.cluster.levels
    out = f"; lines out of it: {beyond[-1].link.name}, the {beyond[-1].name}" if beyond else ""
    return f"Bar of a {own.name}: its {own.link.name}{out}."


def machine_form(one: Estimate) -> Json:
    """What `machine.js` draws: a timeline, where its stages lie, and which links its traffic crosses."""
    machine, nodes = Machine.of(one), nodes_of(one)
    form = timeline_form(machine.timeline, stands_for=[one.job.devices // one.layout.pp] * one.layout.pp)
    drawn = form["timelines"][0]
    drawn["traffic"] = [plain(machine.traffic(title)) for title in drawn["titles"]]
    # What is exposed, and memory, are not drawn.
    drawn["exposed"] = {name: packed(np.zeros(0)) for name in drawn["exposed"]}
    drawn["ranks"] = [{name: rank[name] for name in ("rank", "name", "devices")} for rank in drawn["ranks"]]
    for lane in drawn["lanes"]:
        lane["waits"] = lane["name"] == WAITING
    levels = [{"name": level.name, "link": level.link.name} for level in one.cluster.levels]
    return {
        **form,
        "nodes": plain(nodes[:MOST_NODES]),
        "levels": levels,
        "joins": joins(one),
        "ways": WAYS,
        "last": LAST,
    }
