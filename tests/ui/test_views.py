"""The timeline and the space in a browser: what is drawn and said is what the library says; mouse, keys, touch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.types.plain import Json
from lockstep.base.units import format_size, format_time
from lockstep.decide.planner.points import points
from lockstep.decide.planner.result import Plan
from lockstep.show.views.page import inline
from lockstep.show.views.page.timeline import timeline_form
from lockstep.show.views.parts.html import document
from lockstep.simulate.program import Kind, ProgramBuilder, Timeline

Opened = Callable[..., Any]
ASKED = ("llama3-8b", "dgx-h100:2")
READY = """async (kind) => {
  const place = document.getElementById(kind + "-view");
  while (!place.lockstep) await new Promise((done) => setTimeout(done, 20));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  place.scrollIntoView({block: "center"});
}"""

SPANS = """return it.rows.filter((row) => row.lane).map((row) => {
  const spans = [], {first} = row.timeline;
  for (let i = first[row.at]; i < first[row.at + 1]; i++) spans.push(it.describe({row, span: i}));
  return [row.rank.rank, row.lane.name, spans];
});"""
PLACE = """
const row = it.rows.find((row) => row.lane && row.rank.rank === 1 && row.lane.name === "compute");
return [it.view.pixel(given, 0)[0], row.y + row.height / 2];"""
LOWER_PIXELS = """it.view.frame();
const context = it.view.canvas.getContext("2d"), [tp, dp] = it.rows.filter((row) => row.kind === "moves");
const pixel = (row, x) => [...context.getImageData(x, row.y + row.height - 3, 1, 1).data];
const at = (row, time_s) => pixel(row, it.view.pixel(time_s, 0)[0]);
return [at(tp, 0.6), at(tp, 1.4), at(dp, 2.5), at(tp, 2.5)];"""
TOUCH = """(canvas, [kind, place]) => {
  canvas.setPointerCapture = () => {}; // An invented pointer cannot be captured.
  canvas.dispatchEvent(new PointerEvent("pointer" + kind, {pointerType: "touch", ...place}));
}"""


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a page of its own; at its end nothing may have failed or come from another host."""
    pages, trouble = [], []

    def asks(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            trouble.append(f"asks {url}")

    def opens(url: str, width: int = 1400, height: int = 900, **how: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height}, **how)
        pages.append(page)
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: asks(request.url))
        page.goto(url)
        return page

    yield opens
    for page in pages:
        page.close()
    assert trouble == []


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lockstep.plan(*ASKED, batch=64, pp=4)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    session = run("report", ASKED[0], "-c", ASKED[1], "--batch", "64", "--pp", "4", "-o", str(path))
    assert session.code == 0, session.err
    return path


def ready(page: Any, kind: str) -> None:
    page.evaluate(READY, kind)


def of(page: Any, kind: str, expression: str, given: Any = None) -> Any:
    """An expression about a view, which is called `it`."""
    return page.evaluate(
        f"([given]) => {{ const it = document.getElementById('{kind}-view').lockstep; {expression} }}", [given]
    )


def view_file(folder: Path, kind: str, form: Json) -> str:
    path = folder / "view.html"
    path.write_text(document("view", inline.block(kind, form), views=True), "utf-8")
    return path.as_uri()


def test_a_report_opens_from_a_file(opened: Opened, file: Path) -> None:
    assert file.stat().st_size < 1_000_000
    for scheme in ("light", "dark"):
        page = opened(file.as_uri(), 320, 800, color_scheme=scheme)
        for kind in ("timeline", "space"):
            ready(page, kind)
            assert page.locator(f"#{kind}-view canvas").last.bounding_box()["width"] > 200
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_report_can_be_read_without_script(opened: Opened, file: Path, plan: Plan) -> None:
    page = opened(file.as_uri(), java_script_enabled=False)
    text = page.locator("main").inner_text()
    for said in (
        format_time(plan.best.step_time_s),
        format_size(float(plan.best.memory.total_B)),
        f"{plan.findings.considered:,}",
    ):
        assert said in text
    assert page.locator("svg").count() >= 2
    assert not page.locator("#timeline-view").is_visible()
    assert not page.locator("#space-view").is_visible()


