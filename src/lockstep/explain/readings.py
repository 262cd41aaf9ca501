"""Readings of a number: what it may count, other than this package does, and by which factor that changes it.

    true = stated x factor

Each reading is a mistake or a convention that people were seen to make, with the place where. Where two numbers of one
run contradict each other, their ratio alone names the reading, without any prediction; a single number is matched by
asking which reading would make it what is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_flops
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.utilisation import model_flops, recomputed_share
from lockstep.describe.hardware import devices
from lockstep.describe.workload import Transformer, parameters
from lockstep.explain.stated import MFU, RATE, TIME_S, TOKENS, Stated

SAME = 0.05
"""Two numbers agree, or a reading explains their ratio, within this logarithm; rates are printed with two digits."""
NEAR = 0.2
"""The same where a formula of somebody else's was only approximately that of the reading."""
POSSIBLE = 3.0
"""How far from the prediction a number may be that a reading makes possible."""
PEAK_SAME = 0.02
PAD = 128
"""Megatron-LM pads the vocabulary to a multiple of this many rows per tensor-parallel rank."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to count a quantity."""

    name: str
    of: tuple[str, ...]
    """Quantities that are counted so."""
    says: str
    factor: Callable[[Estimate], float | None]
    """Factor from the stated number to that of this package; None where the reading changes nothing."""
    tolerance: float = SAME
    """Within which logarithm of the ratio it explains one."""
    prior: float = 1.0


@dataclass(frozen=True, slots=True)
class Explained:
    """A reading that explains a number."""

    name: str
    says: str
    quantity: str
    stated: float
    true: float
    """The number by the definitions of this package, if the reading holds."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def _sparse(found: Estimate) -> float | None:
    """2:4 sparsity doubles the brochure's rate of units since Ampere and CDNA 3; training does not use it."""
    device = found.cluster.device
    return 2.0 if device.vendor in ("NVIDIA", "AMD") and "bf16" in device.peak_flops else None


def _narrow(found: Estimate) -> float | None:
    device, dtype = found.cluster.device, found.job.recipe.dtype
    return None if dtype == "fp8" or "fp8" not in device.peak_flops else device.peak("fp8") / device.peak(dtype)


def _half(found: Estimate) -> float | None:
    """torchtitan divides by the peak of bf16 in every format."""
    device, dtype = found.cluster.device, found.job.recipe.dtype
    return None if "bf16" not in device.peak_flops else device.peak("bf16") / device.peak(dtype)


def _tf32(found: Estimate) -> float | None:
    device, dtype = found.cluster.device, found.job.recipe.dtype
    return None if dtype == "tf32" or "tf32" not in device.peak_flops else device.peak("tf32") / device.peak(dtype)


def _a100(found: Estimate) -> float | None:
    """nanoGPT's `estimate_mfu` divides by the A100's 312 TFLOP/s on every device."""
    return 312e12 / found.cluster.device.peak(found.job.recipe.dtype)


def _convention(other: str) -> Callable[[Estimate], float | None]:
    def factor(found: Estimate) -> float | None:
        job = found.job
        if not isinstance(job.model, Transformer) or job.recipe.mfu_convention == other:
            return None
        counted = replace(job, recipe=replace(job.recipe, mfu_convention=other))
        return model_flops(job) / model_flops(counted)

    return factor


def _recomputed(found: Estimate) -> float | None:
    return recomputed_share(found.job, found.layout)


def _padded(found: Estimate) -> float | None:
    model, tp = found.job.model, found.layout.tp
    if not isinstance(model, Transformer) or not model.has_head:
        return None
    rows = math.ceil(model.vocab / (PAD * tp)) * PAD * tp
    extra = 6.0 * (rows - model.vocab) * model.hidden * found.job.recipe.batch_tokens
    return 1.0 / (1.0 + extra / model_flops(found.job))


def _shard(found: Estimate) -> float | None:
    """FLOPs by 6 per parameter of one rank, with those of attention whole, over those of all parameters."""
    job, shards = found.job, found.layout.shard or found.layout.dp
    if shards == 1 or not isinstance(job.model, Transformer):
        return None
    left = 6.0 * parameters(job.model).active * job.recipe.batch_tokens * (1.0 - 1.0 / shards)
    return model_flops(job) / max(model_flops(job) - left, model_flops(job) / shards)


def _all(found: Estimate) -> float | None:
    return 1.0 / found.job.devices


def _node(found: Estimate) -> float | None:
    return 1.0 / found.cluster.devices_per_host


def _one(found: Estimate) -> float | None:
    return float(found.job.devices)


def _replica(found: Estimate) -> float | None:
    return float(found.layout.dp * found.layout.cp)


def _accumulated(found: Estimate) -> float | None:
    return float(found.accumulation_steps)


