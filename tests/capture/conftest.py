"""Captures of these tests are copies of one process, except where a test is about the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from warm import Warm

from lockstep.run.capture import start


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Who makes the copies."""
    found = Warm()
    yield found
    found.close()


@pytest.fixture(scope="module", autouse=True)
def _captures_are_copies(warm: Warm) -> Iterator[None]:
    with patch.object(start, "subprocess", warm if sys.platform == "linux" else subprocess):
        yield


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's captures are processes that are started for them, as a user's are."""
    monkeypatch.setattr(start, "subprocess", subprocess)
