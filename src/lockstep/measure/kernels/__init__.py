"""Kernels of one device: matrix products, memory, attention, optimizer step; and the efficiency curve they make."""

from lockstep.measure.kernels.bench import DeviceBench, bench_device
from lockstep.measure.kernels.curve import Curve, fit_curve
from lockstep.measure.kernels.kernel import KERNELS, KernelRow

__all__ = ["KERNELS", "Curve", "DeviceBench", "KernelRow", "bench_device", "fit_curve"]
