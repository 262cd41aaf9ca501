"""How long the page waits: answers of its screens after a change, and the first paint after `lockstep ui` has started.

    python benchmarks/ui_answers.py [--changes N]

A 70B model on 512 devices: batch, length, number format and goal are changed one after the other, no question twice,
and every answer is asked of the server as the browser asks it. A step over 256 and over 16,384 devices is drawn and
scrubbed. Prints quantiles of seconds and of processor time, which
other programs on the machine change less, and what is drawn when in a browser where playwright and a chromium are
installed.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import itertools
import shutil
import time
import urllib.request
from contextlib import suppress
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

import numpy as np

import lockstep

QUESTION = {"model": "llama3-70b", "cluster": "dgx-h100:64", "tokens": "15T"}
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Million tokens per step."""
LENGTHS = ("2048", "4096", "8192")
FORMATS = ("bf16", "fp8")
GOALS = ("robust", "time")
SCREENS = ("ask", "layout", "whatif", "compare", "diagnose", "trust", "campaign")
MEASURED = {"diagnose": {"mfu": "30%"}}
MACHINES = {
    256: {"cluster": "dgx-h100:32", "batch": "256", "dp": "2"},
    16_384: {"cluster": "dgx-h100:2048", "batch": "2048", "dp": "128"},
}
STEP = {"model": "llama3-70b", "seq": "8192", "tp": "8", "pp": "16", "zero": "1", "schedule": "1f1b"}
SCRUB = """async () => {
  const {machine} = await import("/views/machine.js"), place = document.createElement("div"), frames = [];
  const {data} = await (await fetch("/data/machine" + location.search)).json();
  document.querySelector("main").append(place);
  const began = performance.now(), made = await machine(place, data.form), first = performance.now() - began;
  for (let i = 0; i <= 400; i++) {
    made.seek(i / 400);
    frames.push(made.times.frame_ms);
    await new Promise((done) => requestAnimationFrame(done));
  }
  place.remove();
  return [first, ...frames];
}"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Prints a line for each screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=40, help="questions for each screen")
    count = parser.parse_args().changes
    began = time.perf_counter()
    served = lockstep.ui(open=False)
    print(f"server up after {1e3 * (time.perf_counter() - began):.0f} ms")
    paint(served.address)
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(served.address).read()
    base = "http://" + urlsplit(served.address).netloc
    for screen in SCREENS:
        opener.open(f"{base}/data/{screen}?{urlencode({**QUESTION, 'batch_tokens': '5M'})}").read()
        found = [asked(opener, f"{base}/data/{screen}?{urlencode(words)}") for words in questions(screen, count)]
        (median, busy), (p95, busy95) = 1e3 * np.quantile(found, (0.5, 0.95), axis=0)
        print(
            f"{screen:9} median {median:4.0f} ms, 95th percentile {p95:4.0f} ms; "
            f"of processor time {busy:4.0f} and {busy95:4.0f} ms"
        )
    served.stop()


def questions(screen: str, count: int) -> list[dict[str, str]]:
    """Changes of one word at a time, other ones for each screen, so that no answer is there already."""
    more = SCREENS.index(screen) / 10
    every = itertools.product(FORMATS, LENGTHS, GOALS, BATCHES)
    words = (
        {**QUESTION, **MEASURED.get(screen, {}), "dtype": a, "seq": b, "objective": c, "batch_tokens": f"{d + more:g}M"}
        for a, b, c, d in every
    )
    return list(itertools.islice(words, count))


def asked(opener: urllib.request.OpenerDirector, address: str) -> tuple[float, float]:
    """Seconds of one answer, on the clock and of this process, which is the server too."""
    began, busy = time.perf_counter(), time.process_time()
    with suppress(HTTPError):
        # A layout that does not fit is an answer too.
        opener.open(address).read()
    return time.perf_counter() - began, time.process_time() - busy


def paint(address: str) -> None:
    """Milliseconds from opening the address to the first paint and to the first answer; of steps over machines."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        return print("first paint: not measured, as playwright or a chromium is missing")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".screen", timeout=60_000)
        first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        drawn = page.evaluate("performance.now()")
        print(f"first paint after {first:.0f} ms, first answer drawn after {drawn:.0f} ms")
        for devices, words in MACHINES.items():
            page.goto(f"http://{urlsplit(address).netloc}/machine?{urlencode({**STEP, **words})}")
            page.wait_for_selector(".ls-machine", timeout=60_000)
            first, *frames = page.evaluate(SCRUB)
            median, p95 = np.quantile(frames, (0.5, 0.95))
            print(
                f"{devices:,} devices drawn after {first:.0f} ms; frames {median:.1f} ms, 95th percentile {p95:.1f} ms"
            )
        browser.close()


if __name__ == "__main__":
    main()
