"""Every screen in a browser: its numbers are the library's, nothing leaves the machine, and everybody can read it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import plain
from lockstep.base.units import SECONDS_PER_DAY, format_count, format_frac, format_money, format_size, format_time
from lockstep.check.validation.nearest import nearest
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.points import points
from lockstep.decide.planner.whatif import NAMES, scaled
from lockstep.price.layout.groups import group_summary
from lockstep.price.layout.nodes import rank_coordinates
from lockstep.show.views.page.machine import Machine
from lockstep.show.views.parts import ranks
from lockstep.show.web.screens import ORDER
from lockstep.show.web.uploads import MOST_FILES, MOST_MEASURED_B
from ui.asking import WORDS
from ui.numbers import numbers, printed, printed_by, texts

QUERY = f"?{urlencode(WORDS)}"
CONFIG = Path(__file__).parents[1] / "workload" / "configs" / "phi3-mini.json"
PATHS = {
    **{name: f"/{name}{QUERY}" for name in ORDER},
    "card": "/learn?claim=T4&run=yes",
    "number": f"/diagnose{QUERY}&measured=5s",
}
RECORDING = Path(__file__).parents[2] / "docs" / "use" / "diagnose.md"
OPEN_ALL = "() => document.querySelectorAll('main details').forEach((one) => (one.open = true))"


@cache
def plan() -> Any:
    return lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T")


@cache
def best() -> dict[str, Any]:
    return {"cluster": "dgx-h100:2", "batch": 64, **plan().best.layout.to_dict()}


def step_texts(one: Any) -> str:
    """A step as the page shows it next to what `lockstep estimate` prints: every part, dollars per million."""
    parts = one.step.breakdown_s().values()
    shares = (format_frac(seconds / one.step_time_s, 2) for seconds in parts)
    cost = f"{one.cost_per_token * 1e6:.3g}"
    sizes = (
        format_size(float(getattr(one.memory, f"{name}_B")))
        for name in ("parameters", "gradients", "optimizer", "activations", "buffers")
    )
    return texts([*map(format_time, parts), *shares, *sizes, cost, format_frac(float(one.memory.used_frac))])


def expected(name: str, kept: Path) -> str:
    """All text with numbers that a screen may show, by the library alone."""
    one = lockstep.estimate("llama3-8b", **best())
    common = texts([printed("plan", plan()), printed("estimate", one), step_texts(one)])
    match name:
        case "ask":
            return common
        case "layout":
            groups = group_summary(one.layout, one.cluster).values()
            said = texts(f"{group['groups']:,} {group['ranks']:,}" for group in groups)
            memory = printed("memory", lockstep.memory("llama3-8b", **best()))
            lies = (cell for row in ranks.rows(one) for cell in row)
            return texts([common, memory, said, *lies, ranks.note(one), "rank 0, nodes of 8, 16 ranks, stage 0"])
        case "whatif":
            advice = printed("sensitivity", lockstep.sensitivity("llama3-8b", **best()))
            return texts([common, advice, other_hardware(one), other_runs(one), "20 % lower, 20 % higher"])
        case "compare":
            changes = "tp=2"
            found = lockstep.compare("llama3-8b", changes, cluster="dgx-h100:2", batch=64)
            sides = [
                format_time(scale * value)
                for scale, side in ((1.0, found.a), (found.scale, found.b))
                for value in side.parts_s.values()
            ]
            return texts([printed("compare", found), *sides])
        case "campaign":
            found = lockstep.campaign("llama3-8b", tokens="1T", **best())
            return texts([printed("campaign", found), days(found)])
        case "trust":
            return texts([common, rests_on(one), printed("cite", lockstep.cite(one))])
        case "space":
            found = plan()
            every = points(found.job, found.cluster, found.findings.space)
            listed = [str(one) for some in every for one in some.layouts()]
            evaluated = [f"{found.findings.evaluated:,}", f"{found.findings.feasible:,}"]
            return texts([common, f"{found.findings.space.size:,}", *evaluated, *listed, "tp1 pp1 dp1 cp1"])
        case "timeline":
            return texts([common, f"{len(one.timeline().program):,}"])
        case "machine":
            return texts([common, machine(one)])
        case "diagnose":
            return texts([common, RECORDING.read_text("utf-8"), MOST_FILES, format_size(MOST_MEASURED_B)])
        case "number":
            found = lockstep.diagnose(model="llama3-8b", measured="5s", **best())
            difference = format_time(abs(5.0 - one.step_time_s))
            return texts([common, printed("diagnose", found), difference, format_frac(found.mfu_frac)])
        case "play":
            found = lockstep.pipeline(stages=4, microbatches=8, schedule="1f1b", transfer_s="0s")
            return texts([printed("pipeline", found), "gpipe 1f1b interleaved zb-h1 dualpipe-v"])
        case "sweeps":
            of = lockstep.sweeps("show", str(kept / "plans.sweep"))
            return texts([printed_by(of), printed_by(lockstep.sweeps("list", str(kept))), kept, "2 of 2, 100 %"])
        case "card":
            return printed("claims", lockstep.claims("T4", run=True))
        case _:
            found = lockstep.claims()
            return texts([printed("claims", found), len(found.entries)])


def other_hardware(one: Any) -> str:
    """Step times with every number of the hardware changed, by `scaled` alone."""
    said = []
    for name in NAMES:
        for factor in (0.5, 0.8, 1.2, 2.0):
            inner = [name == "intra_bw"] + [name == "inter_bw"] * (len(one.cluster.levels) - 1)
            words: dict[str, Any] = (
                {name: factor} if not name.endswith("_bw") else {"bandwidth": [factor if it else 1.0 for it in inner]}
            )
            seconds = estimate(one.job, scaled(one.cluster, **words), one.layout).step_time_s
            said += [format_time(seconds), format_frac(abs(seconds / one.step_time_s - 1.0), 2)]
    return texts(said)


def other_runs(one: Any) -> str:
    """Throughput with every setting of the run changed that a slider has, where the layout goes with it."""
    batch, dp, devices = one.job.recipe.batch, one.layout.dp, one.job.devices
    changes: list[dict[str, Any]] = [{"dtype": "fp8"}, *({"recompute": kind} for kind in ("none", "selective", "full"))]
    changes += [{"batch": int(batch * factor)} for factor in (0.25, 0.5, 2, 4)]
    changes += [{"gpus": int(devices * factor), "dp": int(dp * factor)} for factor in (0.25, 0.5, 2, 4)]
    said: list[object] = []
    for words in changes:
        with suppress(BadInput):
            found = lockstep.estimate("llama3-8b", **{**best(), **words})
            said += [format_count(found.tokens_per_s), format_time(found.step_time_s), *words.values()]
            said += [format_size(float(found.memory.total_B))]
    return texts(said)


def machine(one: Any) -> str:
    """What devices do in the middle of the step, how many there are, and how fast it may be played."""
    of, stages = Machine.of(one), one.layout.pp
    now = of.doing(0.5)
    moved = [part for each in now for sent in each.traffic for part in (sent.text, format_size(sent.size_B))]
    carried = [format_size(size_B) for each in of.carried(0.5) for size_B in (each.now_B, each.until_B, each.whole_B)]
    counts = [count * one.job.devices // stages for count in range(stages + 1)]
    times = [format_time(share * of.timeline.makespan_s) for share in (0.5, 1.0)]
    links = [level.link.name for level in one.cluster.levels]
    return texts(
        [*times, *(each.text for each in now), *moved, *carried, *counts, *links, *range(stages), "10 s 30 s 2 min 0"]
    )


def days(found: Any) -> str:
    """The figures of a run and the ends of the histogram."""
    wall_s, run = found.simulated.wall_s, found.run
    between = [format_time(end * SECONDS_PER_DAY) for end in (found.interval.low, found.interval.high)]
    return texts([
        *(format_time(float(one), 4) for one in (wall_s.min(), wall_s.max(), np.mean(wall_s))), f"{len(wall_s):,}",
        *between,
        format_time(run.wall_s), format_money(run.cost_usd), format_count(run.gpu_hours), f"{run.losses.failures:,.3g}",
        format_time(run.pattern.every * run.interval_s), len(found.assumptions),
    ])  # fmt: skip


def rests_on(one: Any) -> str:
    """What is published, and the steps nearest to this one."""
    support, said = one.support, []
    for near in nearest(one):
        case = near.case
        said += [
            case.job.model.name,
            near.table,
            case.row,
            case.job.devices,
            case.cluster.device.name,
            case.job.recipe.software.name,
        ]
        said += [
            format_time(case.measured),
            format_time(near.predicted_s),
            format_frac(abs(near.error_frac), 2),
            case.job.recipe.dtype,
        ]
        said += [format_count(case.job.devices)]
    error = format_frac(support.error_frac)
    kinds = [len(lockstep.cite(one).citations), *range(30)]
    return texts([support.rows, error, support.stack, support.dtype, support.device, *said, *kinds])


def moved(page: Any) -> list[str]:
    """What stands beside each slider of What if at each of its places."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.sliders input')].flatMap((one) =>
          [...Array(Number(one.max) + 1).keys()].map((at) => {
            one.value = at;
            one.dispatchEvent(new Event('input'));
            return one.closest('li').querySelector('output').innerText;
          }))"""
    )


@pytest.mark.parametrize("name", PATHS)
def test_every_number_on_the_page_is_that_of_the_library(name: str, watched: Any, kept: Path) -> None:
    page = watched()
    path = PATHS[name] + ("&b=tp%3D2" if name == "compare" else "")
    main = page.go(path)
    page.page.evaluate(OPEN_ALL)
    shown = numbers(main.inner_text(), *moved(page.page))
    assert len(shown) > 10
    counts = {str(one.text_content()) for one in page.page.locator("main summary small").all()}
    allowed = numbers(expected(name, kept), "llama3-8b on 16 x h100-sxm", "ZeRO-1 zb-h1 1f1b")
    assert shown - allowed - counts == set()
    page.quiet()


COLOURS = """() => [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() &&
  [...one.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim())).map((one) => {
    let below = one;
    while (getComputedStyle(below).backgroundColor === 'rgba(0, 0, 0, 0)') below = below.parentElement;
    return [getComputedStyle(one).color, getComputedStyle(below).backgroundColor, one.outerHTML.slice(0, 80)];
  })"""
UNNAMED = """() => [...document.querySelectorAll('svg, img, [role=img], input, select, button, .wide')]
  .filter((one) => !(one.getAttribute('aria-label') || one.alt || one.labels?.length || one.textContent.trim()))
  .map((one) => one.outerHTML)"""
OVERLAPPING = """() => {
  const lines = [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility() && !one.closest('svg')
    && [...one.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim())).flatMap((one) => {
      const range = document.createRange();
      range.selectNodeContents(one);
      return [...range.getClientRects()].filter((box) => box.width > 1).map((box) => [one, box]);
    });
  const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6;
  const apart = (one, other) => !one.contains(other) && !other.contains(one);
  return lines.flatMap(([one, a], at) => lines.slice(at + 1, at + 60)
    .filter(([other, b]) => apart(one, other) && covers(a, b)).map(([other]) => `${one.outerHTML} ${other.outerHTML}`));
}"""
ALIKE = """() => [...document.querySelectorAll('main .stack')].filter((one) => {
  const colours = [...one.children].map((part) => getComputedStyle(part).backgroundColor);
  return new Set(colours).size < colours.length;
}).map((one) => one.outerHTML)"""
LEAST_CONTRAST = 4.5
"""Of text (WCAG 2.2, level AA)."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_on_any_screen(scheme: str, watched: Any) -> None:
    """On a phone without scrolling sideways, with enough contrast, by words where there is a picture."""
    page = watched(320, scheme)
    for name, path in {**PATHS, "tensor": f"/compare{QUERY}&b=tp%3D2"}.items():
        page.go(path)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 320, name
        assert page.page.locator("h1").count() == 1, name
        assert page.page.evaluate(UNNAMED) == [], name
        assert page.page.evaluate(OVERLAPPING) == [], name
        assert page.page.evaluate(ALIKE) == [], name
        seen = page.page.evaluate(COLOURS)
        assert [one for one in seen if contrast(*one[:2]) < LEAST_CONTRAST] == [], name
        assert all((luminance(paper) < 0.2) == (scheme == "dark") for _, paper, said in seen if said.startswith("<h1"))
    page.quiet()


