"""`Efficiency`: how much of its datasheet a device reaches, as one smooth curve per device type.

A matrix product of m x k by k x n takes

    t = 2mnk / (peak * matmul_max_frac) + matmul_bytes_factor * bytes / memory_bandwidth

so its efficiency rises from the memory-bound rate towards `matmul_max_frac` as the operands grow, with no corner in
between. Everything else that touches memory runs at `stream_frac` of the memory bandwidth, attention kernels at
`attention_forward_frac` and `attention_backward_frac` of the peak, and no layer runs faster than the host can launch
its kernels. Where the numbers come from is written in `catalog/efficiency.toml`.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from lockstep.errors import UnknownName


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
    source: str
    date: str
    typical_error_frac: float
    """Typical relative error in step time to expect from the curve; `source` says where it comes from."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


@cache
def curves() -> dict[str, Efficiency]:
    """Every efficiency curve of the catalog by name."""
    text = resources.files("lockstep.hardware").joinpath("catalog/efficiency.toml").read_text(encoding="utf-8")
    return {name: Efficiency(name=name, **entry) for name, entry in tomllib.loads(text).items()}


def efficiency(name: str) -> Efficiency:
    """The curve called `name`. Raises UnknownName."""
    found = curves().get(name)
    if found is None:
        raise UnknownName("efficiency curve", name, curves())
    return found
