"""How long a sweep will take, measured on its first runs, and a limit on it."""

from __future__ import annotations

import time
from collections.abc import Callable

from lockstep.errors import BadInput
from lockstep.lab.experiment import Progress
from lockstep.units import format_time

MOST_S = 3600.0
"""Default limit on the forecast."""
MEASURED_RUNS, MEASURED_S = 3, 2.0
"""The forecast is made that many runs and seconds after the first run, whichever is later."""


def limited(progress: Progress, most_s: float, clock: Callable[[], float] = time.monotonic) -> Progress:
    """`progress` that also forecasts the whole, once. Raises `BadInput` when that is above `most_s`.

    Time counts from the end of the first run, so that the start of processes is not taken for work.
    """
    first: list[tuple[int, float]] = []
    measured = False

    def report(done: int, total: int) -> None:
        nonlocal measured
        first.append((done, clock()))
        del first[1:]
        runs, took_s = done - first[0][0], clock() - first[0][1]
        if not measured and runs >= MEASURED_RUNS and took_s >= MEASURED_S:
            measured = True
            _check(took_s / runs, runs, total, most_s)
        progress(done, total)

    return report


def _check(run_s: float, measured: int, total: int, most_s: float) -> None:
    if run_s * total > most_s:
        raise BadInput(
            f"{total:,} runs would take about {format_time(run_s * total)}, at {format_time(run_s)} each in the first "
            f"{measured:,}; the limit is {format_time(most_s)}: use fewer values or seeds, --engine processes, or a "
            "longer limit",
            "--limit",
        )
