"""The documentation is true: every example in it runs and prints what it says, every link leads somewhere."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_examples_print_what_they_say(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


SESSIONS = [
    pytest.param(command, output, id=command)
    for command, output in re.findall(
        r"```console\n\$ lockstep (.*?)\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.mark.parametrize(("command", "output"), SESSIONS)
def test_the_readme_shows_what_the_command_prints(command: str, output: str) -> None:
    """110 columns, spaces at line ends dropped."""
    environment = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}
    found = subprocess.run(
        [sys.executable, "-m", "lockstep", *shlex.split(command)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert "\n".join(line.rstrip() for line in found.stdout.rstrip().splitlines()) == output
