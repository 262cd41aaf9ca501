"""Kernels alone against a device's curve: matrix products by shape, the best product of a device, and streams of bytes.

Products of B200 were fitted to whole steps (`tools/fit/fit.py`), those of H100 to products measured for that
(`tools/fit/products.py`), to none of these rows. Products of A100 are fitted to its rows here, streams of A100 are
those of BabelStream, and passes of norms medians over the norms: of these three the rows say how even the kernels are,
not how well they were predicted.

Products are tuned ones of libraries on an idle device: cuBLASLt, DeepGEMM, XLA.

    kernel_s   `Clock.matmul` of the printed m, n, k (of each group), and `Clock.stream` of the bytes that the source
               counts: norms read or write their rows as often as `price/kernels/norms.py` says; a rate alone is of 1 GB

The best product of a device is a bound and not a table: nothing at its shape is priced faster (`best_cases`).

Left out, by `gemm_left_out`, `best_left_out` and `stream_left_out`. Decoding shapes are not trained with, and of a TPU
v7 a kernel has half a chip. What is shorter than 30 us is printed with too few digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from lockstep.check.validation.case import Case, Table, read_rows
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import model
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job, Layout, Recipe

GEMM_FILE, BEST_FILE, STREAM_FILE = "gemm_kernels.csv", "matmul_achievable_flops.csv", "memory_bound_kernels.csv"
CLUSTERS = {
    "A100-SXM4-80GB": "dgx-a100-80gb", "H100-SXM5-80GB": "dgx-h100", "H200-SXM-141GB": "dgx-h200", "H200": "dgx-h200",
    "H800-SXM5": "hgx-h800", "TPU v6e": "tpu-v6e", "B200": "dgx-b200", "B200 (1000 W)": "dgx-b200",
    "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "NVIDIA A100 SXM": "dgx-a100-80gb",
    "NVIDIA A100 PCIe": "a100-pcie", "NVIDIA H100 SXM": "dgx-h100", "NVIDIA H200 SXM": "dgx-h200",
    "NVIDIA B200 SXM": "dgx-b200", "NVIDIA GB200 SXM": "gb200-nvl72", "NVIDIA B300 SXM": "dgx-b300",
    "NVIDIA GH200 SXM": "gh200-4", "AMD MI300X": "mi300x-8", "AMD MI325X": "mi325x-8", "AMD MI355X": "mi355x-8",
}  # fmt: skip
SMALLEST_ROWS, SHORTEST_US, BYTES = 1024, 30.0, 1e9
PASSES = ("fwd", "bwd")
ELEMENT_B = 2.0


def gemm_cases() -> tuple[Case, ...]:
    """One case per product of a training shape."""
    return tuple(_gemm_case(row) for row in read_rows(GEMM_FILE) if not _gemm_why_not(row))


def best_cases() -> tuple[Case, ...]:
    """One case per device's fastest product, at the shape where it is fastest."""
    return tuple(_best_case(row) for row in read_rows(BEST_FILE) if not _best_why_not(row))


def stream_cases() -> tuple[Case, ...]:
    """One case per memory-bound kernel."""
    return tuple(_stream_case(row) for row in read_rows(STREAM_FILE) if not _stream_why_not(row))


def gemm_left_out() -> Counter[str]:
    """How many products are left out, by reason."""
    return Counter(why for row in read_rows(GEMM_FILE) if (why := _gemm_why_not(row)))


def best_left_out() -> Counter[str]:
    """How many devices are left out, by reason."""
    return Counter(why for row in read_rows(BEST_FILE) if (why := _best_why_not(row)))


def stream_left_out() -> Counter[str]:
    """How many memory-bound kernels are left out, by reason."""
    return Counter(why for row in read_rows(STREAM_FILE) if (why := _stream_why_not(row)))


def _gemm_why_not(row: dict[str, str]) -> str:
    if row["gpu"] not in CLUSTERS:
        return "half of a chip"
    if not row["m"]:
        return "shape not printed"
    if "autograd" in row["op"]:
        return "three products and their casts together"
    if min(int(row["m_per_group"] or row["m"]), int(row["m"])) < SMALLEST_ROWS:
        return "fewer rows than a training step has"
    return "host time in it" if row["library"] == "XLA" and "host" in row["notes"] else ""


