"""`Compressed`: the exchange of compressed vectors over the wire, in the order of `lockstep.methods.compression`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from lockstep.methods.compression import Payload
from lockstep.methods.compression.exchange import mean_of

if TYPE_CHECKING:
    from numpy.random import Generator
    from torch import Tensor

    from lockstep.measure.train.wire import Wire
    from lockstep.methods.compression import Compressor


class Compressed:
    """One rank's compressor and what it remembers of every vector."""

    def __init__(self, wire: Wire, compressor: Compressor, vectors: Sequence[Tensor], generator: Generator) -> None:
        self.wire = wire
        self.compressor = compressor
        self.generator = generator
        self.states = [compressor.start(vector) for vector in vectors]

    def remembered(self) -> Any:
        """What was not sent yet, and where the random numbers are, nested."""
        return self.states, self.generator.bit_generator.state

    def remember(self, nested: Any) -> None:
        """Takes on what `remembered` gave."""
        self.states, self.generator.bit_generator.state = nested

    def mean(self, vectors: Sequence[Tensor]) -> Tensor:
        """The mean over ranks of the compressed vectors, in one row; the same bits on all ranks."""
        import torch

        probes = [self.compressor.agree(vector, state) for vector, state in zip(vectors, self.states, strict=True)]
        asked = [probe for probe in probes if probe is not None]
        agreed: Sequence[Tensor | None] = self._averaged(asked) if asked else probes
        pairs = [
            self.compressor.compress(vector, state, self.generator, probe)
            for vector, state, probe in zip(vectors, self.states, agreed, strict=True)
        ]
        payloads, self.states = [payload for payload, _ in pairs], [state for _, state in pairs]
        return torch.cat(self._added(payloads) if self.compressor.summable else self._collected(payloads))

    def _added(self, payloads: Sequence[Payload]) -> list[Tensor]:
        """All payloads of all vectors in one all-reduce."""
        means = _refilled(payloads, self._averaged(_arrays(payloads)))
        self.states = [self.compressor.settle(state, mean) for state, mean in zip(self.states, means, strict=True)]
        return [self.compressor.decompress(mean) for mean in means]

    def _collected(self, payloads: Sequence[Payload]) -> list[Tensor]:
        """The payloads of all ranks, added in the order of the ranks."""
        every = [_refilled(payloads, arrays) for arrays in self.wire.gather_uneven(_arrays(payloads))]
        return [mean_of([self.compressor.decompress(one) for one in column]) for column in zip(*every, strict=True)]

    def _averaged(self, arrays: Sequence[Tensor]) -> list[Tensor]:
        """The means over ranks of several arrays, by one all-reduce."""
        import torch

        row = torch.cat([array.reshape(-1) for array in arrays])
        self.wire.average(row)
        parts = row.split([array.numel() for array in arrays])
        return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _arrays(payloads: Sequence[Payload]) -> list[Tensor]:
    """What all payloads send."""
    return [array for payload in payloads for array in payload.arrays]


def _refilled(payloads: Sequence[Payload], arrays: Sequence[Tensor]) -> list[Payload]:
    """The payloads with other contents, in the order of `_arrays`."""
    rest = iter(arrays)
    return [replace(payload, arrays=tuple(islice(rest, len(payload.arrays)))) for payload in payloads]
