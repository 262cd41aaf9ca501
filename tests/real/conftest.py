"""Real software: a file `test_NAME_*.py` is collected where the package that is imported as NAME is installed.

With `--page FILE` a run whose tests all pass writes the page of what was asked.
"""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from agreement import Asker, page


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--page FILE`: where the page is written."""
    parser.addoption("--page", type=Path, metavar="FILE", help="write the page of what real software was asked")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Files about a package that is not installed are not imported."""
    parts = collection_path.name.split("_")
    return True if parts[0] == "test" and importlib.util.find_spec(parts[1].removesuffix(".py")) is None else None


@pytest.fixture
def asked(record_property: object) -> Asker:
    """Begins a question to a package; see `agreement`."""
    return Asker(record_property)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Without what classes log and warn of odd configurations, and of what is not installed."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Writes the page, where one is wanted and nothing failed."""
    file = config.getoption("--page", default=None)
    reports = terminalreporter.stats
    if file is None or reports.get("failed") or reports.get("error"):
        return
    rows = [value for report in reports.get("passed", ()) for name, value in report.user_properties if name == "asked"]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    file.write_text(page(rows, commit.strip()), "utf-8")
