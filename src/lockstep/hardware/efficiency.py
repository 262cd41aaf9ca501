"""`Efficiency`: how much of its datasheet a device reaches, as one smooth curve per device type.

A matrix product of m x k by k x n takes

    t = 2mnk / (peak * matmul_max_frac) + matmul_bytes_factor * bytes / memory_bandwidth

and never less than bytes / memory_bandwidth, which binds only for products of a few dozen rows, where the factor is
below 1. So its efficiency rises from the memory-bound rate towards `matmul_max_frac` as the operands grow. Everything
else that touches memory runs at `stream_frac` of the memory bandwidth, attention kernels at `attention_forward_frac`
and `attention_backward_frac` of the peak, and no layer runs faster than the host can launch its kernels. Where the
numbers come from is written in `catalog/efficiency.toml`.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from lockstep.errors import UnknownName

BORROWED_ERROR_FRAC = 0.20
"""Assumed error of a curve on a device that it was not fitted to."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved fractions of datasheet rates, and host overheads."""

    name: str
    matmul_max_frac: float
    """Fraction of the dense peak that a matrix product of unlimited size reaches."""
    matmul_bytes_factor: float
    """Seconds of a product's operand traffic (at datasheet bandwidth) that do not hide behind its arithmetic."""
    stream_frac: float
    """Fraction of the memory bandwidth that elementwise kernels reach."""
    attention_forward_frac: float
    """Fraction of the peak that a fused attention kernel reaches, forward, on the FLOPs that it executes."""
    attention_backward_frac: float
    """The same, backward."""
    launch_s: float
    """Host time per kernel launch, framework included."""
    recompute_host_s: float
    """Host time of recomputing a layer beside its launches: leaving and re-entering autograd, random states."""
    step_s: float
    """Host time per optimizer step that nothing hides: data loading, clipping, logging."""
    kind: str
    """fitted, measured or assumed."""
    devices: tuple[str, ...]
    """Devices whose runs the curve was fitted to; on any other it is borrowed, and counts as assumed."""
    source: str
    date: str
    typical_error_frac: float
    """Typical relative error in step time to expect from the curve; `source` says where it comes from."""

    def kind_on(self, device: str) -> str:
        """The curve's kind for a device: assumed where it is borrowed from another one."""
        return self.kind if device in self.devices else "assumed"

    def error_frac_on(self, device: str) -> float:
        """Relative error in step time to expect on a device: at least BORROWED_ERROR_FRAC with a borrowed curve."""
        return self.typical_error_frac if device in self.devices else max(self.typical_error_frac, BORROWED_ERROR_FRAC)

    def slowed(self, factor: float) -> Efficiency:
        """The curve of software whose kernels and host work take `factor` times as long."""
        return replace(
            self,
            matmul_max_frac=self.matmul_max_frac / factor,
            matmul_bytes_factor=self.matmul_bytes_factor * factor,
            stream_frac=self.stream_frac / factor,
            attention_forward_frac=self.attention_forward_frac / factor,
            attention_backward_frac=self.attention_backward_frac / factor,
            launch_s=self.launch_s * factor,
            recompute_host_s=self.recompute_host_s * factor,
            step_s=self.step_s * factor,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


@cache
def curves() -> dict[str, Efficiency]:
    """Every efficiency curve of the catalog by name."""
    text = resources.files("lockstep.hardware").joinpath("catalog/efficiency.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text).items()
    return {name: Efficiency(name=name, **{**entry, "devices": tuple(entry["devices"])}) for name, entry in entries}


def efficiency(name: str) -> Efficiency:
    """The curve called `name`. Raises UnknownName."""
    found = curves().get(name)
    if found is None:
        raise UnknownName("efficiency curve", name, curves())
    return found
