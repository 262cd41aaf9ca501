"""A step over the machine: which devices lie where, and what each of them does at a moment of the simulated step.

A device computes while an operation runs on its lane `compute`; it sends where a message or a collective runs and
nothing computes, as in `Timeline.exposed_s`; else it waits, for others or for slower ranks. All devices of a pipeline
stage do the same, so nodes that hold the same stages are drawn as one where there are more than MOST_NODES; every
device is then drawn small besides (`Crowd`).

A send of the pipeline has no bytes in its program, where `message_B` prices it. One that holds its device goes while
the exchange before it lasts, and an exchange behind which nothing is sent carries nothing. Traffic is that of the
outermost level that its group crosses, as its label says and its price counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.records import dataclass, replace
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

    from lockstep.base.types.arrays import Array, Ints
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.simulate.program import Program, Timeline

MOST_NODES = 64
"""Nodes that are drawn one by one; of more, one for each different set of stages, and of these as many."""
WAYS = {"F": "forward", "B": "backward", "I": "backward", "W": "backward"}
"""What passes are, by the first letter of their names."""
RECEIVED = "recv"
"""Title of messages that arrive, whose bytes another device sends."""
NAMES = {
    EXCHANGE: "pipeline exchange",
    "send": "pipeline send",
    RECEIVED: "pipeline receive",
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
    size_B: float = 0.0

    @property
    def lit(self) -> bool:
        """Whether it is on links: all but an exchange of the pipeline without a message."""
        return self.level >= 0 and (self.kind != "pp" or self.size_B > 0)


@dataclass(frozen=True, slots=True)
class Carried:
    """What all links of a level carry, in bytes that devices send: under way, until then, and in the whole step."""

    level: int
    now_B: float
    until_B: float
    whole_B: float


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Every device, as nodes of a few kinds."""

    stages: Ints
    """[kinds, devices of a node]: the stage of each device, -1 for one not used."""
    kinds: Ints
    """[nodes]"""
    each: int
    """Nodes in a unit of the second level, where there is one below the outermost; else 1."""


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


