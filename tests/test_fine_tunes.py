"""The page of common fine-tunes says what the planner answers today."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_fine_tunes_page_matches_the_planner() -> None:
    """After a change that moves an answer: python tools/pages.py --write docs/use/fine-tunes.md."""
    spec = importlib.util.spec_from_file_location("fine_tunes", ROOT / "tools" / "fine_tunes.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = (ROOT / "docs" / "use" / "fine-tunes.md").read_text(encoding="utf-8")
    assert written.strip() == tool.page().strip()
    assert written.count("\n| ") - 1 == 40
