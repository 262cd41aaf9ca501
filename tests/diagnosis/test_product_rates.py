"""Matrix products by recorded shape: read from a trace's operators and kernels, and fitted to the device's curve."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Device
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.explain.product_rates import fit_products
from lockstep.explain.read.products import Product, read_products
from published_traces import published_trace

BF16 = "c10::BFloat16"


def h100() -> Device:
    """The device of the open traces."""
    return find_cluster("dgx-h100:1").device


def operator(name: str, external: int, dims: list[list[int]], kinds: list[str]) -> dict[str, object]:
    """An operator with its shapes, as `record_shapes=True` records it."""
    args = {"External id": external, "Input Dims": dims, "Input type": kinds}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": 1.0, "dur": 5.0, "pid": 1, "tid": 1, "args": args}


def kernel(dur: float, **args: int) -> dict[str, object]:
    """A kernel with what ties it to its operator."""
    return {"ph": "X", "cat": "kernel", "name": "nvjet", "ts": 9.0, "dur": dur, "pid": 0, "tid": 7, "args": args}


def test_shapes_are_read_from_every_multiplying_operator(tmp_path: Path) -> None:
    """What is added comes first in addmm and baddbmm; a product may have several kernels; others have no shape."""
    events = [
        operator("aten::mm", 1, [[64, 32], [32, 16]], [BF16, BF16]),
        operator("aten::addmm", 2, [[16], [64, 32], [32, 16], [], []], [BF16, BF16, BF16, "Scalar", "Scalar"]),
        operator("aten::baddbmm", 3, [[4, 8, 2], [4, 8, 6], [4, 6, 2]], ["float"] * 3),
        operator("aten::_scaled_mm", 4, [[64, 32], [32, 16], [], []], ["c10::Float8_e4m3fn"] * 2),
        operator("aten::convolution", 5, [[8, 3, 9, 9], [4, 3, 3, 3]], [BF16, BF16]),
        operator("aten::mm", 6, [], []),
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2.0, "dur": 1.0,
         "args": {"External id": 4, "correlation": 40}},
        kernel(10.0, **{"External id": 1}), kernel(2.0, **{"External id": 1}), kernel(20.0, **{"External id": 2}),
        kernel(30.0, **{"External id": 3}), kernel(40.0, correlation=40), kernel(50.0, **{"External id": 5}),
        kernel(60.0, **{"External id": 6}),
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = {(one.m, one.n, one.k, one.count, one.dtype): one.times_s for one in read_products(path)}
    assert found == {
        (64, 16, 32, 1, "bf16"): pytest.approx((12e-6, 20e-6)),
        (8, 2, 6, 4, "fp32"): pytest.approx((30e-6,)),
        (64, 16, 32, 1, "fp8"): pytest.approx((40e-6,)),
    }


def products_of(max_frac: float, factor: float, widths: tuple[int, ...], noise: float = 0.0) -> list[Product]:
    """Products that take what a curve with these constants says."""
    device, chance, made = h100(), np.random.default_rng(1), []
    for width in widths:
        one = Product(8192, width, 2048, 1, "bf16", (1.0,))
        seconds = one.flops / device.peak("bf16") / max_frac + factor * one.size_B / device.memory_bandwidth_Bps
        made.append(Product(8192, width, 2048, 1, "bf16", (seconds * float(1 + noise * chance.standard_normal()),)))
    return made


@pytest.mark.parametrize(("max_frac", "factor"), [(0.7, 1.2), (0.85, 0.8), (0.95, 2.0)])
def test_the_constants_behind_the_times_are_recovered(max_frac: float, factor: float) -> None:
    """Within their intervals, from shapes that differ, and so well that the curve is right to a hundredth."""
    found = fit_products(products_of(max_frac, factor, (512, 1024, 2048, 4096, 8192, 16384), noise=0.002), h100())
    assert found.max_frac_ci95[0] < max_frac < found.max_frac_ci95[1]
    assert found.bytes_factor_ci95[0] < factor < found.bytes_factor_ci95[1]
    assert np.abs(found.after_frac).max() < 0.01


def test_undetermined_constants_have_wide_intervals() -> None:
    """Of products that are alike the time is right, and what made it up is inside intervals that are not small."""
    alike = fit_products(products_of(0.7, 1.0, tuple(range(4000, 4012, 2))), h100())
    apart = fit_products(products_of(0.7, 1.0, (512, 1024, 2048, 4096, 8192, 16384)), h100())
    assert np.abs(alike.after_frac).max() < 0.01
    assert alike.max_frac_ci95[0] < 0.7 < alike.max_frac_ci95[1]
    assert alike.bytes_factor_ci95[0] < 1.0 < alike.bytes_factor_ci95[1]
    assert np.ptp(alike.bytes_factor_ci95) > 2 * np.ptp(apart.bytes_factor_ci95)


def test_a_shape_with_a_bad_kernel_is_excluded_and_named() -> None:
    """It moves neither constant, and how slow it is is said."""
    good = products_of(0.8, 1.2, (512, 1024, 2048, 4096, 8192, 16384))
    bad = Product(4096, 4096, 4096, 1, "bf16", (10 * 4096**3 / h100().peak("bf16"),))
    found, plain = fit_products([*good, bad], h100()), fit_products(good, h100())
    ((one, times),) = found.left_out
    assert one == bad
    assert times > 3
    assert (found.max_frac, found.bytes_factor) == pytest.approx((plain.max_frac, plain.bytes_factor))


def test_no_product_is_faster_than_the_peak() -> None:
    """Even where times say so."""
    found = fit_products(products_of(1.2, 0.5, (512, 1024, 2048, 4096, 8192, 16384)), h100())
    assert found.max_frac <= 1.0
    assert found.max_frac_ci95[1] <= 1.0


def test_too_few_shapes_are_refused() -> None:
    """Short products and those that memory bounds do not count."""
    short = [Product(64, 64, n, 1, "bf16", (3e-6,)) for n in range(64, 80)]
    bound = [Product(8, 8192, n, 1, "bf16", (50e-6,)) for n in range(4096, 4112)]
    unsure = [Product(4096, 4096, n, 1, "fp32", (5e-3,)) for n in range(4096, 4112)]
    few = products_of(0.8, 1.0, (1024, 2048, 4096))
    with pytest.raises(
        BadInput, match="3 shapes of matrix products that take 10 us or more are recorded, 6 are needed"
    ):
        fit_products([*short, *bound, *unsure, *few], h100())


def test_products_fitted_to_one_real_run_predict_another() -> None:
    """Two captures of the open pair: the curve refitted to the first predicts the second's, which it never saw."""
    name = "modded_nanogpt_20251031_{}.rank0.json.gz"
    first, second = (read_products(published_trace(name.format(which))) for which in ("before", "after"))
    fitted, truth = fit_products(first, h100()), fit_products(second, h100())
    usual = np.median(np.abs(truth.before_frac))
    terms = [(one.flops / h100().peak(one.dtype), one.size_B / h100().memory_bandwidth_Bps) for one in truth.products]
    curve_s = np.array([a / fitted.max_frac + b * fitted.bytes_factor for a, b in terms])
    errors = np.abs(curve_s / np.array([one.time_s for one in truth.products]) - 1)
    assert np.median(errors) < 0.08
    assert np.median(errors) < 0.8 * usual
