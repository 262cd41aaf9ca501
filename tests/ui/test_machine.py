"""The step over the machine: what devices do is what the timeline says, on the command line and on the page."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.units import format_size, format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.price.layout.nodes import rank_coordinates
from lockstep.price.step.passes import WAITING
from lockstep.show.views.page.machine import MOST_NODES, Machine, nodes_of
from lockstep.show.views.parts.machine import COLOURS, LINES, SIGNS
from ui.asking import WORDS, Client

LAYOUT: dict[str, Any] = {
    "tp": 2,
    "pp": 4,
    "dp": 2,
    "zero": 1,
    "schedule": "1f1b",
    "micro_batch": 1,
    "recompute": "none",
}
ASKED = {**WORDS, **{name: str(value) for name, value in LAYOUT.items()}, "sequence_parallel": "no"}
COMMAND = (
    "estimate", "llama3-8b", "-c", "dgx-h100:2", "--batch", "64",
    *(part for name, value in LAYOUT.items() for part in (f"--{name.replace('_', '-')}", str(value))),
)  # fmt: skip
MOMENTS = (0.0, 0.013, 0.25, 0.4, 0.5, 0.77, 0.985, 0.9975, 1.0)
IT = "document.querySelector('.ls-view')?.lockstep"
DOING = f"""(moments) => moments.map((at) => {{
  const it = {IT};
  it.seek(at);
  return [0, 1, 2, 3].map((stage) => {{
    const one = it.doing(stage);
    return [one.state, one.text, one.traffic.map((sent) => [sent.kind, sent.level, sent.text, sent.size_B])];
  }});
}})"""


@cache
def asked(name: str) -> Estimate:
    """A step of few devices, one whose experts' traffic leaves the node, and one of 16,384."""
    if name == "few":
        return lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, **LAYOUT)
    if name == "experts":
        return lockstep.estimate("mixtral-8x7b", "dgx-h100:4", batch=64, pp=4, ep=8, zero=1, schedule="zb-h1")
    return lockstep.estimate("llama3-405b", "dgx-h100:2048", batch=2048, seq=8192, tp=8, pp=16, zero=1)


@pytest.mark.parametrize("name", ["few", "experts"])
def test_seconds_by_state_are_those_of_the_timeline(name: str) -> None:
    """Between two moments at which anything begins or ends nothing changes, so the middle stands for all of it."""
    machine, line = Machine.of(asked(name)), asked(name).timeline()
    ends = np.unique(np.concatenate(([0.0], line.start_s, line.end_s)))
    found = [dict.fromkeys(("computing", "sending", "waiting"), 0.0) for _ in range(line.program.ranks)]
    for low, high in pairwise(ends.tolist()):
        for of, one in zip(found, machine.doing((low + high) / 2 / line.makespan_s), strict=True):
            of[one.state if one.state in of else "computing"] += high - low
    idle = line.busy_s()
    for rank, of in enumerate(found):
        slower_s = idle.get((rank, WAITING), 0.0)
        assert of["computing"] == pytest.approx(line.computing_s[rank] - slower_s, rel=1e-6)
        assert of["sending"] == pytest.approx(line.exposed_s[rank], rel=1e-6, abs=1e-9)
        assert of["waiting"] == pytest.approx(line.waiting_s[rank] + slower_s, rel=1e-6)


@pytest.mark.parametrize("name", ["few", "experts", "many"])
def test_every_device_is_on_a_node_that_is_drawn(name: str) -> None:
    one, nodes = asked(name), nodes_of(asked(name))
    stage, unit = rank_coordinates(one.layout)["pp"], one.cluster.devices_per_unit(0)
    assert sum(node.alike for node in nodes) * unit == one.job.devices
    rows = {tuple(stage[at : at + unit].tolist()) for at in range(0, len(stage), unit)}
    assert {tuple(node.stages) for node in nodes} == rows
    assert len(nodes) == (len(rows) if one.job.devices // unit > MOST_NODES else one.job.devices // unit)


def test_a_message_of_the_pipeline_has_the_bytes_of_its_activations() -> None:
    """One sequence of 8,192 tokens with 4,096 values of two bytes each, of which each of two ranks sends its half."""
    machine = Machine.of(asked("few"))
    sent = [moved for at in np.linspace(0, 1, 400) for one in machine.doing(at) for moved in one.traffic]
    assert {moved.size_B for moved in sent if moved.kind == "pp"} == {8192 * 4096 * 2 / 2}
    assert {moved.level for moved in sent if moved.kind == "tp"} == {0}


def test_states_and_traffic_are_told_apart_without_colour() -> None:
    assert len(set(SIGNS.values())) == len(SIGNS)
    assert len({str(line) for line in LINES.values()}) == len(LINES) == len(COLOURS)


def picture_texts(svg: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", one).strip() for one in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


def test_the_command_draws_a_moment(tmp_path: Path) -> None:
    file, machine = tmp_path / "machine.svg", Machine.of(asked("few"))
    told = run(*COMMAND, "--machine", str(file), "--moment", "40%")
    assert told.code == 0, told.err
    said, now = picture_texts(file.read_text("utf-8")), machine.doing(0.4)
    for one in now:
        assert said.count(one.text) >= 4 or not one.text
    computing = 4 * sum(bool(one.text) for one in now)
    assert any(f"{computing} devices compute" in text for text in said)
    assert any(format_time(0.4 * machine.timeline.makespan_s) in text for text in said)
    drawn = tmp_path / "machine.png"
    assert run(*COMMAND, "--machine", str(drawn)).code == 0
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (("--machine", "{}/m.svg", "--moment", "140%"), "--moment"),
        (("--machine", "{}/m.svg", "--moment", "soon"), "--moment"),
        (("--machine", "{}/m.svg", "--moment", "-1%"), "--moment"),
        (("--moment", "40%"), "--moment"),
        (("--machine", "{}/m.txt"), "--machine"),
        (("--machine", "{}/none/m.svg"), "--machine"),
    ],
)
def test_what_cannot_be_drawn_is_refused_at_its_option(more: tuple[str, ...], where: str, tmp_path: Path) -> None:
    told = run(*COMMAND, *(part.format(tmp_path) for part in more))
    assert told.code == 2
    assert where in told.err
    assert list(tmp_path.iterdir()) == []


