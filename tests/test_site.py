"""The documentation site builds without a warning: links, headings, pictures, contents, and every type of the API."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lockstep

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Reads and resolves all pages and writes none, which takes a quarter as long as HTML."""
    pytest.importorskip("furo", reason="needs the docs extra")
    words = f"-m sphinx -q -W -n --keep-going -b dummy -c docs -d {tmp_path / 'read'} . {tmp_path / 'site'}".split()
    found = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    pages = {
        page.name.removesuffix(".doctree")
        for folder in ("verbs", "packages")
        for page in (tmp_path / "read/docs/_api" / folder).iterdir()
    }
    public = {name: getattr(lockstep, name) for name in lockstep.__all__}
    names = {
        one.__name__.removeprefix("lockstep.") if isinstance(one, ModuleType) else name for name, one in public.items()
    }
    assert names <= pages
