"""The sentence about bytes of state and the table of memory are of one computation, and the table says its moment."""

from __future__ import annotations

import random
import re

import pytest

import lockstep
from cli_runner import run
from effort import drawn
from lockstep.describe.stacks import stack, stacks
from lockstep.price.layout import Layout, stage_parameters

SENTENCE = re.compile(r"(\S+) B of state .* before sharding: (\S+) parameter \+ (\S+) gradient \+ (\S+) ")
DEVICES = 8
SHOWN = 5e-6
"""Of a number that the sentence has in six digits."""


def said(found: lockstep.show.verbs.memory.StageMemories) -> list[float]:
    (match,) = (SENTENCE.match(one) for one in found.to_dict()["assumptions"] if "B of state" in one)
    assert match is not None
    return [float(number) for number in match.groups()]


@pytest.mark.parametrize("name", sorted(stacks()))
def test_bytes_per_parameter_in_the_sentence_match_the_table(name: str) -> None:
    """Unsharded, rows are the sentence's bytes times all parameters; sharded, each is between that and an eighth."""
    draw = random.Random(f"26 {name}")
    for _ in range(drawn(24)):
        zero, optimizer = (
            draw.choice((0, 2, 3)),
            draw.choice(("adamw", "adamw-8bit", "adamw-no-master", "sgd-momentum")),
        )
        words = {"batch": draw.choice((8, 32)), "seq": 512, "micro_batch": 1, "optimizer": optimizer, "dp": DEVICES}
        found = lockstep.memory("gpt2", "dgx-h100:1", stack=name, zero=zero, **words)
        layout: Layout = found.layout
        elems = float(stage_parameters(found.job, layout.grid(), 0, found.job.stage_layers(1)[0]).total_elems)
        total, parameter, gradient, states = said(found)
        assert total == pytest.approx(parameter + gradient + states, rel=SHOWN)
        assert total == pytest.approx(found.to_dict()["bytes_per_parameter"], rel=SHOWN)
        memory = found.memory
        rows = float(memory.parameters_B), float(memory.gradients_B), float(memory.optimizer_B)
        for each, size_B, what in zip((parameter, gradient, states), rows, ("p", "gradients", "o"), strict=True):
            if what == "gradients" and not size_B and each:
                assert "no gradients are held then" in memory.when
                continue
            divided = zero or (what == "o" and stack(name).habits.divided_bf16_states)
            shares = (1, DEVICES) if divided else (1,)
            least = each * elems / shares[-1]
            assert least * (1 - SHOWN) <= size_B <= each * elems * (1 + SHOWN)
            if zero == 3 or what == "o":
                assert size_B == pytest.approx(least, rel=SHOWN) or what == "gradients"


def test_the_sentence_counts_fsdp_masters_as_parameters() -> None:
    """FSDP holds fp32 parameters and casts them when it gathers; what ZeRO-2 keeps gathered is cast."""
    for zero, parameter in ((3, 4.0), (2, 6.0)):
        found = lockstep.memory("llama3-8b", "dgx-h100:1", stack="fsdp-compile", zero=zero, batch=64, dp=8)
        assert said(found)[1:] == [parameter, 4.0, 8.0]


@pytest.mark.parametrize("verb", ["memory", "estimate"])
def test_the_memory_heading_names_the_moment(verb: str) -> None:
    words = ("llama3-8b", "-c", "dgx-h100:1", "--batch", "8", "--zero", "3", "--stack", "fsdp-compile")
    told = " ".join(run(verb, *words).out.split())
    found = run("memory", *words, "--json").json()["memory"]
    assert "at its fullest moment, the" in told
    assert (found["gradients_B"] == 0) == ("no gradients are held then" in told)
