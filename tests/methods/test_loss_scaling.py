"""Loss scales and clipping against PyTorch's own, and their laws."""

import math

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.learn.methods.loss_scaling import LossScale, all_finite, clip_by_norm, lost_steps_frac, static, unscaled
from optional import torch


def test_the_loss_scaling_rule_matches_torch() -> None:
    ours = LossScale(scale=1024.0, interval=3)
    scale, finite_steps = torch.tensor([1024.0]), torch.zeros(1, dtype=torch.int32)
    draw = np.random.Generator(np.random.PCG64(0))
    for _ in range(200):
        overflow = bool(draw.random() < 0.2)
        ours = ours.after(not overflow)
        torch._amp_update_scale_(scale, finite_steps, torch.tensor([float(overflow)]), 2.0, 0.5, 3)
        assert ours.scale == scale.item()
        assert ours.finite_steps == finite_steps.item()


def test_a_steady_gradient_loses_one_step_in_interval_plus_one() -> None:
    scale, skipped, steps, interval = LossScale(scale=2.0**20, interval=50), 0, 51 * 40, 50
    for _ in range(steps):
        finite = scale.scale <= 2.0**12
        skipped += not finite
        scale = scale.after(finite)
    assert skipped == pytest.approx(steps * lost_steps_frac(interval), abs=9)
    assert skipped >= 40


def test_a_static_scale_never_moves_and_powers_of_two_are_exact() -> None:
    fixed = static(2.0**15)
    assert fixed.after(False) == fixed.after(True).after(False) == fixed
    gradient = np.float16(1.0) * np.random.Generator(np.random.PCG64(1)).standard_normal(100).astype(np.float16)
    small = gradient.astype(np.float32) * 2.0**-20
    assert (unscaled([(small * 2.0**20).astype(np.float16).astype(np.float32)], 2.0**20)[0] == small).all()


def test_a_scale_grows_to_the_end_of_its_range_and_stays() -> None:
    scale = LossScale(scale=2.0**1022, interval=1)
    for _ in range(5):
        scale = scale.after(True)
    assert scale.scale == 2.0**1023


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_infinite_entry_skips_the_step(bad: float) -> None:
    for layers in ([np.ones(3), np.array([1.0, bad])], [torch.ones(3), torch.tensor([1.0, bad])]):
        assert not all_finite(layers)
        assert all_finite(layers[:1])


@pytest.mark.parametrize("limit", [0.1, 1.0, 100.0])
def test_clipping_matches_torch(limit: float) -> None:
    draw = np.random.Generator(np.random.PCG64(2))
    layers = [draw.standard_normal((3, 4)), draw.standard_normal(5)]
    weights = [torch.nn.Parameter(torch.zeros(layer.shape, dtype=torch.float64)) for layer in layers]
    for weight, layer in zip(weights, layers, strict=True):
        weight.grad = torch.from_numpy(layer.copy())
    torch.nn.utils.clip_grad_norm_(weights, limit)
    for weight, ours in zip(weights, clip_by_norm(layers, limit), strict=True):
        assert weight.grad is not None
        np.testing.assert_allclose(ours, weight.grad.numpy(), rtol=1e-5)


def test_clipping_zero_is_zero() -> None:
    assert (clip_by_norm([np.zeros(3)], 1.0)[0] == 0).all()


def test_settings_out_of_range_are_refused() -> None:
    for settings in ({"scale": 0.0}, {"growth": 0.5}, {"backoff": 0.0}, {"interval": 0}, {"scale": math.nan}):
        with pytest.raises(BadInput):
            LossScale(**settings)  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        clip_by_norm([np.ones(2)], 0.0)
