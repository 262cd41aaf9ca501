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
from lockstep.show.views.page.columns import unpacked
from lockstep.show.views.page.machine import MOST_NODES, Crowd, Machine, machine_form, nodes_of
from lockstep.show.views.parts.crowd import MARKS, spread
from lockstep.show.views.parts.machine import COLOURS, LINES, SIGNS, plot_machine
from lockstep.simulate.program import Kind
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
SPREAD = """async ([crowd, width, most]) => (await import("/views/crowd.js")).spread(crowd, width, most)"""
CARRIED = f"""(moments) => moments.map((at) => {{
  const it = {IT};
  it.seek(at);
  return it.carried().map((of) => [of.level, of.now_B, of.until_B, of.whole_B]);
}})"""
MARKED = f"""(at) => {{
  const it = {IT}, canvas = document.querySelector(".ls-everyone"), ratio = devicePixelRatio;
  it.seek(at);
  const {{ places, step, across }} = it.many(), wide = canvas.width;
  const copy = new OffscreenCanvas(wide, canvas.height).getContext("2d", {{ willReadFrequently: true }});
  copy.drawImage(canvas, 0, 0);
  const pixels = copy.getImageData(0, 0, wide, canvas.height).data;
  const marks = places.flatMap(([x, y]) => Array.from({{ length: 8 }}, (_, device) => {{
    const left = Math.floor((x + 1 + (device % across) * step) * ratio);
    const top = Math.floor((y + 1 + Math.floor(device / across) * step) * ratio), from = 4 * (top * wide + left);
    return [left, top, pixels.slice(from, from + 4).join()];
  }}));
  return [[...Array(16).keys()].map((stage) => it.doing(stage).state), marks];
}}"""
DOING = f"""(moments) => moments.map((at) => {{
  const it = {IT};
  it.seek(at);
  return [0, 1, 2, 3].map((stage) => {{
    const one = it.doing(stage);
    return [one.state, one.text, one.traffic.map((sent) => [sent.kind, sent.level, sent.text, sent.size_B, sent.lit])];
  }});
}})"""


@cache
def asked(name: str) -> Estimate:
    """Steps of few devices, whose messages hold them or not, one with experts, and one of 16,384 devices."""
    if name == "few":
        return lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, **LAYOUT)
    if name == "overlapped":
        return lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, overlap_pp=True, **LAYOUT)
    if name == "folded":
        return lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, tp=2, pp=4, schedule="zb-v", vpp=2)
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
    """One sequence of 8,192 tokens with 4,096 values of two bytes each, of which each of two ranks sends its half.

    The first stage hands no gradients on and the last one no activations: their exchanges carry nothing.
    """
    machine = Machine.of(asked("few"))
    found = [(stage, moved) for at in np.linspace(0, 1, 4000) for stage, one in enumerate(machine.doing(at))
             for moved in one.traffic]  # fmt: skip
    sent = [(stage, moved) for stage, moved in found if moved.kind == "pp"]
    assert {moved.size_B for _, moved in sent} == {0.0, 8192 * 4096 * 2 / 2}
    assert {stage for stage, moved in sent if not moved.lit} == {0, 3}
    assert all(moved.lit == (moved.size_B > 0) for _, moved in sent)
    assert {moved.level for _, moved in found if moved.kind == "tp"} == {0}


@pytest.mark.parametrize("name", ["few", "overlapped", "folded", "experts", "many"])
def test_links_carry_over_the_step_what_its_program_sends(name: str) -> None:
    """Labels say the level of a collective. A message is a sequence by the width of the model, cut by tp and cp."""
    one = asked(name)
    program, model, layout = one.timeline().program, one.job.model, one.layout
    message_B = layout.micro_batch * one.job.recipe.seq * model.hidden * 2 / layout.cp / layout.tp
    each, levels = one.job.devices // layout.pp, [level.name for level in one.cluster.levels]
    expected = dict.fromkeys(levels, 0.0) | {levels[-1]: each * message_B * program.num_messages}
    for i in np.flatnonzero((program.kind == Kind.COLLECTIVE) & (program.size_B > 0)).tolist():
        level = program.name(int(program.label[i])).removesuffix(")").rpartition(", ")[2]
        expected[level] += each * float(program.size_B[i])
    carried = {levels[of.level]: of for of in Machine.of(one).carried(1.0)}
    assert {level: of.whole_B for level, of in carried.items()} == pytest.approx(expected, rel=1e-9)
    assert {level: of.until_B for level, of in carried.items()} == pytest.approx(expected, rel=1e-6)


