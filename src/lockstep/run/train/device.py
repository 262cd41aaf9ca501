"""`Device`: one device of a pipeline at work: its chunks of layers and the micro-batches that live in them.

`passes`: its lane of a `Program` as the passes it does in order, each with where its input comes from. The program says
everything: its label the pass, its dependencies the message or the pass of the same device that a pass waits for, the
message that waits for it where its result goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.base.records import dataclass, field
from lockstep.run.train.shard import Flat
from lockstep.run.train.wire import Wire
from lockstep.run.train.worker import Batch, cross_entropy
from lockstep.simulate.program import Kind, Operation, Program


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


@dataclass(slots=True)
class Chunk:
    """Some layers of the model: one virtual stage."""

    layers: nn.Module
    first: bool
    last: bool
    made: torch.Size
    """Shape of what it makes of one micro-batch."""
    taken: torch.Size
    """Shape of what it takes."""
    flat: Flat = field(init=False)

    def __post_init__(self) -> None:
        self.flat = Flat(self.layers.parameters())


@dataclass(slots=True)
class Live:
    """What a chunk keeps of a micro-batch from F to the end of its backward pass."""

    x: Tensor
    y: Tensor
    gradient: Tensor | None = None


class Device:
    """Does the passes of its lane; `most_live` counts the micro-batches that its chunks held at once, at most."""

    def __init__(self, wire: Wire, lane: Sequence[Pass], chunks: Sequence[Chunk], dtype: torch.dtype) -> None:
        self.wire = wire
        self.lane = lane
        self.chunks = chunks
        self.dtype = dtype
        self.most_live = 0
        self.live: dict[tuple[int, int], Live] = {}
        self.results: dict[tuple[int, int, bool], Tensor] = {}
        """Inputs of other chunks of this device by micro-batch, chunk that made them, and whether forward."""
        self.sends: list[tuple[Any, Tensor]] = []
        self.losses: list[float] = []

    def step(self, parts: Sequence[Batch]) -> float | None:
        """All passes of a step on its micro-batches; the mean loss of those whose loss this device makes."""
        self.losses.clear()
        for one in self.lane:
            made = self._do(one, parts)
            if made is not None and one.leaves is not None:
                self._send(made, one.leaves)
            elif made is not None:
                self.results[one.microbatch, one.chunk, one.kind == "F"] = made
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()
        self.results.clear()
        return sum(self.losses) / len(self.losses) if self.losses else None

    def _do(self, one: Pass, parts: Sequence[Batch]) -> Tensor | None:
        """What another chunk needs of the pass: activations, or their gradients."""
        chunk, key = self.chunks[one.chunk], (one.microbatch, one.chunk)
        if one.kind == "F":
            live = self._forward(chunk, self._input(one, chunk.taken), parts[one.microbatch], len(parts))
            self.live[key] = live
            self.most_live = max(self.most_live, len(self.live))
            return None if chunk.last else live.y.detach()
        live = self.live[key] if one.kind == "I" else self.live.pop(key)
        if one.kind != "W":
            live.gradient = None if chunk.last else self._input(one, chunk.made)
        return _backward(one.kind, chunk, live)

    def _forward(self, chunk: Chunk, arrived: Tensor | None, part: Batch, num_parts: int) -> Live:
        inputs, targets = part
        x = inputs if arrived is None else arrived.requires_grad_()
        y = chunk.layers(x)
        if chunk.last:
            loss = cross_entropy(y, targets)
            self.losses.append(float(loss.detach()))
            y = loss / num_parts
        return Live(x, y)

    def _input(self, one: Pass, shape: torch.Size) -> Tensor | None:
        """Activations, or gradients, from wherever the program says; None for the data itself."""
        if one.follows is not None:
            return self.results.pop((one.microbatch, one.follows, one.kind == "F"))
        if one.arrives is None:
            return None
        arrived = torch.empty(shape, dtype=self.dtype)
        self.wire.receive(arrived, one.arrives.peer, one.arrives.tag)
        return arrived

    def _send(self, made: Tensor, to: Message) -> None:
        """Starts a message; its tensor lives until the step ends."""
        made = made.contiguous()
        self.wire.count(made)
        self.sends.append((dist.isend(made, to.peer, tag=to.tag), made))


def _backward(kind: str, chunk: Chunk, live: Live) -> Tensor | None:
    """Gradients of the chunk's input, for every pass but W and every chunk but the first."""
    if kind == "W":
        _add_weight_gradients(chunk, live)
        return None
    if kind == "B":
        torch.autograd.backward([live.y], [live.gradient])
        return live.x.grad
    if chunk.first:
        return None
    (gradient,) = torch.autograd.grad([live.y], [live.x], [live.gradient], retain_graph=True)
    return gradient


def _add_weight_gradients(chunk: Chunk, live: Live) -> None:
    gradients = torch.autograd.grad([live.y], chunk.flat.parameters, [live.gradient])
    chunk.flat.gradients += torch.cat([gradient.reshape(-1) for gradient in gradients])