def test_spans_show_the_values_of_the_library(opened: Opened, file: Path, plan: Plan) -> None:
    page, timeline = opened(file.as_uri()), plan.best.timeline()
    ready(page, "timeline")
    said = of(page, "timeline", SPANS)
    program, lasts = timeline.program, timeline.end_s > timeline.start_s
    assert sum(len(spans) for _, _, spans in said) == np.count_nonzero(lasts)
    for rank, stream, spans in said:
        ids = np.flatnonzero(lasts & (program.lane == rank * len(program.streams) + program.streams.index(stream)))
        ids = ids[np.argsort(timeline.start_s[ids], kind="stable")]
        for i, lines in zip(ids.tolist(), spans, strict=True):
            assert lines[0] == (program.name(int(program.label[i])) or program.name(int(program.op[i])))
            length_s, start_s = float(timeline.end_s[i] - timeline.start_s[i]), float(timeline.start_s[i])
            assert lines[1] == f"{format_time(length_s)}, from {format_time(start_s)} on"
            if lines[2].startswith("exposed for"):
                assert program.kind[i] == Kind.COLLECTIVE
            if program.kind[i] == Kind.COLLECTIVE and stream != "compute" and program.size_B[i]:
                assert lines[3] == format_size(float(program.size_B[i]))
            assert lines[-1] == f"{timeline.rank_names[rank]}, {stream}"


def test_search_counts_and_visits_spans(opened: Opened, file: Path, plan: Plan) -> None:
    page, timeline = opened(file.as_uri()), plan.best.timeline()
    ready(page, "timeline")
    program = timeline.program
    lasts = np.flatnonzero(timeline.end_s > timeline.start_s)
    names = [program.name(int(program.label[i])) or program.name(int(program.op[i])) for i in lasts]
    field, status = page.get_by_label("Search spans"), page.locator("#timeline-view .ls-status")
    for text in ("f0", "optimizer", "no such span", "<b>"):
        field.fill(text)
        count = sum(text in name.lower() for name in names)
        assert f"{count:,} span{'' if count == 1 else 's'} named" in status.inner_text()
    field.fill("optimizer")
    field.press("Enter")
    assert "optimizer" in status.inner_text()


def test_a_timeline_moves_by_mouse_keys_and_touch(opened: Opened, file: Path) -> None:
    page = opened(file.as_uri())
    ready(page, "timeline")
    canvas = page.locator("#timeline-view .ls-canvas")

    def window() -> Json:
        found: Json = of(page, "timeline", "return {...it.view.window};")
        return found

    whole = window()
    canvas.focus()
    page.keyboard.press("+")
    near = window()
    assert near["x1"] - near["x0"] == pytest.approx((whole["x1"] - whole["x0"]) / 1.5)
    page.keyboard.press("ArrowRight")
    assert window()["x0"] > near["x0"]
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 40)
    before = window()
    page.mouse.down()
    page.mouse.move(box["x"] + 560, box["y"] + 40, steps=4)
    page.mouse.up()
    assert window()["x0"] < before["x0"]
    page.keyboard.press("0")
    assert window() == whole
    page.keyboard.down("Control")
    page.mouse.wheel(0, -250)
    page.keyboard.up("Control")
    assert window()["x1"] - window()["x0"] < whole["x1"] - whole["x0"]
    page.keyboard.press("0")
    fingers = [("down", 1, 300), ("down", 2, 500), ("move", 1, 200), ("move", 2, 600), ("up", 1, 200), ("up", 2, 600)]
    for kind, finger, x in fingers:
        place = {"clientX": box["x"] + x, "clientY": box["y"] + 40, "pointerId": finger, "bubbles": True}
        canvas.evaluate(TOUCH, [kind, place])
    assert window()["x1"] - window()["x0"] == pytest.approx((whole["x1"] - whole["x0"]) / 2, rel=0.01)


def test_hovering_shows_the_span_under_the_pointer(opened: Opened, file: Path, plan: Plan) -> None:
    page, timeline = opened(file.as_uri()), plan.best.timeline()
    ready(page, "timeline")
    program = timeline.program
    i = int(np.argmax((timeline.end_s - timeline.start_s) * (program.lane == len(program.streams))))
    x, y = of(page, "timeline", PLACE, float(timeline.start_s[i] + timeline.end_s[i]) / 2)
    box = page.locator("#timeline-view .ls-canvas").bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    lines = page.locator("#timeline-view .ls-hint div").all_inner_texts()
    assert lines[0] == program.name(int(program.label[i]))
    assert lines[1].startswith(format_time(float(timeline.end_s[i] - timeline.start_s[i])))


