"""Whether a trace is of the run described: recorded products tell it where seconds do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runner import run
from diagnosis.small_traces import annotation, product, write
from lockstep.explain.same_run import SAME_PRODUCTS, is_another

RUN = ("--model", "llama3.2-1b", "-c", "dgx-h100:1", "--gpus", "1", "--batch", "1", "--seq", "2048")
PEAK_FLOPS = 989e12


def flops() -> float:
    """Of the products of a step: 6 per parameter and token."""
    return 6 * 1.2358e9 * 2048


def trace(path: Path, times: float, rate_frac: float, count: int = 40) -> Path:
    """Three steps of `count` products of `times` the FLOPs of the model, at a share of the device's peak."""
    side = round((times * flops() / count / 2) ** (1 / 3))
    took_us = 2e6 * side**3 / (rate_frac * PEAK_FLOPS)
    events, at = [], 1000.0
    for step in range(3):
        events.append(annotation(f"ProfilerStep#{step}", at, count * (took_us + 1) + 200))
        for place in range(count):
            number = 1 + step * count + place
            events += product(at + 100 + place * (took_us + 1), took_us, (side, side, side), number)
        at += count * (took_us + 1) + 205
    return write(path, events, rank=None)


@pytest.mark.parametrize(("times", "rate_frac"), [(0.03, 0.7), (0.03, 0.02), (0.1, 0.05), (20.0, 0.7)])
def test_products_of_another_model_are_not_taken_for_slow_kernels(
    tmp_path: Path, times: float, rate_frac: float
) -> None:
    """N10: of four MLPs held against a Llama, three were the Llama with kernels up to 32 times as long."""
    path = trace(tmp_path / "mlp.json", times, rate_frac)
    found = run("diagnose", str(path), *RUN, "--json").json()
    assert found["causes"] == []
    assert not found["as_predicted"]
    assert any("times the FLOPs of llama3.2-1b as described" in one for one in found["not_known"])
    refused = run("diagnose", str(path), *RUN, "-o", str(tmp_path / "mine.yaml")).refusal()
    assert "times the FLOPs of the run described" in refused
    assert not (tmp_path / "mine.yaml").exists()


@pytest.mark.parametrize(("times", "rate_frac"), [(1.0, 0.7), (4 / 3, 0.3), (0.8, 0.5)])
def test_equal_products_identify_the_same_run(tmp_path: Path, times: float, rate_frac: float) -> None:
    """With and without recomputation, however slow they are."""
    found = run("diagnose", str(trace(tmp_path / "llama.json", times, rate_frac)), *RUN, "--json").json()
    assert not any("times the FLOPs" in one for one in found["not_known"])


def test_uncertain_shapes_do_not_indicate_another_run() -> None:
    assert not is_another(None)
    assert not is_another(1.0)
    assert is_another(1.01 * SAME_PRODUCTS)
    assert is_another(0.99 / SAME_PRODUCTS)
