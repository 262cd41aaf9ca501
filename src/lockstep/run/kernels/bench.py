"""`bench_device`: times the kernels of a CPU or a GPU.

`DeviceFile`: a measured efficiency curve in a user's own hardware file: a new file, or the one device of a file that
there is. Peak and bandwidth of a device in a file are its datasheet, of which the curve's numbers are fractions; a new
file takes the best rates measured for them. Only the value of `efficiency` changes; the rest of the text, and its
comments, stay."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.base.documents import MAX_YAML_B
from lockstep.base.documents.files import InMemory, read_text, replacing
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.describe.hardware import Device
from lockstep.describe.hardware.schema import CurveEntry
from lockstep.describe.hardware.shipped import read_hardware
from lockstep.run.kernels.kernel import KERNELS, Curve, Kernel, KernelRow, Task, fit_curve
from lockstep.run.machine import LoadMeter, Machine, this_machine, with_load

TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
MOST_S = 0.5
"""Time for the repetitions of one kernel; slower ones run LEAST times."""
LEAST = 5


@dataclass(frozen=True, slots=True, repr=False)
class DeviceBench(Shown):
    """Kernels of one device, and the efficiency curve when all that it needs were measured."""

    device: str
    name: str
    dtype: str
    rows: tuple[KernelRow, ...]
    curve: Curve | None
    machine: Machine
    date: str

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers."""
        return (f"{self.machine.cores} core(s), {self.machine.torch} torch", *self.machine.warnings(1))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "device name dtype rows curve machine date assumptions")

    def summary(self) -> Json:
        """Plain JSON form with times by kernel and shape instead of rows, as a kept run's answer."""
        found = {name: value for name, value in self.to_dict().items() if name != "rows"}
        times_s: dict[str, dict[str, float]] = {}
        for row in self.rows:
            times_s.setdefault(row.kernel, {})[row.shape] = row.time_s
        return found | {"time_s": times_s}


def bench_device(
    kernels: Sequence[str] = tuple(KERNELS),
    *,
    device: str = "cpu",
    dtype: str | None = None,
    sizes: Sequence[int] = (),
    peak_flops: float | None = None,
    memory_bandwidth_Bps: float | None = None,
    progress: Progress | None = None,
    on_row: Callable[[Mapping[str, Any]], None] | None = None,
) -> DeviceBench:
    """Times of `kernels` on `device`, cpu or cuda, and its efficiency curve when all kernels were asked for.

    Args: `dtype` fp32 (the default on a CPU), bf16 (on a GPU), fp16 or fp64. `sizes` instead of the usual ones.
    `peak_flops` and `memory_bandwidth_Bps` of the datasheet; without them the best rates measured stand in.
    `on_row` hears of every row, as plain JSON, when it is measured. Raises BadInput.
    """
    import torch

    chosen = usual_dtype(device) if dtype is None else dtype
    _check(kernels, device, chosen)
    torch_dtype = getattr(torch, TORCH_NAMES[chosen])
    jobs = [(name, size) for name in kernels for size in sizes or _usual(KERNELS[name], device)]
    meter, rows = LoadMeter(), []
    for done, (name, size) in enumerate(jobs):
        for task in KERNELS[name].make(device, torch_dtype, size):
            rows.append(_row(task, device))
            if on_row is not None:
                on_row(rows[-1].to_dict())
        if progress is not None:
            progress(done + 1, len(jobs))
    machine = with_load(this_machine(), [meter.read()])
    title = torch.cuda.get_device_name() if device == "cuda" else machine.processor
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    curve = fit_curve(rows, title, date, peak_flops, memory_bandwidth_Bps) if set(KERNELS) <= set(kernels) else None
    return DeviceBench(device, title, chosen, tuple(rows), curve, machine, date)


def usual_dtype(device: str) -> str:
    """What is measured unless another format is named."""
    return "bf16" if device == "cuda" else "fp32"


def _usual(kernel: Kernel, device: str) -> tuple[int, ...]:
    return kernel.gpu_sizes if device == "cuda" else kernel.cpu_sizes


