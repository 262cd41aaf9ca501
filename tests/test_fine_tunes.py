"""The page of common fine-tunes says what the planner answers today."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from effort import share

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fine_tunes", ROOT / "tools" / "fine_tunes.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_fine_tunes_page_matches_the_planner(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change that moves an answer: python tools/pages.py --write docs/use/fine-tunes.md.

    Every run plans a share of the fine-tunes, some of every method and on every machine; the others are as written.
    """
    written = (ROOT / "docs" / "use" / "fine-tunes.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in written.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 40
    known, plans = {(model, method): cells for model, method, *cells in rows}, tool.cell
    asked = share(list(known), 3)
    assert {method for _, method in asked} == set(tool.METHODS)

    def cell(model: str, method: str, machine: str) -> str:
        as_written = known[model, method][list(tool.MACHINES).index(machine)]
        return plans(model, method, machine) if (model, method) in asked else as_written

    monkeypatch.setattr(tool, "cell", cell)
    assert written.strip() == tool.page().strip()
