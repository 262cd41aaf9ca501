"""The walks of docs/decisions/0023: functions that a question passes through, in the order of their first calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lockstep
from lockstep.show.cli.app import main

ROOT = Path(lockstep.__file__).parent
PAGE = (ROOT.parents[1] / "docs/decisions/0023-how-a-question-becomes-an-answer.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d) \| `([\w/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)
MOST_HOPS = 8
LAYOUT = [
    "llama3-8b", "-c", "dgx-h100:2", "--seq", "1792", "--batch", "48",
    "--tp", "4", "--pp", "2", "--dtype", "fp8", "--micro-batch", "2",
]  # fmt: skip
MEASURED = ["--model", "gpt2", "-c", "dgx-h100:1", "--batch", "64", "--zero", "3"]
WALKS = {
    heading: [(file, function) for _, file, function in ROW.findall(text)]
    for heading, text in re.findall(
        r"^### (.+?)\n(.*?)(?=\n#|\Z)", PAGE.partition("## Walks")[2], re.MULTILINE | re.DOTALL
    )
}


@contextmanager
def called() -> Iterator[list[tuple[str, str]]]:
    """(file, function) of every function of Lockstep that is called, by its first call."""
    first: dict[tuple[str, str], None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)):
            first.setdefault((Path(name).relative_to(ROOT).as_posix(), frame.f_code.co_qualname))

    found: list[tuple[str, str]] = []
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield found
    finally:
        sys.setprofile(before)
        found += first


def test_the_page_has_the_four_walks() -> None:
    assert len(WALKS) == 4
    assert all(2 < len(hops) <= MOST_HOPS for hops in WALKS.values())


@pytest.mark.parametrize("walk", [name for name in WALKS if "estimate" in name])
def test_an_option_passes_through_the_functions_of_its_walk(walk: str) -> None:
    with called() as found, pytest.raises(SystemExit, match="0"):
        main(["estimate", *LAYOUT])
    _in_order(WALKS[walk], found)


def test_a_trace_passes_through_the_functions_of_its_walk(tmp_path: Path) -> None:
    folder = str(tmp_path / "made")
    with pytest.raises(SystemExit, match="0"):
        main(["estimate", "gpt2", *MEASURED[2:], "--as", "kineto", "--trace", folder])
    with called() as found, pytest.raises(SystemExit, match="0"):
        main(["diagnose", folder, *MEASURED])
    _in_order(next(hops for name, hops in WALKS.items() if "trace" in name), found)


def _in_order(hops: list[tuple[str, str]], found: list[tuple[str, str]]) -> None:
    """Whether each hop is called, for the first time after the one before it."""
    places = [found.index(hop) if hop in found else None for hop in hops]
    assert None not in places, [hop for hop in hops if hop not in found]
    assert places == sorted(place for place in places if place is not None)
