"""Optimisers: PyTorch's own where it has them, the papers' ratios where it has not, numpy and torch alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.learn.methods.norms import Spectral
from lockstep.learn.methods.optimizers import OPTIMIZERS, Adam, Lamb, Lars, Momentum, Muon, Optimizer, optimizer, step
from lockstep.learn.methods.optimizers.muon import orthogonalized
from optional import torch

SHAPES = ((4, 3), (3,), (2, 6))


def layers(seed: int, scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [scale * rng.normal(size=shape) for shape in SHAPES]


def followed(method: Optimizer, rate: float, steps: int = 6) -> list[np.ndarray]:
    """Parameters after steps along fixed gradients."""
    parameters: Any = tuple(layers(0))
    state = method.start(parameters)
    for at in range(steps):
        parameters, state = step(method, parameters, layers(at + 1), state, rate)
    return list(parameters)


def followed_by_torch(kind: str, rate: float, steps: int = 6, **settings: Any) -> list[np.ndarray]:
    parameters = [torch.nn.Parameter(torch.tensor(one)) for one in layers(0)]
    method = getattr(torch.optim, kind)(parameters, lr=rate, **settings)
    for at in range(steps):
        for parameter, gradient in zip(parameters, layers(at + 1), strict=True):
            parameter.grad = torch.tensor(gradient)
        method.step()
    return [parameter.detach().numpy() for parameter in parameters]


TWINS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("sgd", {}, "SGD", {}),
    ("sgd", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    ("momentum", {"beta": 0.8}, "SGD", {"momentum": 0.8}),
    ("momentum", {"beta": 0.8, "nesterov": True, "weight_decay": 0.01}, "SGD",
     {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01}),
    ("adam", {}, "Adam", {}),
    ("adam", {"weight_decay": 0.1, "beta_2": 0.95}, "AdamW", {"weight_decay": 0.1, "betas": (0.9, 0.95)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "ours", "kind", "theirs"), TWINS)
def test_optimizers_match_pytorch(name: str, ours: dict[str, Any], kind: str, theirs: dict[str, Any]) -> None:
    found = followed(optimizer(name, **ours), 0.05)
    for one, other in zip(found, followed_by_torch(kind, 0.05, **theirs), strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-14)


def test_muon_is_pytorchs_up_to_its_half_precision_and_convention() -> None:
    """PyTorch averages (1 - beta) of each gradient into the buffer; scaling does not matter to an orthogonal factor."""
    parameter = torch.nn.Parameter(torch.tensor(layers(0)[0]))
    method = torch.optim.Muon([parameter], lr=0.05, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    ours = Muon(momentum=Momentum(beta=0.95, nesterov=False))
    parameter.grad = torch.tensor(layers(1)[0])
    method.step()
    moved, _ = step(ours, (layers(0)[0],), (layers(1)[0],), ours.start((layers(0)[0],)), 0.05)
    # bfloat16 keeps 8 bits: about 4 % of a step of 0.05 * 0.2 * sqrt(4), entries below 1.
    assert moved[0] == pytest.approx(parameter.detach().numpy(), abs=1e-3)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_numpy_and_torch_take_the_same_path(name: str) -> None:
    method = optimizer(name)
    parameters: Any = tuple(torch.tensor(one) for one in layers(0))
    state = method.start(parameters)
    for at in range(6):
        parameters, state = step(method, parameters, [torch.tensor(one) for one in layers(at + 1)], state, 0.02)
    for one, other in zip(parameters, followed(method, 0.02), strict=True):
        assert one.numpy() == pytest.approx(other, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_step_changes_nothing_in_place(name: str) -> None:
    method, parameters, gradients = optimizer(name), layers(0), layers(1)
    step(method, parameters, gradients, method.start(parameters), 0.1)
    assert all(np.array_equal(one, other) for one, other in zip(parameters, layers(0), strict=True))
    assert all(np.array_equal(one, other) for one, other in zip(gradients, layers(1), strict=True))


def test_lars_moves_every_layer_by_the_same_share() -> None:
    method = Lars(beta=0.0, trust=0.01)
    gradients = [one * scale for one, scale in zip(layers(1), (1e-6, 1.0, 1e6), strict=True)]
    moved, _ = step(method, layers(0), gradients, method.start(layers(0)), 0.5)
    for after, before in zip(moved, layers(0), strict=True):
        assert np.linalg.norm(after - before) == pytest.approx(0.005 * np.linalg.norm(before), rel=1e-9)


def test_lars_by_hand() -> None:
    """w = (3, 4), g = (0, 2), decay 0.1: local = 0.01 * 5 / (2 + 0.5) = 0.02; pushed = (0.3, 2.4)."""
    method = Lars(beta=0.5, trust=0.01, weight_decay=0.1)
    weights, gradients = (np.array([3.0, 4.0]),), (np.array([0.0, 2.0]),)
    directions, state = method.direction(gradients, method.start(weights), weights)
    assert directions[0] == pytest.approx([0.006, 0.048])
    assert method.direction(gradients, state, weights)[0][0] == pytest.approx([0.009, 0.072])


def test_lamb_is_adam_with_the_length_of_the_weights() -> None:
    adam, lamb = Adam(weight_decay=0.1), Lamb(Adam(weight_decay=0.1))
    plain, _ = adam.direction(layers(1), adam.start(layers(0)), layers(0))
    scaled, _ = lamb.direction(layers(1), lamb.start(layers(0)), layers(0))
    for one, other, weight in zip(scaled, plain, layers(0), strict=True):
        assert np.linalg.norm(one) == pytest.approx(np.linalg.norm(weight))
        assert one / np.linalg.norm(one) == pytest.approx(other / np.linalg.norm(other))


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_layers_of_zeros_can_move(name: str) -> None:
    method, zero = optimizer(name), (np.zeros(3),)
    moved, _ = step(method, zero, (np.ones(3),), method.start(zero), 1.0)
    assert (np.abs(moved[0]) > 0).all()
    still, _ = step(method, (np.ones(3),), zero, method.start(zero), 1.0)
    assert np.array_equal(still[0], np.ones(3))


def test_adam_without_memory_is_sign_descent() -> None:
    adam, sign = Adam(beta_1=0.0, beta_2=0.0, epsilon=1e-300), optimizer("sign")
    for one, other in zip(followed(adam, 0.1), followed(sign, 0.1), strict=True):
        assert one == pytest.approx(other)


def test_momentum_of_a_steady_gradient_tends_to_the_geometric_sum() -> None:
    method, gradient = Momentum(beta=0.75), (np.ones(2),)
    state = method.start(gradient)
    for _ in range(100):
        direction, state = method.direction(gradient, state, gradient)
    assert direction[0] == pytest.approx([4.0, 4.0])


def test_newton_schulz_approaches_the_step_of_the_spectral_norm() -> None:
    matrix = np.random.default_rng(5).normal(size=(6, 9))
    values = np.linalg.svd(orthogonalized(matrix), compute_uv=False)
    assert (values > 0.65).all()
    assert (values < 1.25).all()
    exact = Spectral().steepest(matrix)
    cosine = (orthogonalized(matrix) * exact).sum() / np.linalg.norm(orthogonalized(matrix)) / np.linalg.norm(exact)
    assert cosine > 0.98
    assert orthogonalized(matrix.T) == pytest.approx(orthogonalized(matrix).T)


def test_muon_leaves_non_matrices_to_the_other_optimizer() -> None:
    weights, gradients = (np.ones(3),), (np.array([0.1, -2.0, 30.0]),)
    adam, muon = Adam(), Muon()
    want, _ = adam.direction(gradients, adam.start(weights), weights)
    found, _ = muon.direction(gradients, muon.start(weights), weights)
    assert np.array_equal(found[0], want[0])


def test_invalid_optimizers_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean adam"):
        optimizer("adm")
    with pytest.raises(BadInput, match="it has weight_decay"):
        optimizer("sgd", beta=0.9)
    with pytest.raises(BadInput, match="below 1"):
        optimizer("momentum", beta=1.0)
    with pytest.raises(BadInput, match="positive"):
        optimizer("lars", trust=0.0)
    with pytest.raises(BadInput, match="weight_decay"):
        optimizer("sgd", weight_decay=-1.0)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(("gradients", "kept"), [(1, 2), (3, 2), (2, 1), (2, 3)])
def test_lars_refuses_gradients_and_buffers_of_another_number_of_layers(
    gradients: int, kept: int, weight_decay: float
) -> None:
    method, layer = Lars(weight_decay=weight_decay), np.ones(3)
    assert len(method.direction([layer] * 2, [layer] * 2, [layer] * 2)[0]) == 2
    with pytest.raises(ValueError, match="zip"):
        method.direction([layer] * gradients, [layer] * kept, [layer] * 2)


PUBLISHED: dict[str, dict[str, Any]] = {
    "sgd": {"weight_decay": 0},
    "momentum": {"beta": 0.9, "nesterov": False, "weight_decay": 0},
    "adam": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8, "weight_decay": 0},
    "lars": {"beta": 0.9, "trust": 1e-3, "weight_decay": 0},
    "lamb": {"adam": Adam(beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=0)},
    "muon": {"momentum": Momentum(beta=0.95, nesterov=True, weight_decay=0), "others": Adam(0.9, 0.999, 1e-8, 0)},
    "sign": {"beta": 0},
}
"""Polyak's usual 0.9; Kingma and Ba, algorithm 1; You et al. 2017, trust 0.001; You et al. 2020; Jordan et al. 2024."""


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizer_defaults_are_the_published_ones(name: str) -> None:
    assert optimizer(name) == optimizer(name, **PUBLISHED[name])


@pytest.mark.parametrize(("ours", "kind"), [("adam", "Adam"), ("muon", "Muon")])
def test_optimizer_defaults_match_torch(ours: str, kind: str) -> None:
    theirs = getattr(torch.optim, kind)([torch.nn.Parameter(torch.zeros(2, 2))]).defaults
    method: Any = optimizer(ours)
    if ours == "adam":
        assert ((method.beta_1, method.beta_2), method.epsilon) == (theirs["betas"], theirs["eps"])
    else:
        assert (method.momentum.beta, method.momentum.nesterov) == (theirs["momentum"], theirs["nesterov"])
