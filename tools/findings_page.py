"""The page of surprises: what `findings/*.sh` say of other software, each in the words of its script.

python tools/pages.py --write docs/reference/surprises.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "findings"
HEAD = """# Surprises of other software

Real libraries of the field sometimes behave otherwise than their names, options or papers suggest, without being wrong
by their own lights. Each script of `findings/` shows one such behaviour: it installs the named releases in a temporary
folder, runs them without Lockstep, and fails if they behave otherwise. None of them belongs to the test suite.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for file in sorted(FOLDER.glob("*.sh")) for line in _finding(file))])


def _finding(file: Path) -> Iterator[str]:
    """Its heading, what happens, and where it was seen."""
    script = file.read_text("utf-8").partition("\nset -")[0].splitlines()[1:]
    paragraphs = re.split(r"\n{2,}", "\n".join(line.removeprefix("#").strip() for line in script).strip())
    seen = next(number for number, text in enumerate(paragraphs) if text.startswith("Seen on"))
    releases = re.match(r"Seen (on [\d-]+ with .*?)(?=\. |, on a|, two|$)", paragraphs[seen], re.DOTALL)
    when = " ".join(releases[1].split()) if releases else ""
    yield f"## {file.stem.replace('_', ' ').capitalize()}\n"
    yield "\n\n".join(paragraphs[:seen]) + f"\n\nSeen {when}: [{file.name}](../../findings/{file.name}).\n"
