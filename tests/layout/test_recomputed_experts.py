"""Blocks with experts that are computed again: what no longer waits, and what runs and travels twice."""

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import kept_tensors, model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.layout.kept import piece
from lockstep.price.step import price_step

MACHINE = cluster("dgx-h100:8")
LAYOUT = Layout(dp=64, ep=8, zero=1, recompute="selective")
INSIDE = ("expert ", "router ", "shared expert ")


def job(name: str, *modules: str, **changes: object) -> Job:
    recipe = Recipe(seq=4096, batch=64, recompute_modules=modules, **changes)  # type: ignore[arg-type]
    return Job(model(name), recipe, 64)


def waiting(name: str, *modules: str) -> set[str]:
    """Names of what a layer with experts keeps with selective recomputation of `modules`."""
    asked = job(name, *modules)
    (kind,) = {one for one in asked.kinds if one.block == "experts"}
    rows = kept_tensors(asked.transformer, piece(asked.recipe, LAYOUT.grid(), asked.transformer), kind)
    return {one.name for one in rows if one.kept_up_to >= 1}


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"])
def test_nothing_inside_the_block_waits_but_its_input(name: str) -> None:
    left, all_of_it = waiting(name, "moe"), waiting(name, "core_attn")
    assert {one for one in left if one.startswith(INSIDE)} == set()
    assert any(one.startswith(INSIDE) for one in all_of_it)
    assert "mlp input" in left


def test_shared_experts_alone_leave_the_routed_ones() -> None:
    left = waiting("deepseek-v3", "shared_experts")
    assert not any(one.startswith("shared expert") for one in left)
    assert any(one.startswith("expert ") for one in left)


def test_the_exchange_runs_once_more() -> None:
    """Two of four: dispatch and combine forward, and their gradients."""
    plain, again = (
        float(np.asarray(price_step(job("mixtral-8x7b", *modules), MACHINE, LAYOUT.grid()).ep_comm_s))
        for modules in (("core_attn",), ("moe",))
    )
    assert again == pytest.approx(1.5 * plain, rel=0.02)


def test_work_that_runs_again_is_the_forward_work_of_the_block() -> None:
    """HFU counts it, MFU does not: the least FLOPs are three products of two experts for every token."""
    asked = {"batch": 64, "seq": 4096, "dp": 64, "ep": 8, "zero": 1, "recompute": "selective"}
    plain, again = (
        lockstep.estimate("mixtral-8x7b", "dgx-h100:8", **asked, recompute_modules=one) for one in ("layernorm", "moe")
    )
    more = again.hfu_frac / again.mfu_frac - plain.hfu_frac / plain.mfu_frac
    mixtral = model("mixtral-8x7b")
    routed = 2 * 3 * 2 * mixtral.hidden * mixtral.experts.ffn * mixtral.layers
    assert more == pytest.approx(routed * 4096 * 64 / (again.mfu_frac * again.step_time_s * 64 * 989.4e12), rel=0.01)


@pytest.mark.parametrize(("name", "module"), [("llama3-8b", "moe"), ("mixtral-8x7b", "shared_experts")])
def test_a_module_that_the_model_lacks_is_refused(name: str, module: str) -> None:
    with pytest.raises(BadInput, match="experts"):
        lockstep.estimate(name, "dgx-h100:8", batch=64, recompute="selective", recompute_modules=module)
