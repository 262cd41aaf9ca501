"""Critical batch and learning-rate rules: closed forms against each other and against averages."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.base.errors import UnknownName
from lockstep.learn.methods import critical_batch as cb
from lockstep.learn.methods import learning_rate as lr

BATCH = np.geomspace(1, 1e6, 13)


def test_steps_and_examples_lie_on_the_hyperbola() -> None:
    steps, examples = cb.steps(BATCH, 300.0, 450.0), cb.examples(BATCH, 300.0, 450.0)
    assert examples == pytest.approx(steps * BATCH)
    assert (steps / 300 - 1) * (examples / (300 * 450) - 1) == pytest.approx(np.ones(13))
    assert steps / 300 - 1 == pytest.approx(cb.extra_steps_frac(BATCH, 450.0))
    assert examples / (300 * 450) - 1 == pytest.approx(cb.extra_examples_frac(BATCH, 450.0))


def test_at_the_critical_batch_both_are_twice_their_least() -> None:
    assert float(cb.steps(450, 300, 450)) == 600
    assert float(cb.examples(450, 300, 450)) == 2 * 300 * 450
    assert float(cb.best_rate_frac(450, 450)) == 0.5


def test_far_from_the_critical_batch() -> None:
    """Below an eighth, half the batch takes nearly twice the steps; above eight times, twice the batch saves little."""
    small, large = np.array([1.0, 20.0, 56.25]), np.array([3600.0, 1e5])
    assert cb.steps(small / 2, 1, 450) / cb.steps(small, 1, 450) == pytest.approx(np.full(3, 2.0), rel=0.15)
    assert (1 - cb.steps(large * 2, 1, 450) / cb.steps(large, 1, 450) < 0.15).all()


def test_without_noise_every_batch_takes_the_same_steps() -> None:
    assert cb.steps(BATCH, 7.0, 0.0) == pytest.approx(np.full(13, 7.0))
    assert cb.best_rate_frac(BATCH, 0.0) == pytest.approx(np.ones(13))


def test_two_batch_estimate_inverts_the_expectation() -> None:
    squared = 2.0 + 30.0 / np.array([[4.0], [64.0]])
    gradient, trace = cb.two_batch_estimate(squared[0], squared[1], 4, 64)
    assert gradient == pytest.approx([2.0])
    assert trace == pytest.approx([30.0])


def test_learning_rate_rules_keep_their_noise_constant() -> None:
    """Noise per unit of training time is rate / B, noise of one step rate / sqrt(B)."""
    ratio = np.array([1.0, 4.0, 64.0])
    assert lr.linear(0.1, ratio) / ratio == pytest.approx(np.full(3, 0.1))
    assert lr.square_root(0.1, ratio) / np.sqrt(ratio) == pytest.approx(np.full(3, 0.1))
    assert lr.unscaled(0.1, ratio) == pytest.approx(np.full(3, 0.1))
    assert float(lr.linear(0.1, 8192 / 256)) == pytest.approx(3.2)
    with pytest.raises(UnknownName, match="linear"):
        lr.rule("linar")


def test_warm_up_is_a_straight_line_and_then_flat() -> None:
    assert lr.warm_up_frac(np.arange(6), 4) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
    assert lr.warm_up_frac(np.arange(3), 0) == pytest.approx(np.ones(3))
