"""The layout that verbs take where none is given, or only a part of one."""

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import Infeasible
from lockstep.base.types.plain import Json
from lockstep.price.layout import Layout

ASKED = ("llama3-8b", "dgx-h100:2")
WORDS = {"batch": 64, "seq": 4096}
FLAGS = ("-c", ASKED[1], "--batch", "64", "--seq", "4096")
NOTE = "the plan's best layout of"


def _layout(verb: str, *more: str) -> Json:
    """The layout in the JSON answer of a verb, which must say that nobody gave it."""
    answer = run(verb, ASKED[0], *FLAGS, *more, "--json").json()
    assert any(one.startswith(NOTE) for one in answer["assumptions"]), verb
    found = answer["layout"]
    assert isinstance(found, dict)
    return found


def test_every_verb_defaults_to_the_best_layout_of_plan() -> None:
    """They disagreed: some took one replica per device, which does not fit here."""
    best = lockstep.plan(*ASKED, **WORDS).best.layout.to_dict()
    for verb in ("estimate", "memory", "roofline", "sensitivity"):
        assert _layout(verb) == best, verb
    assert _layout("export", "--to", "megatron") == best
    campaign = lockstep.campaign(*ASKED, tokens=1e12, campaigns=2, **WORDS)
    assert campaign.scenario.estimate.layout.to_dict() == best
    assert any(one.startswith(NOTE) for one in campaign.assumptions)
    compared = lockstep.compare(ASKED[0], "stack=torchtitan", ASKED[1], **WORDS)
    assert compared.a.memory_B == lockstep.compare(lockstep.plan(*ASKED, **WORDS), "zero=1").a.memory_B


def test_offload_alone_still_searches_the_layout() -> None:
    found = lockstep.estimate("llama3-8b", "l40s", batch=8, seq=2048, offload="optimizer")
    assert found.layout == lockstep.plan("llama3-8b", "l40s", batch=8, seq=2048, offload="optimizer").best.layout


def test_every_verb_is_infeasible_like_plan_where_nothing_fits() -> None:
    asked = {"cluster": "rtx-4090:1", "batch": 8, "seq": 2048}
    with pytest.raises(Infeasible) as planned:
        lockstep.plan("llama3-70b", **asked)
    for verb in (lockstep.estimate, lockstep.memory, lockstep.roofline, lockstep.sensitivity):
        with pytest.raises(Infeasible) as error:
            verb("llama3-70b", **asked)
        assert str(error.value) == str(planned.value)
        assert error.value.find_levers is not None


PARTS: list[Json] = [
    {"tp": 8},
    {"tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True},
    {"zero": 3},
    {"pp": 4, "vpp": 2, "recompute": "full"},
    {"pp": 4, "schedule": "gpipe", "recompute": "full", "zero": 1},
    {"pp": 2, "stages": "17,15", "zero": 1},
]


@pytest.mark.parametrize("given", PARTS, ids=str)
def test_an_unset_micro_batch_is_chosen_as_in_plan(given: Json) -> None:
    """All else is as Megatron-LM's flags have it: 1 for a degree, nothing sharded, nothing recomputed."""
    found = lockstep.estimate(*ASKED, **WORDS, **given)
    plain = Layout(schedule="interleaved" if "vpp" in given else "1f1b").to_dict()
    named = ("tp", "pp", "cp", "vpp", "zero", "recompute", "sequence_parallel", "schedule")
    pinned = {name: plain[name] for name in named} | given
    assert found.layout == lockstep.plan(*ASKED, **WORDS, **pinned, shard=0).best.layout
    assert found.job.recipe.notes[0].startswith(f"micro-batch {found.layout.micro_batch}, the plan's choice")


def test_no_other_micro_batch_that_fits_is_clearly_faster() -> None:
    given = {"tp": 2, "stack": "megatron-te"}
    found = lockstep.estimate("gpt2", "dgx-h100:1", batch=64, **given)
    assert found.layout.micro_batch > 1
    for size in (1, 2, 4, 8, 16):
        other = lockstep.estimate("gpt2", "dgx-h100:1", batch=64, micro_batch=size, **given)
        assert not other.memory.fits or other.step_time_s > 0.97 * found.step_time_s


def test_the_micro_batch_is_one_with_a_note_where_none_fits() -> None:
    found = lockstep.estimate("llama3-70b", "dgx-h100:1", batch=64, dp=8)
    assert found.layout.micro_batch == 1
    assert not found.memory.fits
    assert "no size fits" in found.assumptions()[0]
    given = lockstep.estimate("llama3-70b", "dgx-h100:1", batch=64, dp=8, micro_batch=1)
    assert "micro-batch" not in given.assumptions()[0]
