"""States of optimizers to the byte: against runs of their libraries, and against their rules on written-down shapes.

`optimizer_states.json` was read off runs on a CPU of torch 2.13.0, transformers 5.24.0, bitsandbytes 0.50.2, torchao
0.18.0, galore-torch 1.0, schedulefree 1.4.1, lion-pytorch 0.2.5 and pytorch-optimizer 4.1.0: a model of every drawn
configuration took one step of a drawn optimizer, made by transformers' Trainer where `trainer` is true (muon: torch's
Muon for matrices of blocks and its AdamW for the rest), and the bytes of all states but the counters of steps were
added, those of a view with its whole storage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, model, parameters
from lockstep.price.layout import OPTIMIZERS, Job, Layout, Recipe, checkpoint_B, memory
from recipes import recipe_by

RUNS = json.loads(Path(__file__).with_name("optimizer_states.json").read_text("utf-8"))
CLUSTER = cluster("b200:1", gpus=1)


def held_B(described: Any, optimizer: str, zero: int = 0, **habits: Any) -> float:
    """Bytes of optimizer states on one device; the Trainer's master copy is the parameter itself."""
    job = Job(described, recipe_by("hf-trainer", seq=32, batch=1, optimizer=optimizer, **habits), 1)
    return float(memory(job, CLUSTER, Layout(zero=zero).grid()).optimizer_B)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['optimizer']}-{run['config']['model_type']}")
def test_states_equal_those_that_the_library_held(run: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(run["config"]), encoding="utf-8")
    found_B = held_B(model(file), run["optimizer"], wide_tables=run["trainer"])
    assert found_B == pytest.approx(run["states_B"], abs=0.01)


def test_the_runs_cover_every_optimizer_whose_tensors_differ() -> None:
    run = {one["optimizer"].partition(":")[0] for one in RUNS}
    assert {name for name, found in OPTIMIZERS.items() if found.tensor_B} <= run


LLAMA_1B = [((128256, 2048), 1), ((2048,), 33), ((2048, 2048), 32), ((512, 2048), 32), ((8192, 2048), 48)]
"""Shapes of Llama-3.2-1B's tensors and how many there are, the tied table first (named_parameters of its class)."""
GEMMA_2B = [((256000, 2048), 1), ((2048,), 37), ((2048, 2048), 36), ((256, 2048), 36), ((16384, 2048), 54)]


def summed(shapes: list[tuple[tuple[int, ...], int]], table: float, each: Callable[..., float], maps: float) -> float:
    (first, _), *rest = shapes
    return table * math.prod(first) + sum(count * each(math.prod(shape)) for shape, count in rest) + maps


@pytest.mark.parametrize(("name", "shapes"), [("llama3.2-1b", LLAMA_1B), ("gemma-2b", GEMMA_2B)])
def test_the_trainer_keeps_states_of_embeddings_in_fp32(name: str, shapes: list[tuple[tuple[int, ...], int]]) -> None:
    """Tables take 8 B a parameter, tied ones too; the rest a byte a moment and 4 B per 256 of them, norms 8 B."""
    assert sum(count * math.prod(shape) for shape, count in shapes) == parameters(model(name)).total
    adam = summed(shapes, 8.0, lambda n: 8 * n if n < 4096 else 2 * (n + n // 64), 2048)
    lion = summed(shapes, 4.0, lambda n: 4 * n if n < 4096 else n + n // 64, 1024)
    assert held_B(model(name), "adamw-8bit") == held_B(model(name), "adamw-8bit-no-master") == adam
    assert held_B(model(name), "lion-8bit") == lion
    alone = summed(shapes, 2 + 2 / 64, lambda n: 8 * n if n < 4096 else 2 * (n + n // 64), 2048)
    assert held_B(model(name), "adamw-8bit", wide_tables=False) == alone
    torchao = summed(shapes, 2 + 2 / 64, lambda n: 4 * n if n < 4096 else 2 * (n + n // 64 + 1024), 2048)
    assert held_B(model(name), "adamw-8bit-torchao-bf16") == torchao


@pytest.mark.parametrize(
    "optimizer", ["adamw-8bit", "lion-8bit-no-master", "adafactor", "galore:r=64", "adamw", "muon"]
)
def test_states_are_the_same_on_the_device_paged_offloaded_and_saved(optimizer: str) -> None:
    described = model("llama3.2-1b")
    job = Job(described, recipe_by("hf-trainer", seq=32, batch=1, optimizer=optimizer), 1)
    kept_B = held_B(described, optimizer)
    paged = memory(job, CLUSTER, Layout(offload="paged").grid())
    assert float(paged.optimizer_B + paged.host_B) == pytest.approx(kept_B, rel=1e-12)
    total, master_B = parameters(described).total, job.recipe.states.master_B
    assert checkpoint_B(job) == pytest.approx(kept_B + (2 + master_B) * total, rel=1e-12)
    away = memory(job, CLUSTER, Layout(offload="optimizer").grid())
    gradients_B = job.recipe.gradient_B * total
    assert float(away.host_B) == pytest.approx(kept_B + master_B * total + gradients_B, rel=1e-12)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_states_are_shared_out_like_the_parameters(optimizer: str) -> None:
    """Two stages, tensor-parallel ranks and shards hold the whole's states between them, replicated norms apart."""
    described = model("qwen3-8b")
    recipe = recipe_by("hf-trainer", seq=32, batch=64, optimizer=optimizer)
    whole_B = held_B(described, optimizer)
    for layout in (Layout(zero=3, dp=8), Layout(tp=8), Layout(pp=2, tp=4)):
        most_B = float(memory(Job(described, recipe, 8), cluster("dgx-h100:1"), layout.grid()).optimizer_B)
        assert whole_B / 8 * (1 - 1e-9) <= most_B <= whole_B / 8 * (1.02 if layout.pp == 1 else 1.6) + 2e6


@pytest.mark.parametrize(("rank", "optimizer", "adapters_B"), [
    (8, "adamw-8bit", 8 * 16 * 4 * 8 * (256 + 256)), (16, "lion-8bit", 16 * 4 * 2 * (16 * 256 + 4 * 16) + 1024),
])  # fmt: skip
def test_adapters_have_states_of_their_own_tensors(rank: int, optimizer: str, adapters_B: float) -> None:
    """A and B of four square projections in 16 layers; below 4,096 elements all states are wide and there is no map."""
    described = replace(model("llama3.2-1b"), hidden=256, attention=Attention(heads=4, kv_heads=4, head_dim=64))
    recipe = recipe_by("hf-trainer", seq=32, batch=1, optimizer=optimizer, train=f"lora:r={rank},targets=attention")
    assert float(memory(Job(described, recipe, 1), CLUSTER, Layout().grid()).optimizer_B) == adapters_B


def test_a_setting_after_a_name_is_read_or_refused() -> None:
    described = model("llama3.2-1b")
    assert held_B(described, "galore:r=128") == held_B(described, "galore")
    assert held_B(described, "galore-bf16:r=64") < held_B(described, "galore-bf16")
    assert held_B(described, "adamw-4bit-torchao:block=256") < held_B(described, "adamw-4bit-torchao")
    for text in ("galore:r=0", "galore:64", "galore:rank=64", "adamw:r=64", "galore:", "galore:r=99999999"):
        with pytest.raises(BadInput, match="is no setting of optimizer"):
            Recipe(seq=1, batch=1, optimizer=text)
    with pytest.raises(UnknownName, match="galor"):
        Recipe(seq=1, batch=1, optimizer="galor:r=64")
