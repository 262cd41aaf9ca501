"""Pipeline schedules: one file each with closed form, peak memory and order; registry, programs, trade-offs."""

from lockstep.parallel.pipeline.automatic import automatic_order
from lockstep.parallel.pipeline.automatic_v import automatic_v_order
from lockstep.parallel.pipeline.construct import lanes, program, program_of, write
from lockstep.parallel.pipeline.partition import Partition, partition
from lockstep.parallel.pipeline.registry import (
    CODES,
    SCHEDULES,
    cells_by_code,
    code,
    get,
    makespan_by_code_s,
    peak_live_by_code,
    price_by_code,
    schedules,
    valid,
)
from lockstep.parallel.pipeline.result import Pipeline, pipeline, replay_s
from lockstep.parallel.pipeline.schedule import Order, Pass, PipelineCost, Placement, Schedule
from lockstep.parallel.pipeline.times import Times
from lockstep.parallel.pipeline.tradeoff import Point, pareto, points, smallest_microbatches

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
    "makespan_by_code_s",
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