def test_a_measurement_is_drawn_below_its_prediction(opened: Opened, tmp_path: Path, plan: Plan) -> None:
    predicted = plan.best.timeline()
    slower = Timeline(
        predicted.program, predicted.start_s * 1.25, predicted.end_s * 1.25, "measured", rank_names=predicted.rank_names
    )
    page = opened(view_file(tmp_path, "timeline", timeline_form(predicted, slower)))
    ready(page, "timeline")
    rows = of(page, "timeline", """return it.rows.filter((row) => row.lane && row.lane.name === "compute")
        .map((row) => [row.rank.rank, row.timeline.source, row.y]);""")  # fmt: skip
    assert [row[:2] for row in rows] == [[rank, source] for rank in range(4) for source in ("simulated", "measured")]
    assert of(page, "timeline", "return it.view.window.x1;") == pytest.approx(slower.makespan_s)
    label = page.locator("#timeline-view .ls-canvas").get_attribute("aria-label")
    assert f"measured, {format_time(slower.makespan_s)}" in label


def test_exposed_traffic_has_another_colour(opened: Opened, tmp_path: Path) -> None:
    builder = ProgramBuilder(1, ("compute", "tp", "dp"))
    builder.compute(0, 1.0, label="F0")
    for stream in ("tp", "dp"):
        builder.collective([0], "all-reduce", 1e6, duration_s=1.5, stream=stream)
    form = timeline_form(Timeline(builder.build(), np.array([0.0, 0.2, 2.0]), np.array([1.0, 1.8, 3.0])))
    page = opened(view_file(tmp_path, "timeline", form))
    ready(page, "timeline")
    seen = of(page, "timeline", LOWER_PIXELS)
    hidden, exposed, alone, empty = seen
    lit = of(page, "timeline", "return getComputedStyle(it.view.canvas).getPropertyValue('--exposed').trim();")
    assert exposed == alone == [*bytes.fromhex(lit[1:]), 255]
    assert hidden != exposed
    assert empty[3] == 0
    (text,) = of(
        page, "timeline", "return [it.describe({row: it.rows.find((row) => row.lane?.name === 'tp'), span: 1})];"
    )
    assert text[2] == f"exposed for {format_time(0.8)}"


def test_numbers_are_formatted_as_in_the_library(opened: Opened, file: Path) -> None:
    page = opened(file.as_uri())
    ready(page, "timeline")
    rng = np.random.default_rng(0)
    times = [0.0, 1.0, 119.9, 119.94, 7195.0, 0.5e-9, 2.5, 12.25, 112.5, *np.exp(rng.uniform(-20, 20, 2000)).tolist()]
    sizes = [0.0, 1.0, 1023.4, 112.5 * 1024, 113.5 * 2**30, 12.25 * 2**20, *np.exp(rng.uniform(0, 34, 2000)).tolist()]
    for values, name, write in ((times, "time", format_time), (sizes, "size", format_size)):
        for digits in (3, 4):
            said = of(page, "timeline", f"return given.map((number) => it.write.{name}(number, {digits}));", values)
            assert said == [write(one, digits) for one in values]


def test_points_show_the_values_of_the_library(opened: Opened, file: Path, plan: Plan) -> None:
    page = opened(file.as_uri())
    ready(page, "space")
    said = of(
        page,
        "space",
        "return Array.from({length: it.cloud.count}, (_, i) => [it.cloud.name(i), it.text(i), it.why(i)]);",
    )
    assert len(said) == plan.findings.evaluated
    expected, front = [], {str(one.layout): one for one in plan.findings.front}
    for some in points(plan.job, plan.cluster, plan.findings.space):
        rows = zip(some.layouts(), some.step_time_s, some.memory_B, some.why, strict=True)
        expected += [
            (str(one), f"{format_time(time, 4)}, {format_size(size, 4)}", why) for one, time, size, why in rows
        ]
    for (name, text, why), (layout, numbers, code) in zip(said, expected, strict=True):
        assert (name, text) == (layout, numbers)
        if code:
            assert why.startswith("does not fit")
        elif name == str(plan.best.layout):
            assert why == "chosen"
        elif name in front:
            assert why == "on the Pareto front"
        else:
            assert why.split(" is as fast")[0] in front


