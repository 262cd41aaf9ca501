"""Curves of devices whose kernels others measured: the catalog has what the fit finds, and they meet the kernels."""

import math

import numpy as np
import pytest

from fit_scripts import fit_script
from lockstep.describe.hardware import device, efficiency
from lockstep.price.kernels.clock import Clock
from published_data import unpackaged

script, attention = fit_script("devices"), fit_script("attention")


@pytest.fixture(autouse=True)
def tables() -> None:
    unpackaged("aiconfigurator_gemm.csv")


def check(name: str, found: dict[str, float]) -> None:
    curve = efficiency(name)
    assert {constant: getattr(curve, constant) for constant in found} == pytest.approx(found, rel=2e-3)


@pytest.mark.parametrize("name", script.LIKE_B200)
def test_curves_like_b200_equal_the_fit(name: str) -> None:
    check(name, script.like_b200(name))


@pytest.mark.parametrize("name", ["l40s", "mi300x", "mi325x", "mi355x", "mi350x"])
def test_curves_of_own_kernels_equal_the_fit(name: str) -> None:
    check(name, getattr(script, name)())


@pytest.mark.parametrize("name", script.LIKE_B200)
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_products_are_as_much_faster_than_on_b200_as_the_benchmark_says(name: str, dtype: str) -> None:
    own, other = script.benchmark(script.LIKE_B200[name], dtype), script.benchmark(script.B200, dtype)
    measured = np.array([own[shape] / other[shape] for shape in own])
    priced = script.priced(name, dtype, own) / script.priced("b200", dtype, own)
    assert np.median(priced / measured) == pytest.approx(1.0, abs=0.03)
    assert np.quantile(abs(priced / measured - 1.0), 0.9) < 0.15


@pytest.mark.parametrize(("slower", "faster"), [("mi300x", "mi325x"), ("mi350x", "mi355x")])
def test_the_same_cores_at_another_limit_of_power_are_slower_by_its_root(slower: str, faster: str) -> None:
    limits = [device(name).tdp_W or 0.0 for name in (slower, faster)]
    clocks = [Clock(device(name), "bf16") for name in (slower, faster)]
    times = [float(clock.matmul(8192.0, 8192.0, 8192.0).device_s) for clock in clocks]
    assert times[0] / times[1] == pytest.approx(math.sqrt(limits[1] / limits[0]), rel=0.03)


@pytest.mark.parametrize("name", ["b300", "gb300", "mi300x", "mi325x", "mi350x", "mi355x", "l40s"])
def test_no_kernel_is_faster_than_the_datasheet(name: str) -> None:
    curve = efficiency(name)
    for frac in (curve.matmul_max_frac, curve.matmul_max_frac * curve.fp8_frac, curve.matmul_max_frac * curve.fp4_frac):
        assert 0 < frac < 1
    for kernel in curve.attention.values():
        assert 0 < kernel.backward_frac <= kernel.forward_frac < 1


@pytest.mark.parametrize(("curve", "kernel", "gpus"), attention.FITTED)
def test_attention_kernels_equal_the_fit(curve: str, kernel: str, gpus: tuple[str, ...]) -> None:
    found = attention.fit(attention.rates(kernel, gpus))
    known = efficiency(curve).attention[kernel]
    for constant in attention.CONSTANTS:
        assert getattr(known, constant) == pytest.approx(getattr(found, constant), rel=0.05), constant
