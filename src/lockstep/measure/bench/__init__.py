"""Benchmarks on real processes: collectives as nccl-tests runs them, and the kernels of one device."""

from lockstep.measure.bench.bench import CollectiveBench, bench_collective
from lockstep.measure.bench.collective import BUILT_IN
from lockstep.measure.bench.definition import OPS

__all__ = ["BUILT_IN", "OPS", "CollectiveBench", "bench_collective"]
