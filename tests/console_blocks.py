"""The documentation's code blocks, and what the commands in them print: for the tests and for `tools/pages.py`."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from cli_runner import run

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SURROUNDINGS = {"COLUMNS": "110", "NO_COLOR": "1"}
MEASURING = ("execute", "bench", "fit", "rig", "train", "reproduce", "runs")
"""Verbs that print what they measure on the machine they run on, or what others did."""
REFUSED = {"no:": 1, "error:": 2}
"""Exit codes of answers that go to stderr, by their first word."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Session:
    """A console block: one command, and what the page says it prints."""

    command: str
    output: str

    @property
    def refused(self) -> int | None:
        """The exit code, where the page shows a refusal."""
        return REFUSED.get(self.output.partition(" ")[0])


def name_of(page: Path) -> str:
    """A page's path below the root."""
    return str(page.relative_to(ROOT))


def blocks() -> Iterator[tuple[str, str, str]]:
    """Page, language and body of every fenced block."""
    for page in PAGES:
        for found in FENCE.finditer(page.read_text("utf-8")):
            yield name_of(page), found[1], found[2]


def session(language: str, body: str) -> Session | None:
    """The session in a block, if the block is one whose output does not depend on the machine."""
    if language != "console" or not body.startswith("$ lockstep ") or body.split()[2] in MEASURING:
        return None
    command, _, output = body.partition("\n")
    return Session(command.removeprefix("$ lockstep "), output)


@contextmanager
def beside_examples() -> Iterator[None]:
    """Works in an empty folder that links to `examples`, with the width and the colours of the pages."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, SURROUNDINGS):
        Path(folder, "examples").symlink_to(ROOT / "examples")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def printed(asked: Session) -> str:
    """What the command prints, without spaces at line ends; of a refusal, what it writes to stderr."""
    with beside_examples():
        found = run(*shlex.split(asked.command))
    expected = asked.refused or 0
    assert found.code == expected, f"{asked.command}: exit code {found.code}, not {expected}: {found.err}"
    return "\n".join(line.rstrip() for line in (found.err if expected else found.out).rstrip().splitlines())


def compared(asked: Session, text: str) -> list[str]:
    """What of an output must be equal: its lines, or its words where a refusal may break its lines anywhere."""
    return text.split() if asked.refused is not None else text.rstrip().splitlines()
