"""The search for a split and an engine against every choice asked by itself."""

from __future__ import annotations

from itertools import product

import pytest

import lockstep
from lockstep.base.errors import BadInput

MACHINE = ("llama3-8b", "dgx-h100:3")
ASKED = {"prompts": 24, "group": 8, "prompt_tokens": 256, "response": "lognormal:mean=500,cv=1", "max_response": "2k"}
TRAINED = {"trainer": "zero=3", "train_batch": 96}


@pytest.mark.parametrize("staleness", [0, 1])
def test_the_search_finds_the_best_of_all_choices(staleness: int) -> None:
    words = {**ASKED, **TRAINED, "staleness": staleness}
    found = lockstep.rollout(*MACHINE, **words, search=True)
    splits = (8, 16) if staleness else (None, 8, 16)
    alone = []
    for split, ranks in product(splits, (1, 2, 4, 8)):
        step = lockstep.rollout(*MACHINE, **words, split=split, rollout_tp=ranks).step
        assert step is not None
        alone.append((not step.fits, step.step_time_s))
    assert found.step is not None
    assert found.step.step_time_s == min(alone)[1]
    first = found.choices[0]
    assert (first.step_time_s, first.tp) == (found.step.step_time_s, found.engine.tp)
    assert [not one.fits for one in found.choices] == sorted(not one.fits for one in found.choices)


def test_devices_of_one_node_are_split_one_by_one() -> None:
    found = lockstep.rollout(
        "gpt2", "l40s:4", **{**ASKED, "max_response": "512"}, trainer="zero=1", staleness=1, search=True
    )
    assert {one.generating for one in found.choices} <= {1, 2, 3}
    assert all(one.generating + one.training == 4 for one in found.choices)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"search": True}, "give --trainer too"),
        ({"search": True, "split": 8, **TRAINED}, "is what --search finds"),
        ({"search": True, "rollout_tp": 2, **TRAINED}, "is what --search finds"),
        ({"search": True, **TRAINED, "trainer": "tp=64"}, "no split and no engine is possible"),
    ],
)
def test_searches_that_cannot_be(words: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.rollout(*MACHINE, **ASKED, **words)


def test_a_split_that_cannot_train_is_left_out() -> None:
    """32B with its reference does not fit on one node of those that would be left to it."""
    found = lockstep.rollout("qwen3-32b", "dgx-h100:4", **ASKED, trainer="plan", staleness=1, search=True)
    assert found.choices
    assert 8 not in {one.training for one in found.choices}
    assert found.step is not None
    assert found.step.fits
