"""Memory over a step by what it holds: it adds up to the memory answer, to the program, and to what a capture has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import lockstep
from lockstep.base.types.plain import Json
from lockstep.base.units import format_size
from lockstep.decide.planner.estimate import Estimate
from lockstep.describe.captured import CATEGORIES
from lockstep.price.layout import FRAMEWORK_B, kept_by_name, stage_memory, states_by_name
from lockstep.price.step.program import activations_B
from lockstep.show.views.page.columns import unpacked
from lockstep.show.views.page.held import ACTIVATIONS, APART, captured_form, held_forms
from ui.asking import WORDS

ASKED: dict[str, tuple[tuple[str, str], Json]] = {
    "pipeline": (("llama3-8b", "dgx-h100:2"), {"batch": 64, "tp": 2, "pp": 4, "zero": 1, "sequence_parallel": True}),
    "recomputed": (("llama3-8b", "dgx-h100:2"), {"batch": 64, "zero": 3, "recompute": "full"}),
    "chunks": (("llama3-8b", "dgx-h100:2"), {"batch": 64, "pp": 4, "vpp": 2, "zero": 1, "schedule": "interleaved"}),
    "experts": (("mixtral-8x7b", "dgx-h100:4"), {"batch": 64, "pp": 4, "ep": 8, "zero": 1, "schedule": "zb-h1"}),
}
CAPTURE = Path(__file__).parents[2] / "examples" / "pretrain.capture"
PAGE = {**WORDS, "tp": "2", "pp": "2", "dp": "4", "sequence_parallel": "yes"}
IT = "document.querySelector('.ls-view')?.lockstep"


@cache
def asked(name: str) -> Estimate:
    given, words = ASKED[name]
    return lockstep.estimate(*given, **words)


def stack_of(form: Json) -> dict[str, Any]:
    return {one["name"]: unpacked(one["used_B"]) for one in form["stack"]}


def alive_B(form: Json, time_s: float) -> dict[str, float]:
    """Bytes by category of what lives at a moment."""
    lives, found = form["lives"], dict[str, float]()
    columns = (unpacked(lives[name]).tolist() for name in ("born_s", "died_s", "size_B"))
    for category, born_s, died_s, size_B in zip(lives["category"], *columns, strict=True):
        if born_s <= time_s < died_s:
            found[category] = found.get(category, 0.0) + size_B
    return found


@pytest.mark.parametrize("name", ASKED)
def test_the_fullest_moment_is_that_of_the_memory_answer(name: str) -> None:
    one = asked(name)
    for stage, form in enumerate(held_forms(one, one.timeline())):
        memory, stack = stage_memory(one.job, one.cluster, one.layout.grid(), stage), stack_of(form)
        total_B = sum(stack.values())
        assert np.allclose(total_B, unpacked(form["used_B"]))
        assert total_B.max() == pytest.approx(float(memory.total_B))
        assert (total_B - stack[APART]).max() == pytest.approx(float(memory.allocated_B))
        assert form["reserved_B"] == pytest.approx(float(memory.reserved_B) + FRAMEWORK_B)
        for category in ("parameters", "gradients", "optimizer"):
            assert stack[category].max() == pytest.approx(float(getattr(memory, f"{category}_B")))
        assert stack[ACTIVATIONS].max() == pytest.approx(float(memory.activations_B))


@pytest.mark.parametrize("name", ASKED)
def test_micro_batches_are_the_activations_of_every_moment(name: str) -> None:
    one = asked(name)
    for form in held_forms(one, one.timeline()):
        times_s, kept_B = unpacked(form["times_s"]), stack_of(form)[ACTIVATIONS]
        # Of several changes at one moment the last one is what is held from then on.
        last = np.append(np.diff(times_s) > 0, True)
        for time_s, size_B in list(zip(times_s[last], kept_B[last], strict=True))[:: max(1, len(times_s) // 40)]:
            assert alive_B(form, time_s).get(ACTIVATIONS, 0.0) == pytest.approx(size_B, abs=1.0)


@pytest.mark.parametrize("name", ASKED)
def test_tensors_add_up_to_what_the_program_keeps(name: str) -> None:
    one = asked(name)
    each_B = activations_B(one.job, one.cluster, one.layout)
    for stage in range(one.layout.pp):
        kept = kept_by_name(one.job, one.layout.grid(), stage)
        assert sum(kept.values()) == pytest.approx(float(each_B[stage]))
        for shares in states_by_name(one.job, one.layout.grid(), stage).values():
            assert sum(shares.values()) == pytest.approx(1.0)


def test_shares_of_weights_are_those_of_their_numbers() -> None:
    """A quarter of Llama 3 8B's layers and the table of 128,256 tokens, each cut in two."""
    shares = states_by_name(asked("pipeline").job, asked("pipeline").layout.grid(), 0)["parameters"]
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    whole = 128256 * 4096 / 2 + 8 * (layer / 2 + 2 * 4096)
    assert shares["token embedding"] == pytest.approx(128256 * 4096 / 2 / whole)
    assert shares["gate"] == pytest.approx(8 * 4096 * 14336 / 2 / whole)


