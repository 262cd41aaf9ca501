"""A limit of power: energy balances, kernels alone set the scale, and a higher limit never slows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import efficiency
from lockstep.describe.hardware.power import PowerLimit

LAW = PowerLimit(700.0, {"bf16": 1100.0, "fp8": 1400.0}, 650.0, 450.0)
seconds = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
formats = st.sampled_from(["bf16", "fp8"])


def clock(law: PowerLimit, dtype: str, products_s: float, attention_s: float, memory_s: float) -> float:
    """Solved from energy: what is drawn over the pass is the limit times how long it takes."""
    full_s = products_s * law.alone_frac(dtype)

    def surplus_J(frac: float) -> float:
        taken_s = (full_s + attention_s) / frac + memory_s
        drawn_J = frac**2 * (law.products_W[dtype] * full_s + law.attention_W * attention_s) / frac
        return drawn_J + law.memory_W * memory_s - law.limit_W * taken_s

    return 1.0 if surplus_J(1.0) <= 0.0 else float(brentq(surplus_J, 1e-3, 1.0, xtol=1e-14))


@given(formats, st.floats(1e-3, 1.0), seconds, seconds)
def test_both_factors_follow_the_clock_at_which_power_balances(
    dtype: str, products_s: float, attention_s: float, memory_s: float
) -> None:
    found = clock(LAW, dtype, products_s, attention_s, memory_s)
    factors = LAW.factors(dtype, products_s, attention_s, memory_s)
    assert factors == (pytest.approx(LAW.alone_frac(dtype) / found, rel=1e-9), pytest.approx(1 / found, rel=1e-9))


@given(formats, st.floats(1e-3, 1.0), st.floats(1e-3, 1.0))
def test_products_alone_keep_their_measured_time(dtype: str, products_s: float, more: float) -> None:
    assert LAW.factors(dtype, products_s, 0.0, 0.0)[0] == pytest.approx(1.0)
    # Beside kernels that draw less they are faster, the more so the more of these there are.
    once, twice = (float(LAW.factors(dtype, products_s, 0.0, many * more)[0]) for many in (1.0, 2.0))
    assert LAW.alone_frac(dtype) - 1e-12 <= twice <= once <= 1.0


def test_work_without_compute_is_not_slowed() -> None:
    assert LAW.factors("bf16", 0.0, 0.0, 1.0) == (1.0, 1.0)


@given(formats, seconds, seconds, seconds)
def test_factors_depend_on_shares_alone_and_broadcast(
    dtype: str, products_s: float, attention_s: float, u: float
) -> None:
    times = [np.array([scale * one for scale in (1.0, 8.0)]) for one in (products_s, attention_s, u)]
    for found in LAW.factors(dtype, *times):
        assert found[0] == pytest.approx(found[1], rel=1e-9)


@given(st.floats(300.0, 1200.0), st.floats(1.0, 2.0), seconds, seconds, seconds)
def test_a_higher_limit_never_slows(limit_W: float, more: float, full_s: float, attention_s: float, u: float) -> None:
    """Attention beside products of so many seconds at the full clock, and products alone."""
    low, high = (replace(LAW, limit_W=watts) for watts in (limit_W, more * limit_W))
    slower, faster = (
        float(law.factors("bf16", full_s / law.alone_frac("bf16"), attention_s, u)[1]) for law in (low, high)
    )
    assert faster <= slower + 1e-9
    assert high.alone_frac("fp8") >= low.alone_frac("fp8")


def test_a_lower_power_limit_slows_products_alone() -> None:
    curve = efficiency("h100")
    assert curve.power is not None
    same, low = curve.limited(curve.power.limit_W), curve.limited(500.0)
    assert same == curve
    assert low.matmul_max_frac / curve.matmul_max_frac == pytest.approx((500.0 / curve.power.limit_W) ** 0.5)
    assert low.stream_frac == curve.stream_frac
    with pytest.raises(BadInput, match="does not state the power that its kernels draw"):
        efficiency("a100").limited(300.0)
