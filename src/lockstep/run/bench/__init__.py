"""Benchmarks on real processes: collectives as nccl-tests runs them, and the kernels of one device."""

from lockstep.run.bench.bench import CollectiveBench, bench_collective
from lockstep.run.bench.collective import BUILT_IN
from lockstep.run.bench.definition import OPS

__all__ = ["BUILT_IN", "OPS", "CollectiveBench", "bench_collective"]
