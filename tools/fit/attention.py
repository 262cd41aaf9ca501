"""`python tools/fit/attention.py`: rates of attention kernels, fitted to published benchmarks of them alone.

For every device and kernel the constants of `AttentionKernel` by least squares in log(rate), with a soft-L1 norm: rows
of forward passes, of backward passes, and of both (5 of 7 FLOPs are backward). Where only both are published, a kernel
has one rate for both. Where forward passes of one length are (`LIKE`), what they do not tell is in the proportions of
the same kernel on another device. Prints entries of `describe/hardware/catalog/efficiency.toml`, and what they miss.

Sources: Dao-AILab/flash-attention@0251105:assets (BSD-3, figures with printed labels); meta-pytorch/tritonbench pull
requests 171 and 1267; Dao-AILab/flash-attention issue 1589 (FlashAttention-2 on B200, which it runs there with the
instructions of A100); NVIDIA/cudnn-frontend@3929da2:benchmark/sdpa_benchmark_training/results (MIT). bf16, without a
window, the backward pass not deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import AttentionKernel, efficiency

PEAKS = {
    "A100": 312e12, "H100": 989e12, "H200": 989e12, "H20": 148e12, "B200": 2250e12, "GB200": 2500e12, "GB300": 2500e12,
    "MI300X": 1307.4e12, "MI355X": 2516.6e12,
}  # fmt: skip
FITTED = (
    ("a100", "flash1", ("A100",)), ("a100", "flash2", ("A100",)), ("h100", "flash1", ("H100",)),
    ("h100", "flash2", ("H100",)), ("h100", "flash3", ("H100",)), ("h100", "cudnn", ("H100", "H200")),
    ("b200", "flash2", ("B200",)), ("b200", "cudnn", ("GB200",)),
    ("gb300", "cudnn", ("GB300",)), ("mi300x", "aiter", ("MI300X",)), ("mi355x", "aiter", ("MI355X",)),
)  # fmt: skip
"""Curve, kernel, devices of the table. H200 has the cores of H100."""
LIKE = (("h20", "flash2", "h100"), ("h20", "flash3", "h100"), ("h20", "cudnn", "h100"))
"""Curve of a device of which one length is published, kernel, and the curve whose proportions it has."""
BACKWARD_FLOPS = 2.5
"""FLOPs of a backward pass per FLOP of a forward pass."""
SOFT = 0.05
"""Errors beyond this size count linearly."""
START = (0.6, 0.5, 600.0, 600.0, 0.3, 0.5)
"""The last, of narrow heads, is FlashAttention-3's where none are published."""
LOWEST = (0.05, 0.05, 1.0, 1.0, 0.01, -1.0)
HIGHEST = (1.0, 1.0, 5000.0, 5000.0, 1.0, 1.5)


@dataclass(frozen=True, slots=True)
class Rate:
    """A published rate of one kernel."""

    passes: str
    """fwd, bwd, or fwd+bwd."""
    tokens: int
    head_dim: int
    causal: bool
    frac: float
    """Of the peak."""


def rates(kernel: str, devices: Sequence[str]) -> list[Rate]:
    """Published rates of a kernel on some devices."""
    return [
        Rate(
            row["pass"],
            int(row["seq_q"]),
            int(row["head_dim_qk"]),
            row["mask"] == "causal",
            float(row["tflops"]) * 1e12 / PEAKS[row["gpu"]],
        )
        for row in read_rows("attention_kernels.csv")
        if row["kernel"] == kernel and row["gpu"] in devices
    ]


def log_errors(kernel: AttentionKernel, known: Sequence[Rate]) -> Floats:
    """log(modelled / published) of every rate."""
    return np.array([np.log(_rate(kernel, one) / one.frac) for one in known])


def _rate(kernel: AttentionKernel, one: Rate) -> float:
    forward, backward = (kernel.frac(one.tokens, one.head_dim, one.causal, way) for way in (False, True))
    if one.passes == "fwd+bwd":
        return float((1.0 + BACKWARD_FLOPS) / (1.0 / forward + BACKWARD_FLOPS / backward))
    return float(backward if one.passes == "bwd" else forward)


def fit(known: Sequence[Rate]) -> AttentionKernel:
    """The kernel of these rates."""
    from scipy.optimize import least_squares

    apart = len({one.passes for one in known}) > 1

    def kernel(x: Floats) -> AttentionKernel:
        forward, backward, ramp, other, share, power = x
        if not apart:
            backward, other = forward, ramp
        return AttentionKernel(forward, backward, ramp, other, share, power)

    found = least_squares(
        lambda x: log_errors(kernel(x), known), START, bounds=(LOWEST, HIGHEST), loss="soft_l1", f_scale=SOFT,
        x_scale=START,
    )  # fmt: skip
    return kernel(np.array([float(f"{value:.3g}") for value in found.x]))


def fit_like(known: Sequence[Rate], base: AttentionKernel) -> AttentionKernel:
    """The kernel of these forward rates of one length, otherwise as on another device, and no faster backward."""
    from scipy.optimize import least_squares

    def kernel(x: Floats) -> AttentionKernel:
        most, ramp, power = x
        return replace(
            base,
            forward_frac=most,
            backward_frac=most * min(1.0, base.backward_frac / base.forward_frac),
            forward_tokens=ramp,
            backward_tokens=ramp * base.backward_tokens / base.forward_tokens,
            narrow_power=power,
        )

    start = base.forward_frac, base.forward_tokens, base.narrow_power
    found = least_squares(lambda x: log_errors(kernel(x), known), start, x_scale=start)
    best = kernel(found.x)
    rounded: Json = {name: float(f"{getattr(best, name):.3g}") for name in CONSTANTS}
    return replace(best, **rounded)


CONSTANTS = (
    "forward_frac", "backward_frac", "forward_tokens", "backward_tokens", "full_share", "narrow_power",
)  # fmt: skip


def main() -> None:
    """Fits and prints every kernel."""
    fitted = [(curve, name, rates(name, devices), None) for curve, name, devices in FITTED]
    likes = [(curve, name, rates(name, [curve.upper()]), base) for curve, name, base in LIKE]
    for curve, name, known, base in [*fitted, *likes]:
        found = fit(known) if base is None else fit_like(known, efficiency(base).attention[name])
        errors = np.abs(np.expm1(log_errors(found, known)))
        print(f"[{curve}.attention.{name}]")
        for constant in CONSTANTS:
            print(f"{constant} = {getattr(found, constant):g}")
        print(f"# {len(known)} rows, median |error| {np.median(errors):.3f}, largest {np.max(errors):.3f}")


if __name__ == "__main__":
    main()
