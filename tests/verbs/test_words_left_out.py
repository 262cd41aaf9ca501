"""A word that is left out means the value that the documentation gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_overloads, is_typeddict

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.price.layout import Layout
from lockstep.show import verbs
from lockstep.show.verbs import converge
from lockstep.show.verbs.words.question import read_layout, read_question

LINK: dict[str, Any] = {"latency": 1e-6, "bandwidth": 1e9}


def test_every_overload_promises_the_defaults_of_the_function() -> None:
    defaults = {name: one.default for name, one in inspect.signature(converge.converge).parameters.items()}
    promised = get_overloads(inspect.unwrap(converge.converge))
    assert len(promised) == 2
    for overload in promised:
        for name, one in inspect.signature(overload).parameters.items():
            assert one.default in (inspect.Parameter.empty, defaults[name]), name


def test_every_option_group_is_optional() -> None:
    """A typed mapping of keywords requires none of them: what a verb must be told is an argument of its own."""
    modules = [import_module(one.name) for one in walk_packages(verbs.__path__, "lockstep.show.verbs.")]
    groups = {one for module in modules for one in vars(module).values() if is_typeddict(one)}
    assert len(groups) > 10
    assert {one.__name__: one.__required_keys__ for one in groups if one.__required_keys__} == {}


def test_the_default_layout_is_plain_data_parallelism() -> None:
    job = read_question("llama3-8b", "dgx-h100:1", batch=64).job
    plain = Layout(dp=8, tp=1, pp=1, cp=1, ep=1, vpp=1, micro_batch=1, zero=0, shard=0, schedule="1f1b")
    assert read_layout(job, {}) == plain
    assert read_layout(job, {"zero": 0, "shard": 0}) == plain
    assert read_layout(job, {"zero": 1}).zero == 1


@pytest.mark.parametrize("word", ["zero", "shard"])
def test_negative_sharding_stages_are_refused(word: str) -> None:
    job = read_question("llama3-8b", "dgx-h100:1", batch=64).job
    with pytest.raises(BadInput) as caught:
        read_layout(job, {word: -1})
    assert caught.value.where == f"--{word}"


@pytest.mark.parametrize("verb", [lockstep.estimate, lockstep.memory, lockstep.roofline])
def test_a_layout_object_is_checked_like_its_options(verb: Callable[..., object]) -> None:
    """Rules come first, then words that mean nothing: here --overlap-tp without tensor parallelism."""
    asked: dict[str, Any] = {"batch": 64, "overlap_tp": "all"}
    said = []
    for given in ({"dp": 4, "tp": 1}, {"layout": Layout(dp=4)}):
        with pytest.raises(BadInput) as caught:
            verb("llama3-8b", "dgx-h100:1", **asked, **given)
        said.append(str(caught.value))
    assert "4 ranks, but there are 8 devices" in said[0]
    assert said[0] == said[1]
    with pytest.raises(BadInput, match="no tensor parallelism"):
        verb("llama3-8b", "dgx-h100:1", Layout(dp=8), **asked)


def test_experts_defaults_to_top_2_without_shared_experts() -> None:
    asked: dict[str, Any] = {"experts": 8, "tokens": 64, "ranks": 4, **LINK}
    said = {"top_k": 2, "skew": 0, "token_size": 8192, "shared": 0, "placement": "contiguous", "seed": 0, "noise": 1}
    assert lockstep.experts(**asked).to_dict() == lockstep.experts(**asked, **said).to_dict()


def test_a_shared_expert_works_on_every_token_evenly_over_the_ranks() -> None:
    """Two of each of 64 tokens on 4 ranks are 32 per rank; every shared expert adds 16 to the busiest and the mean."""
    asked: dict[str, Any] = {"experts": 8, "top_k": 2, "tokens": 64, "ranks": 4, "skew": 1, **LINK}
    alone = lockstep.experts(**asked).compute_slowdown
    assert alone > 1
    for shared in (1, 3):
        beside = lockstep.experts(**asked, shared=shared).compute_slowdown
        assert beside == pytest.approx((32 * alone + 16 * shared) / (32 + 16 * shared))


def test_export_reports_the_planned_layout_only_where_it_differs() -> None:
    named = lockstep.export("gpt2", "dgx-a100-40gb:1", to="megatron", batch=64, dp=8)
    said = named.to_dict()
    assert said["planned"] is None
    assert said["layout"] == named.estimate.layout.to_dict()
    assert (said["to"], said["text"]) == ("megatron", named.text)
    better = lockstep.estimate("gpt2", "dgx-a100-40gb:1", batch=64, dp=8, zero=1)
    instead = replace(named, planned=better).to_dict()
    assert instead.pop("planned") == {"layout": better.layout.to_dict(), "step_time_s": better.step_time_s}
    assert instead == {name: value for name, value in said.items() if name != "planned"}
