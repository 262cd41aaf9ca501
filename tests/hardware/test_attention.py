"""Rates of attention kernels: their law, and what they were fitted to."""

from dataclasses import replace

import numpy as np
import pytest

from fit_scripts import fit_script
from lockstep.describe.hardware import AttentionKernel, efficiency
from lockstep.describe.stacks import stack

attention = fit_script("attention")
KERNEL = AttentionKernel(0.6, 0.4, 500.0, 1000.0, 0.3, 0.5)


def test_half_of_the_rate_is_reached_at_the_length_of_the_ramp() -> None:
    assert KERNEL.frac(500.0, 128, True, False) == pytest.approx(0.3)
    assert KERNEL.frac(1000.0, 128, True, True) == pytest.approx(0.2)
    assert KERNEL.frac(1e12, 128, True, False) == pytest.approx(0.6)


def test_without_a_mask_the_ramp_is_shorter() -> None:
    assert KERNEL.frac(0.3 * 500.0, 128, False, False) == pytest.approx(0.3)


def test_narrow_heads_are_slower_and_wide_ones_are_not() -> None:
    assert KERNEL.frac(4096, 64, True, False) == pytest.approx(KERNEL.frac(4096, 128, True, False) * 0.5**0.5)
    assert KERNEL.frac(4096, 256, True, False) == KERNEL.frac(4096, 128, True, False)


@pytest.mark.parametrize(("head_dim", "built"), [(80, 128), (96, 128), (40, 64)])
def test_a_padded_head_takes_as_long_as_the_one_that_the_kernel_is_built_for(head_dim: int, built: int) -> None:
    """FLOPs grow with the head, the time of a kernel that pads it does not: FlashAttention-1 has 32, 64 and 128."""
    kernel = replace(KERNEL, head_sizes=(32, 64, 128))
    seconds = [size / kernel.frac(2048, size, True, way) for size in (head_dim, built) for way in (False, True)]
    assert seconds[:2] == pytest.approx(seconds[2:])
    assert kernel.frac(2048, built, True, False) == KERNEL.frac(2048, built, True, False)
    assert kernel.frac(2048, 256, True, False) == KERNEL.frac(2048, 256, True, False)


def test_software_may_use_a_kernel_on_devices_of_one_curve_only() -> None:
    """torchtitan asks for cuDNN's kernel first on B200, for FlashAttention-2 elsewhere."""
    wanted = stack("torchtitan").attention
    assert [efficiency(name).kernel(wanted)[0] for name in ("a100", "h100", "b200")] == ["flash2", "flash2", "cudnn"]


def test_flash_attention_2_gains_next_to_nothing_on_b200() -> None:
    """It multiplies there with the instructions of A100, at the rate that it has on H100."""
    rates = [efficiency(name).attention["flash2"].forward_frac * peak for name, peak in (("h100", 989), ("b200", 2250))]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)


def test_attention_rates_broadcast_over_lengths() -> None:
    tokens = np.array([512.0, 8192.0])
    together = KERNEL.frac(tokens, 128, True, True)
    np.testing.assert_allclose(together, [KERNEL.frac(one, 128, True, True) for one in tokens])


@pytest.mark.parametrize(("curve", "name", "devices"), attention.FITTED)
def test_attention_constants_of_the_catalog_equal_the_fit(curve: str, name: str, devices: tuple[str, ...]) -> None:
    known = attention.rates(name, devices)
    found, kept = attention.fit(known), efficiency(curve).attention[name]
    assert len(known) >= 20
    for constant in attention.CONSTANTS:
        assert getattr(kept, constant) == pytest.approx(getattr(found, constant), rel=0.02), constant
    errors = np.abs(np.expm1(attention.log_errors(kept, known)))
    assert np.median(errors) < 0.05


def test_the_rate_of_both_passes_lies_between_forward_and_backward() -> None:
    """5 of 7 FLOPs are backward."""
    both = attention.Rate("fwd+bwd", 4096, 128, True, 1.0)
    forward, backward = (attention.Rate(way, 4096, 128, True, 1.0) for way in ("fwd", "bwd"))
    logs = attention.log_errors(KERNEL, [forward, both, backward])
    assert logs[2] < logs[1] < logs[0]
    seconds = 1.0 / np.exp(logs)
    assert 7 * seconds[1] == pytest.approx(2 * seconds[0] + 5 * seconds[2])


def test_missing_kernels_fall_back_to_the_next_and_then_to_the_curve() -> None:
    curve = efficiency("a100")
    assert curve.kernel(("cudnn", "flash3", "flash2"))[0] == "flash2"
    name, rates = curve.kernel(("splash",))
    assert name == "fused"
    assert rates.frac(10, 64, True, False) == curve.attention_forward_frac
    assert rates.frac(10, 64, True, True) == curve.attention_backward_frac
