"""Kernels of a device: what a task computes, counts and moves by its definition, and how often it is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from . import needs_torch as needs_torch  # isort: skip
import torch
from torch.utils.flop_counter import FlopCounterMode

from lockstep.base.errors import BadInput
from lockstep.run.kernels import KERNELS, KernelRow, bench, usual_dtype
from lockstep.run.kernels.kernel import Curve, Task, fit_curve

SIZE = 16


def tasks(name: str, dtype: Any = torch.float64, size: int = SIZE) -> list[Task]:
    return list(KERNELS[name].make("cpu", dtype, size))


def counted(task: Task) -> float:
    """FLOPs by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        task.run()
    return float(counter.get_total_flops())


@pytest.mark.parametrize("size", [16, 40])
def test_products_have_two_flops_per_pair_and_move_three_matrices(size: int) -> None:
    square, narrow = tasks("matmul", size=size)
    for task, width in ((square, size), (narrow, size // 8)):
        assert task.shape == f"{size}x{size}x{width}"
        assert task.flops == counted(task) == 2 * size * size * width
        assert task.size_B == 8 * (size * size + 2 * size * width)
        out = task.run()
        assert tuple(out.shape) == (size, width)
    assert tasks("matmul", size=3)[1].shape == "3x3x1"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "vectors"), [("memory", 3), ("copy", 2)])
def test_vectors_are_read_and_written_once_each(name: str, vectors: int, dtype: Any) -> None:
    (task,) = tasks(name, dtype, 1000)
    out = task.run()
    assert out.tolist() == [float(vectors - 1)] * 1000
    assert (task.flops, task.size_B, task.kernels) == (0, vectors * out.numel() * out.element_size(), 1)


def test_attention_counts_the_half_that_the_mask_leaves() -> None:
    """torch counts both triangles, and recomputes one product of the backward pass as a fused kernel does."""
    forward, backward = tasks("attention")
    assert forward.shape == backward.shape == f"4x{SIZE}x64"
    products = [2 * 4 * SIZE * SIZE * 64 / 2 * number for number in (2, 5)]
    assert [forward.flops, backward.flops] == products
    found = forward.run()
    assert tuple(found.shape) == (1, 4, SIZE, 64)
    gradients = backward.run()
    assert [tuple(one.shape) for one in gradients] == [(1, 4, SIZE, 64)] * 3
    for _ in range(2):
        assert all(torch.equal(one, other) for one, other in zip(backward.run(), gradients, strict=True))


def test_an_optimizer_kernel_moves_28_bytes_per_parameter() -> None:
    """Weight, gradient and two moments are read, all but the gradient written: 7 words of 4 bytes."""
    (task,) = tasks("optimizer", torch.float32, 100)
    task.run()
    assert task.size_B == 100 * 4 * (4 + 3)


