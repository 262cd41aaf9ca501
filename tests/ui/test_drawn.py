"""What screens draw: shares where spans are too narrow, one axis, one name for one cost, and nothing cut on paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

import lockstep
from lockstep.base.units import format_time
from lockstep.show.views.parts.layout_columns import layout_words
from ui.asking import WORDS, Client
from ui.conftest import Watched

QUERY = f"?{urlencode(WORDS)}"
CROWDED = {
    "model": "llama3-8b", "cluster": "dgx-h100:2", "batch": "512", "tp": "2", "pp": "4", "dp": "2",
    "micro_batch": "1", "schedule": "1f1b",
}  # fmt: skip
"""A step of so many passes that none has a pixel of its own."""
PAINTED = """() => {
  const it = [...document.querySelectorAll('main div')].find((one) => one.lockstep).lockstep;
  it.view.frame();
  const { canvas, ratio } = it.view, context = canvas.getContext('2d'), end_s = it.rows[0].timeline.makespan_s;
  const [left, right] = [0, end_s].map((time_s) => Math.round(it.view.pixel(time_s, 0)[0] * ratio));
  const style = getComputedStyle(canvas.closest('.ls-view'));
  const empty = ['--hidden', '--exposed'].map((name) => style.getPropertyValue(name).trim());
  const hex = (data, i) => `#${[0, 1, 2].map((at) => data[i + at].toString(16).padStart(2, '0')).join('')}`;
  return it.rows.filter((row) => row.kind === 'compute' && row.lane.name === 'compute').map((row) => {
    const [top, tall] = [row.y, row.height].map((pixels) => Math.round(pixels * ratio));
    const { data } = context.getImageData(left, top, right - left, tall);
    let busy = 0;
    for (let i = 0; i < data.length; i += 4) busy += data[i + 3] > 0 && !empty.includes(hex(data, i));
    return busy / (data.length / 4);
  });
}"""
CUT = """(wide) => {
  document.body.style.width = `${wide}px`;
  const all = [...document.querySelectorAll('main *, footer *')].filter((one) => one.checkVisibility());
  const cut = all.filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > wide + 1 || box.left < -1);
  }).map((one) => one.outerHTML.slice(0, 120));
  document.body.style.width = '';
  return cut;
}"""
PAPER = 718
"""Pixels that a sheet of A4 has between margins of a centimetre."""
PALE = """() => [...document.querySelectorAll('main .stack i, main .track i, main .bar i')].filter((one) =>
  getComputedStyle(one).printColorAdjust !== 'exact').length"""


@pytest.fixture(scope="module")
def page(browser: Any, served: Any) -> Iterator[Watched]:
    """One page for all tests of this file."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    found = Watched(context.new_page(), served.address.partition("/?")[0])
    found.page.goto(served.address, wait_until="commit")
    yield found
    context.close()


def test_of_spans_below_a_pixel_areas_are_their_shares_of_the_time(page: Watched, client: Client) -> None:
    """A line as wide as a pixel for each would say nothing; zoomed in, each has its place again."""
    main = page.go(f"/timeline?{urlencode(CROWDED)}")
    page.page.wait_for_function("() => [...document.querySelectorAll('main div')].some((one) => one.lockstep)")
    call = client.json("/data/timeline", CROWDED)["python"].splitlines()[1]
    timeline = eval(call, {"lockstep": lockstep}).timeline()
    busy = [timeline.busy_s()[rank, "compute"] / timeline.makespan_s for rank in range(4)]
    assert page.page.evaluate(PAINTED) == pytest.approx(busy, abs=0.04)
    crowd = main.locator(".ls-crowd")
    assert crowd.is_visible()
    page.page.locator(".ls-canvas").focus()
    for _ in range(12):
        page.page.keyboard.press("+")
    page.page.wait_for_function("() => getComputedStyle(document.querySelector('.ls-crowd')).visibility === 'hidden'")


def test_screens_are_headed_by_what_they_say(client: Client) -> None:
    """Not by a layout, which stands above; costs say of what they are, and agree."""
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T")
    layout, step = layout_words(plan.best.layout), format_time(plan.best.step_time_s)
    costs = set()
    for name in ("ask", "layout", "timeline", "whatif", "trust", "campaign"):
        data = client.json(f"/data/{name}", WORDS)["data"]
        assert data["headline"] != layout
        assert layout in f"{data['title']} {data['headline']}" or name == "campaign"
        costs |= {(one["label"], one["value"]) for one in data["figures"] if one["label"].startswith("Cost")}
        assert name != "ask" or data["headline"].startswith(step)
    assert {label for label, _ in costs} == {"Cost of the run", "Cost per million tokens"}
    assert len({value for label, value in costs if label == "Cost per million tokens"}) == 1


def test_single_runs_lie_on_the_axis_of_the_interval(page: Watched, client: Client) -> None:
    found = lockstep.campaign("llama3-8b", tokens="1T", cluster="dgx-h100:2", batch=64)
    main = page.go(f"/campaign{QUERY}")
    band, runs = (main.locator(f".range .{kind}").bounding_box() for kind in ("band", "runs"))
    span_s = (found.interval.high - found.interval.low) * 86400
    wall_s = found.simulated.wall_s
    assert runs["width"] == pytest.approx(max(4, band["width"] * (wall_s.max() - wall_s.min()) / span_s), abs=1)
    begin_s = found.interval.low * 86400
    assert runs["x"] - band["x"] == pytest.approx(band["width"] * (wall_s.min() - begin_s) / span_s, abs=1)


def test_ranks_are_drawn_once_and_sliders_say_how_far_they_go(page: Watched) -> None:
    main = page.go(f"/layout?{urlencode({**WORDS, 'tp': '2', 'pp': '2', 'dp': '4'})}")
    assert main.locator("svg.ranks rect.node").count() == 2
    assert main.locator("img").count() == 0
    main = page.go(f"/whatif{QUERY}")
    assert main.locator("h2").first.inner_text().startswith("Sensitivity")
    widths = [one.bounding_box()["width"] for one in main.locator(".sliders .reach").all()]
    assert len({round(one) for one in widths}) > 2


def test_on_paper_nothing_is_cut_and_colours_stay(page: Watched) -> None:
    for name in ("ask", "layout", "timeline", "whatif", "campaign", "compare"):
        page.page.emulate_media(media="screen")
        page.go(f"/{name}{QUERY}" + ("&b=tp%3D2" if name == "compare" else ""))
        page.page.emulate_media(media="print", color_scheme="dark")
        assert page.page.evaluate(CUT, PAPER) == [], name
        assert page.page.evaluate(PALE) == 0, name
        assert page.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.page.locator("footer pre").first.is_visible()
    page.page.emulate_media(media="screen", color_scheme="light")
