"""Compressed gradients: every compressor of `lockstep.methods.compression` as a method, with error feedback or without.

    p_k = g_k + e_k;   send C(p_k);   e_k <- p_k - C(p_k);   w <- w - eta (1/n) sum_k C(p_k)
C compressor, e_k what worker k has not sent yet. Payloads that can be added travel by ring all-reduce, the others to
everybody, all tensors of the model at once. Each tensor is compressed by itself, with scales of its own. torch's own
PowerSGD hook waits inside gloo's threads and stops for ever with two buckets or more; this is plain collectives.

Source: each compressor names its own; Karimireddy et al. 2019 (arXiv 1901.09847), error feedback.
"""

from __future__ import annotations

from dataclasses import asdict, fields, make_dataclass
from functools import partial
from typing import Any

from numpy.random import PCG64, Generator, SeedSequence

from lockstep.errors import BadInput
from lockstep.measure.train.compressed import Compressed
from lockstep.measure.train.method import Losses, Method, register
from lockstep.measure.train.task import Task
from lockstep.measure.train.worker import Worker
from lockstep.methods.compression import COMPRESSORS, Compressor, ErrorFeedback, compressor
from lockstep.settings import setting

SOME = 10_000
"""Entries of a tensor for which a compressor's error is asked."""


def run(worker: Worker, settings: Any, name: str) -> Losses:
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
