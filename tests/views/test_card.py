"""`--card`: one picture of 1,200 x 630 for any answer, with what the command says and nothing else."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.base.units import format_frac, format_time
from lockstep.show.verbs import VERBS
from lockstep.show.views.parts.card import FIGURES, HEIGHT_PX, WIDTH_PX, chosen

RUN = ("llama3-8b", "-c", "dgx-h100:2", "--batch", "128", "--seq", "8192")
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
EXAMPLE = Path(__file__).parents[2] / "examples" / "watched.log"
ASKED: dict[str, tuple[str, ...]] = {
    "estimate": ("estimate", *RUN, "--tp", "2", "--zero", "1"),
    "plan": ("plan", *RUN, "--tokens", "1T"),
    "memory": ("memory", *RUN, "--tp", "2", "--zero", "1"),
    "campaign": ("campaign", *RUN, "--tp", "2", "--zero", "1", "--tokens", "100G", "--campaigns", "10"),
    "compare": ("compare", RUN[0], "tp=2", *RUN[1:]),
    "collective": ("collective", "all-reduce", "--ranks", "8", "--size", "1MB", *LINK),
    "watch": ("watch", str(EXAMPLE)),
    "catalog": ("catalog", "devices"),
    "sweep": ("estimate", *RUN, "--tp", "1,2"),
}


def words(path: Path) -> list[str]:
    """The texts on a card that was written as SVG."""
    return [
        re.sub(r"<[^>]+>", "", one).strip() for one in re.findall(r"<text.*?</text>", path.read_text("utf-8"), re.S)
    ]


@pytest.mark.parametrize("name", ASKED)
def test_every_answer_has_a_card_that_says_what_the_command_says(name: str, tmp_path: Path) -> None:
    drawn, read = tmp_path / "card.png", tmp_path / "card.svg"
    told = run(*ASKED[name], "--card", str(drawn))
    assert told.code == 0, told.err
    data = drawn.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (WIDTH_PX, HEIGHT_PX)
    assert run(*ASKED[name], "--card", str(read)).code == 0
    found = words(read)
    title = told.out.strip().splitlines()[0].partition(":")[0].rstrip(". ")
    assert " ".join(found).startswith(title[:40])
    assert f"lockstep {ASKED[name][0]}" in " ".join(found)


def test_a_step_has_its_interval_its_cost_and_what_binds_it(tmp_path: Path) -> None:
    path = tmp_path / "card.svg"
    run(*ASKED["estimate"], "--card", str(path))
    found = lockstep.estimate(RUN[0], "dgx-h100:2", batch=128, seq=8192, tp=2, zero=1)
    said = words(path)
    assert found.cost_per_token is not None
    for text in (
        "llama3-8b on 16 x h100-sxm", "tp 2, dp 8, ZeRO-1, micro-batch 1", format_time(found.step_time_s),
        f"{format_time(found.interval.low)} to {format_time(found.interval.high)}",
        f"${1e6 * found.cost_per_token:.3g}", format_frac(found.mfu_frac), f"bound by {found.bound_by}",
    ):  # fmt: skip
        assert text in said, text


def test_a_bar_of_the_parts_is_as_wide_as_the_step(tmp_path: Path) -> None:
    path = tmp_path / "card.svg"
    run(*ASKED["estimate"], "--card", str(path))
    text = path.read_text("utf-8")
    bars = [
        tuple(map(float, re.findall(r"[\d.]+", path_data)))
        for path_data in re.findall(r'<path d="(M [^"]*z)', text, re.S)
    ]
    # Of rectangles: x of all corners, by the y of the first; those of the bar share their height.
    rows: dict[float, list[tuple[float, float]]] = {}
    for one in bars:
        if len(one) >= 8:
            rows.setdefault(round(one[1], 2), []).append((min(one[0:8:2]), max(one[0:8:2])))
    widest = max(rows.values(), key=lambda row: (len(row), sum(right - left for left, right in row)))
    edges = sorted(widest)
    assert len(edges) > 3
    assert all(right == pytest.approx(left, abs=0.01) for (_, right), (left, _) in pairwise(edges))


def test_rows_are_bars_the_least_first(tmp_path: Path) -> None:
    path = tmp_path / "card.svg"
    run(*ASKED["sweep"], "--card", str(path))
    steps = {tp: lockstep.estimate(RUN[0], "dgx-h100:2", batch=128, seq=8192, tp=tp).step_time_s for tp in (1, 2)}
    said = words(path)
    places = [said.index(f"--tp {tp}") for tp in sorted(steps, key=lambda tp: steps[tp])]
    assert places == sorted(places)
    assert {format_time(one) for one in steps.values()} <= set(said)


def test_figures_are_few_and_none_is_a_yes_or_no() -> None:
    answer = {
        "a_s": 1.0,
        "b": True,
        "c_frac": 0.5,
        "gpus": 8,
        "d_s": 2.0,
        "e_s": 3.0,
        "f_s": 4.0,
        "cost_per_token": 1e-6,
    }
    found = chosen(answer, ("a_s", "b", "gpus", "c_frac", "d_s", "e_s", "f_s"))
    assert [called for called, _, _ in found] == ["a", "cost", "c", "d"]
    assert len(found) == FIGURES
    assert chosen({}, ("a_s",)) == []


@pytest.mark.parametrize(("file", "said"), [("card.gif", "must end in"), ("missing/card.png", "does not exist")])
def test_a_card_that_cannot_be_written_is_refused_before_anything_is_computed(
    file: str, said: str, tmp_path: Path
) -> None:
    found = run(*ASKED["estimate"], "--card", str(tmp_path / file))
    assert (found.code, found.out) == (2, "")
    assert "--card" in found.err
    assert said in found.err


def test_every_verb_takes_a_card() -> None:
    from typer.main import get_command

    from lockstep.show.cli.app import build

    commands = get_command(build()).commands  # type: ignore[attr-defined]
    assert {verb for verb in VERBS if not any(one.name == "card" for one in commands[verb].params)} == set()
