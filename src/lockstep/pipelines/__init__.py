"""Pipeline schedules: one file each with closed form, peak memory and order; registry, programs, trade-offs."""

from lockstep.pipelines.automatic import automatic_order
from lockstep.pipelines.automatic_v import automatic_v_order
from lockstep.pipelines.construct import lanes, program, program_of, write
from lockstep.pipelines.partition import Partition, partition
from lockstep.pipelines.registry import (
    CODES,
    SCHEDULES,
    cells_by_code,
    code,
    get,
    peak_live_by_code,
    price_by_code,
    schedules,
    valid,
)
from lockstep.pipelines.result import Pipeline, pipeline, replay_s
from lockstep.pipelines.schedule import Order, Pass, PipelineCost, Placement, Schedule
from lockstep.pipelines.times import Times
from lockstep.pipelines.tradeoff import Point, pareto, points, smallest_microbatches

__all__ = [
    "CODES",
    "SCHEDULES",
    "Order",
    "Partition",
    "Pass",
    "Pipeline",
    "PipelineCost",
    "Placement",
    "Point",
    "Schedule",
    "Times",
    "automatic_order",
    "automatic_v_order",
    "cells_by_code",
    "code",
    "get",
    "lanes",
    "pareto",
    "partition",
    "peak_live_by_code",
    "pipeline",
    "points",
    "price_by_code",
    "program",
    "program_of",
    "replay_s",
    "schedules",
    "smallest_microbatches",
    "valid",
    "write",
]
