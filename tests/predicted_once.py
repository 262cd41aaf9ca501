"""Published tables that are predicted once for all processes of a test run: each takes seconds, and many tests ask."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

PATIENCE_S = 300.0
"""A process that waits longer for another one predicts the table itself."""


def shared(predict: Callable[[Any], Any], folder: Path) -> Callable[[Any], Any]:
    """`predict` of a table, whose report the first process that asks leaves in `folder` for the others."""
    folder.mkdir(exist_ok=True)

    @cache
    def report(table: Any) -> Any:
        done, claim = folder / f"{table.name}.report", folder / f"{table.name}.claim"
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            until_s = time.monotonic() + PATIENCE_S
            while not done.exists() and time.monotonic() < until_s:
                time.sleep(0.05)
            if done.exists():
                return replace(pickle.loads(done.read_bytes()), table=table)
        found = predict(table)
        written = folder / f"{table.name}.written"
        written.write_bytes(pickle.dumps(replace(found, table=None)))
        written.rename(done)
        return found

    return report
