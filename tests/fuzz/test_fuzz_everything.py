"""The fuzzer: bad words, files, stores and environments of `fuzz_cases.py`; no hang, no traceback, nothing ignored.

pytest tests/fuzz/test_fuzz_everything.py                         the 300 first cases of seed 1
LOCKSTEP_FUZZ=5000 pytest tests/fuzz/test_fuzz_everything.py      as many as wanted
LOCKSTEP_FUZZ_SEED=2 ...                                          other cases
LOCKSTEP_FUZZ_ONLY=1234 ...                                       one case, to look at
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fuzz_cases import STEPS_SAVED, Case, case, weights

from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.run.checkpoint import latest

CASES = int(os.environ.get("LOCKSTEP_FUZZ", "300"))
SEED = int(os.environ.get("LOCKSTEP_FUZZ_SEED", "1"))
ONLY = os.environ.get("LOCKSTEP_FUZZ_ONLY")
BLOCK = 100
PATIENCE_S = 60.0
"""Much longer than any case takes, on a busy machine too."""
LONGEST = 2000
"""Letters of a refusal."""


class Hang(BaseException):
    """No answer within PATIENCE_S."""


@contextmanager
def patience() -> Iterator[None]:
    """Raises Hang inside after PATIENCE_S, and leaves the alarm of the test run as it was."""

    def stop(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)
        signal.signal(signal.SIGALRM, before)


def fault(asked: Case) -> str:
    """What is wrong with how the case ended; empty when nothing is."""
    if asked.checkpoints is not None:
        return checkpoint_fault(asked.checkpoints)
    try:
        with patch.dict(os.environ, asked.environment), patience():
            session = run(*asked.arguments)
    except Hang:
        return "hangs"
    except BaseException as error:
        return f"traceback: {type(error).__name__} {error}"[:300]
    if session.code == 2:
        try:
            said = session.refusal()
        except AssertionError as error:
            return f"a refusal that is not one line: {error}"[:300]
        return "" if len(said) <= LONGEST else f"a message of {len(said)} letters"
    if asked.refused:
        return f"ignored: exit code {session.code}"
    if session.code not in (0, 1):
        return f"exit code {session.code}"
    if "--json" in asked.arguments and session.out:
        try:
            found = json.loads(session.out, parse_constant=lambda name: pytest.fail(name))
        except ValueError as error:
            return f"no JSON: {error}"
        others = [row for row in found.get("rows", ()) if json.dumps(row, sort_keys=True) not in asked.rows]
        if asked.rows and others:
            return f"an answer that nobody computed: {others[0]}"[:300]
    return ""


def checkpoint_fault(root: Path) -> str:
    """A damaged generation is passed over, and an older one used, or it is said that none can be."""
    try:
        with patience():
            found = latest(root)
    except BadInput as error:
        return (
            "" if "\n" not in str(error) and len(str(error)) <= LONGEST else f"a message of {len(str(error))} letters"
        )
    except Hang:
        return "hangs"
    except BaseException as error:
        return f"traceback: {type(error).__name__} {error}"[:300]
    if found is None:
        return ""
    right = found.step in STEPS_SAVED and np.array_equal(found.array("weights"), weights(found.step))
    return "" if right and found.words == {"method": "x"} else f"taken though damaged: step {found.step}"


def faults(numbers: range) -> list[str]:
    """The cases of these numbers that end wrongly."""
    found = []
    for number in numbers:
        folder = Path(tempfile.mkdtemp(prefix="lockstep-fuzz-"))
        try:
            asked = case(number, SEED, folder)
            if wrong := fault(asked):
                words = " ".join(word[:80] for word in asked.arguments)
                found.append(f"{number}: {wrong}\n    {words!r} {asked.environment}"[:700])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found


@pytest.mark.parametrize("first", [int(ONLY)] if ONLY else range(0, CASES, BLOCK))
def test_no_random_command_hangs_crashes_or_ignores_an_option(first: int) -> None:
    found = faults(range(first, first + 1) if ONLY else range(first, min(first + BLOCK, CASES)))
    assert not found, "\n".join(found)
