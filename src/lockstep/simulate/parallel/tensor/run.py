"""Runs a tensor-parallel layer in process on numpy, following its own program: the proof that it is the dense layer.

Computations call their kernels; each collective runs its algorithm's program, message by message, on the arrays of all
ranks (`program.execute`). So the run moves exactly the bytes that are priced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.collectives import get
from lockstep.simulate.parallel.tensor.layer import Exchange, Layer, Local, Part, State, program_of
from lockstep.simulate.program import Kind, execute, execution_order

COMBINE = {"sum": np.add, "max": np.maximum}


def run(
    layer: Layer, weights: Mapping[str, Array], value: Array, gradient: Array, algorithm: str = "ring",
    extra: Mapping[str, Array] | None = None,
) -> State:  # fmt: skip
    """Output, gradient of the input and gradients of all weights, joined: as the dense layer would give them.

    `value` [tokens, ...]: input of all tokens; `gradient` [tokens, ...]: of the output; `extra`: arrays every rank has,
    such as targets [tokens].
    """
    return run_counted(layer, weights, value, gradient, algorithm, extra)[0]


def run_counted(
    layer: Layer, weights: Mapping[str, Array], value: Array, gradient: Array, algorithm: str = "ring",
    extra: Mapping[str, Array] | None = None,
) -> tuple[State, Array]:  # fmt: skip
    """The same, and the elements [ranks] that each rank sent in messages."""
    states = shard(layer, weights, value, extra)
    sent = run_parts(layer.forward, states, algorithm)
    for rank, state in enumerate(states):
        state[f"d {layer.output}"] = _rows(layer, gradient, rank)
    sent = sent + run_parts(layer.backward, states, algorithm)
    names = [layer.output, f"d {layer.input}"]
    joined = {name: _joined(layer, [state[name] for state in states]) for name in names}
    for name, split in layer.splits.items():
        joined[f"d {name}"] = split.join([state[f"d {name}"] for state in states])
    return joined, sent


def shard(
    layer: Layer, weights: Mapping[str, Array], value: Array, extra: Mapping[str, Array] | None = None
) -> list[State]:
    """What each rank holds before the forward pass, of the whole `weights` [...] and `value` [tokens, ...]."""
    missing = [name for name in layer.splits if name not in weights]
    if missing:
        raise BadInput(f"the layer needs the weight {missing[0]!r}; given: {', '.join(weights)}")
    shares = {name: split.shares(weights[name], layer.ranks) for name, split in layer.splits.items()}
    return [
        {**(extra or {}), layer.input: _rows(layer, value, rank), **{name: s[rank] for name, s in shares.items()}}
        for rank in range(layer.ranks)
    ]


def run_parts(parts: Sequence[Part], states: Sequence[State], algorithm: str = "ring") -> Array:
    """Runs the program of `parts`, changing `states`; returns the elements [ranks] that each rank sent."""
    ranks = len(states)
    sent = np.zeros(ranks, np.int64)
    program = program_of(parts, ranks, flops_per_s=1.0, algorithm=algorithm)
    # Ids follow the parts: every part has one operation per rank.
    for i in execution_order(program):
        part, rank = parts[i // ranks], int(program.rank[i])
        if isinstance(part, Local):
            part.kernel(states[rank], rank)
        elif rank == 0 and program.kind[i] == Kind.COLLECTIVE:
            sent += _exchange(part, states, algorithm)
    return sent


def _exchange(part: Exchange, states: Sequence[State], algorithm: str) -> Array:
    """One collective: fills `target` of every rank; returns the elements that its messages held, per sender."""
    ranks = len(states)
    inner = get(part.op, algorithm).program(ranks, float(part.elems), element_B=1.0)
    share = part.elems // ranks
    data = [np.asarray(state[part.source]) for state in states]
    shape = data[0].shape
    if part.op == "all-gather":
        flat = [np.zeros(part.elems, array.dtype) for array in data]
        for rank, array in enumerate(data):
            flat[rank][rank * share : (rank + 1) * share] = array.ravel()
    else:
        flat = [array.ravel() for array in data]
    result = execute(inner, {"data": flat}, combine=COMBINE[part.combine])["data"]
    for rank, state in enumerate(states):
        whole = result[rank]
        if part.op == "reduce-scatter":
            whole = whole[rank * share : (rank + 1) * share]
        state[part.target] = whole.reshape(shape if part.op == "all-reduce" else (-1, *shape[1:]))
    return inner.sent_elems()


def _rows(layer: Layer, value: Array, rank: int) -> Array:
    return np.split(value, layer.ranks)[rank] if layer.sequence_parallel else value


def _joined(layer: Layer, values: Sequence[Array]) -> Array:
    return np.concatenate(list(values)) if layer.sequence_parallel else values[0]
