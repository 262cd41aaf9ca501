"""Where torch.autocast adds to a layer, and with which parts of ways; what these move: tests/capture/test_layers.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import DENSE, Transformer, layer_operations, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.formats import input_casts
from lockstep.price.kernels.operations import operation_works
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import inner_work, slot_work, stream_work
from lockstep.price.layout import Layout, Recipe
from recipes import recipe_by

TOKENS = 4096


def test_fsdp_and_frozen_models_are_in_half_precision() -> None:
    described = model("llama3-8b")
    assert isinstance(described, Transformer)
    for recipe, layout in (
        (Recipe.by("hf-trainer-5", seq=TOKENS, batch=8), Layout(dp=8, zero=3)),
        (Recipe.by("hf-trainer-5", seq=TOKENS, batch=8, train="lora:r=16,targets=all-linear"), Layout(dp=8)),
        (Recipe.by("hf-trainer", seq=TOKENS, batch=8), Layout(dp=8)),
    ):
        clock = Clock.of(cluster("dgx-h100:1").device, recipe)
        assert float(input_casts(Shard(described, layout.grid(), recipe, clock), DENSE).backward.stream_s) == 0.0


def test_a_way_without_a_row_for_fp32_moves_twice_its_bytes_in_as_many_kernels() -> None:
    """Of the stream under autocast; between products, which give half precision, it is as without."""
    described = model("llama3-8b")
    assert isinstance(described, Transformer)
    for layout, times in ((Layout(dp=8), 2.0), (Layout(dp=8, zero=3), 1.0)):
        recipe = recipe_by("hf-trainer-5", seq=TOKENS, batch=8, norm="one", gate="one")
        shard = Shard(described, layout.grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
        plain = slot_work(shard, "norm", 1e6)
        found = stream_work(shard, "norm", 1e6)
        assert float(found.forward.stream_s) == pytest.approx(times * float(plain.forward.stream_s))
        assert float(found.backward.kernels) == float(plain.backward.kernels)
        assert float(inner_work(shard, "gate", 1e6).forward.stream_s) == float(
            slot_work(shard, "gate", 1e6).forward.stream_s
        )


def test_the_rest_of_partially_rotated_heads_is_promoted_too() -> None:
    """apply_rotary_pos_emb of GPT-NeoX in transformers, a quarter of each head."""
    llama = model("llama3-8b")
    assert isinstance(llama, Transformer)
    shard = Shard(
        llama, Layout().grid(), recipe := Recipe.by("hf-trainer-5", seq=1, batch=1),
        Clock.of(cluster("dgx-h100:1").device, recipe),
    )  # fmt: skip
    whole, quarter = (inner_work(shard, "rotary", 1e6, share=share).forward.stream_s for share in (1.0, 0.25))
    assert 0.25 * float(whole) < float(quarter) < float(whole)


def test_normalised_queries_and_keys_are_rotated_in_fp32() -> None:
    """Qwen3RMSNorm gives the format of its weight under autocast, and its rotary embedding is then of fp32 alone."""
    described = model("qwen3-1.7b")
    assert isinstance(described, Transformer)
    bare = replace(described, attention=replace(described.attention, qk_norm="none"))
    recipe, found = Recipe.by("hf-trainer-5", seq=TOKENS, batch=1), []
    for one in (bare, described):
        shard = Shard(one, Layout().grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
        operations = [operation for operation in layer_operations(one, DENSE) if operation.does == "rotary"]
        found += [float(work.forward.stream_s) for _, work in operation_works(shard, operations)]
    parts = find_way("rotary", "written").parts
    passes = [sum(step.passes * step.times for step in parts[name].forward) for name in ("mixed", "widened")]
    assert found[1] / found[0] == pytest.approx(passes[1] / passes[0])
