"""Kernels of one device: matrix products, memory, attention, optimizer step; and the efficiency curve they make."""

from lockstep.run.kernels.bench import DeviceBench, DeviceFile, bench_device, usual_dtype
from lockstep.run.kernels.kernel import KERNELS, Curve, KernelRow, fit_curve

__all__ = ["KERNELS", "Curve", "DeviceBench", "DeviceFile", "KernelRow", "bench_device", "fit_curve", "usual_dtype"]
