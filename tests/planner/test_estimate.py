"""What an estimate says beside its seconds: accumulation steps, and its timeline."""

from __future__ import annotations

import pytest

import lockstep
from cli_runner import run

ASKED = ("gpt2", "dgx-a100-40gb:1")


@pytest.mark.parametrize(("dp", "micro_batch", "steps"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (4, 2, 8)])
def test_accumulation_steps_cover_the_share_of_a_replica(dp: int, micro_batch: int, steps: int) -> None:
    words = {"batch": 64, "tp": 8 // dp, "micro_batch": micro_batch}
    found = lockstep.estimate(*ASKED, **words).to_dict()
    assert found["accumulation_steps"] == steps == 64 // dp // micro_batch


def test_the_best_plan_reports_its_accumulation_steps() -> None:
    best = lockstep.plan(*ASKED, batch=64).to_dict()["plans"][0]
    layout = best["layout"]
    assert best["accumulation_steps"] * layout["dp"] * layout["micro_batch"] == 64
    told = run("plan", "gpt2", "--cluster", "dgx-a100-40gb:1", "--batch", "64").out
    assert f"({best['accumulation_steps']} accumulation step" in told


def test_a_timeline_draws_single_layers_only_on_request() -> None:
    found = lockstep.estimate(*ASKED, batch=64, tp=2, pp=2)
    usual, whole, each = (
        one.program for one in (found.timeline(), found.timeline(by_layer=False), found.timeline(by_layer=True))
    )
    assert len(usual) == len(whole) < len(each)


def test_utilisation_follows_the_mfu_convention() -> None:
    """Llama 3 8B at 8,192 tokens: attention is 4 l s h of a token's forward pass, a third of it in full."""
    asked = {"batch": 64, "dp": 8, "recompute": "full"}
    found = {
        name: lockstep.estimate("llama3-8b", "dgx-h100:1", mfu_convention=name, **asked)
        for name in ("full", "causal", "6n")
    }
    full, causal, six = (one.mfu_frac for one in found.values())
    shape = found["full"].job.transformer
    assert shape is not None
    per_s = found["full"].tokens_per_s_per_gpu / found["full"].cluster.device.peak("bf16")
    assert full - causal == pytest.approx(3 * 2 * shape.layers * 8192 * shape.hidden * per_s, rel=1e-9)
    assert six == pytest.approx(6 * 8.03026e9 * per_s, rel=1e-5)
    for one in found.values():
        assert one.step_time_s == found["full"].step_time_s
        assert 1.2 < one.hfu_frac / causal < 1.34
        assert any("model FLOPs" in said for said in one.assumptions())
    assert found["6n"].to_dict()["mfu_convention"] == "6n"


def test_a_deadline_does_not_depend_on_the_convention() -> None:
    asked = {"batch": 64, "tokens": "1G", "deadline": "2h"}
    found = [lockstep.plan("gpt2", "dgx-h100:1", mfu_convention=name, **asked).best for name in ("full", "6n")]
    assert found[0].layout == found[1].layout


def test_block_scaled_formats_are_priced_in_the_expected_order() -> None:
    """MXFP8 moves a thirty-second more than FP8; NVFP4 multiplies faster, but for the blocks that stay wide."""
    asked = {"batch": 128, "dp": 8, "tp": 8, "zero": 1, "micro_batch": 1}
    times = {
        dtype: lockstep.estimate("llama3-70b", "dgx-b200:8", dtype=dtype, **asked).step_time_s
        for dtype in ("bf16", "fp8", "mxfp8", "nvfp4")
    }
    assert times["bf16"] > times["mxfp8"] > times["fp8"]
    assert times["mxfp8"] < 1.02 * times["fp8"]
    assert times["mxfp8"] > times["nvfp4"]
    found = lockstep.estimate("llama3-70b", "dgx-b200:8", dtype="nvfp4", **asked)
    assert any("stay in bf16 with nvfp4" in said for said in found.assumptions())
    assert found.mfu_frac * found.cluster.device.peak("fp4") == pytest.approx(found.model_flops_per_gpu_per_s)


@pytest.mark.parametrize(
    ("cluster", "dtype"), [("dgx-h100:1", "mxfp8"), ("dgx-h100:1", "nvfp4"), ("mi355x-8:1", "nvfp4")]
)
def test_devices_without_block_scaling_refuse_these_formats(cluster: str, dtype: str) -> None:
    said = run("estimate", "llama3-8b", "-c", cluster, "--batch", "64", "--dtype", dtype).refusal()
    assert said.startswith("--dtype:")
    assert dtype in said
