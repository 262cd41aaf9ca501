"""An efficiency curve from measured kernels, in the form of the hardware catalog.

matmul_max_frac e and matmul_bytes_factor c solve  t = 2mnk / (peak e) + c bytes / bandwidth  over all products, by
least squares on relative errors, c >= 0. Streams take the largest size, attention the best, the launch its median.
Host times of recomputation and of a step are no kernel's and stay 0; the text of the curve says so.

Peak and bandwidth are those of the datasheet; where none are given the best rates measured stand in for them, and all
fractions are of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.errors import BadInput
from lockstep.hardware import Efficiency
from lockstep.measure.kernels.kernel import KernelRow


@dataclass(frozen=True, slots=True)
class Curve:
    """An efficiency curve and what its fractions are fractions of."""

    efficiency: Efficiency
    peak_flops: float
    memory_bandwidth_Bps: float
    from_datasheet: bool
    errors_frac: tuple[float, ...]
    """Signed relative error of the curve on each product."""

    def to_toml(self) -> str:
        """An entry of `hardware/catalog/efficiency.toml`."""
        lines = [f"[{self.efficiency.name}]"]
        for name, value in self.efficiency.to_dict().items():
            if name == "devices":
                lines.append(f"devices = [{', '.join(_quoted(device) for device in value)}]")
            elif name != "name":
                lines.append(f"{name} = {_quoted(value) if isinstance(value, str) else f'{value:.4g}'}")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            **self.efficiency.to_dict(),
            "devices": list(self.efficiency.devices),
            "peak_flops": self.peak_flops,
            "memory_bandwidth_Bps": self.memory_bandwidth_Bps,
            "from_datasheet": self.from_datasheet,
            "errors_frac": list(self.errors_frac),
            "toml": self.to_toml(),
        }


def fit_curve(
    rows: Sequence[KernelRow], device: str, date: str, peak_flops: float | None, memory_bandwidth_Bps: float | None
) -> Curve:
    """The curve of measured rows. Raises BadInput when a kernel that it needs is missing."""
    by_kernel: dict[str, list[KernelRow]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel, []).append(row)
    for name in ("matmul", "memory", "attention", "attention backward", "launch"):
        if name not in by_kernel:
            raise BadInput(f"the curve needs {name}, which was not measured", "kernels")
    best_flops = max(row.flops / row.time_s for row in by_kernel["matmul"])
    # Small vectors stay in the caches; the largest one shows the memory.
    largest = max(by_kernel["memory"], key=lambda row: row.size_B)
    best_Bps = largest.size_B / largest.time_s
    peak, bandwidth = peak_flops or best_flops, memory_bandwidth_Bps or best_Bps
    max_frac, bytes_factor, errors = _products(by_kernel["matmul"], peak, bandwidth)
    launch = by_kernel["launch"][-1]
    given = peak_flops is not None and memory_bandwidth_Bps is not None
    of = "the datasheet" if given else "the best rates measured"
    curve = Efficiency(
        name="-".join("".join(c if c.isalnum() else " " for c in device.lower()).split()) or "device",
        matmul_max_frac=max_frac,
        matmul_bytes_factor=bytes_factor,
        stream_frac=best_Bps / bandwidth,
        attention_forward_frac=_best(by_kernel["attention"]) / peak,
        attention_backward_frac=_best(by_kernel["attention backward"]) / peak,
        launch_s=launch.time_s / launch.kernels,
        recompute_host_s=0.0,
        step_s=0.0,
        kind="measured",
        devices=(device,),
        source=f"lockstep bench device; fractions of {of}; host times of recomputation and of a step not measured",
        date=date,
        typical_error_frac=float(np.median(np.abs(errors))),
    )
    return Curve(curve, peak, bandwidth, given, tuple(errors))


def _best(rows: Sequence[KernelRow]) -> float:
    return max(row.flops / row.time_s for row in rows)


def _products(rows: Sequence[KernelRow], peak: float, bandwidth_Bps: float) -> tuple[float, float, list[float]]:
    """(e, c, relative errors): both terms at least 0, else the other alone."""
    time_s = np.array([row.time_s for row in rows])
    ideal = np.array([[row.flops / peak, row.size_B / bandwidth_Bps] for row in rows]) / time_s[:, np.newaxis]
    solved = np.linalg.lstsq(ideal, np.ones(len(rows)), rcond=None)[0]
    if solved[1] < 0 or solved[0] <= 0:
        slope = float(ideal[:, 0].sum() / (ideal[:, 0] @ ideal[:, 0]))
        solved = np.array([slope, 0.0])
    return float(1 / solved[0]), float(solved[1]), (ideal @ solved - 1).tolist()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', "'") + '"'
