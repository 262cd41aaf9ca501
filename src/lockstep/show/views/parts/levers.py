"""What would make a run fit that does not, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import format_money, format_size, format_time

if TYPE_CHECKING:
    from lockstep.decide.planner.levers import Lever, Levers, Machines


def levers_text(found: Levers) -> str:
    """A line per change, then what fits."""
    width = max((len(" ".join(one.words)) for one in found.alone), default=0)
    means = "  least memory of any layout, and the fastest step of those that fit" if found.alone else ""
    lines = ["", f"What would help{means}"]
    lines += [f"  {' '.join(one.words):{width}}  {_result(one)}" for one in found.alone]
    if found.together is not None:
        lines.append(f"Together: {' '.join(found.together.words)}: {_result(found.together)}")
    for what, machines in (("More devices", found.more), ("Larger devices", found.other)):
        if machines is not None:
            lines.append(f"{what}: {_machines(machines)}")
    return "\n".join(lines) + "\n"


def _machines(one: Machines) -> str:
    price = "" if one.price_per_hour_usd is None else f", {format_money(one.price_per_hour_usd)} per hour"
    number = f"{one.devices:,} x {one.device} ({one.cluster})"
    return f"{number} fit as it is, {format_time(one.step_time_s)} per step{price}"


def _result(one: Lever) -> str:
    size = f"{format_size(one.memory_B)}, {format_size(one.saved_B)} less"
    if one.host_full:
        return "fits on the device, but not in the memory of its host"
    if one.step_time_s is None:
        return f"{size}; not enough"
    return f"{size}; fits, {format_time(one.step_time_s)} per step"
