"""What would make a run fit: every change is what a plan with its words finds, and what is said to fit does."""

import pytest

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.levers import ADAPTED, levers
from lockstep.decide.planner.pins import FREE, Pins
from lockstep.describe.hardware import cluster, clusters
from lockstep.describe.workload import model
from lockstep.price.layout import Recipe

QUESTION = {"batch": 64, "seq": 4096}


def asked(**words: object) -> Infeasible:
    with pytest.raises(Infeasible) as found:
        lockstep.plan("llama3-8b", "rtx-4090:1", **QUESTION, **words)
    return found.value


def words_of(text: str) -> dict[str, object]:
    """Options of a command line as keywords."""
    options = text.removeprefix("--").split(" --")
    return {name.replace("-", "_"): value for name, value in (option.split(" ") for option in options)}


def test_every_lever_matches_a_plan_with_its_options() -> None:
    found = asked().levers
    assert len(found.alone) >= 6
    assert [one.saved_B for one in found.alone] == sorted((one.saved_B for one in found.alone), reverse=True)
    for one in found.alone:
        (text,) = one.words
        if one.step_time_s is None:
            asked(**words_of(text))
        else:
            best = lockstep.plan("llama3-8b", "rtx-4090:1", **QUESTION, objective="time", **words_of(text)).best
            assert best.step_time_s == pytest.approx(one.step_time_s)


def test_active_options_are_not_offered_as_levers() -> None:
    small = Recipe.by("hf-trainer", seq=4096, batch=64, optimizer="adamw-8bit", cross_entropy="chunked", gradient_B=2.0,
                      offload_layers=4)  # fmt: skip
    found = levers(model("llama3-70b"), cluster("rtx-4090", gpus=1), small, FREE)
    said = {one.words[0] for one in found.alone}
    made = ("--optimizer", "--cross-entropy", "--gradient-bytes", "--offload-layers")
    assert not any(word.startswith(made) for word in said)
    adapted = levers(model("llama3-70b"), cluster("rtx-4090", gpus=1), Recipe.by("hf-trainer", seq=4096, batch=64,
                     train=ADAPTED, base="nf4"), Pins(offload=("optimizer",)))  # fmt: skip
    said = {one.words[0] for one in adapted.alone}
    assert not any("--train" in word or "--base" in word or word == "--offload optimizer" for word in said)


def test_combined_levers_fit_where_no_single_one_does() -> None:
    with pytest.raises(Infeasible) as error:
        lockstep.plan("llama3-70b", "dgx-a100-40gb", batch=64)
    found = error.value.levers
    keeping = [one for one in found.alone if not one.words[0].startswith("--train")]
    assert all(one.step_time_s is None for one in keeping)
    assert found.together is not None
    given = {name: value for text in found.together.words for name, value in words_of(text).items()}
    best = lockstep.plan("llama3-70b", "dgx-a100-40gb", batch=64, objective="time", **given).best
    assert best.step_time_s == pytest.approx(found.together.step_time_s)


def test_fewer_devices_do_not_fit() -> None:
    found = asked().levers
    assert found.more is not None
    price_usd = cluster("rtx-4090", gpus=8).price_per_hour_usd
    assert price_usd is not None
    assert (found.more.devices, found.more.price_per_hour_usd) == (8, pytest.approx(8 * price_usd))
    for devices in (2, 4):
        with pytest.raises(Infeasible):
            lockstep.plan("llama3-8b", "rtx-4090", gpus=devices, **QUESTION)
    best = lockstep.plan("llama3-8b", "rtx-4090", gpus=8, objective="time", **QUESTION).best
    assert best.step_time_s == pytest.approx(found.more.step_time_s)


def test_larger_devices_are_the_cheapest_that_fit() -> None:
    other = asked().levers.other
    assert other is not None
    best = lockstep.plan("llama3-8b", other.cluster, gpus=1, objective="time", **QUESTION).best
    assert best.step_time_s == pytest.approx(other.step_time_s)
    assert other.price_per_hour_usd == cluster(other.cluster).price_per_hour_usd
    for one in clusters():
        price = one.price_per_hour_usd
        if one.device.vendor in ("NVIDIA", "AMD") and price is not None and price < other.price_per_hour_usd:
            with pytest.raises(Infeasible):
                lockstep.plan("llama3-8b", one.name, gpus=1, **QUESTION)
