"""The verb `bench`: collectives on real ranks, or the kernels of one device."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.documents.files import writable, writable_yaml, write_text, writing
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_bandwidth_Bps, parse_count, parse_flops, parse_size_B
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.keeping import kept
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.processes import longest_wait_s, world
from lockstep.show.verbs.words.quantity import Bandwidth, FlopRate, Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import PROCESSES, RUNS

if TYPE_CHECKING:
    from lockstep.run.bench import CollectiveBench
    from lockstep.run.kernels import DeviceBench, DeviceFile

USUAL_SIZES = "1KB:16MB:4"
MOST_SIZES = 64
WHOLE_DEVICE = "device"
USUAL_RIVAL = "ring"
"""Lockstep's algorithm beside the built-in one when none is named, where the collective has it."""


_COLLECTIVE = "Collective"
_KERNEL = "Kernel, or device for all kernels"


OP = Argument(
    "OP",
    "Collective: all-reduce, all-gather, send-recv ...; kernel: matmul, memory, attention, optimizer; or device.",
    names="ops",
)
BACKEND = Option("B", "Backend: gloo, or nccl with one GPU per rank.", panel=_COLLECTIVE, default="gloo")
SIZES = Option("S", "Sizes as from:to:factor, or a list separated by commas.", default="1KB:16MB:4")
ALGORITHM = Option("A", "Algorithms: built-in, Lockstep's by name, or all.", panel=_COLLECTIVE, default="built-in,ring")
REPEATS = Option("N", "Repeats per size; fewer for slow sizes.", panel=_COLLECTIVE, default="20")
WARM_UP = Option("N", "Number of warm-up runs per size.", panel=_COLLECTIVE, default="3")
CSV = Option("FILE", "Write the rows as CSV, which `lockstep fit` reads.", panel=_COLLECTIVE)
DTYPE = Option("T", "Number format: fp32, bf16, fp16 or fp64.", panel=_KERNEL, default="fp32, bf16 on a GPU")
PEAK = Option("R", "Peak rate from the datasheet, e.g. 989TFLOP/s.", panel=_KERNEL, default="the best measured")
MEMORY_BANDWIDTH = Option("R", "Memory bandwidth from the datasheet.", panel=_KERNEL, default="measured")
CURVE = Option("FILE", "Write the efficiency curve for the hardware catalog.", panel=_KERNEL)
DEVICE_FILE = Option(
    "FILE", "Put the curve into your hardware YAML, or write a new one; see lockstep plan.", panel=_KERNEL
)


@strict
def bench(
    op: Annotated[str, OP],
    *,
    ranks: Annotated[Quantity | None, replace(PROCESSES, panel=_COLLECTIVE)] = None,
    backend: Annotated[str | None, BACKEND] = None,
    sizes: Annotated[str | None, SIZES] = None,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    repeats: Annotated[Quantity | None, REPEATS] = None,
    warm_up: Annotated[Quantity | None, WARM_UP] = None,
    timeout: Annotated[Time | None, Option("T", "Longest wait for a rank.", panel=_COLLECTIVE, default="60 s")] = None,
    csv: Annotated[str | Path | None, CSV] = None,
    device: Annotated[str | None, Option("D", "Device: cpu or cuda.", panel=_KERNEL, default="cpu")] = None,
    dtype: Annotated[str | None, DTYPE] = None,
    peak: Annotated[FlopRate | None, PEAK] = None,
    memory_bandwidth: Annotated[Bandwidth | None, MEMORY_BANDWIDTH] = None,
    curve: Annotated[str | Path | None, CURVE] = None,
    device_file: Annotated[str | Path | None, DEVICE_FILE] = None,
    root: Annotated[str | Path | None, RUNS] = None,
    progress: Progress | None = None,
) -> "CollectiveBench | DeviceBench":
    """Measures a collective on `ranks` real ranks, or a kernel (`device` for all of them) on a CPU or GPU.

    Args: `sizes` as 1KB:16MB:4 (from, to, factor) or a list between commas: bytes of a collective, edges or elements of
    a kernel. `algorithm`: built-in, names, or all. `csv` and `curve`: files to write. `device_file`: a
    hardware file to write, or to put the curve into. `root`: where runs
    are kept, by default $LOCKSTEP_RUNS, nowhere without. Raises BadInput, RunFailed.
    """
    from lockstep.run.bench import OPS
    from lockstep.run.kernels import KERNELS

    collective = {
        "ranks": ranks, "backend": backend, "algorithm": algorithm, "repeats": repeats, "warm_up": warm_up,
        "timeout": timeout, "csv": csv,
    }  # fmt: skip
    kernel = {
        "device": device, "dtype": dtype, "peak": peak, "memory_bandwidth": memory_bandwidth, "curve": curve,
        "device_file": device_file,
    }  # fmt: skip
    if op in OPS:
        _refuse(kernel, op)
        return _collective(op, ranks, backend, sizes, algorithm, repeats, warm_up, timeout, csv, root, progress)
    if op not in (*KERNELS, WHOLE_DEVICE):
        raise UnknownName("benchmark", op, (*OPS, *KERNELS, WHOLE_DEVICE), "OP")
    _refuse(collective, op)
    return _device(op, sizes, device, dtype, peak, memory_bandwidth, curve, device_file, root, progress)