def test_full_recomputation_keeps_the_inputs_of_layers_alone() -> None:
    one = asked("recomputed")
    kept = kept_by_name(one.job, one.layout.grid(), 0)
    assert kept == {"layer input": pytest.approx(32 * one.layout.micro_batch * 8192 * 4096 * 2)}


def test_tensors_of_a_capture_are_what_it_holds() -> None:
    found = lockstep.memory(CAPTURE, cluster="dgx-a100-40gb:4", at={"layers": 6, "batch": 5})
    line, begins_s = found.played
    form = captured_form(found.captured, begins_s, line.makespan_s)
    stack = stack_of(form)
    assert set(stack) <= set(CATEGORIES)
    assert sum(stack.values()).max() == found.captured.peak_B
    times_s = unpacked(form["times_s"])
    distinct = np.flatnonzero(np.append(np.diff(times_s) > 0, True))
    for place in distinct[:: max(1, len(distinct) // 20)].tolist():
        alive = alive_B(form, times_s[place])
        for category, sizes_B in stack.items():
            assert alive.get(category, 0.0) == pytest.approx(sizes_B[place], abs=1.0), category


def test_a_click_on_memory_says_what_holds_it(watched: Any) -> None:
    page = watched()
    page.go(f"/timeline?{urlencode(PAGE)}")
    found = page.page
    found.wait_for_function(f"() => {IT}")
    one = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tp=2, pp=2, sequence_parallel=True).best
    memory = one.memory
    found.get_by_role("button", name="What the fullest rank holds").click()
    told = found.locator(".ls-status").inner_text()
    assert f"{format_size(float(memory.allocated_B))} allocated" in told
    assert format_size(float(memory.reserved_B) + FRAMEWORK_B) in told
    lines = found.locator(".ls-held > details > summary, .ls-held > .ls-line").all_inner_texts()
    for category in ("parameters", "gradients", "optimizer", "activations"):
        size = format_size(float(getattr(memory, f"{category}_B")))
        assert any(category in line and size in line for line in lines), category
    found.locator(".ls-held > details > summary", has_text="activations").click()
    passes = found.locator(".ls-held > details[open] > details")
    assert passes.count() > 1
    passes.first.locator("summary").focus()
    found.keyboard.press("Enter")
    assert "mlp gate" in passes.first.inner_text()
    found.get_by_role("button", name="To the next change of memory").click()
    assert found.locator(".ls-status").inner_text() != told
    first = f"() => {IT}.rows.find((row) => row.kind === 'memory').y + 20"
    found.locator(".ls-canvas").click(position={"x": 500, "y": found.evaluate(first)})
    assert found.locator(".ls-status").inner_text().startswith("stage 0 from")
    page.quiet()
