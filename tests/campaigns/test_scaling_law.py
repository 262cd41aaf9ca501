"""Scaling laws: their own papers' numbers, optima found without the closed form, and inverses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from lockstep import workload
from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.decide.campaigns import LAWS, for_compute, for_loss, for_tokens, in_batches, scaling_law

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
NAMES = sorted(LAWS)


def test_chinchilla_loss_matches_its_scaling_law() -> None:
    """1.69 + 0.0834 + 0.1632: 70B parameters on 1.4T tokens, term by term."""
    terms = (1.69, 406.4 / 70e9**0.34, 410.7 / 1.4e12**0.28)
    assert scaling_law("hoffmann").loss(70e9, 1.4e12) == pytest.approx(math.fsum(terms))
    assert math.fsum(terms) == pytest.approx(1.936, abs=1e-3)


def test_gopher_budget_gives_the_size_that_hoffmann_published() -> None:
    """Table A3: approach 3 gives Gopher's 5.76e23 FLOPs 40B parameters, from coefficients less rounded than printed."""
    assert scaling_law("hoffmann").optimal_size(5.76e23) == pytest.approx(40e9, rel=0.25)


def test_the_refit_asks_for_twenty_tokens_per_parameter() -> None:
    """At Chinchilla's budget Besiroglu et al. agree with approaches 1 and 2; the printed fit asks for far more."""
    size = scaling_law("besiroglu").optimal_size(5.76e23)
    assert scaling_law("besiroglu").optimal_tokens(size) / size == pytest.approx(20, rel=0.3)
    hoffmann = scaling_law("hoffmann")
    assert hoffmann.optimal_tokens(hoffmann.optimal_size(5.76e23)) / hoffmann.optimal_size(5.76e23) > 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flops", [1e20, 5.76e23, 1e26])
def test_no_other_size_has_less_loss_for_the_same_budget(name: str, flops: float) -> None:
    law = scaling_law(name)
    found = minimize_scalar(
        lambda x: law.loss(math.exp(x), flops / 6 / math.exp(x)), bounds=(10.0, 40.0), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    assert law.optimal_size(flops) == pytest.approx(math.exp(found.x), rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(size=st.floats(1e7, 1e13))
def test_optimal_tokens_and_optimal_size_are_one_curve(name: str, size: float) -> None:
    law = scaling_law(name)
    assert law.optimal_size(6 * size * law.optimal_tokens(size)) == pytest.approx(size, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(size=st.floats(1e7, 1e12), tokens=st.floats(1e8, 1e13))
def test_tokens_for_a_loss_invert_loss_for_tokens(name: str, size: float, tokens: float) -> None:
    law = scaling_law(name)
    assert law.tokens_for_loss(size, law.loss(size, tokens)) == pytest.approx(tokens, rel=1e-5)
    assert law.loss(size, 2 * tokens) < law.loss(size, tokens)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_below_the_floor_is_infeasible(name: str) -> None:
    with pytest.raises(Infeasible, match="never gets below"):
        scaling_law(name).tokens_for_loss(1e9, 1.0)


def test_names_are_checked() -> None:
    with pytest.raises(UnknownName, match="hoffmann"):
        scaling_law("hofmann")


def test_kaplan_counts_without_embeddings() -> None:
    model = workload.model("gpt3-175b")
    counted = workload.parameters(model)
    assert scaling_law("kaplan").size(model) == counted.non_embedding
    assert scaling_law("hoffmann").size(model) == counted.total


def test_targets_name_their_scaling_law() -> None:
    model = workload.model("llama3-70b")
    target = for_compute(scaling_law("besiroglu"), model)
    assert target.loss == pytest.approx(for_loss(scaling_law("besiroglu"), model, target.loss or 0).loss)
    assert "2404.10102" in target.assumptions[0]
    assert any("dense" in said for said in for_compute(LAWS["hoffmann"], workload.model("mixtral-8x7b")).assumptions)
    with pytest.raises(BadInput, match="not a language model"):
        for_compute(LAWS["hoffmann"], workload.model("resnet50"))


@EXAMPLES
@given(tokens=st.floats(1e9, 1e13), critical=st.floats(1e4, 1e8), batch=st.floats(1e4, 1e8))
def test_critical_batch_trades_steps_for_examples(tokens: float, critical: float, batch: float) -> None:
    """(S / S_min - 1)(E / E_min - 1) = 1, with E_min = tokens and S_min = tokens / critical."""
    spent = in_batches(for_tokens(tokens), critical).with_batch(batch)
    steps = spent / batch
    assert (steps / (tokens / critical) - 1) * (spent / tokens - 1) == pytest.approx(1.0, rel=1e-6)
    assert for_tokens(tokens).with_batch(batch) == tokens
