"""What a plan for some software lists: of all layouts those that its configuration can be written for, and the best."""

from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.export import export
from lockstep.decide.planner.software import SOFTWARE
from lockstep.describe.stacks import stacks

CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("gpt2", "dgx-h100:1", {"batch": 16, "seq": 512}),
    ("llama3-8b", "dgx-a100-80gb:1", {"batch": 16, "seq": 4096}),
    ("mixtral-8x7b", "dgx-h100:2", {"batch": 32, "seq": 4096}),
)


def runs(one: Estimate, name: str) -> bool:
    try:
        export(one, SOFTWARE[name].target)
    except Infeasible:
        return False
    return True


@pytest.mark.parametrize("name", SOFTWARE)
@pytest.mark.parametrize(("model", "machine", "words"), CASES)
def test_a_plan_for_software_is_the_best_of_its_exportable_layouts(
    name: str, model: str, machine: str, words: dict[str, Any]
) -> None:
    stack = SOFTWARE[name].stack
    every = lockstep.plan(model, machine, objective="time", top=1000, stack=stack, **words)
    oracle = [one for one in every.plans if runs(one, name)]
    try:
        found = lockstep.plan(model, machine, objective="time", top=5, software=name, **words)
    except Infeasible:
        assert not oracle
        return
    assert all(runs(one, name) for one in (*found.plans, *found.front))
    assert found.best.job.recipe.stack == stack
    assert [one.step_time_s for one in found.plans][: len(oracle)] == [one.step_time_s for one in oracle[:5]]
    answer = found.to_dict()["export"]
    assert answer["text"] == lockstep.export(found).text == lockstep.export(found.best, to=answer["target"]).text


def test_the_front_is_that_of_the_layouts_that_can_be_run() -> None:
    every = lockstep.plan("gpt2", "dgx-h100:1", objective="time", top=1000, stack="torchtitan", batch=16, seq=512)
    assert every.findings.feasible > len(every.plans)
    found = lockstep.plan("gpt2", "dgx-h100:1", objective="time", software="torchtitan", batch=16, seq=512)
    for one in (one for one in every.plans if runs(one, "torchtitan")):
        better = [
            front
            for front in found.front
            if front.step_time_s <= one.step_time_s and float(front.memory.total_B) <= float(one.memory.total_B)
        ]
        assert better


def test_every_software_has_a_stack() -> None:
    assert {one.stack for one in SOFTWARE.values()} <= set(stacks())


def test_options_unsupported_by_the_software_are_refused_at_their_flag() -> None:
    question: dict[str, Any] = {"batch": 64, "software": "deepspeed"}
    for words, flag, said in (
        ({"cp": 2}, "--cp", "does not run 2; it has 1"),
        ({"schedule": "zb-h1,gpipe"}, "--schedule", "does not run zb-h1, gpipe; it has 1f1b"),
    ):
        with pytest.raises(BadInput, match=said) as caught:
            lockstep.plan("llama3-8b", "dgx-h100:4", **question, **words)
        assert caught.value.where == flag
    with pytest.raises(Infeasible, match="matrix products in fp8"):
        lockstep.plan("llama3-8b", "dgx-h100:4", **question, dtype="fp8")
    with pytest.raises(UnknownName, match="did you mean torchtitan"):
        lockstep.plan("llama3-8b", "dgx-h100:4", batch=64, software="torchtitn")


def test_an_explicit_stack_overrides_the_newest() -> None:
    found = lockstep.plan("gpt2", "dgx-a100-80gb:1", batch=16, software="megatron", stack="megatron-2022")
    assert found.best.job.recipe.stack == "megatron-2022"
