"""A pipeline device's lane of a `Program` as the passes it does in order, each with where its input comes from.

The program says everything: its label the pass, its dependencies the message or the pass of the same device that a pass
waits for, the message that waits for it where its result goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.program import Kind, Operation, Program


@dataclass(frozen=True, slots=True)
class Message:
    """One end of a message."""

    peer: int
    tag: int


@dataclass(frozen=True, slots=True)
class Pass:
    """F forward, B whole backward, I gradients of the inputs, W of the weights; of a micro-batch and chunk."""

    kind: str
    microbatch: int
    chunk: int
    arrives: Message | None = None
    """The message that brings its input."""
    follows: int | None = None
    """The chunk of the same device that made its input."""
    leaves: Message | None = None
    """The message that takes its result away."""


def passes(program: Program, rank: int) -> list[Pass]:
    """The computations of a rank, in the order of its lane."""
    mine = [program[i] for i in np.flatnonzero(program.rank == rank).tolist()]
    computed = {one.id: one for one in mine if one.kind == "compute"}
    ends = {one.id: Message(one.peer, int(program.tag[one.id])) for one in mine if one.kind != "compute"}
    leaves = {one.after[0]: ends[one.id] for one in mine if program.kind[one.id] == Kind.SEND}
    return [_pass(one, computed, ends, leaves) for one in computed.values()]


def _pass(one: Operation, computed: dict[int, Operation], ends: dict[int, Message], leaves: dict[int, Message]) -> Pass:
    kind, microbatch, chunk = _read(one.label)
    arrives = next((ends[j] for j in one.after if j in ends), None)
    others = [_read(computed[j].label) for j in one.after if j in computed]
    follows = next((place for other, _, place in others if place != chunk and (other == "F") == (kind == "F")), None)
    return Pass(kind, microbatch, chunk, arrives, follows, leaves.get(one.id))


def _read(label: str) -> tuple[str, int, int]:
    """(kind, micro-batch, chunk) of a label such as `F3` or `B2.1`."""
    microbatch, _, chunk = label[1:].partition(".")
    return label[0], int(microbatch), int(chunk or 0)