def test_a_brush_lists_the_points_inside(opened: Opened, file: Path, plan: Plan) -> None:
    page = opened(file.as_uri())
    ready(page, "space")
    page.get_by_role("button", name="Drag to select").click()
    canvas = page.locator("#space-view .ls-canvas")
    corners = (200, 150), (700, 400)
    # Waits until other pictures, which are drawn later, no longer move this one.
    canvas.hover(position={"x": corners[0][0], "y": corners[0][1]})
    page.mouse.down()
    canvas.hover(position={"x": corners[1][0], "y": corners[1][1]}, force=True)
    page.mouse.up()
    one, two = (of(page, "space", "return it.view.point(...given);", corner) for corner in corners)
    found = []
    for some in points(plan.job, plan.cluster, plan.findings.space):
        x, y = np.log10(some.memory_B), np.log10(some.step_time_s)
        inside = (x >= one["x"]) & (x <= two["x"]) & (y >= two["y"]) & (y <= one["y"])
        found += [
            (format_time(t, 4), format_size(m, 4))
            for t, m in zip(some.step_time_s[inside], some.memory_B[inside], strict=True)
        ]
    page.locator("#space-view .ls-status", has_text="selected").wait_for()
    said = page.locator("#space-view .ls-status").inner_text()
    count = int(said.split()[0].replace(",", ""))
    # Points within a digit of the edge may be on either side of it.
    few = 0.01 * len(found) + 2
    assert abs(count - len(found)) <= few
    rows = page.locator("#space-view tbody tr").all_inner_texts()
    assert 0 < len(rows) <= 40
    assert sum(tuple(row.split("\t")[1:3]) not in found for row in rows[1:]) <= few


def test_colours_follow_the_field_and_the_scheme(opened: Opened, file: Path) -> None:
    page = opened(file.as_uri())
    ready(page, "space")
    picture = "it.view.frame(); return it.view.canvas.toDataURL();"
    before = of(page, "space", picture)
    page.get_by_label("Colour by").select_option("micro_batch")
    by_size = of(page, "space", picture)
    assert by_size != before
    page.get_by_role("button", name="Show only mb1", exact=True).click()
    assert of(page, "space", picture) != by_size
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(50)
    assert of(page, "space", "return getComputedStyle(it.view.canvas).getPropertyValue('--paper').trim();") == "#14181d"


HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"


def test_a_hostile_name_runs_nothing(opened: Opened, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
        "intermediate_size": 2048, "vocab_size": 1000, "_name_or_path": HOSTILE,
    }  # fmt: skip
    model, path = tmp_path / "config.json", tmp_path / "report.html"
    model.write_text(json.dumps(config), encoding="utf-8")
    assert run("report", str(model), "--cluster", "dgx-h100:1", "--batch", "8", "-o", str(path)).code == 0
    page = opened(path.as_uri())
    ready(page, "space")
    assert page.evaluate("window.ran === undefined")
    assert "window.ran = 1" in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0


def test_enter_lists_what_is_shown(opened: Opened, file: Path, plan: Plan) -> None:
    page = opened(file.as_uri())
    ready(page, "space")
    of(page, "space", "it.view.show(it.view.plane.limits);")
    page.locator("#space-view .ls-canvas").focus()
    page.keyboard.press("Enter")
    status = page.locator("#space-view .ls-status").inner_text()
    assert status.startswith(f"{plan.findings.evaluated:,} layouts selected")
    first = page.locator("#space-view tbody tr").first.inner_text().split("\t")
    everything = list(points(plan.job, plan.cluster, plan.findings.space))
    assert first[1] == format_time(min(float(some.step_time_s.min()) for some in everything), 4)


PLATE = """it.view.show(it.view.plane.limits);
it.view.frame();
const { canvas, ratio } = it.view, context = canvas.getContext("2d"), style = getComputedStyle(canvas);
const x = it.view.pixel(Math.log10(given), 0)[0], top = it.view.plane.box().top;
const right = x > it.view.plane.box().left + it.view.plane.box().width / 2;
const corner = [right ? x - 60 : x + 14, top + 4].map((place) => Math.round(place * ratio));
const data = context.getImageData(...corner, 40, 14).data;
const ink = it.look.palette.map((pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255].join());
let points = 0;
for (let i = 0; i < data.length; i += 4) points += ink.includes([data[i], data[i + 1], data[i + 2]].join());
return points;"""
MARKS = """return [...document.querySelectorAll("#space-view .ls-legend i")].map((one) =>
  getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number));"""


def test_the_limit_can_be_read_and_neighbouring_degrees_told_apart(opened: Opened, file: Path, plan: Plan) -> None:
    """The limit's name has a plate below it; few values are spread over all colours."""
    page = opened(file.as_uri())
    ready(page, "space")
    assert of(page, "space", PLATE, plan.cluster.device.memory_B) == 0
    marks = np.array(of(page, "space", MARKS))
    assert len(marks) > 2
    assert np.sqrt(((marks[1:] - marks[:-1]) ** 2).sum(1)).min() > 80
