"""Kernels that PyTorch does not vectorise: constants are what they took on one H100, alone and in nanotron's layers."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import device, efficiency
from lockstep.describe.stacks import find_way
from lockstep.price.kernels.clock import MIXED, OPERATIONS, WIDENED
from recipes import counted, head_passes

STREAM_BPS = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
SEQ, HALF_B = 4096, 2
STACKED = 6.0
"""Passes that join the gradients of queries, keys and values, counted with the projections."""
LARGE = 5e7
JOINED = 4.0
TURNED = find_way("heads", "gpt-neox").takes[0]
Layer = tuple[str, int, int]


def _layers() -> dict[Layer, dict[str, float]]:
    """Seconds by part and direction of every layer, and what a pass over one width takes."""
    found: dict[Layer, dict[str, float]] = defaultdict(dict)
    for row in read_rows("h100_layers.csv"):
        hidden, ffn, tp, samples = (int(row[name]) for name in ("hidden", "ffn", "tp", "micro_batch"))
        here = found[row["model_B"], tp, samples]
        here[f"{row['part']} {row['direction']}"] = float(row["time_us"]) * 1e-6
        here["heads"], here["columns"] = (
            HALF_B * SEQ * samples * width / tp / STREAM_BPS for width in (hidden, ffn)
        )  # fmt: skip
        here["weights"] = (4 * hidden**2 + 3 * hidden * ffn) / tp
    return found


LAYERS = _layers()
IDS = [f"{model}B tp{tp} mb{samples}" for model, tp, samples in LAYERS]


def test_measured_layers_cover_four_models() -> None:
    assert len(LAYERS) == 17
    assert {model for model, *_ in LAYERS} == {"1.34", "3.57", "8.86", "80"}


@pytest.mark.parametrize("layer", LAYERS, ids=IDS)
def test_copies_of_a_layer_match_their_price(layer: Layer) -> None:
    """Backward with what joins the gradients, which is priced by its bytes."""
    taken, passes, takes = LAYERS[layer], head_passes("nanotron", layer[2]), find_way("heads", "nanotron").takes
    for side, (direction, joined) in enumerate((("forward", 0.0), ("backward", STACKED))):
        priced_s = (takes[side] * passes[side] + joined) * taken["heads"]
        assert priced_s == pytest.approx(taken[f"copies {direction}"], rel=0.16)


@pytest.mark.parametrize("layer", LAYERS, ids=IDS)
def test_gates_over_halves_match_their_price(layer: Layer) -> None:
    taken = LAYERS[layer]
    pass_s = OPERATIONS * taken["columns"]
    forward, backward, _, _ = counted("gate", "halves")
    assert forward * pass_s == pytest.approx(taken["gate forward"], rel=0.06)
    assert (backward - JOINED) * pass_s == pytest.approx(taken["gate backward"], rel=0.06)
    assert JOINED * pass_s == pytest.approx(taken["joined backward"], rel=0.08)


def test_mixed_format_sums_match_their_price() -> None:
    """Of layers whose launches do not tell."""
    factors = [
        taken["sum backward"] * STREAM_BPS / (10.0 * taken["weights"])
        for taken in LAYERS.values()
        if taken["weights"] >= LARGE
    ]
    assert len(factors) >= 7
    assert pytest.approx(np.mean(factors), abs=0.03) == MIXED
    assert max(factors) - min(factors) < 0.15


@pytest.mark.parametrize(
    ("kernel", "passes", "takes"),
    [("turned.qkv", 6, TURNED), ("turned.kv", 4, TURNED), ("turned.output", 2, TURNED), ("widened.fp32", 3, WIDENED),
     ("joined.halves", 4, OPERATIONS)],
)  # fmt: skip
def test_single_kernels_match_their_price(kernel: str, passes: float, takes: float) -> None:
    factors = [
        float(row["time_us"]) * 1e-6 * STREAM_BPS / (passes * HALF_B * math.prod(map(int, row["shape"].split("x"))))
        for row in read_rows("h100_kernels.csv")
        if row["kernel"] == kernel
    ]
    assert len(factors) >= 3
    assert takes == pytest.approx(np.mean(factors), rel=0.06)