OPENED = {
    "ask": "() => document.querySelector('button.card').click()",
    "timeline": """async () => {
      while (!document.querySelector('.ls-view')?.lockstep) await new Promise((done) => requestAnimationFrame(done));
      [...document.querySelectorAll('.ls-tools button')].find((one) => one.textContent === 'Memory').click();
      document.querySelectorAll('.ls-held details').forEach((one) => (one.open = true));
    }""",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", OPENED)
def test_what_a_button_opens_is_accessible_too(name: str, scheme: str, watched: Any) -> None:
    """A card in its dialog, and what memory holds."""
    page = watched(320, scheme)
    page.go(PATHS[name])
    page.page.evaluate(OPENED[name])
    page.page.wait_for_function("() => !document.querySelector('[role=status]')")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.page.evaluate(UNNAMED) == []
    assert page.page.evaluate(OVERLAPPING) == []
    assert [one for one in page.page.evaluate(COLOURS) if contrast(*one[:2]) < LEAST_CONTRAST] == []
    page.quiet()


def contrast(ink: str, paper: str) -> float:
    """Of two colours."""
    low, high = sorted((luminance(ink), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`."""
    shares = (int(one) / 255 for one in re.findall(r"\d+", colour)[:3])
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_view_settings_are_part_of_the_address(watched: Any) -> None:
    """What a slider, a group and a colour are set to comes again with the address."""
    page = watched()
    page.go(f"/whatif{QUERY}")
    for place in ("#w-h2", "#w-r0"):
        page.page.locator(place).focus()
        page.page.keyboard.press("End")
    said = page.page.locator(".sliders output").all_inner_texts()
    address = page.page.url
    page.go("/play")
    page.page.goto(address)
    page.settle()
    assert page.page.locator(".sliders output").all_inner_texts() == said
    assert page.page.locator("#w-h2").input_value() == page.page.locator("#w-h2").get_attribute("max")
    page.go(f"/layout{QUERY}")
    page.page.get_by_role("button", name="dp", exact=True).click()
    page.page.locator("#rank").focus()
    page.page.keyboard.press("ArrowRight")
    before, address = page.page.locator("main output").inner_text(), page.page.url
    page.go("/play")
    page.page.goto(address)
    page.settle()
    assert page.page.locator("main output").inner_text() == before
    assert before.startswith("rank 1 on node 0: ")
    page.go(f"/space{QUERY}&colour=pp")
    assert page.page.get_by_label("Colour by").input_value() == "pp"
    page.page.get_by_label("Colour by").select_option("tp")
    assert "colour=tp" in page.page.url
    page.quiet()


def test_choosing_a_rank_shows_its_coordinates(watched: Any) -> None:
    page = watched()
    words = {**WORDS, "tp": "2", "pp": "2", "dp": "4", "sequence_parallel": "yes"}
    page.go(f"/layout?{urlencode(words)}")
    layout = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, tp=2, pp=2, sequence_parallel=True).layout
    axes = rank_coordinates(layout)
    for rank in (0, 5, 15):
        page.page.locator("#rank").fill(str(rank))
        said = page.page.locator("main output").inner_text()
        lies = ", ".join(f"{axis} {of[rank]}" for axis, of in axes.items())
        assert said.startswith(f"rank {rank} on node {rank // 8}: {lies}; ")


FOCUSED = "() => [...document.querySelectorAll('*')].indexOf(document.activeElement)"
REACHED = """() => [...document.querySelectorAll('*')].flatMap((one, at) =>
  one.matches('a[href], button, input, select, summary, [tabindex="0"]') && one.checkVisibility() ? [at] : [])"""


def test_everything_is_reachable_by_keyboard(watched: Any) -> None:
    page = watched()
    for name, path in PATHS.items():
        page.go(path)
        wanted = page.page.evaluate(REACHED)
        page.page.evaluate("() => document.activeElement.blur()")
        seen = set()
        for _ in range(len(wanted) + 5):
            page.page.keyboard.press("Tab")
            seen.add(page.page.evaluate(FOCUSED))
        assert set(wanted) <= seen, name
    page.go(PATHS["layout"])
    page.page.locator("#rank").focus()
    before = page.page.locator("main output").inner_text()
    page.page.keyboard.press("ArrowRight")
    assert page.page.locator("main output").inner_text() != before


def test_every_change_has_an_address_and_back_undoes_it(watched: Any) -> None:
    page = watched()
    page.go(f"/ask{QUERY}")
    first = page.page.locator("main .figures").inner_text()
    with page.page.expect_response(lambda one: "/data/ask" in one.url and "batch=128" in one.url):
        page.page.locator("#f-batch").fill("128")
    page.page.wait_for_function("(before) => document.querySelector('main .figures').innerText !== before", arg=first)
    assert "batch=128" in page.page.url
    expected_s = lockstep.plan("llama3-8b", "dgx-h100:2", batch=128, tokens="1T").best.step_time_s
    assert format_time(expected_s) in page.page.locator("main .figures").inner_text()
    page.page.locator("main tbody a").nth(1).click()
    page.settle()
    page.page.wait_for_url("**/layout?**")
    page.page.go_back()
    page.page.wait_for_url("**/ask?**")
    page.page.wait_for_function("() => document.querySelector('footer pre')?.textContent.startsWith('lockstep plan')")
    page.quiet()


def test_a_refusal_is_shown_at_its_field(watched: Any) -> None:
    page = watched()
    main = page.go("/ask?model=lama3-8b&cluster=dgx-h100:2&batch=64")
    assert "did you mean" in main.inner_text()
    assert page.page.locator("#f-model").get_attribute("aria-invalid") == "true"
    assert "does not fit" in page.go("/ask?model=llama3-405b&cluster=dgx-h100&batch=8").inner_text()


def test_a_dropped_file_is_read_and_a_hostile_one_is_text(watched: Any, tmp_path: Path) -> None:
    page = watched()
    page.go(f"/ask{QUERY}")
    hostile = tmp_path / "config.json"
    script = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>"
    hostile.write_text(json.dumps({**json.loads(CONFIG.read_text()), "_name_or_path": script}))
    page.page.locator("#f-file").set_input_files(hostile)
    page.page.wait_for_url("**dropped**")
    page.page.wait_for_function("() => document.querySelector('main .over')?.textContent.includes('</script>')")
    assert page.page.evaluate("() => window.ran") is None
    for body, said in (
        (b"[" * 100_000, "nested deeper"),
        (b'{"model_type": NaN}', "NaN"),
        (b" " * 10 * 1024 * 1024, "larger than"),
    ):
        hostile.write_bytes(body)
        page.page.locator("#f-file").set_input_files(hostile)
        page.page.wait_for_function("(said) => document.getElementById('dropped').textContent.includes(said)", arg=said)
    page.complaints = [one for one in page.complaints if "422" not in one]
    page.quiet()


def test_the_saved_file_opens_without_the_server(watched: Any, tmp_path: Path) -> None:
    page = watched()
    page.go(f"/ask{QUERY}")
    with page.page.expect_download() as waiting:
        page.page.get_by_text("Save as one file").click()
    file = tmp_path / "saved.html"
    waiting.value.save_as(file)
    assert file.stat().st_size < 1_000_000
    page.requests.clear()
    page.page.goto(file.as_uri())
    assert "llama3-8b on 16 x h100-sxm" in page.page.locator("h1").inner_text()
    assert [one for one in page.requests if not one.startswith(("file:", "data:"))] == []
    kinds = page.page.evaluate("() => [...document.scripts].map((one) => one.type)")
    assert kinds.count("") == 1
    assert set(kinds) == {"", "application/json"}
    page.quiet()


def test_a_card_is_shown_beside_the_answer_and_saved(watched: Any, tmp_path: Path) -> None:
    page = watched()
    page.go(f"/ask{QUERY}")
    page.page.get_by_role("button", name="Card").click()
    page.page.wait_for_function("() => document.querySelector('dialog img')?.naturalWidth === 1200")
    assert page.page.get_by_role("dialog").get_by_role("status").count() == 0
    for ending, begins in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        with page.page.expect_download() as waiting:
            page.page.get_by_role("link", name=f"Save as {ending.upper()}").click()
        waiting.value.save_as(tmp_path / "card")
        assert waiting.value.suggested_filename == f"lockstep-ask.{ending}"
        assert (tmp_path / "card").read_bytes().startswith(begins)
    page.page.keyboard.press("Escape")
    page.page.wait_for_function("() => !document.querySelector('dialog')")
    assert page.page.evaluate("() => document.activeElement.textContent") == "Card"
    page.quiet()


def test_superseded_answers_are_not_drawn(watched: Any) -> None:
    """Of two quick changes the last one is shown, whichever answer comes first."""
    page = watched()
    page.go(f"/ask{QUERY}")
    page.page.route("**/data/ask?**batch=32**", lambda route: None)
    page.page.locator("#f-batch").fill("32")
    page.page.wait_for_url("**batch=32**")
    page.page.locator("#f-batch").fill("256")
    page.page.wait_for_function("() => document.querySelector('footer pre')?.textContent.includes('--batch 256')")
    assert plain(page.page.locator("#f-batch").input_value()) == "256"