def test_tensor_parallel_bytes_are_four_all_reduces_of_every_layer() -> None:
    """Two forward and two backward, of 32 layers, over the 32 sequences of each of two copies, on two devices each."""
    machine = Machine.of(asked("few"))
    program = machine.timeline.program
    found_B = sum(float(program.size_B[i]) for i in range(len(program)) if machine.title(i).startswith("tp "))
    assert machine.devices * found_B == (2 + 2) * 32 * (32 * 2) * 2 * (8192 * 4096 * 2)


@pytest.mark.parametrize("name", ["few", "overlapped", "experts"])
def test_what_is_under_way_is_what_devices_send(name: str) -> None:
    """And what links have carried grows by it: in the time of an operation by its bytes."""
    machine, until_B = Machine.of(asked(name)), 0.0
    for at in np.linspace(0.0, 1.0, 201).tolist():
        carried, now_B = machine.carried(at), dict[int, float]()
        for moved in (moved for one in machine.doing(at) for moved in one.traffic if moved.text != "pipeline receive"):
            now_B[moved.level] = now_B.get(moved.level, 0.0) + machine.devices * moved.size_B
        assert {of.level: of.now_B for of in carried if of.now_B} == pytest.approx(
            {level: size_B for level, size_B in now_B.items() if size_B}
        )
        assert sum(of.until_B for of in carried) >= until_B
        until_B = sum(of.until_B for of in carried)


def test_every_device_is_drawn_where_nodes_are_drawn_in_kinds() -> None:
    """On the page, from columns of a node; in the picture, a mark for each, a tile and each lit link for each node."""
    one = asked("many")
    crowd, machine = machine_form(one)["crowd"], Machine.of(one)
    stages = unpacked(crowd["stages"]).reshape(-1, crowd["unit"]).astype(int) - 1
    assert stages[unpacked(crowd["kinds"])].ravel().tolist() == rank_coordinates(one.layout)["pp"].tolist()
    assert machine_form(asked("few"))["crowd"] is None
    now = machine.doing(0.4)
    lit = sum(moved.lit for doing in now for moved in doing.traffic)
    marks = [int((path.codes == path.MOVETO).sum()) for of in plot_machine(one, "40%").axes[1].collections
             for path in of.get_paths()]  # fmt: skip
    assert sorted(marks) == sorted([2048, *[1024] * 16, *[128] * lit])


def test_states_and_traffic_are_told_apart_without_colour() -> None:
    assert len(set(SIGNS.values())) == len(SIGNS)
    assert len({tuple(mark) for mark in MARKS.values()}) == len(MARKS)
    assert MARKS.keys() == SIGNS.keys()
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
    without = next(at for at in np.linspace(0, 1, 4000).tolist() if not all(
        moved.lit for one in machine.doing(at) for moved in one.traffic))  # fmt: skip
    moments = [*MOMENTS, without]
    opened(page)
    shown = page.page.evaluate(DOING, moments)
    for at, stages in zip(moments, shown, strict=True):
        for (state, text, traffic), one in zip(stages, machine.doing(at), strict=True):
            assert (state, text) == (one.state, one.text), at
            expected = [[moved.kind, moved.level, moved.text, moved.size_B, moved.lit] for moved in one.traffic]
            assert sorted(traffic) == sorted(expected), at
    carried = page.page.evaluate(CARRIED, list(MOMENTS))
    for at, found in zip(MOMENTS, carried, strict=True):
        said = [[of.level, of.now_B, of.until_B, of.whole_B] for of in machine.carried(at)]
        for one, other in zip(found, said, strict=True):
            assert one == pytest.approx(other, rel=1e-6, abs=1.0), at
    page.page.evaluate(f"() => {IT}.seek(0.4)")
    links = page.page.locator(".ls-links tbody tr").all_inner_texts()
    for row, of in zip(links, machine.carried(0.4), strict=True):
        assert asked("few").cluster.levels[of.level].link.name in row
        assert format_size(of.until_B) in row
        assert format_size(of.whole_B) in row
    rows = page.page.locator(".ls-table table:not(.ls-links) tbody tr").all_inner_texts()
    for row, one in zip(rows, machine.doing(0.4), strict=True):
        assert one.text in row
        assert all(format_size(moved.size_B) in row for moved in one.traffic if moved.size_B)
    page.quiet()


