"""When a program's operations run: exact postal model, noise, contention, queues."""

from lockstep.simulate.engine import makespans_s, simulate
from lockstep.simulate.law import (
    Constant,
    Exponential,
    Law,
    LogNormal,
    Normal,
    Pareto,
    Trace,
    Uniform,
    parse_law,
)
from lockstep.simulate.links import links_between
from lockstep.simulate.noise import Noise
from lockstep.simulate.prices import Price, durations_s
from lockstep.simulate.sample import Sample

__all__ = [
    "Constant",
    "Exponential",
    "Law",
    "LogNormal",
    "Noise",
    "Normal",
    "Pareto",
    "Price",
    "Sample",
    "Trace",
    "Uniform",
    "durations_s",
    "links_between",
    "makespans_s",
    "parse_law",
    "simulate",
]