def _refuse(words: Mapping[str, object], op: str) -> None:
    for name, value in words.items():
        if value is not None:
            raise BadInput(f"does not belong to {op}", f"--{name.replace('_', '-')}")


def _collective(
    op: str,
    ranks: Quantity | None,
    backend: str | None,
    sizes: str | None,
    algorithm: str | None,
    repeats: Quantity | None,
    warm_up: Quantity | None,
    timeout: Time | None,
    csv: str | Path | None,
    root: str | Path | None,
    progress: Progress | None,
) -> "CollectiveBench":
    from lockstep.run.bench import bench_collective

    number, path = world(ranks), None if csv is None else writable(csv, "--csv")
    swept, chosen = _sizes(USUAL_SIZES if sizes is None else sizes, parse_size_B), _algorithms(op, algorithm, number)
    how: Json = {
        "backend": "gloo" if backend is None else backend,
        "repeats": 20 if repeats is None else whole(repeats, "--repeats"),
        "warm_up": 3 if warm_up is None else whole(warm_up, "--warm-up", 0),
        "timeout_s": longest_wait_s(timeout),
    }
    asked = {"op": op, "ranks": number, "sizes_B": swept, "algorithms": chosen, **how}
    with flags("--ranks"), kept("bench", asked, root) as record:
        found = bench_collective(
            op, number, swept, chosen, **how, progress=progress, on_row=lambda row: record(**row)
        )  # fmt: skip
        record.result, record.failure = found.summary(), found.stopped
    if path is not None:
        write_text(path, found.to_csv(), "--csv")
    return found


def _algorithms(op: str, given: str | None, ranks: int) -> list[str]:
    """The built-in collective and those of Lockstep: all, the ones named, or the ring."""
    from lockstep.run.bench import BUILT_IN
    from lockstep.simulate.collectives import among_ranks, get

    known = [] if op == "send-recv" else list(among_ranks(op))
    if given == "all":
        plain = (name for name in known if get(op, name).program(ranks, 4.0 * ranks, element_B=4.0).ranks == ranks)
        return [BUILT_IN, *plain]
    if given is None:
        return [BUILT_IN, *(name for name in known if name == USUAL_RIVAL)]
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in (BUILT_IN, *known):
            raise UnknownName(f"implementation of {op}", name, (BUILT_IN, *known), "--algorithm")
    return names


