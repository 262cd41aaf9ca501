"""The screen Diagnose in a browser: files are chosen and left out, numbers are the library's, names are text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import lockstep
from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.diagnosis import lanes
from lockstep.show.web.screens.diagnose import gap_rows
from ui.measured_run import WORDS, dropped, run, write
from ui.megatron_log import MEGATRON
from ui.numbers import numbers, printed, texts
from ui.test_page import COLOURS, LEAST_CONTRAST, OPEN_ALL, UNNAMED, contrast

QUERY = f"?{urlencode(WORDS)}"
SCRIPT = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("traces"))


def shown(paths: list[Path]) -> str:
    """All text with numbers that the screen may show, by the library alone."""
    found = lockstep.diagnose(paths, **run())
    one, both = found.predicted, found.comparison()
    gap_s = [seconds for _, seconds in gap_rows(both)]
    assert sum(gap_s) == pytest.approx(found.measured_s - one.step_time_s, abs=1e-9)
    steps = [format_time(abs(seconds)) for seconds in (*gap_s, found.measured_s - one.step_time_s, found.measured_s)]
    # The axis is cut off where nothing changes: as far below the lowest end of a bar as that is below the highest.
    ends_s = [one.step_time_s + sum(gap_s[:place]) for place in range(len(gap_s) + 1)]
    begin_s = max(0.0, 2 * min(ends_s) - max(ends_s))
    drawn = lanes(found)["timelines"]
    named = [one["name"] for line in drawn for one in (*line["ranks"], *line["lanes"], *line["families"])]
    return texts([
        *named, printed("diagnose", found),
        printed("estimate", one), printed("compare", both), *steps, format_time(begin_s),
        format_frac(found.mfu_frac), *(path.name for path in paths), f"{len(paths) - 3} more", "90 %",
    ])  # fmt: skip


def test_files_can_be_selected_and_removed(paths: list[Path], watched: Any) -> None:
    """Each state is an address; every number on the screen is the library's."""
    page = watched()
    page.go(f"/diagnose{QUERY}")
    page.page.locator("#files-file").set_input_files(paths)
    page.page.wait_for_url("**file=dropped**")
    page.page.wait_for_function("() => document.querySelector('main h1').textContent.startsWith('Rank 3')")
    main = page.settle()
    assert page.page.locator(".files li").all_inner_texts() == [f"{path.name}\n×" for path in paths]
    page.page.evaluate(OPEN_ALL)
    counts = {str(one.text_content()) for one in page.page.locator("main summary small").all()}
    main.locator(".ls-tools").wait_for()
    assert numbers(main.inner_text()) - numbers(shown(paths)) - counts == set()
    assert page.page.locator("main canvas").count() == 2
    for screen in ("compare", "timeline"):
        page.page.locator(f"nav a[data-screen={screen}]").click()
        page.page.wait_for_selector(f".screen.{screen}")
        assert "measured" in page.settle().inner_text().lower()
    page.page.go_back()
    page.page.go_back()
    page.page.wait_for_selector(".screen.diagnose")
    page.settle()
    before = page.page.url
    page.page.locator(".files button").first.click()
    page.page.wait_for_function("() => document.querySelectorAll('.files li').length === 7")
    page.settle()
    assert len(page.page.url) < len(before)
    page.quiet()


def test_a_log_fills_the_fields_that_it_states(watched: Any, tmp_path: Path) -> None:
    """What was asked before gives way; the cluster, which no log names, stays."""
    (tmp_path / "train.log").write_text(MEGATRON)
    page = watched()
    page.go("/diagnose?model=llama3-70b&cluster=dgx-h100:2&batch_tokens=4M&tp=8&pp=1")
    page.page.locator("#files-file").set_input_files(tmp_path / "train.log")
    page.page.wait_for_url("**file=dropped**")
    page.page.wait_for_function("() => document.querySelector('main .over')?.textContent.includes('tp 2, pp 2')")
    page.settle()
    values = [page.page.locator(f"#f-{name}").input_value() for name in ("model", "cluster", "batch_tokens", "tp")]
    assert values == ["", "dgx-h100:2", "", ""]
    said = page.page.locator("footer pre").first.inner_text().strip()
    assert said == "lockstep diagnose train.log --cluster dgx-h100:2"
    page.quiet()


def test_a_log_of_fewer_devices_than_the_form_has_is_read_as_it_says(client: Any) -> None:
    """Its own words come first; what is said besides and does not go with them is named."""
    word = json.loads(client.ask("/drop/measured?name=train.log", "POST", MEGATRON.encode()).body)["word"]
    words = {"file": word, "cluster": "dgx-h100:64"}
    shown = client.json("/data/diagnose", words)["data"]
    assert " on 16 x h100-sxm" in shown["title"]
    assert shown["figures"][0]["value"] == "9.001 s"
    refused = client.json("/data/diagnose", {**words, "tp": "4", "pp": "8"})["data"]
    assert "train.log has tp 2, not 4 and pp 2, not 8" in refused["refused"]
    assert "9.001 s" in json.dumps(refused["blocks"])


def test_a_measured_number_can_be_typed(watched: Any) -> None:
    page = watched()
    page.go(f"/diagnose{QUERY}")
    assert page.page.locator("h1").inner_text() == "Hold a measured run against this prediction"
    page.page.locator("#f-measured").fill("12s")
    page.page.wait_for_function("() => document.querySelector('main h1').textContent.startsWith('12 s per step')")
    assert "measured=12s" in page.page.url
    assert "--measured 12s" in page.page.locator("footer pre").first.inner_text()
    page.page.locator("#f-measured").fill("soon")
    page.page.wait_for_selector("main .refused")
    assert page.page.locator("#f-measured").get_attribute("aria-invalid") == "true"


def test_names_are_text_and_refusals_are_shown(watched: Any, tmp_path: Path) -> None:
    """A good file among bad ones is read all the same."""
    page = watched()
    page.go("/diagnose")
    rows = "".join(f'0,{step},"{SCRIPT}",{step}.0,0.5\n' for step in range(6))
    (tmp_path / "<img src=x onerror=alert(1)>.csv").write_text(f"rank,step,op,start_s,duration_s\n{rows}")
    (tmp_path / "notes.txt").write_text("nothing of a run")
    page.page.locator("#files-file").set_input_files(sorted(tmp_path.iterdir()))
    page.page.wait_for_url("**file=dropped**")
    page.page.wait_for_function("() => document.querySelector('main h1').textContent.includes('per step')")
    assert "</script>" in page.settle().inner_text()
    said = page.page.locator("#read-file").inner_text()
    assert said.startswith("notes.txt: ")
    assert "of no kind known" in said
    assert page.page.locator("main img, .files img").count() == 0
    assert page.page.evaluate("() => window.ran") is None
    page.complaints = [one for one in page.complaints if "422" not in one]
    page.quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_on_any_screen(scheme: str, paths: list[Path], client: Any, watched: Any) -> None:
    """On a phone without scrolling sideways, with enough contrast, by words where there is a picture."""
    page = watched(320, scheme)
    words = dropped(client, paths)
    for screen in ("diagnose", "compare", "timeline"):
        page.go(f"/{screen}?{urlencode(words)}")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 320, screen
        assert page.page.locator("h1").count() == 1, screen
        assert page.page.evaluate(UNNAMED) == [], screen
        seen = page.page.evaluate(COLOURS)
        assert [one for one in seen if contrast(*one[:2]) < LEAST_CONTRAST] == [], screen
    page.quiet()
