"""Captures of these tests are copies of one process, except where a test is about the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from warm import Warm

import lockstep
from lockstep.describe.captured import Captured
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


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., Captured]:
    """Captures a program, as a rank of several where `ranks` says so."""

    def run(program: str, *words: str, ranks: int | None = None, rank: int = 0, answer: Sequence[str] = ()) -> Captured:
        script = tmp_path / "train.py"
        script.write_text(program)
        cluster = "h100-sxm:1" if ranks is None else f"dgx-h100:{ranks}"
        return lockstep.capture(
            str(script),
            *words,
            cluster=cluster,
            ranks=ranks,
            rank=rank,
            answer=list(answer),
            out=tmp_path / "step.capture",
        ).captured

    return run
