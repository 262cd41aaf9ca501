"""Where answers go: one JSON object on stdout with `--json`, a table for a person without; errors to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import typer

from lockstep.errors import Infeasible, RunFailed

EXAMPLES = "[bold]Examples[/bold]\n\n"
"""Opens the epilog of a verb; the commands follow, one paragraph each."""


class Ended(Exception):
    """A verb that has printed what there is ends with a code of its own."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"exit code {code}")


class Answer(Protocol):
    """What every library call returns."""

    def to_dict(self) -> dict[str, Any]: ...


def show(answer: Answer, as_json: bool, table: str, *, ok: bool = True) -> None:
    """Prints the answer as JSON, or through `lockstep.report.<table>_table`; exits with 1 when it is a "no"."""
    if as_json:
        print_json(answer.to_dict())
    else:
        from lockstep.report.terminal import console

        import_module(f"lockstep.report.{table}_table").render(answer, console())
    if not ok:
        raise typer.Exit(Infeasible.exit_code)


def plain(value: Any) -> Any:
    """`value` as plain JSON: numpy numbers become Python's, numbers that are not finite become null."""
    # Long lists are of these; asking an abstract class first takes twenty times as long.
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on stdout, keys in the order given."""
    sys.stdout.write(json.dumps(plain(answer), allow_nan=False, ensure_ascii=False) + "\n")


def print_infeasible(error: Infeasible, as_json: bool) -> None:
    """A "no" with its reasons: JSON on stdout when asked for, else one message on stderr."""
    if as_json:
        violations = [violation.to_dict() for violation in error.violations]
        print_json({"feasible": False, "why": str(error), "violations": violations})
    else:
        sys.stderr.write(f"no: {error}\n")


def print_failed(error: RunFailed, as_json: bool) -> None:
    """A real run that ended early: JSON on stdout when asked for, else one message on stderr."""
    if as_json:
        print_json({"ok": False, "why": str(error), "failures": [failure.to_dict() for failure in error.failures]})
    else:
        sys.stderr.write(f"failed: {error}\n")


def show_once(answer: Answer, as_json: bool, table: str, *, ok: bool = True) -> None:
    """`show` for a verb that torchrun or Slurm may have started on every rank: the first one speaks."""
    from lockstep.measure.launch.place import place

    here = place()
    if here is None or here.rank == 0:
        show(answer, as_json, table, ok=ok)
    elif not ok:
        raise typer.Exit(Infeasible.exit_code)