def crowd_of(one: Estimate) -> Crowd:
    """All devices in the order of their ranks; kinds of nodes in the order of their first ones."""
    unit = min(one.cluster.devices_per_unit(0), one.layout.world)
    stage = rank_coordinates(one.layout).get(WHERE, np.zeros(one.layout.world, dtype=np.int64))
    rows = np.concatenate((stage, np.full(-len(stage) % unit, -1))).reshape(-1, unit)
    found, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    each = max(1, one.cluster.devices_per_unit(1) // unit) if len(one.cluster.levels) > 2 else 1
    return Crowd(found[order], np.argsort(order)[of.reshape(-1)], each)


def nodes_of(one: Estimate) -> list[Node]:
    """All nodes where they are few, else one for each set of stages."""
    level, crowd = one.cluster.levels[0].name, crowd_of(one)
    if len(crowd.kinds) <= MOST_NODES:
        frame = _frames(one, crowd)
        return [Node(f"{level} {at}", 1, crowd.stages[kind].tolist(), frame(at)) for at, kind in enumerate(crowd.kinds)]
    alike = [np.flatnonzero(crowd.kinds == kind) for kind in range(len(crowd.stages))]
    return [
        Node(f"{level}{'s' if len(same) > 1 else ''} {numbers(same.tolist())}", len(same), row.tolist())
        for same, row in zip(alike, crowd.stages, strict=True)
    ]


def _frames(one: Estimate, crowd: Crowd) -> Callable[[int], str]:
    """What says in which unit of the second level a node lies."""
    if len(one.cluster.levels) < 3:
        return lambda _: ""
    return lambda at: f"{one.cluster.levels[1].name} {at // crowd.each}"


@dataclass(frozen=True)
class Machine:
    """What `doing` needs to know of an estimate beside its timeline."""

    timeline: Timeline
    """With the bytes that every operation sends, messages of the pipeline too."""
    levels: dict[str, int]
    """By kind of traffic, the outermost level that it crosses."""
    devices: int
    """That each stage stands for."""

    @classmethod
    def of(cls, one: Estimate) -> Machine:
        """The simulated step of an estimate. Raises BadInput for a step that is too long to be drawn."""
        known, names = group_summary(one.layout, one.cluster), [level.name for level in one.cluster.levels]
        levels = {part: names.index(known[group]["level"]) for part, group in GROUPS.items() if group in known}
        clock, sent_B = Clock.of(one.cluster.device, one.job.recipe), 0.0
        if one.job.transformer is not None:
            sent_B = float(np.asarray(message_B(one.job, one.layout.grid(), clock))) / one.layout.tp
        line = _with_messages(one.timeline(), sent_B)
        return cls(line, {"host": -1, **levels}, one.job.devices // line.program.ranks)

    @property
    def most_B(self) -> float:
        """The largest message or collective of a device."""
        return float(self.timeline.program.size_B.max(initial=0.0))

    def traffic(self, text: str, size_B: float = 0.0) -> Traffic:
        """What an operation called `text` sends."""
        word = text.partition(" ")[0]
        kind = KINDS.get(word) or (word if word in PARTS else "pp")
        level = self.levels.get(word, self.levels.get(kind, 0))
        return Traffic(kind, level, NAMES.get(text, text), size_B)

    def title(self, i: int) -> str:
        """What an operation is called."""
        program = self.timeline.program
        return program.name(int(program.label[i])) or program.name(int(program.op[i])) or _kind(program, i).name.lower()

    def carried(self, frac: float) -> list[Carried]:
        """What the links of each level that is used carry when `frac` of the step has passed."""
        line, at_s = self.timeline, min(frac, LAST) * self.timeline.makespan_s
        program, lasts_s = line.program, line.end_s - line.start_s
        ids = np.flatnonzero((program.size_B > 0) & (program.kind != Kind.RECV) & (lasts_s > 0))
        texts, of = np.unique([self.title(i) for i in ids.tolist()], return_inverse=True)
        level = np.array([self.traffic(text).level for text in texts.tolist()], dtype=np.int64)[of]
        done = np.clip((at_s - line.start_s[ids]) / lasts_s[ids], 0.0, 1.0)
        now = (line.start_s[ids] <= at_s) & (at_s < line.end_s[ids])
        size_B = self.devices * program.size_B[ids]
        columns = np.stack((size_B * now, size_B * done, size_B))
        return [Carried(at, *columns[:, level == at].sum(axis=1).tolist()) for at in np.unique(level).tolist()]

    def doing(self, frac: float) -> list[Doing]:
        """What every stage does when `frac` of the step has passed."""
        line, at_s = self.timeline, min(frac, LAST) * self.timeline.makespan_s
        active = np.flatnonzero((line.start_s <= at_s) & (at_s < line.end_s))
        return [self._stage(active[line.program.rank[active] == stage]) for stage in range(line.program.ranks)]

    def _stage(self, ids: Array) -> Doing:
        program, computes, moves = self.timeline.program, "", []
        for i in ids.tolist():
            lane, text = program.streams[int(program.stream[i])], self.title(i)
            if _kind(program, i) == Kind.COMPUTE:
                computes = computes if lane == WAITING else text
            else:
                moves.append(self.traffic(text, float(program.size_B[i])))
        return Doing(computes, tuple(moves))


def _kind(program: Program, i: int) -> Kind:
    return Kind(int(program.kind[i]))


def _with_messages(line: Timeline, sent_B: float) -> Timeline:
    """The timeline with bytes of messages, which are those of the exchange that each waits for, where it has one."""
    program = line.program
    sends, size_B = np.flatnonzero(program.kind == Kind.SEND), np.array(program.size_B, dtype=np.float64)
    before = program.after[program.after_start[sends]]
    named = program.names.index(EXCHANGE) if EXCHANGE in program.names else len(program.names)
    exchange = (program.kind == Kind.COLLECTIVE) & (program.op == named)
    np.add.at(size_B, np.where(exchange[before], before, sends), sent_B)
    size_B[program.kind == Kind.RECV] = sent_B
    return replace(line, program=replace(program, columns={**program.columns, "size_B": size_B}))


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


def everyone(one: Estimate) -> str:
    """What marks of single devices mean where all are drawn, in words."""
    block = f" Each block is a {one.cluster.levels[1].name}." if len(one.cluster.levels) > 2 else ""
    return (
        f"All {one.job.devices:,} devices. A full square is a forward pass, its left half a backward pass, its upper "
        "half other computing; a cross is sending with nothing to compute, a dot is waiting." + block
    )


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
    moved = [machine.traffic(title) for title in drawn["titles"]]
    drawn["traffic"] = [
        {**plain(one), "sends": title != RECEIVED} for one, title in zip(moved, drawn["titles"], strict=True)
    ]
    # What is exposed, and memory, are not drawn.
    drawn["exposed"] = {name: packed(np.zeros(0)) for name in drawn["exposed"]}
    del drawn["spans"]["exposed_s"]
    drawn["ranks"] = [{name: rank[name] for name in ("rank", "name", "devices")} for rank in drawn["ranks"]]
    for lane in drawn["lanes"]:
        lane["waits"] = lane["name"] == WAITING
    levels = [{"name": level.name, "link": level.link.name} for level in one.cluster.levels]
    return {
        **form,
        "nodes": plain(nodes[:MOST_NODES]),
        "all": everyone(one),
        "crowd": _crowd_form(one) if len(nodes) < sum(node.alike for node in nodes) else None,
        "levels": levels,
        "joins": joins(one),
        "ways": WAYS,
        "last": LAST,
    }


def _crowd_form(one: Estimate) -> Json:
    """Every device in a few columns; a stage is one more, so that a device not used is 0."""
    crowd = crowd_of(one)
    unit = crowd.stages.shape[1]
    return {"unit": unit, "each": crowd.each, "stages": packed(crowd.stages + 1), "kinds": packed(crowd.kinds)}
