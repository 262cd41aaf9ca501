"""Whether the operations of a trace are those of the run described: by its products and by the traffic of parameters.

Seconds alone do not tell: another model looks like slower or faster kernels. Where the profiler recorded shapes, the
FLOPs of a step's matrix products do: 6 per parameter and token, 8 where every layer runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.utilisation import model_flops
from lockstep.explain.answer import Collective
from lockstep.explain.measure import kernels
from lockstep.explain.seen import Seen

SAME_MODEL = 1.15
"""Times the predicted bytes of data parallelism: up to there they say that the model is the one described."""
SAME_PRODUCTS = 3.0
"""Times the predicted FLOPs of products: up to there the run may be the one described; ends and padding differ."""
KNOWN_FRAC = 0.8
"""Of the seconds of products: so many must be of recorded shapes; assumed."""
TWICE = 4.0 / 3.0
"""FLOPs of a step with full recomputation, over those without."""


def products_times(seen: Seen, estimate: Estimate) -> float | None:
    """FLOPs of the recorded products of a rank's step over those predicted; None where shapes do not determine it.

    1 where they are between those without and with full recomputation. One stage of several does not tell either.
    """
    job, layout = estimate.job, estimate.layout
    products = [one for one in kernels(seen) if one.kind == "matmul"]
    known_s = sum(one.seconds for one in products if one.flops_per_s)
    if job.transformer is None or layout.pp > 1 or not known_s:
        return None
    if known_s < KNOWN_FRAC * sum(one.seconds for one in products):
        return None
    measured = sum(one.seconds * one.flops_per_s for one in products if one.flops_per_s)
    least = model_flops(job, "6n") / job.devices
    return measured / min(max(measured, least), TWICE * least)


def is_another(times: float | None) -> bool:
    """Whether so many times the predicted products are those of another run."""
    return times is not None and not 1 / SAME_PRODUCTS <= times <= SAME_PRODUCTS


def of_another(times: float, estimate: Estimate) -> str:
    """What is said of products of another run."""
    return (
        f"the recorded matrix products take {times:.2g} times the FLOPs of {estimate.job.model.name} as described, so "
        "another model, batch or length ran and no cause is named"
    )


def which_model(measured: Sequence[Collective], predicted: Sequence[Collective], model: str) -> str:
    """What traces do not say of the model that ran; empty where the traffic of its parameters agrees."""
    mine_B, theirs_B = (
        sum((one.size_B or 0.0) * one.count for one in each if one.group == "dp") for each in (measured, predicted)
    )
    times = mine_B / theirs_B if theirs_B else 0.0
    if 1 / SAME_MODEL <= times <= SAME_MODEL:
        return ""
    why = "another model would only look like slower or faster kernels"
    if not times:
        return f"no traffic of parameters or gradients was seen that shows whether {model} ran: {why}"
    return (
        f"the data-parallel traffic is {times:.2g} times that of {model} as described, so another model or recipe may "
        f"have run: {why}"
    )
