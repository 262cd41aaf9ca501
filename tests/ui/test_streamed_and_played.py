"""Layouts that come while a search runs, the trace of a step, and what Play asks of the verbs."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.base.units import format_time
from lockstep.decide.planner.points import points
from lockstep.show.views.page.space import found_form, space_messages
from lockstep.show.web.plays import PLAYS, play
from lockstep.simulate.program.trace import read_trace
from ui.asking import WORDS, Client
from ui.numbers import numbers

NAMES = [one.name for one in PLAYS]


def test_the_layouts_are_streamed(client: Client) -> None:
    response = client.ask(f"/stream/space?{urlencode(WORDS)}")
    lines = [json.loads(line) for line in response.body.splitlines()]  # type: ignore[attr-defined]
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T")
    messages = space_messages(plan.job, plan.cluster, plan.findings.space)
    sent = [json.loads(json.dumps(one)) for one in messages if "chunk" in one]
    assert lines == [*sent, {"found": {**json.loads(json.dumps(found_form(plan))), "left_out": 0, "run": None}}]
    head = client.json("/data/space", WORDS)["data"]
    assert head["size"].startswith(f"{plan.findings.space.size:,} combinations")


@pytest.mark.parametrize("more", [{"objective": "cost"}, {"software": "torchtitan"}])
def test_streamed_layouts_are_those_of_the_plan(more: dict[str, str], client: Client) -> None:
    """Also of the size that it chose, and with what the software cannot run."""
    words = {"model": "llama3-8b", "cluster": "dgx-h100:4", "batch_tokens": "1M", **more}
    plan = lockstep.plan(**words)  # type: ignore[arg-type]
    body = client.ask(f"/stream/space?{urlencode(words)}").body  # type: ignore[attr-defined]
    *chunks, last = [json.loads(line) for line in body.splitlines()]
    assert sum(one["chunk"]["points"] for one in chunks) == plan.findings.evaluated
    assert last["found"]["best"]["layout"] == str(plan.best.layout)
    assert (last["found"]["run"] is None) == ("software" not in more)
    if plan.software is not None:
        refused = {text for one in chunks for text in one["chunk"]["refusals"]}
        assert "tp without sequence parallelism does not exist there" in refused
        assert 0 < last["found"]["run"] < plan.findings.feasible


def test_a_large_space_states_how_much_is_drawn(watched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.show.web.screens.space.MOST", 1_000)
    page = watched()
    page.go(f"/space?{urlencode({**WORDS, 'software': 'torchtitan'})}")
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, software="torchtitan")
    status = page.page.locator(".ls-status").inner_text()
    assert plan.findings.evaluated > 1_000
    assert f"{plan.findings.evaluated:,} layouts keep the rules, {plan.findings.feasible:,} fit, " in status
    assert "of these torchtitan can run. Drawn are 1,000:" in status
    page.quiet()


def test_a_stream_states_why_nothing_fits(client: Client) -> None:
    words = {"model": "llama3-70b", "cluster": "dgx-a100-40gb:1", "batch": "8"}
    response = client.ask(f"/stream/space?{urlencode(words)}")
    *some, last = [json.loads(line) for line in response.body.splitlines()]  # type: ignore[attr-defined]
    assert all(set(one) == {"chunk"} for one in some)
    assert "does not fit" in last["error"]
    assert client.ask("/stream/ask").status == 404
    wrong = client.ask("/stream/space?model=nothing")
    assert "error" in json.loads(wrong.body)  # type: ignore[attr-defined]


def test_software_narrows_the_space(client: Client) -> None:
    whole = client.json("/data/space", WORDS)["data"]["size"]
    narrow = client.json("/data/space", {**WORDS, "software": "hf"})["data"]["size"]
    assert int(narrow.split()[0].replace(",", "")) < int(whole.split()[0].replace(",", ""))


def test_a_step_can_be_saved_for_perfetto(client: Client, tmp_path: Path) -> None:
    response = client.ask(f"/timeline.trace?{urlencode(WORDS)}")
    file = tmp_path / "step.json.gz"
    file.write_bytes(response.body)  # type: ignore[attr-defined]
    assert gzip.decompress(file.read_bytes()).startswith(b"{")
    best = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T").best
    assert read_trace(file).makespan_s == best.timeline().makespan_s
    assert client.ask("/learn.trace").status == 422


def written(parts: Iterable[object]) -> set[str]:
    """Every number in data of a page."""
    return numbers(json.dumps([*parts], ensure_ascii=False))


@pytest.mark.parametrize("name", NAMES)
def test_the_played_answer_equals_that_of_the_command(name: str, client: Client) -> None:
    found = client.json("/data/play", {"play": name})
    session = run(*shlex.split(found["shell"])[1:])
    assert session.code in (0, 1), session.err
    blocks = found["data"]["blocks"]
    cells = [cell for block in blocks for row in block.get("rows", ()) for cell in row]
    shares = written(cell for cell in cells if isinstance(cell, dict) and "share" in cell)
    shown = written(block for block in blocks if block["kind"] != "list") - shares
    assert shown <= numbers(session.out.replace("\n", " "), found["shell"])
    eval(found["python"].splitlines()[1], {"lockstep": lockstep})


def test_a_control_refuses_other_values(client: Client) -> None:
    usual = client.json("/data/play", {"play": "schedule"})
    assert client.json("/data/play", {"play": "schedule", "stages": "7; rm", "microbatches": "1000000"}) == usual
    assert client.ask("/data/play?play=nothing").status == 422


UNITS = {"": 1.0, "us": 1e-6, "s": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def amount(text: str) -> float:
    """A value of a knob as a number."""
    number = text.rstrip("usGMkB")
    return float(number) * UNITS[text.removeprefix(number)]


@pytest.mark.parametrize("name", NAMES)
def test_a_control_ends_only_at_the_limit_of_its_option(name: str) -> None:
    one = next(one for one in PLAYS if one.name == name)
    for knob in one.knobs:
        assert knob.start in knob.values
        if knob.slides:
            places = [amount(value) for value in knob.values]
            assert places == sorted(set(places))
            assert places[0] < amount(knob.start) < places[-1] or amount(knob.start) == 0


def test_impossible_settings_keep_the_controls(client: Client) -> None:
    words = {"play": "schedule", "schedule": "dualpipe-v", "stages": "16", "microbatches": "8"}
    found = client.json("/data/play", words)["data"]
    assert [knob["value"] for knob in found["knobs"]] == ["dualpipe-v", "16", "8", "0s"]
    with pytest.raises(BadInput) as no:
        lockstep.pipeline(stages=16, microbatches=8, schedule="dualpipe-v")
    assert found["blocks"][1]["text"] == no.value.message
    assert not found["picture"]
    assert client.ask(f"/play.json?{urlencode(words)}").status == 422


@pytest.mark.parametrize("stages", ["2", "16"])
@pytest.mark.parametrize("microbatches", ["1", "8", "64"])
def test_every_schedule_plays_at_the_limits_of_its_controls(client: Client, stages: str, microbatches: str) -> None:
    """Pipelines of many stages print no text timeline, in place of which the page draws one."""
    for schedule in play("schedule").knobs[0].values:
        words = {"play": "schedule", "schedule": schedule, "stages": stages, "microbatches": microbatches}
        found = client.json("/data/play", words)["data"]
        assert [knob["value"] for knob in found["knobs"]][:3] == [schedule, stages, microbatches]
        assert "When" not in [block.get("title") for block in found["blocks"]]


def test_a_control_keeps_focus_while_answers_arrive(watched: Any) -> None:
    page = watched()
    page.go("/play?play=schedule")
    slider = page.page.locator("#knob-microbatches")
    slider.focus()
    with page.page.expect_response(lambda one: "microbatches=16" in one.url):
        page.page.keyboard.press("ArrowRight")
    step_s = lockstep.pipeline(stages=4, microbatches=16, schedule="1f1b").timeline.makespan_s
    page.page.wait_for_function(
        "(said) => document.querySelector('h1').innerText.includes(said)", arg=format_time(step_s)
    )
    assert page.page.evaluate("document.activeElement.id") == "knob-microbatches"
    assert "--microbatches 16" in page.page.locator("footer pre").first.inner_text()
    page.quiet()


def test_a_streamed_space_shows_the_numbers_of_the_library(watched: Any) -> None:
    page = watched()
    page.go(f"/space?{urlencode(WORDS)}")
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T")
    status = page.page.locator(".ls-status").inner_text()
    assert f"{plan.findings.evaluated:,} layouts keep the rules, {plan.findings.feasible:,} fit" in status
    page.page.get_by_label("Colour by").select_option("pp")
    assert page.page.get_by_role("button", name="Show only pp2", exact=True).is_visible()
    page.page.locator(".ls-canvas").focus()
    page.page.keyboard.press("Enter")
    first = page.page.locator(".ls-table tbody a").first
    named, step = first.inner_text(), page.page.locator(".ls-table tbody td.r").first.inner_text()
    first.click()
    page.page.wait_for_url("**/layout?**")
    main = page.settle()
    one = next(
        one
        for some in points(plan.job, plan.cluster, plan.findings.space)
        for one in some.layouts()
        if str(one) == named
    )
    found = lockstep.estimate("llama3-8b", "dgx-h100:2", one, batch=64)
    assert step == format_time(found.step_time_s, 4)
    assert format_time(found.step_time_s) in main.inner_text()
    page.quiet()
