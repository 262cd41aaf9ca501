"""Compressed gradients: every compressor of `learn.methods.compression` as a method, with error feedback or without.

    p_k = g_k + e_k;   send C(p_k);   e_k <- p_k - C(p_k);   w <- w - eta (1/n) sum_k C(p_k)
C compressor, e_k what worker k has not sent yet. Payloads that can be added travel by ring all-reduce, the others to
everybody, all tensors of the model at once. Each tensor is compressed by itself, with scales of its own. torch's own
PowerSGD hook waits inside gloo's threads and stops for ever with two buckets or more; this is plain collectives.

Source: each compressor names its own; Karimireddy et al. 2019 (arXiv 1901.09847), error feedback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, make_dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from numpy.random import PCG64, Generator, SeedSequence

from lockstep.base.errors import BadInput
from lockstep.base.settings import setting
from lockstep.learn.methods.compression import COMPRESSORS, Compressor, ErrorFeedback, Payload, compressor
from lockstep.learn.methods.compression.exchange import mean_of
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor

    from lockstep.run.train.wire import Wire

SOME = 10_000
"""Entries of a tensor for which a compressor's error is asked."""


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


def run(worker: Worker, settings: object, name: str) -> Losses:
    """Exchanges compressed gradients, steps on their mean."""
    flat, chosen = worker.flat, _compressor(name, settings)
    # Draws that must be the same on all ranks, where payloads add, and different ones elsewhere.
    seed = [worker.task.seed, 0 if chosen.summable else worker.rank]
    vectors = [parameter.grad for parameter in flat.parameters if parameter.grad is not None]
    compressed = Compressed(worker.wire, chosen, vectors, Generator(PCG64(SeedSequence(seed))))
    optimizer = worker.optimizer(flat.weights)
    worker.keep("compressor", compressed.remembered, compressed.remember)
    for step in worker.steps():
        loss = worker.gradient(step)
        optimizer.step(compressed.mean(vectors))
        yield loss


def _compressor(name: str, settings: Any) -> Compressor:
    given = asdict(settings)
    return compressor(name, error_feedback=given.pop("error_feedback"), **given)


def _check(task: Task, ranks: int, settings: Any, name: str) -> None:
    """Refuses what the compressor refuses."""
    try:
        made = _compressor(name, settings)
    except BadInput as error:
        raise BadInput(error.message, f"--set {error.where}" if error.where else "--set") from None
    omega = made.inner.variance_factor(SOME) if isinstance(made, ErrorFeedback) else None
    if (COMPRESSORS[name].with_feedback is None and settings.error_feedback) or (omega is not None and omega >= 1):
        raise BadInput(
            f"{name} is not a contraction with these settings: the error would grow without bound",
            "--set error_feedback",
        )


def _settings(kind: Any) -> type[Any]:
    """Settings of a compressor's method: its own fields, and whether to keep what was not sent."""
    defaults = {one.name: one.default for one in fields(kind)} | (kind.with_feedback or {})
    own = [(one.name, type(one.default), setting(defaults[one.name], one.metadata["help"])) for one in fields(kind)]
    keeps = kind.with_feedback is not None
    feedback = ("error_feedback", bool, setting(keeps, "Add what was not sent to the next gradient."))
    return make_dataclass("Settings", [*own, feedback], frozen=True)


for _name, _kind in COMPRESSORS.items():
    if _kind.summary:
        register(
            Method(
                name=_name,
                family="fewer bytes",
                summary=_kind.summary,
                source=_kind.source,
                run=partial(run, name=_name),
                settings=_settings(_kind),
                neutral=_kind.neutral,
                check=partial(_check, name=_name),
            )
        )
