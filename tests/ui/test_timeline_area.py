"""An area of the timeline and its sums, pinned lanes, and both with zoom and search as an address."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest

import lockstep
from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.simulate.program.timeline import COMPUTES
from ui.asking import WORDS

ASKED = {**WORDS, "tp": "2", "pp": "2", "dp": "4", "sequence_parallel": "yes"}
IT = "document.querySelector('.ls-view')?.lockstep"

SUMS = f"""() => {{
  const it = {IT}, sums = it.sums(), [x0, x1] = [300, 700].map((x) => it.view.point(x, 0).x);
  const lane = ({{ row, busy_s, exposed_s, count }}) => [row.rank.rank, row.lane.name, busy_s, exposed_s, count];
  return {{ ...sums, x0, x1, lanes: sums.lanes.map(lane) }};
}}"""
STATE = f"""() => {{
  const it = {IT}, sums = it.sums();
  return [it.view.window, it.pins.places, sums.computing_s, sums.exposed_s];
}}"""
TRAFFIC = f"""() => {{
  const row = {IT}.rows.find((row) => row.kind === "moves");
  return row.y + row.height / 2;
}}"""


@pytest.fixture(scope="module")
def timeline() -> Any:
    return lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tp=2, pp=2, sequence_parallel=True).best.timeline()


def shown(page: Any, **state: str) -> Any:
    """The screen with a state of it in its address."""
    page.go(f"/timeline?{urlencode({**ASKED, **state})}")
    page.page.wait_for_function(f"() => {IT}")
    return page.page


def state(page: Any) -> dict[str, str]:
    """What the address says beside the question, once it has been written."""
    page.wait_for_timeout(400)
    words = {name: value for name, (value,) in parse_qs(urlsplit(page.url).query).items()}
    return {name: words[name] for name in ("zoom", "area", "find", "pins") if name in words}


def inside(timeline: Any, low_s: float, high_s: float, lanes: set[tuple[int, str]]) -> tuple[float, float, int]:
    """Seconds of computing and of traffic of some lanes within a time, and how many spans, by the library's arrays."""
    program = timeline.program
    length_s = np.clip(np.minimum(timeline.end_s, high_s) - np.maximum(timeline.start_s, low_s), 0, None)
    here = np.array([
        (int(rank), program.streams[int(lane) % len(program.streams)]) in lanes
        for rank, lane in zip(program.rank, program.lane, strict=True)
    ])  # fmt: skip
    computes = np.isin(program.kind, COMPUTES)
    return (
        float(length_s[here & computes].sum()),
        float(length_s[here & ~computes].sum()),
        int(np.count_nonzero(length_s[here] > 0)),
    )


def test_a_selected_area_sums_its_spans(watched: Any, timeline: Any) -> None:
    """Dragged over lanes of one rank, and over all: seconds by class and by lane, as the library's arrays have them."""
    page = watched()
    found = shown(page)
    found.get_by_role("button", name="Drag to sum what is inside").click()
    for one in found.locator("main button[aria-label]").all():
        written = one.inner_text()
        assert not any(map(str.isalpha, written)) or str(one.get_attribute("aria-label")).startswith(written)
    canvas = found.locator(".ls-canvas")
    box = canvas.bounding_box()
    for down in (70, box["height"] - 4):
        found.mouse.move(box["x"] + 300, box["y"] + 30)
        found.mouse.down()
        found.mouse.move(box["x"] + 700, box["y"] + down, steps=3)
        found.mouse.up()
        made: Json = found.evaluate(SUMS)
        lanes = {(rank, name) for rank, name, *_ in made["lanes"]}
        computing_s, traffic_s, count = inside(timeline, made["x0"], made["x1"], lanes)
        assert made["computing_s"] == pytest.approx(computing_s)
        assert made["traffic_s"] == pytest.approx(traffic_s)
        assert sum(one["count"] for one in made["classes"]) == count == sum(row[-1] for row in made["lanes"])
        assert sum(one["exposed_s"] for one in made["classes"]) == pytest.approx(made["exposed_s"])
        text = found.locator(".ls-status").inner_text()
        for seconds in (computing_s, traffic_s, made["exposed_s"], made["x1"] - made["x0"]):
            assert format_time(seconds) in text
        rows = found.locator(".ls-table table").nth(1).locator("tbody tr").all_inner_texts()
        assert len(rows) == len(lanes)
        assert all(
            format_time(busy_s) in row for (_, _, busy_s, *_), row in zip(made["lanes"], rows, strict=True) if busy_s
        )
    whole = timeline.makespan_s
    canvas.focus()
    found.keyboard.press("Enter")
    every = found.evaluate(f"() => {IT}.sums().exposed_s")
    assert every == pytest.approx(float(sum(np.atleast_1d(timeline.exposed_s))), rel=1e-9)
    assert found.evaluate(f"() => {IT}.view.window.x1") == pytest.approx(whole)
    found.keyboard.press("Escape")
    assert found.locator(".ls-table table").count() == 0
    page.quiet()


def test_the_state_of_a_timeline_is_an_address(watched: Any) -> None:
    """What is zoomed to, selected, searched and pinned is there again in another window."""
    page = watched()
    found = shown(page)
    canvas = found.locator(".ls-canvas")
    canvas.focus()
    found.keyboard.press("+")
    found.keyboard.press("+")
    found.get_by_label("Search spans").fill("optimizer")
    found.get_by_label("Pin a lane").select_option(index=2)
    canvas.focus()
    found.keyboard.press("Enter")
    kept = state(found)
    assert set(kept) == {"zoom", "area", "find", "pins"}
    had = found.evaluate(STATE)
    other = watched()
    again = shown(other, **kept)
    window, pins, *sums = again.evaluate(STATE)
    assert window == pytest.approx(had[0], rel=1e-6)
    assert pins == had[1] != []
    assert sums == pytest.approx(had[2:], rel=1e-6)
    assert again.get_by_label("Search spans").input_value() == "optimizer"
    again.locator(".ls-canvas").focus()
    again.keyboard.press("0")
    again.keyboard.press("Escape")
    again.get_by_label("Search spans").fill("")
    again.get_by_label("Pin a lane").select_option(str(pins[0]))
    assert state(again) == {}
    other.quiet()


def test_a_pinned_lane_stays_in_sight(watched: Any) -> None:
    """By its name in the list, and by a click on it; another click lets it go."""
    page = watched()
    found = shown(page)
    height = "() => document.querySelector('.ls-axis').clientHeight"
    plain = found.evaluate(height)
    y = found.evaluate(TRAFFIC)
    click = {"position": {"x": 20, "y": y}}
    found.locator(".ls-canvas").click(**click)
    assert found.evaluate(height) > plain
    assert found.get_by_label("Pin a lane").locator("option", has_text="Unpin").count() == 1
    found.locator(".ls-canvas").click(**click)
    assert found.evaluate(height) == plain


@pytest.mark.parametrize("bad", ["x-y", "0.5", "9-1", "-1--2", "0.1-0.2-900-901", "1e999-2"])
def test_an_invalid_state_shows_the_whole_step(bad: str, watched: Any) -> None:
    page = watched()
    found = shown(page, zoom=bad, area=bad, pins=bad, find="no such span")
    assert found.evaluate(f"() => Number.isFinite({IT}.view.window.x1 - {IT}.view.window.x0)")
    page.quiet()
