"""DeepSpeed's limits in elements, from its configuration file and back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.export.deepspeed import deepspeed
from lockstep.decide.planner.export.refusals import Placed
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.show.verbs.estimate import read_asked
from lockstep.simulate.parallel.data.coordinator import Limits, read_limits

MODEL, HIDDEN = "llama3-8b", 4096


def limits_of(folder: Path, **section: Any) -> Limits:
    """The limits with which a run of this `zero_optimization` is priced."""
    file = folder / "ds.json"
    file.write_text(json.dumps({"train_micro_batch_size_per_gpu": 1, "zero_optimization": section}))
    asked, _ = read_asked(f"{MODEL}@{file}", "dgx-h100:1", None, {"seq": 1024})
    return read_limits(asked.job.recipe.software.options.gather_limits)


def test_stage_3_keys_set_the_gather_limits(tmp_path: Path) -> None:
    said = {"stage3_max_reuse_distance": 0, "stage3_max_live_parameters": 3e8, "stage3_prefetch_bucket_size": 7,
            "stage3_param_persistence_threshold": 1e4}  # fmt: skip
    assert limits_of(tmp_path, stage=3, **said) == Limits(0, 3 * 10**8, 7, 10**4)
    assert limits_of(tmp_path, stage=3) == Limits()
    assert limits_of(tmp_path, stage=2, **said) == Limits()


def test_auto_values_are_filled_in_as_in_transformers(tmp_path: Path) -> None:
    """Of a width h: 0.9 h h to prefetch and 10 h that persist (transformers 5.24, integrations/deepspeed.py)."""
    auto = {"stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}
    found = limits_of(tmp_path, stage=3, **auto)
    assert (found.prefetch_bucket_size, found.param_persistence_threshold) == (15099494, 10 * HIDDEN)


@pytest.mark.parametrize("value", [-1, 0.5, True, "many", [1]])
def test_an_invalid_gather_limit_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="stage3_max_reuse_distance"):
        limits_of(tmp_path, stage=3, stage3_max_reuse_distance=value)


def test_gather_limits_round_trip(tmp_path: Path) -> None:
    text = "max_reuse_distance=0,prefetch_bucket_size=20000000"
    recipe = Recipe.by("deepspeed", seq=1024, batch=8, gradient_B=2.0, gather_limits=text)
    placed = Placed(Job(model(MODEL), recipe, 8), Layout(dp=8, zero=3))
    section = json.loads(deepspeed(placed))["zero_optimization"]
    assert {name: number for name, number in section.items() if name.startswith("stage3")} == {
        "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 20_000_000,
    }  # fmt: skip
    assert limits_of(tmp_path, **section) == read_limits(text)
    usual = replace(placed, job=replace(placed.job, recipe=recipe.having(gather_limits="")))
    assert not [name for name in json.loads(deepspeed(usual))["zero_optimization"] if name.startswith("stage3")]


@pytest.mark.parametrize("words", [{"zero": 3}, {"zero": 2, "sharding": "deepspeed"}])
def test_unused_gather_limits_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"gather.limits"):
        lockstep.estimate(MODEL, "dgx-h100:1", batch=8, gather_limits="max_reuse_distance=0", **words)


@pytest.mark.parametrize(
    ("zero", "overlap", "buffers"), [(1, True, 2), (2, True, 2), (2, False, 1), (3, True, 1), (0, True, 0)]
)
def test_gradients_are_reduced_in_buffers_of_the_bucket(zero: int, overlap: bool, buffers: int) -> None:
    """Two where reductions overlap with stages 1 and 2, one at stage 3, in half precision."""

    def allocated_B(elements: int) -> float:
        limits = {"gather_limits": f"reduce_bucket_size={elements}"} if zero else {}
        found = lockstep.memory(MODEL, "dgx-h100:1", batch=8, seq=1024, zero=zero, overlap=overlap, stack="deepspeed",
                                **limits)  # fmt: skip
        return float(found.memory.allocated_B)

    assert allocated_B(10**8) - allocated_B(0) == pytest.approx(buffers * 2e8)


@pytest.mark.parametrize(("said", "elements"), [(3e8, 3 * 10**8), ("auto", HIDDEN**2), (None, 5 * 10**8)])
def test_the_bucket_of_a_configuration_is_read(said: object, elements: int, tmp_path: Path) -> None:
    section = {} if said is None else {"reduce_bucket_size": said}
    assert limits_of(tmp_path, stage=2, **section).reduce_bucket_size == elements


def test_one_device_accepts_a_bucket(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    section = {"stage": 2, "reduce_bucket_size": 2e8}
    file.write_text(json.dumps({"train_micro_batch_size_per_gpu": 1, "zero_optimization": section}))
    assert lockstep.memory(f"{MODEL}@{file}", "rtx-4090:1", seq=128).memory.total_B > 0
