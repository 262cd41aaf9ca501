"""Runs the command line in this process, or in one of its own, and checks what holds for every run."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.show.cli import main

LLAMA = ("llama3-8b", "--cluster", "dgx-h100:2", "--batch", "64")
"""A small question."""


@dataclass(frozen=True)
class Session:
    """What a run left behind."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; NaN and infinities are no JSON."""
        assert self.out.count("\n") == 1
        answer: dict[str, Any] = json.loads(self.out, parse_constant=_refuse)
        assert isinstance(answer, dict)
        assert answer.pop("schema") == 1
        return answer

    def refusal(self) -> str:
        """The message of bad input: one located line on stderr, nothing on stdout."""
        assert self.code == 2, (self.code, self.out[:200], self.err[:200])
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").rstrip("\n")


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


def run(*arguments: str) -> Session:
    """Runs `lockstep` with these arguments in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
    return Session(code, out.getvalue(), err.getvalue())


def shell(*arguments: str, env: Mapping[str, str] | None = None) -> Session:
    """Runs `lockstep` with these arguments in a process of its own."""
    made = subprocess.run(
        [sys.executable, "-c", "from lockstep.show.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(env or {})},
        check=False,
    )
    return Session(made.returncode, made.stdout, made.stderr)