def test_the_page_draws_what_the_library_says(watched: Any) -> None:
    page, machine = watched(), Machine.of(asked("few"))
    opened(page)
    shown = page.page.evaluate(DOING, list(MOMENTS))
    for at, stages in zip(MOMENTS, shown, strict=True):
        for (state, text, traffic), one in zip(stages, machine.doing(at), strict=True):
            assert (state, text) == (one.state, one.text), at
            expected = [[moved.kind, moved.level, moved.text, moved.size_B] for moved in one.traffic]
            assert sorted(traffic) == sorted(expected), at
    page.page.evaluate(f"() => {IT}.seek(0.4)")
    rows = page.page.locator(".ls-table tbody tr").all_inner_texts()
    for row, one in zip(rows, machine.doing(0.4), strict=True):
        assert one.text in row
        assert all(format_size(moved.size_B) in row for moved in one.traffic if moved.size_B)
    page.quiet()


def opened(page: Any, **more: str) -> Any:
    page.go(f"/machine?{urlencode({**ASKED, **more})}")
    page.page.wait_for_function(f"() => {IT}")
    return page.page


def test_the_step_is_played_and_scrubbed_by_keys(watched: Any) -> None:
    page = watched()
    found, at = opened(page, moment="40%"), f"() => {IT}.at()"
    assert found.evaluate(at) == pytest.approx(0.4)
    found.locator(".ls-machine").focus()
    found.keyboard.press("ArrowRight")
    assert found.evaluate(at) == pytest.approx(0.41)
    found.keyboard.press("Shift+ArrowLeft")
    line = asked("few").timeline()
    before = max(float(one) for one in (*line.start_s, *line.end_s) if one < (0.41 - 1e-6) * line.makespan_s)
    assert found.evaluate(at) == pytest.approx(before / line.makespan_s)
    found.keyboard.press("Home")
    found.keyboard.press("Space")
    found.wait_for_function(f"() => {IT}.at() > 0.002")
    assert found.get_by_role("button", name="Play the step").inner_text() == "Pause"
    found.keyboard.press("Space")
    still = found.evaluate(at)
    found.wait_for_function("(still) => location.search.includes('moment=')", arg=still)
    assert found.evaluate(at) == still
    assert (
        found.get_by_label("Moment of the step")
        .get_attribute("aria-valuetext")
        .startswith(format_time(still * line.makespan_s))
    )
    page.quiet()


def test_little_motion_is_a_picture_a_second(browser: Any, served: Any) -> None:
    """Between two pictures, frames pass without one."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(served.address, wait_until="commit")
    page.goto(f"{served.address.partition('/?')[0]}/machine?{urlencode({**ASKED, 'moment': '0%'})}")
    page.wait_for_function(f"() => {IT}")
    seen = page.evaluate(
        f"""async () => {{
          const it = {IT}, seen = [];
          document.querySelector(".ls-tools button").click();
          while (new Set(seen).size < 3) {{
            await new Promise((done) => requestAnimationFrame(done));
            seen.push(it.at());
          }}
          document.querySelector(".ls-tools button").click();
          return seen;
        }}"""
    )
    steps = [two - one for one, two in pairwise(sorted(set(seen)))]
    assert all(step >= 0.99 / 30 for step in steps)
    context.close()


def test_the_address_gives_the_picture_of_its_moment(client: Client) -> None:
    machine = Machine.of(asked("few"))
    for share in (0.25, 0.4):
        made = client.ask(f"/machine.svg?{urlencode({**ASKED, 'moment': f'{100 * share}%'})}")
        said = picture_texts(made.body.decode())  # type: ignore[attr-defined]
        assert any(format_time(share * machine.timeline.makespan_s) in text for text in said)
    refused = client.ask(f"/machine.svg?{urlencode({**ASKED, 'moment': 'soon'})}")
    assert refused.status == 422
