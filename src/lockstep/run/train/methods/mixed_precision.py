"""Mixed precision: passes and exchange in 16 bits, master weights and steps in full, the loss scaled.

    g = [gradient of S loss in 16 bits], averaged in 16 bits;   skip the step unless g is finite;   w <- step(w, g / S)
S loss scale: small gradients would be 0 in fp16, whose smallest positive number is 6e-8. Static keeps S; dynamic
doubles it now and then and halves it when a gradient overflows. bf16 has the range of fp32 and needs no scale.
Half the bytes.

Source: Micikevicius et al. 2018, "Mixed precision training" (ICLR, arXiv 1710.03740), section 3.
"""

from __future__ import annotations

from typing import Any

from lockstep.base.records import dataclass, replace
from lockstep.base.settings import setting
from lockstep.learn.methods.loss_scaling import GROWTH_INTERVAL, START_SCALE, LossScale, all_finite, static, unscaled
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.shard import Flat
from lockstep.run.train.worker import Worker, cross_entropy

FULL = "full"
COMPUTE = (FULL, "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Settings:
    """The type and its scale."""

    compute: str = setting("bfloat16", "Type of passes and exchange; full is the task's own.", choices=COMPUTE)
    scaling: str = setting("dynamic", "Scaling of the loss.", choices=("dynamic", "static"))
    scale: float = setting(START_SCALE, "First, or only, scale of the loss.", above=0)
    interval: int = setting(GROWTH_INTERVAL, "Steps after which a dynamic scale doubles.", least=1)


def run(worker: Worker, settings: Settings) -> Losses:
    """Computes low, steps high."""
    master = worker.flat
    dtype = _dtype(worker, settings.compute)
    model = worker.new_model().to(dtype)
    low = Flat(model.parameters())
    optimizer = worker.optimizer(master.weights)
    dynamic = LossScale(settings.scale, interval=settings.interval)
    scale = dynamic if settings.scaling == "dynamic" else static(settings.scale)
    skipped = 0

    def go_on_with(nested: tuple[float, int, int]) -> None:
        nonlocal scale, skipped
        scale, skipped = replace(scale, scale=nested[0], finite_steps=nested[1]), nested[2]

    worker.keep("loss scale", lambda: (scale.scale, scale.finite_steps, skipped), go_on_with)
    for step in worker.steps():
        low.load(master.weights)
        low.gradients.zero_()
        inputs, targets = worker.batch(step)
        scores = model(inputs.to(dtype) if inputs.is_floating_point() else inputs)
        loss = cross_entropy(scores.to(worker.dtype), targets)
        worker.scalars["loss_scale"] = scale.scale
        (loss * scale.scale).backward()
        worker.wire.average(low.gradients)
        finite = all_finite([low.gradients])
        if finite:
            optimizer.step(*unscaled([low.gradients.to(worker.dtype)], scale.scale))
        skipped += not finite
        scale = scale.after(finite)
        yield float(loss.detach())
    worker.notes.update(skipped_steps=skipped, last_scale=scale.scale)


def _dtype(worker: Worker, name: str) -> Any:
    import torch

    return worker.dtype if name == FULL else getattr(torch, name)


MIXED_PRECISION = register(
    Method(
        name="mixed-precision",
        family="fewer bytes",
        summary="16 bits with master weights and a scaled loss",
        source="Micikevicius et al. 2018 (arXiv 1710.03740), section 3",
        run=run,
        settings=Settings,
        neutral={"compute": FULL},
    )
)
