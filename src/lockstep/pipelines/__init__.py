"""Pipeline schedules: one file each with closed form, peak memory and order; registry, programs, trade-offs."""

from lockstep.pipelines.registry import (
    CODES,
    SCHEDULES,
    code,
    get,
    peak_live_by_code,
    price_by_code,
    schedules,
    valid,
)
from lockstep.pipelines.schedule import Order, Pass, PipelineCost, Placement, Schedule
from lockstep.pipelines.times import Times

__all__ = [
    "CODES",
    "SCHEDULES",
    "Order",
    "Pass",
    "PipelineCost",
    "Placement",
    "Schedule",
    "Times",
    "code",
    "get",
    "peak_live_by_code",
    "price_by_code",
    "schedules",
    "valid",
]
