"""Benchmarks on real processes: collectives as nccl-tests runs them, and the kernels of one device."""

from lockstep.measure.bench.bench import bench_collective
from lockstep.measure.bench.collective import BUILT_IN
from lockstep.measure.bench.definition import OPS
from lockstep.measure.bench.result import CollectiveBench

__all__ = ["BUILT_IN", "OPS", "CollectiveBench", "bench_collective"]
