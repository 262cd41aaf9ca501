"""How the quantities of `study.QUANTITIES` read."""

from __future__ import annotations

from lockstep.units import format_count, format_flops, format_frac, format_time


def format_quantity(quantity: str, value: float) -> str:
    """A value of the quantity with its unit: `105 s`, `1.08M GPU-hours`, `41 % MFU`, `118 d`."""
    if quantity == "days":
        return format_time(value * 86400.0)
    if quantity == "step_time_s":
        return format_time(value) + "/step"
    if quantity == "gpu_hours":
        return format_count(value) + " h"
    if quantity == "model_flops_per_gpu_per_s":
        return format_flops(value)
    if quantity.endswith("_frac"):
        name = quantity.removesuffix("_frac")
        return f"{format_frac(value)} {name if name == 'goodput' else name.upper()}"
    return format_count(value) + " tokens/s"