def _best_why_not(row: dict[str, str]) -> str:
    name = CLUSTERS.get(row["accelerator"])
    if name is None:
        return "device not in the catalog"
    curve = cluster(name, gpus=1).device.efficiency
    return "source of the catalog" if "stas00" in curve.source else ""


def _stream_why_not(row: dict[str, str]) -> str:
    if row["gpu"] not in CLUSTERS:
        return "half of a chip"
    if row["op"].startswith("copy host") or row["op"].startswith("copy device"):
        return "a link, not the device's memory"
    if row["op"].startswith("nvfp4") or not (row["gbytes_per_s"] or row["op"].endswith("_norm")):
        return "bytes not printed, or partly from cache"
    return "below 30 us" if row["op"].endswith("_norm") and float(row["time_us"]) < SHORTEST_US else ""


def product_s(case: Case, m: int, n: int, k: int, count: int = 1) -> float:
    """Seconds of `count` products in one kernel."""
    return float(Clock.of(case.cluster.device, case.job.recipe).matmul(m, n, k, count).device_s)


def stream_s(case: Case, size_B: float) -> float:
    """Seconds of a kernel that reads and writes so many bytes."""
    return float(Clock.of(case.cluster.device, case.job.recipe).stream(size_B).device_s)


def _gemm_case(row: dict[str, str]) -> Case:
    m, n, k = (int(row[name]) for name in ("m", "n", "k"))
    seconds = float(row["time_us"]) * 1e-6 if row["time_us"] else 2.0 * m * n * k / (float(row["tflops"]) * 1e12)
    groups = int(row["groups"] or 1)
    # The sum over tokens is what groups share of the weight gradient's product.
    m, k = (m, k // groups) if "wgrad" in row["op"] else (m // groups, k)
    kind = row["op"].replace("GEMM", "product").replace(" (", ", ").rstrip(")")
    name = f"{row['gpu']} {row['library'].split()[0]} {row['dtype'].split()[0]} {kind} {m}x{n}x{k} x{groups}"
    return _case(row, name, row["dtype"].split()[0], seconds, partial(product_s, m=m, n=n, k=k, count=groups))


def _best_case(row: dict[str, str]) -> Case:
    m, n, k = (int(row[f"best_{name}"]) for name in "MNK")
    dtype = row["dtype"].split("_")[0]
    seconds = 2.0 * m * n * k / (float(row["mamf_tflops"]) * 1e12)
    return _case(row, f"{row['accelerator']} {dtype} {m}x{n}x{k}", dtype, seconds, partial(product_s, m=m, n=n, k=k))


def _stream_case(row: dict[str, str]) -> Case:
    if row["op"].endswith("_norm"):
        norm = find_way("norm", "one" if row["library"] == "cuDNN" else "split")
        size_B = norm.passes[PASSES.index(row["pass"])] * ELEMENT_B * int(row["rows"]) * int(row["cols"])
        seconds, name = float(row["time_us"]) * 1e-6, f"{row['op']} {row['pass']} {row['rows']}x{row['cols']}"
    else:
        size_B, seconds, name = BYTES, BYTES / (float(row["gbytes_per_s"]) * 1e9), row["op"]
    return _case(row, f"{row['gpu']} {row['library']} {name}", "bf16", seconds, partial(stream_s, size_B=size_B))


def _case(row: dict[str, str], name: str, dtype: str, seconds: float, predict: Callable[[Case], float]) -> Case:
    """A case of one kernel; of its job nothing but the format is asked."""
    where = cluster(CLUSTERS[row.get("gpu") or row["accelerator"]], gpus=1)
    job = Job(model("llama3-8b"), Recipe(seq=1, batch=1, dtype=dtype), 1)
    return Case(f"{row['row_id']} {name}", "kernel_s", seconds, job, where, Layout(), predict)


GEMM = Table(
    "gemm_kernels", "kernel_s", "Azure/AI-benchmarking-guide; DeepGEMM; pytorch/ao; tpu-recipes", 0.12, gemm_cases
)
STREAM = Table("memory_bound_kernels", "kernel_s", "cudnn-frontend; Azure's guide; pytorch/ao", 0.50, stream_cases)