def _sizes(text: str, parse: Callable[[Quantity, str], float]) -> list[int]:
    """Whole numbers from `from:to:factor` (factor 2 when absent) or a list between commas."""
    parts = text.split(":")
    if len(parts) == 1:
        return _few(sorted({_one(part, parse) for part in text.split(",")}))
    if len(parts) > 3:
        raise BadInput(f"{text!r} is not a sweep; write it like 1KB:16MB:4 (from, to, factor)", "--sizes")
    first, last = _one(parts[0], parse), _one(parts[1], parse)
    factor = whole(parts[2], "--sizes", 2) if len(parts) == 3 else 2
    if first > last:
        raise BadInput(f"{text!r} goes down; write the smaller size first", "--sizes")
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return _few(sizes)


def _few(sizes: list[int]) -> list[int]:
    """The sizes. Raises BadInput for too many of them."""
    if len(sizes) > MOST_SIZES:
        raise BadInput(f"{len(sizes)} sizes; at most {MOST_SIZES}", "--sizes")
    return sizes


def _one(text: str, parse: Callable[[Quantity, str], float]) -> int:
    number = round(parse(text.strip(), "--sizes"))
    if number < 1:
        raise BadInput(f"must be at least 1, got {text.strip()!r}", "--sizes")
    return number


def _device(
    op: str,
    sizes: str | None,
    device: str | None,
    dtype: str | None,
    peak: FlopRate | None,
    memory_bandwidth: Bandwidth | None,
    curve: str | Path | None,
    device_file: str | Path | None,
    root: str | Path | None,
    progress: Progress | None,
) -> "DeviceBench":
    from lockstep.run.kernels import KERNELS, bench_device, usual_dtype

    everything = op == WHOLE_DEVICE
    whole_only = {
        "--curve": curve,
        "--device-file": device_file,
        "--peak": peak,
        "--memory-bandwidth": memory_bandwidth,
    }
    for name, value in whole_only.items():
        if value is not None and not everything:
            raise BadInput(f"belongs to `bench {WHOLE_DEVICE}`, which measures all kernels", name)
    if everything and sizes is not None:
        raise BadInput("every kernel has sizes of its own; name one kernel", "--sizes")
    path = None if curve is None else writable(curve, "--curve")
    file = _device_file(device_file)
    kernels = tuple(KERNELS) if everything else (op,)
    where = "cpu" if device is None else device
    how: Json = {
        "device": where,
        "dtype": usual_dtype(where) if dtype is None else dtype,
        "sizes": [] if sizes is None else _sizes(sizes, parse_count),
    }
    how |= _datasheet(peak, memory_bandwidth, file, how["dtype"])
    with flags("--device"), kept("bench", {"kernels": kernels, **how}, root) as record:
        found = bench_device(kernels, **how, progress=progress, on_row=lambda row: record(**row))
        record.result = found.summary()
    if path is not None and found.curve is not None:
        write_text(path, found.curve.to_toml(), "--curve")
    if file is not None:
        with writing(file.path, "--device-file"):
            file.write(found)
    return found


def _device_file(given: str | Path | None) -> "DeviceFile | None":
    """The hardware file to put the curve into, read before anything is measured."""
    from lockstep.run.kernels import DeviceFile

    if given is None:
        return None
    return DeviceFile.read(writable_yaml(given, "--device-file"))


def _datasheet(
    peak: FlopRate | None, memory_bandwidth: Bandwidth | None, file: "DeviceFile | None", dtype: str
) -> dict[str, float | None]:
    """The rates that the curve's numbers are fractions of: those given, or of the device in the file."""
    if file is None or file.device is None:
        return {
            "peak_flops": None if peak is None else parse_flops(peak, "--peak"),
            "memory_bandwidth_Bps": None
            if memory_bandwidth is None
            else parse_bandwidth_Bps(memory_bandwidth, "--memory-bandwidth"),
        }
    for name, value in (("--peak", peak), ("--memory-bandwidth", memory_bandwidth)):
        if value is not None:
            raise BadInput(f"{file.path} already gives it for {file.device.name}", name)
    with flags("--dtype"):
        return {"peak_flops": file.device.peak(dtype), "memory_bandwidth_Bps": file.device.memory_bandwidth_Bps}
