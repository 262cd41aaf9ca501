"""The documentation site builds without a warning: links, headings, pictures, contents, and every type of the API."""

import subprocess
import sys
from pathlib import Path

import pytest

import lockstep

ROOT = Path(__file__).parents[1]


@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Reads and resolves all pages and writes them as plain text, which takes half as long as HTML."""
    pytest.importorskip("furo", reason="needs the docs extra")
    words = f"-m sphinx -q -W -n --keep-going -b text -c docs -d {tmp_path / 'read'} . {tmp_path / 'site'}".split()
    found = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    written = tmp_path / "site/docs/_api"
    listed = (written / "verbs.txt").read_text("utf-8")
    assert [name for name in lockstep.VERBS if f"{name}()" not in listed] == []
    assert {f"{name}.txt" for name in lockstep.PACKAGES} <= {page.name for page in (written / "packages").iterdir()}
