"""One exchange of compressed vectors between ranks, in process: what real ranks do over wires, in the same order.

    sum over ranks of what is sent, S_p bytes a payload:  all-reduce 2 (n - 1) S_p,  all-gather n (n - 1) S_p
An all-gather grows with the ranks: top-k beats a dense ring all-reduce only below n = 2 S / S_p ranks, S the dense
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, ieee
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State


@dataclass(frozen=True, slots=True)
class Exchange:
    """What every rank knows afterwards, and what each remembers."""

    mean: Array
    """In one row."""
    states: tuple[State, ...]
    payloads: tuple[Payload, ...]

    def sent_per_rank_B(self, summable: bool) -> float:
        """Bytes each rank sends on average: by ring all-reduce if summable, else by all-gather."""
        ranks, total_B = len(self.payloads), sum(payload.size_B for payload in self.payloads)
        return (ranks - 1) * total_B / ranks * (2 / ranks if summable else 1)


@ieee
def exchange(
    compressor: Compressor, vectors: Sequence[Array], states: Sequence[State], generators: Sequence[Generator]
) -> Exchange:
    """Mean [elems] over ranks of the compressed vectors; one vector [...], state and generator per rank."""
    probes = [compressor.agree(vector, state) for vector, state in zip(vectors, states, strict=True)]
    agreed = None if probes[0] is None else mean_of(probes)
    pairs = [
        compressor.compress(vector, state, generator, agreed)
        for vector, state, generator in zip(vectors, states, generators, strict=True)
    ]
    payloads, states = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    if compressor.summable:
        mean = mean_payload(payloads)
        states = tuple(compressor.settle(state, mean) for state in states)
    return Exchange(combine(compressor, payloads), states, payloads)


@ieee
def combine(compressor: Compressor, payloads: Sequence[Payload]) -> Array:
    """The mean [elems] of the vectors that the payloads stand for."""
    if compressor.summable:
        return compressor.decompress(mean_payload(payloads))
    return mean_of([compressor.decompress(payload) for payload in payloads])


def mean_payload(payloads: Sequence[Payload]) -> Payload:
    """The payload of the mean, for a summable compressor."""
    first = payloads[0]
    arrays = tuple(mean_of(column) for column in zip(*(payload.arrays for payload in payloads), strict=True))
    return Payload(arrays, first.num_elems, first.agreed, first.shared)


def mean_of(arrays: Sequence[Any]) -> Array:
    """The mean [...] of arrays of one shape [...], added in the order of the ranks."""
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total / len(arrays)
