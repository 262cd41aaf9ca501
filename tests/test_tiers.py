"""The table of tiers: every test file has one, and no entry outlives its file."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tiers import PLACES, TIERS, tier_of

TESTS = Path(__file__).parent
FILES = sorted(path for path in TESTS.rglob("test_*.py"))


def test_every_test_file_has_a_tier() -> None:
    assert [str(file.relative_to(TESTS)) for file in FILES if tier_of(file) is None] == []


def test_every_tier_entry_matches_one_existing_test_file() -> None:
    named = [place for places in PLACES.values() for place in places]
    assert len(named) == len(set(named))
    for place in named:
        assert any(file.is_relative_to(TESTS / place) for file in FILES), place


def test_test_files_have_unique_module_names() -> None:
    """pytest names a file from the nearest folder up that is no package, and collects one file of each name."""
    named = Counter(path.relative_to(_outside(path.parent)) for path in FILES)
    assert [str(name) for name, times in named.items() if times > 1] == []


def test_no_test_has_a_shorter_timeout_than_the_default() -> None:
    """A limit ends what hangs. One that a quiet machine nearly reaches fails on a busy one."""
    limited = re.compile(r"mark\.timeout" + r"\(")
    assert [path.name for path in TESTS.rglob("*.py") if limited.search(path.read_text("utf-8"))] == []


def test_a_run_ends_with_its_processor_time() -> None:
    """As the check runs: what the tests take is taken by workers, and what their children take counts."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "1",
        "-k",
        "importing_lockstep",
        str(TESTS / "test_house.py"),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (took_s,) = re.findall(r"^processor time: ([\d,.]+) s", said, re.MULTILINE)
    assert float(took_s) > 0


def _outside(folder: Path) -> Path:
    """The nearest folder, from this one up, that is no package."""
    return _outside(folder.parent) if (folder / "__init__.py").exists() else folder


def test_tiers_used_by_the_check_exist() -> None:
    script = (TESTS.parent / "check").read_text("utf-8")
    asked = {tier for words in re.findall(r'-m "?([a-z]+(?: or [a-z]+)*)"? ', script) for tier in words.split(" or ")}
    assert asked - {"pip", "pytest", "venv"} == {"fast"} <= set(TIERS)
