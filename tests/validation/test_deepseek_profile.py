"""DeepSeek-V3's published training trace: its products, attention and overlap against H800's curve and the cells.

deepseek-ai/profile-data@4496024, train.json: H800, 64-way expert parallelism, 4,096 tokens, forced balance, one forward
and one backward chunk of four layers of experts that DualPipe overlaps. The repository has no licence, so the table is
read from LOCKSTEP_DATA and never packaged. Nothing was fitted to it. Kernels that compute have 112 of 132
multiprocessors, the exchange has the others. Shapes are of the forward product; the source infers them from the order
of calls.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lockstep.describe.hardware import Device, cluster, device
from lockstep.describe.workload import model
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step.step import compose
from published_data import unpackaged

COMPUTING, ALL = 112, 132
EXPERTS = 4
"""On a rank, in one grouped product."""
RECIPE = Recipe(
    seq=4096, batch=4096, dtype="fp8", routing="forced", exchange="node", dispatch_B=1.0 + 4.0 / 128,
    recompute_modules=("mla_up_proj", "layernorm", "moe_act"),
)  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    return {row["row_id"]: row for row in unpackaged("deepseek_profile.csv")}


def part_of_h800() -> Device:
    whole = device("h800")
    return replace(whole, peak_flops={name: COMPUTING / ALL * flops for name, flops in whole.peak_flops.items()})


def products(rows: dict[str, dict[str, str]], part: str) -> list[float]:
    """Signed errors of the products of a part, on the multiprocessors that they have."""
    clock, errors = Clock(part_of_h800(), "fp8"), []
    for row in rows.values():
        if row["m"] and "attention" not in row["kernel_class"] and row["part"] == part:
            groups = EXPERTS if "grouped" in row["kernel_class"] else 1
            m, n, k = int(row["m"]) // groups, int(row["n"]), int(row["k"])
            shapes = {"backward, input gradient": (m, k, n), "backward, weight gradient": (n, k, m)}
            seconds = float(clock.matmul(*shapes.get(part, (m, n, k)), groups).device_s)
            errors.append(seconds / (float(row["median_us"]) * 1e-6) - 1)
    return errors


@pytest.mark.parametrize(
    ("part", "count"), [("forward", 9), ("backward, recomputed forward", 2), ("backward, input gradient", 9)]
)
def test_products_in_fp8_are_within_forty_three_percent(rows: dict[str, dict[str, str]], part: str, count: int) -> None:
    """Most take longer than here, 12 % in the median: scales of 1 x 128 elements, which no curve here has.

    As alone: with 112 multiprocessors at work the clock is held back less, and how much was not measured.
    """
    errors = products(rows, part)
    assert len(errors) == count
    assert max(map(abs, errors)) < 0.43
    assert np.median(np.abs(errors)) < 0.26


def test_weight_gradient_products_are_measured_slower_than_predicted(rows: dict[str, dict[str, str]]) -> None:
    """They add to gradients in fp32, with scales along tokens: a third longer, which no curve here has."""
    errors = products(rows, "backward, weight gradient")
    assert len(errors) == 7
    assert max(errors) < -0.10
    assert np.median(errors) > -0.40


@pytest.mark.parametrize(("row", "backward", "most"), [("dp05", False, 0.12), ("dp21", True, 0.30)])
def test_attention_runs_at_the_rate_of_flash_attention_3(
    rows: dict[str, dict[str, str]], row: str, backward: bool, most: float
) -> None:
    """Heads of 192 and 128, causal, one sequence of 4,096 tokens; FlashAttention 2 would take twice as long."""
    clock = Clock(part_of_h800(), "bf16", attention_kernel="flash3")
    flops = float(rows[row]["tflop_per_call_derived"]) * 1e12
    seconds = float(clock.fused_attention(flops, 4096, 192, True, backward).device_s)
    assert abs(seconds / (float(rows[row]["median_us"]) * 1e-6) - 1) < most


def test_a_dualpipe_cell_matches_the_trace(rows: dict[str, dict[str, str]]) -> None:
    """A forward and a backward pass of four layers beside their exchange: kernels within 15 %, all in 20 %."""
    ranks, stages = 64, 16
    job = Job(model("deepseek-v3"), RECIPE, ranks * stages)
    layout = Layout(dp=ranks, ep=ranks, pp=stages, schedule="dualpipe", zero=1, micro_batch=1, recompute="selective")
    body = compose(job, cluster("hgx-h800", gpus=job.devices), layout.grid()).body
    computing_s = float(body.compute_forward_s + body.compute_backward_s) * ALL / COMPUTING
    exchange_s = float(body.ep_forward_s + body.ep_backward_s)
    known = {row["kernel_class"]: float(row["total_ms"]) * 1e-3 for row in rows.values()}
    assert computing_s == pytest.approx(known["compute streams busy"], rel=0.15)
    assert max(computing_s, exchange_s) == pytest.approx(known["span, first to last kernel"], rel=0.20)
    # Kernels are longer, so here all of the exchange is hidden; in the trace 4 % of it ran alone.
    exchanged_s = known["all-to-all without notify, busy"]
    assert exchanged_s - known["all-to-all without notify, beside compute"] < 0.05 * exchanged_s
    # Beside kernels it took 1.6 times as long as DeepEP's benchmark of it alone, which the model follows.
    assert 0.55 < exchange_s / exchanged_s < 0.70
