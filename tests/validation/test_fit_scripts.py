"""The scripts of `tools/fit` are imported, started and documented, so that they keep up with what they fit."""

import subprocess
import sys

import pytest

from fit_scripts import FOLDER, NAMES, fit_script


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_imported_and_documents_its_command(name: str) -> None:
    script = fit_script(name)
    assert (script.__doc__ or "").startswith(f"`python tools/fit/{name}.py`: ")
    assert callable(script.main)
    assert f"| `{name}.py` |" in (FOLDER / "README.md").read_text("utf-8")


def test_a_script_that_imports_another_starts_from_a_checkout() -> None:
    started = [sys.executable, "tools/fit/support.py", "--help"]
    done = subprocess.run(started, cwd=FOLDER.parents[1], capture_output=True, text=True, check=True)
    assert "--curves" in done.stdout