def _check(kernels: Sequence[str], device: str, dtype: str) -> None:
    import torch

    for name in kernels:
        if name not in KERNELS:
            raise UnknownName("kernel", name, tuple(KERNELS), "kernels")
    if device not in ("cpu", "cuda"):
        raise UnknownName("device", device, ("cpu", "cuda"), "device")
    if device == "cuda" and not torch.cuda.is_available():
        raise BadInput("torch sees no GPU here; use cpu", "device")
    if dtype not in TORCH_NAMES:
        raise UnknownName("number format", dtype, tuple(TORCH_NAMES), "dtype")


def _row(task: Task, device: str) -> KernelRow:
    """Warms up twice, then repeats for MOST_S or LEAST times."""
    _seconds(task, device)
    once_s = _seconds(task, device)
    repeats = max(LEAST, min(50, math.floor(MOST_S / max(once_s, 1e-7))))
    times_s = tuple(_seconds(task, device) for _ in range(repeats))
    return KernelRow(task.kernel, task.shape, task.flops, task.size_B, task.kernels, times_s)


def _seconds(task: Task, device: str) -> float:
    """One run, from an idle device to an idle device."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    task.run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """Where a curve goes."""

    path: Path
    device: Device | None
    """The device of the file; None where there is no file yet."""

    @classmethod
    def read(cls, path: Path) -> DeviceFile:
        """The file as it is. Raises BadInput for one that describes no device of its own, or several."""
        if not os.path.exists(path):
            return cls(path, None)
        devices = read_hardware(path).devices
        if len(devices) != 1:
            named = f": {', '.join(devices)}" if devices else ""
            raise BadInput(f"describes {len(devices)} devices of its own{named}; one is needed", str(path))
        return cls(path, next(iter(devices.values())))

    def text(self, found: DeviceBench) -> str:
        """The file with the curve in it. Raises BadInput when `found` has none."""
        if found.curve is None:
            raise BadInput("an efficiency curve needs all kernels: bench device")
        if self.device is None:
            return _new(found, found.curve, self.path.stem)
        return _replaced(read_text(self.path, MAX_YAML_B), self.device.name, _flow(found.curve, "      "))

    def write(self, found: DeviceBench) -> None:
        """Replaces the file; what is written has been read back before."""
        text = self.text(found).encode("utf-8")
        read_hardware(InMemory(str(self.path), text))
        with replacing(self.path) as file:
            file.write(text)


def _flow(curve: Curve, indent: str) -> str:
    """The curve as a YAML mapping in braces, one key a line."""
    known = curve.efficiency.to_dict()
    pairs = ((name, known[name]) for name in CurveEntry.model_fields)
    lines = (
        f"{indent}  {name}: {json.dumps(value) if isinstance(value, str) else f'{value:.4g}'}" for name, value in pairs
    )
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _new(found: DeviceBench, curve: Curve, name: str) -> str:
    """A file with the device and a cluster of one of it."""
    source = json.dumps(f"lockstep bench device on {found.name}, {found.date}")
    return f"""# Made by lockstep bench device; every number may be edited.
devices:
  {json.dumps(name)}:
    memory: {memory_B(found.device)} B
    memory_bandwidth: {curve.memory_bandwidth_Bps:.4g} B/s
    peak_flops: {{{found.dtype}: {curve.peak_flops:.4g} FLOP/s}}
    source: {source}
    efficiency: {_flow(curve, "      ")}
cluster:
  name: {json.dumps(name)}
  device: {json.dumps(name)}
  levels:                                  # one device: no link is used
    - {{name: machine, size: 1, link: {{latency: 0 s, bandwidth: {curve.memory_bandwidth_Bps:.4g} B/s}}}}
"""


def memory_B(device: str) -> int:
    """Bytes of memory of the device, cpu or cuda, as the system tells."""
    if device == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _replaced(text: str, device: str, curve: str) -> str:
    """The text with another value of the device's `efficiency`."""
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in ("devices", device, "efficiency"):
        node = next(value for name, value in node.value if name.value == key)
    start, end = node.start_mark.index, node.end_mark.index
    # A mapping in block style ends where the next key begins; the white space before that is not part of it.
    end = start + len(text[start:end].rstrip())
    return text[:start] + curve + text[end:]
