"""What is decided of a layout holds in every layout that a search lists, and costs no better layout."""

import random
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.decide.planner.result import Plan

QUESTION: dict[str, Any] = {"batch": 32, "seq": 2048, "objective": "time"}
VALUES: dict[str, tuple[Any, ...]] = {
    "tp": (1, 2, 4),
    "pp": (1, 2, 4),
    "cp": (1, 2),
    "micro_batch": (1, 2, 4),
    "zero": (0, 1, 3),
    "recompute": ("none", "selective", "full"),
    "schedule": ("1f1b", "interleaved", "zb-h1"),
    "sequence_parallel": (True, False),
}


def planned(**pins: Any) -> Plan:
    return lockstep.plan("llama3-8b", "dgx-a100-80gb:1", **QUESTION, **pins)


FREE = planned(top=1000)


def agrees(layout: Any, pins: dict[str, Any]) -> bool:
    """Whether a layout has one of the values of every pin; a schedule is one of pipelines alone."""
    return all(
        getattr(layout, name) in (given if isinstance(given, list) else [given])
        for name, given in pins.items()
        if name != "schedule" or layout.pp > 1
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_pins_select_the_agreeing_layouts_of_the_free_search(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(sorted(VALUES), draw.choice((1, 2, 3)))
    alone = "sequence_parallel"
    pins: dict[str, Any] = {name: draw.choice(VALUES[name]) for name in names}
    listed = [name for name in names if name != alone]
    if listed:
        pins[listed[0]] = draw.sample(VALUES[listed[0]], 2)
    oracle = [one for one in FREE.plans if agrees(one.layout, pins)]
    try:
        found = planned(top=1000, **pins)
    except (Infeasible, BadInput):
        assert not oracle
        return
    assert all(agrees(one.layout, pins) for one in (*found.plans, *found.front))
    ours = {str(one.layout): one.step_time_s for one in found.plans}
    assert all(ours[str(one.layout)] == pytest.approx(one.step_time_s, rel=1e-9) for one in oracle)


@pytest.mark.parametrize(("name", "values"), [("micro_batch", [1, 3, 5]), ("tp", [2, 8]), ("zero", [0, 2])])
def test_a_list_is_as_good_as_the_best_of_its_values(name: str, values: list[int]) -> None:
    alone = []
    for value in values:
        try:
            alone.append(planned(**{name: value}).best.step_time_s)
        except (Infeasible, BadInput):
            continue
    assert planned(**{name: values}).best.step_time_s == pytest.approx(min(alone), rel=1e-12)


def test_pins_may_have_values_outside_the_default_space() -> None:
    found = lockstep.plan("llama3-8b", "dgx-a100-80gb:1", batch=30, seq=2048, micro_batch=5)
    assert {one.layout.micro_batch for one in found.plans} == {5}
    assert {one.layout.schedule for one in planned(schedule="zb-v", pp=4).plans} == {"zb-v"}
    assert {one.layout.shard for one in planned(zero=3, shard=2, pp=1).plans} == {2}
    stages = planned(stages=[9, 8, 8, 7], tp=2, dp=1, micro_batch=1).plans
    assert {one.layout.stages for one in stages} == {(9, 8, 8, 7)}


@pytest.mark.parametrize(
    ("pins", "flag", "said"),
    [
        ({"tp": 3}, "--tp", "does not divide 32 attention heads"),
        ({"tp": "x"}, "--tp", "not a count"),
        ({"zero": 5}, "--zero", "0, 1, 2 or 3"),
        ({"micro_batch": 0}, "--micro-batch", "at least 1"),
        ({"stages": [9, 8, 8, 8]}, "--stages", "32"),
        ({"stages": "best"}, "--stages", "lockstep estimate"),
    ],
)
def test_impossible_pins_are_refused_at_their_option(pins: dict[str, Any], flag: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        planned(**pins)
    assert caught.value.where == flag
    assert said in str(caught.value)


def test_unknown_values_name_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean interleaved"):
        planned(schedule="1f1b,interleavd")


def test_several_values_of_the_recipe_are_one_search() -> None:
    values = {"dtype": ("bf16", "fp16"), "optimizer": ("adamw", "adamw-8bit")}
    found = planned(dtype="bf16,fp16", optimizer=["adamw", "adamw-8bit"])
    alone = {
        f"--dtype {dtype} --optimizer {optimizer}": planned(dtype=dtype, optimizer=optimizer).best
        for dtype in values["dtype"]
        for optimizer in values["optimizer"]
    }
    assert {one.words: one.step_time_s for one in found.choices} == {
        words: best.step_time_s for words, best in alone.items()
    }
    assert found.best.step_time_s == min(best.step_time_s for best in alone.values())
    assert found.to_dict()["choices"][0]["step_time_s"] == found.best.step_time_s
    assert planned(dtype="bf16").choices == ()


def test_recipes_that_fit_nowhere_give_a_reason() -> None:
    words: dict[str, Any] = {"batch": 8, "seq": 2048, "train": "full;lora:r=16,targets=all-linear"}
    found = lockstep.plan("llama3-8b", "a100-sxm-80gb:1", **words)
    assert found.best.job.recipe.train.startswith("lora")
    (full,) = (one for one in found.choices if one.layout is None)
    assert full.words == "--train full"
    assert "does not fit" in (full.why_not or "")
    with pytest.raises(Infeasible, match="does not fit"):
        lockstep.plan("llama3-70b", "a100-sxm-80gb:1", **words)


def test_several_batches_are_several_plans() -> None:
    assert (
        len(lockstep.plan("gpt2", "dgx-a100-80gb:1", batch=[16, 32], seq=512, dtype="bf16,fp16").to_dict()["rows"]) == 2
    )


def test_too_many_recipes_are_refused() -> None:
    with pytest.raises(BadInput, match="36 recipes"):
        planned(gradient_bytes=[2, 4], dtype="bf16,fp16", optimizer="adam,adamw,adamw-8bit", offload_layers="0,1,2")
