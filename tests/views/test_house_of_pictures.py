"""The house style of pictures: few sizes of letters and lines, legends without frames, nothing outside the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib import image
from matplotlib.figure import Figure
from matplotlib.text import Text

from cli_programs.questions import COMMANDS
from cli_runner import LLAMA, run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPT2 = ("gpt2", "--cluster", "dgx-a100-40gb:1", "--batch", "64")
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES: dict[str, tuple[str, ...]] = {
    **COMMANDS,
    "compare": ("compare", LLAMA[0], "tp=2", *LLAMA[1:], "--tp", "1", "--zero", "1"),
    "memory": ("memory", *LLAMA, "--pp", "2", "--zero", "3"),
    "guide": ("guide", *LLAMA),
    "roofline": ("roofline", *LLAMA, "--tp", "2", "--zero", "1"),
    "sensitivity": ("sensitivity", *LLAMA, "--zero", "3"),
    "trace": ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "{folder}/made.json"),
    "calibrate": ("calibrate", "-c", "dgx-h100:4", "--case", str(EXAMPLES / "steps-16.yaml")),
    "catalog": ("catalog",),
    "models": ("catalog", "models"),
    "support": ("support",),
    "support of one device": ("support", "h100-sxm"),
    "one bucket": ("overlap", "--layers", "1", "--backward", "48ms", "--gradients", "70MB", "--ranks", "8", *LINK),
    "plan": ("plan", *LLAMA),
    "validate": ("validate", "llm_foundry_mpt"),
    "estimate": ("estimate", *LLAMA, "--pp", "4"),
    "machine": ("estimate", *LLAMA, "--tp", "2", "--pp", "4", "--zero", "1", "--machine", "{folder}/machine.png"),
    "choices": ("pipeline", "--stages", "4", "--microbatches", "8,16", "--schedule", "all"),
    "scaling": ("scaling", "gpt2", "-c", "ethernet-25-v100:4", "--batch", "256"),
    "speedup": ("speedup", "--compute", "10s", "--size", "200MB", "--serial", "1%", *LINK),
    "campaign": ("campaign", *GPT2, "--tokens", "1G", "--device-mtbf", "1y"),
    "converge": ("converge", "delay-stability", "--set=delays=0,1,5", "--set=momenta=0.5,0.9"),
    "points": ("converge", "index-bits"),
    "sweep": (
        "converge",
        "time-to-accuracy",
        "--sweep=bandwidth_Bps=1Gbit/s..4Gbit/sx2",
        "--set=trials=4",
        "--set=steps=120",
    ),
    "sweep of curves": ("converge", "delay-floor", "--sweep=noise_std=0.5,1", "--set=trials=200", "--seeds=2"),
}
LETTERS = {6.5: "inside a span", 7: "beside a dot", 8: "ticks that are names, legends", 10: "titles, axes"}
THIN, THICK = 1.3, 2.8
"""Curves that may lie on one another grow thinner from the first to the last."""
WIDTHS = {0, 0.4, 0.8, 1, 1.2, 1.5, THIN, THICK}
DOTS = {4, 6, 7, 8, 9}
DPI = 150


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figure of a command, and the file."""
    kept: list[Figure] = []
    write = Figure.savefig

    def keep(figure: Figure, *words: Any, **more: Any) -> None:
        kept.append(figure)
        write(figure, *words, **more)

    monkeypatch.setattr(Figure, "savefig", keep)

    def draw(*words: str) -> tuple[Figure, Path]:
        file = tmp_path / "picture.png"
        session = run(*(word.format(folder=tmp_path) for word in words), "--plot", str(file), "--json")
        assert session.code in (0, 1), session.err
        other = tmp_path / "machine.png"
        return kept[-1], other if other.exists() else file

    return draw


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_keeps_the_house_style(name: str, paper: Any) -> None:
    figure, file = paper(*PICTURES[name])
    height, width = image.imread(file).shape[:2]
    assert [width, height] == [pytest.approx(DPI * inches, abs=1) for inches in figure.get_size_inches()]
    figure.draw_without_rendering()
    assert figure.axes[0].get_title(loc="left")
    for axes in figure.axes:
        _frames_are_open(axes)
        _few_sizes(axes)
        _names_are_told_apart(axes)
        _everything_is_on_the_paper(figure, axes)


def _frames_are_open(axes: Axes) -> None:
    assert not any(axes.spines[side].get_visible() for side in ("top", "right"))
    legend = axes.get_legend()
    assert legend is None or not legend.get_frame_on()


def _few_sizes(axes: Axes) -> None:
    texts = [one for one in axes.findobj(Text) if one.get_text()]
    assert {one.get_fontsize() for one in texts} <= set(LETTERS)
    legend = axes.get_legend()
    if legend is not None:
        assert {one.get_fontsize() for one in legend.texts} == {8}
    named = [one.get_text() for one in axes.get_yticklabels()]
    if any(not text[:1].isdigit() for text in named if text):
        assert {one.get_fontsize() for one in axes.get_yticklabels()} <= {8, 10}
    for line in axes.lines:
        assert line.get_linewidth() in WIDTHS or THIN < line.get_linewidth() < THICK
        assert line.get_marker() not in ("o", "s", "x", ".") or line.get_markersize() in DOTS


def _names_are_told_apart(axes: Axes) -> None:
    """No two lines of a legend have the same colour, dash and marker."""
    drawn = [line for line in axes.lines if not str(line.get_label()).startswith("_") and len(line.get_xdata())]
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in drawn}
    assert len(looks) == len(drawn)


def _everything_is_on_the_paper(figure: Figure, axes: Axes) -> None:
    """Letters and legend inside the figure; lines, bars and dots inside the axes."""
    whole = figure.bbox.padded(2)
    for one in axes.findobj(Text):
        if one.get_text() and one.get_visible() and not one.get_clip_on():
            box = one.get_window_extent()
            assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, one.get_text()
            assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, one.get_text()
    low, high = sorted(axes.get_xlim())
    for line in axes.lines:
        if line.get_transform() == axes.transData and len(line.get_xdata()):
            assert low <= min(line.get_xdata()) <= max(line.get_xdata()) <= high
    for bar in axes.patches:
        ends = (bar.get_x(), bar.get_x() + bar.get_width())
        assert low <= min(ends) <= max(ends) <= high
