"""Rows of tokens on their way to experts, casts, and copies of sequences: what kernels they add, by whose code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.base.errors import UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import DENSE, Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import expert_work, layer_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout
from lockstep.price.step import price_step
from recipes import recipe_by

CLUSTER = cluster("dgx-h100:1")
CODES = ("fused", "torchtitan", "transformers-5", "transformers-4", "megatron")


def shard(
    name: str = "qwen3-30b-a3b", stack: str = "hf-trainer-5", layout: Layout | None = None, **fields: Any
) -> Shard:
    """A rank of a model on H100."""
    found, recipe = model(name), recipe_by(stack, seq=4096, batch=8, **fields)
    assert isinstance(found, Transformer)
    return Shard(found, (layout or Layout()).grid(), recipe, Clock.of(CLUSTER.device, recipe))


def seconds(one: Shard) -> tuple[float, float]:
    """Of kernels that move memory in a layer's experts, forward and backward."""
    assert one.model.experts is not None
    found = expert_work(one)
    return float(found.forward.stream_s), float(found.backward.stream_s)


def test_an_unfused_permutation_takes_several_times_as_long_as_a_fused_one() -> None:
    there, back = zip(*(seconds(shard(permutation=code)) for code in CODES), strict=True)
    for way in (there, back):
        assert min(way[1:]) > 2.0 * way[0]
    compiled = seconds(shard(stack="torchtitan"))
    assert compiled < (there[1] / 2, back[1] / 2)


def test_permutation_code_does_not_affect_a_dense_model() -> None:
    whole = [layer_work(shard("llama3-8b", permutation=code), DENSE) for code in CODES]
    assert all(one == whole[0] for one in whole)


def test_sequential_experts_launch_once_each() -> None:
    """The device waits as long for each of twice the experts with half of the width and of the choices."""
    few = shard(permutation="transformers-4")
    moe = few.model.experts
    assert moe is not None
    many = replace(few, model=replace(few.model, experts=replace(moe, experts=2 * moe.experts)))
    launches = []
    for one in (few, many):
        assert one.model.experts is not None
        found = expert_work(one)
        launches.append((float(found.forward.kernels), float(found.backward.kernels)))
    assert launches[1][0] - launches[0][0] == pytest.approx(21.5 * moe.experts)
    assert launches[1][1] - launches[0][1] == pytest.approx(33 * moe.experts)
    waited_s = seconds(many)[0] - seconds(few)[0]
    assert waited_s == pytest.approx(5.5 * moe.experts * few.clock.launches_s[0], rel=0.01)


def test_an_unknown_permutation_is_named() -> None:
    with pytest.raises(UnknownName, match="way to run permutation 'torchtitans'; did you mean torchtitan"):
        recipe_by(seq=1, batch=1, permutation="torchtitans")


@pytest.mark.parametrize("scaling", ["current", "rows"])
def test_every_rank_casts_weights_that_are_gathered_in_half_precision(scaling: str) -> None:
    """Twice the tokens take twice as long for inputs and gradients; what is left is the weights."""
    once, twice = (
        layer_work(shard("llama3-8b", "torchtitan", Layout(micro_batch=many), dtype="fp8", scaling=scaling), DENSE)
        for many in (1, 2)
    )
    left_s = 2.0 * float(once.forward.stream_s + once.backward.stream_s)
    left_s -= float(twice.forward.stream_s + twice.backward.stream_s)
    weights = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    wanted_s = float(shard().clock.stream((3.1 + 27.0) * weights).stream_s) if scaling == "rows" else 0.0
    assert left_s == pytest.approx(wanted_s, rel=1e-6, abs=1e-9)


def test_dtensor_copies_around_gathers_and_reductions() -> None:
    """Eight copies of a whole micro-batch in a layer and pass, each read and written; without sequences split, none."""
    for split, wanted in ((True, 8.0), (False, 0.0)):
        layout = Layout(tp=8, sequence_parallel=split)
        made, none = (
            layer_work(shard("llama3-8b", "torchtitan", layout, distributed_tensors=on), DENSE) for on in (True, False)
        )
        unit_s = float(shard().clock.stream(2.0 * 4096 * 4096).stream_s)
        for way in ("forward", "backward"):
            more_s = float(getattr(made, way).stream_s - getattr(none, way).stream_s)
            assert more_s / unit_s == pytest.approx(wanted, abs=1e-6)
            assert float(getattr(made, way).kernels - getattr(none, way).kernels) == wanted / 2


def test_inputs_of_fp8_products_are_gathered_in_fp8() -> None:
    """With NeMo on H100 half of the bytes of a forward pass are left out, and a quarter of a backward one's."""
    job = Job(model("llama3-70b"), recipe_by("nemo-24", seq=8192, batch=8, dtype="fp8", overlap_tp="none"), 8)
    layout = Layout(tp=8, sequence_parallel=True).grid()
    wide = replace(job, recipe=job.recipe.having(narrow_gathers=False, narrow_reductions=False, gathers_again=False))
    narrow = replace(job, recipe=job.recipe.having(gathers_again=False))
    shares = [float(price_step(one, CLUSTER, layout).tp_comm_s) for one in (wide, narrow)]
    assert 0.55 < shares[1] / shares[0] < 0.7
    half = replace(wide, recipe=wide.recipe.having(dtype="bf16", narrow_gathers=True, narrow_reductions=True))
    assert float(price_step(half, CLUSTER, layout).tp_comm_s) == pytest.approx(shares[0], rel=1e-9)


def test_chunked_products_are_slower_only_with_several_ranks() -> None:
    for overlap, wanted in (("none", 1.0), ("all", 1.07)):
        for tp in (1, 4):
            one = shard("llama3-70b", "nemo-25", Layout(tp=tp, sequence_parallel=tp > 1), overlap_tp=overlap)
            bare = replace(one, recipe=one.recipe.having(overlap_tp="none"))
            ratio = layer_work(one, DENSE).forward.matmul_s / layer_work(bare, DENSE).forward.matmul_s
            assert float(ratio) == pytest.approx(wanted if tp > 1 else 1.0, rel=1e-6)


def test_stacks_of_pytorch_permute_as_their_code_does() -> None:
    found = {name: stack(name).ways["permutation"].name for name in ("torchtitan", "hf-trainer", "nemo-25")}
    assert found == {"torchtitan": "torchtitan", "hf-trainer": "transformers-4", "nemo-25": "apart"}
