"""How long the views of a page take to draw, in a headless browser: pictures anew, and frames while one is dragged.

    python benchmarks/views.py [--browser PATH]

`redraw` is the picture made anew with all its surroundings, `frame` what a frame takes while a drag stays inside them;
both until the pixels are there (one is read back) and, in `script`, until the script ends. Each the median and the
worst of ROUNDS. Needs playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.base.types.plain import Json
from lockstep.show.views.page import inline
from lockstep.show.views.page.columns import packed
from lockstep.show.views.page.shown import DIGITS, UNITS
from lockstep.show.views.page.space import FIELDS, WHY
from lockstep.show.views.page.timeline import timeline_form
from lockstep.show.views.parts.html import document
from lockstep.simulate.program import Kind, ProgramBuilder, Timeline

ROUNDS = 30
SPANS, POINTS = 100_000, 250_000
GIB = 2.0**30
MEASURE = """async ([kind, rounds]) => {
  const place = document.getElementById(kind + "-view");
  while (!place.lockstep) await new Promise((done) => setTimeout(done, 20));
  const {view} = place.lockstep;
  const pixel = () => view.canvas.getContext("2d").getImageData(view.width / 2, view.height / 2, 1, 1);
  const times = {redraw: [], redraw_script: [], frame: [], frame_script: [], zoomed: []};
  const timed = (name, before, act) => {
    before();
    const began = performance.now();
    act();
    const script = performance.now() - began;
    pixel();
    times[name].push(performance.now() - began);
    if (times[name + "_script"]) times[name + "_script"].push(script);
  };
  cancelAnimationFrame(view.asked);
  for (let i = 0; i < rounds; i++) timed("redraw", () => (view.cache = null), () => view.frame());
  view.zoom(4);
  view.zoomed = 0;
  for (let i = 0; i < rounds; i++) timed("zoomed", () => (view.cache = null), () => view.frame());
  const drag = (i) => (i % 20 < 10 ? view.pan(3, 2) : view.pan(-3, -2));
  for (let i = 0; i < rounds; i++) timed("frame", () => drag(i), () => view.frame());
  return times;
}"""


def spans() -> Timeline:
    """Sixteen ranks that compute and send; each lane the same number of spans without a pause of the same length."""
    rng, ranks, streams = np.random.default_rng(0), 16, ("compute", "tp", "dp", "send")
    each = SPANS // ranks // len(streams)
    builder = ProgramBuilder(ranks, streams)
    starts, ends = [], []
    for rank in range(ranks):
        for stream in streams:
            length_s, pause_s = rng.uniform(0.2e-3, 2e-3, each), rng.uniform(0, 1e-3, each)
            end_s = np.cumsum(length_s + pause_s)
            for i in range(each):
                if stream == "compute":
                    builder.compute(rank, length_s[i], label=f"{'FBW'[i % 3]}{i // 3}", stream=stream)
                else:
                    builder.collective([rank], "all-gather", 1e6, duration_s=length_s[i], label=stream, stream=stream)
            starts.append(end_s - length_s)
            ends.append(end_s)
    return Timeline(builder.build(), np.concatenate(starts), np.concatenate(ends))


def memory() -> Timeline:
    """Four ranks whose memory changes at a quarter of POINTS moments each."""
    rng, ranks, each = np.random.default_rng(1), 4, POINTS // 8
    builder = ProgramBuilder(ranks, ("compute",))
    for rank in range(ranks):
        taken = rng.uniform(0, 1e6, each)
        builder.extend(
            Kind.COMPUTE, np.full(each, rank), duration_s=1e-3, label="F0", memory_start_B=taken,
            memory_end_B=-taken * 0.9,
        )  # fmt: skip
    end_s = np.tile(np.arange(1, each + 1) * 1e-3, ranks)
    return Timeline(builder.build(), end_s - 1e-3, end_s, held_B={"parameters": [10 * GIB] * ranks})


def layouts() -> Json:
    """POINTS layouts in the form of a search."""
    rng = np.random.default_rng(2)
    memory_B = np.exp(rng.normal(np.log(40 * GIB), 1.0, POINTS))
    texts = [[f"{name}{2**i}" for i in range(6)] for name in FIELDS]
    return {
        "head": {
            "model": "drawn", "devices": 512, "device": "drawn", "software": "", "capacity_B": 80 * GIB, "why": WHY,
            "digits": DIGITS, "units": UNITS,
            "fields": [{"name": name, "absent": absent} for name, (_, absent) in FIELDS.items()],
        },
        "chunks": [{
            "points": POINTS, "step_time_s": packed(np.exp(rng.normal(3.0, 1.0, POINTS))), "memory_B": packed(memory_B),
            "why": packed((memory_B > 80 * GIB).astype(np.int64)), "refusals": [],
            "texts": texts, "words": [[{}] * 6 for _ in FIELDS],
            "columns": [packed(rng.integers(0, 6, POINTS)) for _ in FIELDS],
        }],
        "found": None,
    }  # fmt: skip


def measured(browser: Any, kind: str, form: Json) -> dict[str, list[float]]:
    """Milliseconds of every round, in a page of 1,400 x 900."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "view.html"
        file.write_text(document("benchmark", inline.block(kind, form), views=True), "utf-8")
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(file.as_uri())
        found: dict[str, list[float]] = page.evaluate(MEASURE, [kind, ROUNDS])
        page.close()
        return found


def main() -> None:
    """Prints a line per picture and quantity."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    path = parser.parse_args().browser
    forms = {
        f"timeline of {SPANS:,} spans": ("timeline", timeline_form(spans())),
        f"memory of {POINTS:,} points": ("timeline", timeline_form(memory())),
        f"space of {POINTS:,} layouts": ("space", layouts()),
    }
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        print(f"{browser.version}, software rendering; milliseconds, median of {ROUNDS} and the worst")
        for title, (kind, form) in forms.items():
            print(f"{title}, {len(json.dumps(form)) / 1e6:.2f} MB")
            for name, times in measured(browser, kind, form).items():
                print(f"  {name.replace('_', ' '):15} {statistics.median(times):7.2f} {max(times):7.2f}")
        browser.close()


if __name__ == "__main__":
    main()
