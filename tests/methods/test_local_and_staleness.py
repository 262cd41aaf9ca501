"""Pieces of local and asynchronous methods: their identities, and the same numbers from numpy and torch."""

import numpy as np
import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.learn.methods import staleness
from lockstep.learn.methods.data import digits
from lockstep.learn.methods.local import (
    BUFFER_POLICIES,
    Outer,
    after_averaging,
    corrected_gradient,
    mean_of,
    new_control,
    outer_gradient,
    proximal_gradient,
)
from optional import torch

GENERATOR = np.random.default_rng(0)
ENDS, START, BUFFER = GENERATOR.normal(size=(3, 5)), GENERATOR.normal(size=5), GENERATOR.normal(size=5)
DELAYS = np.arange(6.0)


def as_numpy(value: object) -> np.ndarray:
    return np.asarray(value)


@pytest.mark.parametrize(
    "piece",
    [
        lambda a: mean_of(a(ENDS)),
        lambda a: mean_of(a(ENDS), a(np.array([1.0, 2.0, 5.0]))),
        lambda a: outer_gradient(a(START), a(ENDS)),
        lambda a: Outer(0.7, 0.9, True).update(a(START), a(ENDS[0]), a(BUFFER))[0],
        lambda a: Outer(0.7, 0.9).update(a(START), a(ENDS[0]), a(BUFFER))[1],
        lambda a: after_averaging(a(ENDS), "average"),
        lambda a: after_averaging(a(ENDS), "reset"),
        lambda a: proximal_gradient(a(START), a(BUFFER), a(ENDS[0]), 0.3),
        lambda a: corrected_gradient(a(START), a(BUFFER), a(ENDS[0])),
        lambda a: new_control(a(START), a(BUFFER), a(ENDS[0]), a(ENDS[1]), 4, 0.1),
        lambda a: staleness.inverse(a(DELAYS)),
        lambda a: staleness.exponential(a(DELAYS), 0.2),
        lambda a: staleness.delay_adaptive(a(DELAYS), 0.5, 1.0),
        lambda a: staleness.cut_off(a(DELAYS), 3),
    ],
)
def test_numpy_and_torch_agree(piece: object) -> None:
    assert callable(piece)
    np.testing.assert_allclose(as_numpy(piece(torch.tensor)), piece(np.array), rtol=1e-14)


def test_the_outer_update_equals_torch_sgd() -> None:
    for nesterov in (False, True):
        parameter = torch.nn.Parameter(torch.tensor(START))
        optimizer = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=nesterov)
        ours, buffer = START, np.zeros(5)
        for end in ENDS:
            parameter.grad = torch.tensor(end)
            optimizer.step()
            ours, buffer = Outer(0.7, 0.9, nesterov).update(ours, end, buffer)
        np.testing.assert_allclose(parameter.detach().numpy(), ours, rtol=1e-12)


def test_a_plain_outer_update_is_the_average() -> None:
    moved, _ = Outer().update(START, outer_gradient(START, ENDS), np.zeros(5))
    np.testing.assert_allclose(moved, ENDS.mean(0), rtol=1e-14)


def test_weighted_mean_weighs_samples() -> None:
    np.testing.assert_allclose(mean_of(ENDS, np.array([1.0, 0.0, 3.0])), (ENDS[0] + 3 * ENDS[2]) / 4)
    np.testing.assert_allclose(mean_of(ENDS, np.full(3, 7.0)), mean_of(ENDS), rtol=1e-14)


def test_scaffold_controls_are_the_mean_gradient_and_vanish_for_equal_workers() -> None:
    gradients, step_size = ENDS, 0.1
    end = START - step_size * gradients.sum(0)
    np.testing.assert_allclose(new_control(np.zeros(5), np.zeros(5), START, end, 3, step_size), gradients.mean(0))
    np.testing.assert_array_equal(corrected_gradient(START, BUFFER, BUFFER), START)


def test_momentum_buffers_are_kept_averaged_or_reset() -> None:
    assert after_averaging(ENDS, "keep") is ENDS
    assert (after_averaging(ENDS, "average") == ENDS.mean(0)).all()
    assert not after_averaging(ENDS, "reset").any()
    with pytest.raises(UnknownName, match="average"):
        after_averaging(ENDS, "avrage")
    assert len(BUFFER_POLICIES) == 3


@pytest.mark.parametrize("words", [{"rate": 0.0}, {"momentum": 1.0}, {"momentum": -0.1}])
def test_the_outer_update_refuses_invalid_settings(words: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Outer(**words)  # type: ignore[arg-type]


def test_staleness_weights_match_their_formulas() -> None:
    assert staleness.inverse(0) == 1
    assert staleness.inverse(9) == pytest.approx(0.1)
    assert staleness.exponential(3, 0.0) == 1
    assert staleness.exponential(0, 0.7) == 1
    assert staleness.exponential(3, 0.5) == pytest.approx(0.22313016014843)  # 1 / e**1.5
    np.testing.assert_allclose(staleness.exponential(DELAYS, 0.2), np.exp(-0.2 * DELAYS))
    assert staleness.delay_adaptive(0, 0.5, 1.0) == 1
    assert staleness.delay_adaptive(9, 0.5, 1.0) == pytest.approx(0.2)
    assert staleness.cut_off(DELAYS, 2).tolist() == [1, 1, 1, 0, 0, 0]


def test_the_digits_data_set_has_its_known_counts() -> None:
    pixels, classes = digits()
    assert pixels.shape == (1797, 64)
    assert (pixels.min(), pixels.max()) == (0, 1)
    assert np.bincount(classes).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