def test_the_launch_kernel_launches_as_often_as_its_size() -> None:
    (task,) = tasks("launch", size=7)
    assert (task.kernels, task.size_B, task.flops) == (7, 0, 0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        task.run()
    assert sum(one.count for one in seen.key_averages() if one.key == "aten::add_") == 7


@pytest.mark.parametrize("name", KERNELS)
def test_default_sizes_grow_by_factors_and_are_larger_on_gpus(name: str) -> None:
    kernel = KERNELS[name]
    for sizes in (kernel.cpu_sizes, kernel.gpu_sizes):
        digits = {str(size).rstrip("0") for size in sizes}
        assert all(size & (size - 1) == 0 for size in sizes) or digits <= {"1", "2", "4", "16"}
        assert len({after / before for before, after in pairwise(sizes)}) <= 1
    assert max(kernel.gpu_sizes) > max(kernel.cpu_sizes)
    assert min(kernel.gpu_sizes) > min(kernel.cpu_sizes)


def product(size: int, width: int, seconds: float) -> KernelRow:
    flops, size_B = 2.0 * size * size * width, 2.0 * (size * size + 2 * size * width)
    return KernelRow("matmul", f"{size}x{size}x{width}", flops, size_B, 1, (seconds,))


def curve(products: list[KernelRow], peak: float, bandwidth_Bps: float) -> Curve:
    others = [KernelRow(name, "1", 1e12, 1e9, 1, (1e-3,)) for name in ("attention", "attention backward")]
    others += [KernelRow("memory", "1", 0.0, bandwidth_Bps, 1, (1.0,)), KernelRow("launch", "1", 0.0, 0.0, 10, (1e-4,))]
    return fit_curve([*products, *others], "gpu", "2026-11-26", peak, bandwidth_Bps)


@pytest.mark.parametrize(("frac", "factor"), [(0.7, 0.3), (0.6, 0.0), (0.9, 2.0)])
def test_a_curve_is_recovered_although_small_products_wait_for_their_launch(frac: float, factor: float) -> None:
    peak, bandwidth_Bps, launch_s = 989e12, 3.35e12, 19e-6
    rows = []
    for size in (256, 512, 1024, 2048, 4096, 8192, 16384):
        for width in (size, size // 8):
            one = product(size, width, 1.0)
            seconds = one.flops / (peak * frac) + factor * one.size_B / bandwidth_Bps
            rows.append(product(size, width, max(seconds, launch_s)))
    found = curve(rows, peak, bandwidth_Bps).efficiency
    assert found.matmul_max_frac == pytest.approx(frac, rel=1e-6)
    assert found.matmul_bytes_factor == pytest.approx(factor, abs=1e-6)
    assert found.typical_error_frac == pytest.approx(0, abs=1e-6)


def test_no_product_exceeds_the_peak() -> None:
    rows = [product(size, size, 2.0 * size**3 / 1.2e15) for size in (4096, 8192, 16384)]
    assert curve(rows, 1e15, 3e12).efficiency.matmul_max_frac == 1.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still, a count of runs, and the times at which the device was waited for."""
    state = SimpleNamespace(now_s=0.0, waits=0, runs=0)
    monkeypatch.setattr(bench.time, "perf_counter", lambda: state.now_s)

    def wait() -> None:
        state.waits += 1
        state.now_s += state.behind_s if state.waits % 2 == 0 else 100.0

    state.behind_s = 0.0
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    return state


def timed(clock: SimpleNamespace, lasts_s: Iterator[float]) -> Task:
    def run() -> None:
        clock.runs += 1
        clock.now_s += next(lasts_s)

    return Task("matmul", "8x8x8", run, 1024.0, 1536.0)


@pytest.mark.parametrize(
    ("once_s", "repeats"), [(1.0, 5), (0.11, 5), (0.09, 5), (0.07, 7), (0.02, 25), (0.0101, 49), (1e-3, 50), (0.0, 50)]
)
def test_repeats_fill_half_a_second_with_5_to_50_runs(once_s: float, repeats: int, clock: SimpleNamespace) -> None:
    """After two runs that do not count, the second of which says how long one takes."""
    lasts_s = iter([9.0, once_s, *(2.0 + number for number in range(repeats))])
    row = bench._row(timed(clock, lasts_s), "cpu")
    assert row.times_s == pytest.approx([2.0 + number for number in range(repeats)])
    assert clock.runs == repeats + 2
    assert clock.waits == 0
    assert row.time_s == median(row.times_s)
    said = row.to_dict()
    assert (said["min_s"], said["max_s"], said["repeats"]) == (2.0, pytest.approx(1.0 + repeats), repeats)
    assert (said["flops_per_s"], said["bandwidth_Bps"]) == (1024 / row.time_s, 1536 / row.time_s)


def test_gpu_times_are_measured_between_synchronisations(clock: SimpleNamespace) -> None:
    """Work that is waited for counts, what was waited for before does not."""
    clock.behind_s = 0.5
    row = bench._row(timed(clock, iter([1.0] * 7)), "cuda")
    assert row.times_s == pytest.approx([1.5] * 5)
    assert clock.waits == 2 * clock.runs


def test_zero_times_have_no_rate() -> None:
    said = KernelRow("matmul", "", 1.0, 1.0, 1, (0.0,)).to_dict()
    assert (said["flops_per_s"], said["bandwidth_Bps"]) == (0, 0)


def test_a_gpu_is_measured_in_16_bits_and_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (usual_dtype("cpu"), usual_dtype("cuda")) == ("fp32", "bf16")
    for name, kernel in KERNELS.items():
        assert bench._usual(KERNELS[name], "cpu") == kernel.cpu_sizes
        assert bench._usual(KERNELS[name], "cuda") == kernel.gpu_sizes
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput) as caught:
        bench.bench_device(["copy"], device="cuda")
    assert caught.value.where == "device"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    bench._check(["copy"], "cuda", "bf16")


def test_a_measurement_reports_progress_and_every_row() -> None:
    said: list[tuple[int, int]] = []
    rows: list[Any] = []
    found = bench.bench_device(
        ["copy", "launch"], sizes=(8, 16), progress=lambda *words: said.append(words), on_row=rows.append
    )
    assert said == [(done, 4) for done in range(1, 5)]
    assert rows == [row.to_dict() for row in found.rows]
    assert [(row.kernel, row.shape) for row in found.rows] == [
        ("copy", "8"), ("copy", "16"), ("launch", "8"), ("launch", "16"),
    ]  # fmt: skip
    assert (found.device, found.dtype) == ("cpu", "fp32")
    summary = found.summary()
    assert "rows" not in summary
    assert summary["time_s"] == {
        name: {row.shape: row.time_s for row in found.rows if row.kernel == name} for name in ("copy", "launch")
    }