def no_two_overlap(corners: Any, wide: float, tall: float) -> bool:
    apart = np.abs(np.asarray(corners)[:, np.newaxis] - np.asarray(corners))
    return bool(np.all((apart[..., 0] >= wide) | (apart[..., 1] >= tall) | np.eye(len(corners), dtype=bool)))


@pytest.mark.parametrize(("each", "room"), [(1, 800), (4, 800), (9, 800), (72, 800), (72, 90)])
def test_nodes_of_a_unit_are_drawn_beside_one_another(each: int, room: int, watched: Any) -> None:
    """In the picture and on the page no two tiles overlap, and no node lies in the box of another unit."""
    crowd, page = Crowd(np.zeros((1, 8), dtype=np.int64), np.zeros(72, dtype=np.int64), each), watched()
    words = {"unit": 8, "each": each, "kinds": [0] * 72}
    found = page.page.evaluate(SPREAD, [words, room, 400])
    (_, (width, height)), (across, down) = spread(crowd), (4 * 4 + 1, 2 * 4 + 1)
    for corners, wide, tall in ((spread(crowd)[0], across, down), (found["places"], *found["tile"])):
        assert no_two_overlap(corners, wide, tall)
        units = np.asarray(corners).reshape(-1, each, 2)
        boxes = np.concatenate((units.min(axis=1), units.max(axis=1)), axis=1)
        others = [box for box in boxes.tolist() for x, y in np.asarray(corners).tolist()
                  if box[0] <= x <= box[2] and box[1] <= y <= box[3]]  # fmt: skip
        assert len(others) == 72
    assert np.all(spread(crowd)[0] + (across, down) <= (width, height))
    assert max(y + found["tile"][1] for _, y in found["places"]) <= found["height"]
    assert max(x + found["tile"][0] for x, _ in found["places"]) <= room


def test_the_page_draws_all_of_many_devices(watched: Any) -> None:
    """The upper left pixel of a device has one colour where it computes, and another where it sends or waits."""
    one, page = asked("many"), watched()
    words = {"model": "llama3-405b", "cluster": "dgx-h100:2048", "batch": "2048", "seq": "8192", "tp": "8", "pp": "16",
             "cp": "1", "vpp": "1", "micro_batch": "1", "schedule": "1f1b", "zero": "1", "sequence_parallel": "no",
             "recompute": "none"}  # fmt: skip
    page.go(f"/machine?{urlencode(words)}")
    page.page.wait_for_function(f"() => {IT}")
    stage_of = rank_coordinates(one.layout)["pp"]
    seen = set()
    for at in (0.0, 0.4, 0.9):
        states, marks = page.page.evaluate(MARKED, at)
        seen |= set(states)
        assert len(marks) == one.job.devices == len({tuple(mark[:2]) for mark in marks})
        shown = {
            stage: {mark[2] for mark, of in zip(marks, stage_of, strict=True) if of == stage} for stage in range(16)
        }
        assert all(len(colours) == 1 for colours in shown.values())
        computing = {colour for stage, (colour,) in shown.items() if states[stage] in ("forward", "backward", "other")}
        others = {colour for stage, (colour,) in shown.items() if states[stage] in ("sending", "waiting")}
        assert len(computing) <= 1
        assert not computing & others
    assert {"forward", "backward", "waiting"} <= seen
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


def test_scrubbing_changes_the_picture_and_what_it_says(watched: Any) -> None:
    page = watched()
    found, seen = opened(page, moment="20%"), []
    for share in (2000, 5200, 9990):
        found.get_by_label("Moment of the step").fill(str(share))
        drawn = found.evaluate("() => document.querySelector('.ls-machine').toDataURL()")
        seen.append((drawn, found.locator(".ls-status").inner_text()))
        assert seen[-1][1].startswith(format_time(share / 10_000 * asked("few").timeline().makespan_s))
    assert len({drawn for drawn, _ in seen}) == len(seen)
    page.quiet()


def test_a_moment_is_saved_as_a_picture(watched: Any) -> None:
    """Of the moment that was scrubbed to, with what devices do."""
    page = watched()
    found, machine = opened(page, moment="20%"), Machine.of(asked("few"))
    found.get_by_label("Moment of the step").fill("4000")
    found.wait_for_function("() => location.search.includes('moment=40%25')")
    with found.expect_download() as saved:
        found.get_by_text("Save this moment as a picture").click()
    said = picture_texts(saved.value.path().read_text("utf-8"))
    assert any(format_time(0.4 * machine.timeline.makespan_s) in text for text in said)
    assert all(said.count(one.text) >= 4 for one in machine.doing(0.4) if one.text)
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
