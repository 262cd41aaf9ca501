"""The pictures of README and the documentation, each by the command that draws it, and what is written in each.

A picture of a plot says what it shows in its PNG (`Title`, `Description`); that of the page has the words of the screen
there. Two pictures that say the same show the same numbers, whatever fonts a machine has.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
FIGURES = ROOT / "docs" / "exercises" / "figures"
"""Of exercises, an SVG each."""
sys.path.append(str(ROOT / "tests"))

from cli_runner import run  # noqa: E402

PLOTS = {
    "plan.png": "plan llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot",
    "errors.png": "validate --plot",
    "zb-h1.png": "pipeline --stages 4 --microbatches 8 --schedule zb-h1 --plot",
    "claims-b14.png": "claims B.14 --plot",
    "machine.png": "estimate llama3-70b --cluster dgx-h100:8 --tp 8 --pp 4 --batch 256 --moment 40% --machine",
}
"""By file the command that draws it, which ends with the option for the file."""
SCREENS = {"ui.png": "/ask"}
"""By file the screen of the page with its first question."""
SIZE = {"width": 1400, "height": 1000}
PATIENCE_MS = 300_000
OTHERS = {
    "capture.png": "captures a program with PyTorch",
    "dualpipe.png": "is drawn by a program",
    "models-clusters.png": "takes 3,000 plans",
    "rig.png": "is measured",
}
"""Pictures that are left as they are."""
WORDS = ("Title", "Description")


def said(picture: Path) -> dict[str, str]:
    """What is written in a picture about what it shows."""
    from PIL import Image

    with Image.open(picture) as image:
        return {name: str(image.info[name]) for name in WORDS if name in image.info}


def drawn(name: str, folder: Path) -> Path:
    """The picture as it is today, below `folder`. Raises RuntimeError for a command that ends otherwise."""
    made = folder / name
    if name in SCREENS:
        return photographed(SCREENS[name], made)
    found = run(*shlex.split(PLOTS[name]), str(made))
    if not made.is_file():
        raise RuntimeError(f"lockstep {PLOTS[name]} {name}: {found.err}")
    return made


def shown(text: str) -> str:
    """The words of a screen with one space between them."""
    return " ".join(text.split())


def photographed(path: str, made: Path) -> Path:
    """A screen of the page with its first question, as a browser draws it on light paper."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    import lockstep

    running = lockstep.ui(open=False)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        page.goto(running.address)
        page.goto(running.address.partition("/?")[0] + path)
        page.wait_for_selector("main .screen")
        page.wait_for_function("() => !document.querySelector('main[aria-busy], [role=status]')")
        words = shown(page.locator("main .screen").inner_text())
        page.screenshot(path=made)
        browser.close()
    running.stop()
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", words)
    with Image.open(made) as image:
        image.save(made, pnginfo=info, optimize=True)
    return made


def pictures(found: list[str], write: bool) -> None:
    """Adds to `found` every picture that shows something else today; with `write` draws it anew."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        for name in (*SCREENS, *PLOTS):
            made, kept = drawn(name, Path(folder)), FOLDER / name
            if said(made) == said(kept) and said(kept):
                continue
            found.append(f"docs/pictures/{name}: the picture")
            if write:
                shutil.copyfile(made, kept)


def figures(found: list[str], write: bool) -> None:
    """The same of the figures of exercises, and of those that no exercise has any more."""
    from tempfile import TemporaryDirectory

    from lockstep.check.evidence.claims.pictures import pictures as drawn_of
    from lockstep.check.evidence.claims.shelf import entries
    from lockstep.learn.lab import each_run_once
    from lockstep.show.views.parts.claims_plot import plot_pictures
    from lockstep.show.views.parts.figure import save_figure

    names = [name for one in entries() if one.kind == "exercise" for name in one.figures]
    with TemporaryDirectory() as folder, each_run_once():
        for name in names:
            made, kept = Path(folder, f"{name}.svg"), FIGURES / f"{name}.svg"
            save_figure(plot_pictures(drawn_of(name)), made)
            svg = slim(made.read_text("utf-8"))
            if kept.is_file() and kept.read_text("utf-8") == svg:
                continue
            found.append(f"docs/exercises/figures/{name}.svg: the figure")
            if write:
                kept.write_text(svg, "utf-8")
    for old in (one for one in FIGURES.glob("*.svg") if one.stem not in names):
        found.append(f"docs/exercises/figures/{old.name}: no exercise has it")
        if write:
            old.unlink()


def slim(svg: str) -> str:
    """An SVG in fewer bytes: without notes of its program and blanks between elements, places to a tenth of a point."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    svg = re.sub(r">\s+<", "><", svg)
    # Ticks have the style of the path that they use.
    svg = re.sub(r'(<use [^>]*?) style="stroke: #000000; stroke-width: 0.8"', r"\1", svg)
    svg = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]*"', lambda found: _rounded(found[0]), svg)
    return svg.strip() + "\n"


def _rounded(attribute: str) -> str:
    shorter = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), attribute)
    return " ".join(shorter.split())
