"""Rollouts: parts that add up, curves that hold every token, tails, and engines that share the work."""

from __future__ import annotations

import numpy as np
import pytest

import lockstep
from lockstep.decide.planner.rollout import Rollout

WORDS = {"prompts": 64, "group": 4, "prompt_tokens": 128, "response": "lognormal:mean=500,cv=1", "max_response": "4k"}


def _asked(cluster: str = "dgx-h100:1", **words: object) -> Rollout:
    return lockstep.rollout("llama3-8b", cluster, **{**WORDS, **words})


@pytest.fixture(scope="module")
def found() -> Rollout:
    return _asked()


def test_parts_add_up_to_the_time_and_the_largest_is_named(found: Rollout) -> None:
    assert sum(found.breakdown_s.values()) == pytest.approx(found.time_s, rel=1e-9)
    assert min(found.breakdown_s.values()) >= 0
    assert found.breakdown_s[found.bound_by] == max(found.breakdown_s.values())


def test_parts_of_experts_and_exchanges_add_up_too() -> None:
    words = {**WORDS, "rollout_tp": 2, "attention_dp": 2, "rollout_ep": 4}
    several = lockstep.rollout("qwen3-30b-a3b", "dgx-h100:1", **words)
    assert sum(several.breakdown_s.values()) == pytest.approx(several.time_s, rel=1e-9)
    assert {"experts", "exchange"} <= {*several.breakdown_s}


def test_curves_hold_every_token_and_never_more_answers_than_there_are(found: Rollout) -> None:
    times = np.diff([0.0, *(one.time_s for one in found.moments)])
    made = sum(width * one.tokens_per_s for width, one in zip(times, found.moments, strict=True))
    assert made == pytest.approx(found.tokens, rel=1e-6)
    assert found.moments[-1].time_s == pytest.approx(found.time_s)
    assert max(one.in_flight for one in found.moments) <= found.answers
    held = sum(width * one.in_flight for width, one in zip(times, found.moments, strict=True))
    assert held == pytest.approx(found.token_s * found.tokens, rel=1e-6)


def test_the_tail_holds_the_share_that_was_asked_for(found: Rollout) -> None:
    tails = [_asked(tail=share).tail_s for share in ("1%", "10%", "50%")]
    assert tails == sorted(tails)
    assert tails[1] == found.tail_s
    assert _asked(response="512", tail="10%").tail_s == 0
    everything = _asked(tail="100%")
    assert everything.tail_s == pytest.approx(everything.time_s)


def test_twice_the_devices_are_faster_and_less_than_twice_as_fast() -> None:
    """The longest answer takes as long on any number of engines."""
    one, two = _asked(), _asked("dgx-h100:2")
    assert one.time_s / 2 < two.time_s < one.time_s
    assert two.idle_frac > 0


def test_engines_without_prompts_are_idle() -> None:
    few = _asked(prompts=2, response="256")
    assert few.engines == 8
    assert few.idle_frac == pytest.approx(6 / 8)


def test_lengths_are_the_same_for_a_seed_and_others_for_another(found: Rollout) -> None:
    assert _asked().to_dict() == found.to_dict()
    assert _asked(seed=1).tokens != found.tokens
    assert found.longest <= 4096
    assert found.interval.low < found.time_s < found.interval.high


def test_narrower_weights_and_caches_hold_more_answers_and_take_less_time(found: Rollout) -> None:
    narrow = _asked(weights_dtype="fp8", kv_dtype="fp8")
    assert narrow.held > 2 * found.held
    assert narrow.time_s < found.time_s