COUNTED = (RATE, MFU)
EVERY: tuple[Reading, ...] = (
    Reading("sparse peak", (MFU,), "the peak counts 2:4 sparsity, which training does not use", _sparse),
    Reading(
        "FLOPs of all devices over one device's peak",
        COUNTED,
        "the FLOPs (or tokens) are those of all devices, the peak is one device's",
        _all,
    ),
    Reading("FLOPs of a node", COUNTED, "the FLOPs are those of all devices of a node", _node, prior=0.3),
    Reading("fp8 peak", (MFU,), "the peak is that of fp8, the products run in a wider format", _narrow, prior=0.5),
    Reading("bf16 peak", (MFU,), "the peak is that of bf16, the products run in another format", _half, prior=0.5),
    Reading("tf32 peak", (MFU,), "the peak is that of TF32", _tf32, prior=0.5),
    Reading("peak of an A100", (MFU,), "the peak is an A100's 312 TFLOP/s", _a100, prior=0.5),
    Reading(
        "parameters of one rank",
        COUNTED,
        "parameters were counted on one rank of a sharded model, which holds only its share",
        _shard,
        NEAR,
    ),
    Reading("recomputation counted", COUNTED, "recomputed FLOPs are counted: it is HFU, not MFU", _recomputed),
    Reading("attention against all keys", COUNTED, "attention is counted against all keys", _convention("full")),
    Reading("causal attention", COUNTED, "attention is counted causally, half of its square", _convention("causal")),
    Reading("6 N", COUNTED, "6 FLOPs per parameter and token are counted, without attention", _convention("6n")),
    Reading("padded vocabulary", COUNTED, "the head is counted with a padded vocabulary", _padded, prior=0.3),
    Reading("tokens of one device", (TOKENS,), "the rate is per device, not of all devices", _one),
    Reading(
        "tokens of a node", (TOKENS,), "the rate is per node", lambda found: found.job.devices * (_node(found) or 1)
    ),
    Reading("tokens of a replica", (TOKENS,), "the rate is of one data-parallel rank", _replica, prior=0.5),
    Reading(
        "one micro-batch",
        (MFU, RATE, TOKENS),
        "the tokens of one micro-batch are divided by the time of a whole step",
        _accumulated,
        prior=0.5,
    ),
    Reading("time of a micro-batch", (TIME_S,), "the time is of one accumulation step", _accumulated, prior=0.5),
)


def explaining(stated: Stated, ratio: float, found: Estimate) -> list[Explained]:
    """Readings by which `stated` would be `ratio` times itself, the nearest and likeliest first."""
    matched = []
    for reading in EVERY:
        factor = reading.factor(found) if stated.quantity in reading.of else None
        if factor is None or abs(math.log(factor)) < SAME / 2:
            continue
        off = abs(math.log(ratio / factor))
        if off <= reading.tolerance:
            true = stated.value * factor
            matched.append((off / reading.tolerance - math.log(reading.prior), reading, true))
    matched.sort(key=lambda one: one[0])
    return [Explained(one.name, one.says, stated.quantity, stated.value, true) for _, one, true in matched]


def inside(stated: Stated, found: Estimate) -> list[Explained]:
    """Readings by which `stated` would be within the interval of the prediction, the nearest first.

    For more than the device can do they only have to make it possible, and not more than POSSIBLE away.
    """
    matched: dict[float, tuple[float, Reading, float]] = {}
    whole, too_much = found.interval, _needed_frac(stated, found) > 1
    for reading in EVERY:
        factor = reading.factor(found) if stated.quantity in reading.of else None
        if factor is None or abs(math.log(factor)) < SAME:
            continue
        true = replace(stated, value=stated.value * factor)
        off = abs(math.log(true.value / true.predicted(found)))
        possible = too_much and _needed_frac(true, found) <= 1 and off < math.log(POSSIBLE)
        if possible or whole.low <= true.step_time_s(found) <= whole.high:
            # Of readings with the same factor, within a hundredth, the likeliest is kept.
            key = round(math.log(factor), 2)
            matched[key] = min(
                (off - 0.1 * math.log(reading.prior), reading, factor), matched.get(key, (math.inf, reading, factor)),
                key=lambda one: one[0],
            )  # fmt: skip
    return [
        Explained(one.name, one.says, stated.quantity, stated.value, stated.value * factor)
        for _, one, factor in sorted(matched.values(), key=lambda item: item[0])
    ]


def _needed_frac(stated: Stated, found: Estimate) -> float:
    """Share of the peak that what the model needs takes, masked attention left out; above 1 is impossible."""
    return found.utilisation.causal_mfu_frac * found.step_time_s / stated.step_time_s(found)


def named_peak(peak_flops: float, found: Estimate) -> str | None:
    """What the specified peak is, where it is not the dense one of the recipe's format; None where it is."""
    device, dtype = found.cluster.device, found.job.recipe.dtype
    if _near(peak_flops, device.peak(dtype)):
        return None
    dense = format_flops(device.peak(dtype), 4)
    told = f"{format_flops(peak_flops, 4)} is not the dense {dtype} peak of {device.name}, {dense}"
    if _sparse(found) and _near(peak_flops, 2 * device.peak(dtype)):
        return f"{told}: it is twice that, the rate with 2:4 sparsity, which training does not use"
    for name, rate in device.peak_flops.items():
        if _near(peak_flops, rate):
            return f"{told}: it is the peak in {name}"
    others: Sequence[str] = [one.name for one in devices() if _near(peak_flops, one.peak_flops.get(dtype, 0.0))]
    return f"{told}: it is the peak of {others[0]}" if others else told


def _near(one: float, other: float) -> bool:
    return other > 0 and abs(math.log(one / other)) < PEAK_SAME
