"""Published serving runs beside what an engine answers: errors of all rows within their bars, on a sample of them.

The sample is every SAMPLED-th row in the order of the table, so that it holds every device, engine and model.
"""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.check.validation.served import closed_loop_s, decode_rows, serving_rows
from lockstep.check.validation.served_models import served_model
from lockstep.describe.workload import parameters
from lockstep.price.generation import pool_of
from published_data import unpackaged

SAMPLED = 9
BAR = 0.15
"""Median error of a token's time over all rows of both tables."""


@pytest.mark.parametrize(
    ("file", "rows", "signed"), [("rl_serving_silicon.csv", 1629, 0.05), ("rl_decode_mlenergy.csv", 565, 0.08)]
)
def test_tokens_take_what_was_published(file: str, rows: int, signed: float) -> None:
    read = serving_rows if "serving" in file else decode_rows
    cases = read(unpackaged(file))
    assert len(cases) == rows
    errors = [case.predicted_s() / case.token_s - 1 for case in cases[::SAMPLED]]
    assert np.median(np.abs(errors)) < BAR
    assert abs(np.median(errors)) < signed


def test_first_tokens_of_llama_on_hopper_wait_as_published() -> None:
    """Closed loops of InferenceMAX by vLLM, prompts of 8,192 tokens, where all users' contexts fit."""
    cases = [
        case
        for case in serving_rows(unpackaged("rl_serving_silicon.csv"))
        if case.group in ("H100, vllm", "H200, vllm")
        and case.engine.model.name == "llama3.1-70b"
        and case.prompt == 8192
        and pool_of(case.engine).sequences(case.prompt + case.response) >= case.sequences
    ]
    assert len(cases) >= 15
    errors = [closed_loop_s(case) / (case.first_token_s or 1.0) - 1 for case in cases]
    assert np.median(np.abs(errors)) < BAR


def test_what_ran_fits() -> None:
    """Every published row ran, so that its weights and one of its answers have to fit."""
    cases = decode_rows(unpackaged("rl_decode_mlenergy.csv")) + serving_rows(unpackaged("rl_serving_silicon.csv"))
    for case in cases[::SAMPLED]:
        assert pool_of(case.engine).sequences(case.prompt + case.response) > 0, case.name


@pytest.mark.parametrize(
    ("published", "billions", "within"),
    [
        ("MiniMaxAI/MiniMax-M2.5", 228.7, 0.001),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 480.2, 0.001),
        ("google/gemma-3-12b-it", 11.77, 0.001),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 8.89, 0.002),
        ("nvidia/NVIDIA-Nemotron-Nano-12B-v2", 12.31, 0.002),
    ],
)
def test_models_outside_the_catalog_have_their_published_parameters(
    published: str, billions: float, within: float
) -> None:
    """Parameter counts of the published weights; of gemma-3-12b those of its language model."""
    assert parameters(served_model(published)).total == pytest.approx(billions * 1e9, rel=within)
