"""How soon a fault in real training is noticed, and how soon the run goes on from its checkpoint.

    detected   from the end of the step before the fault to the error that names the dead rank
    going on   from there to the first step of the next attempt
A stopped rank says nothing: the others find out by their timeout, here 2 s, and 2 s of grace. Run with
`python benchmarks/faults.py`; medians of 5.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from lockstep.base.units import format_time
from lockstep.run.launch import Fault, warm_up
from lockstep.run.train import Saving, Task, train
from lockstep.run.train.result import Step

REPEATS = 5
RANKS = 2
POINT = "before_step:5"
ACTIONS = {"kill": 20.0, "raise": 20.0, "exit": 20.0, "stop": 2.0}
"""What befalls rank 1, and the timeout of the others."""


def once(action: str, timeout_s: float) -> tuple[float, float]:
    """(seconds until the failed attempt was over, seconds from there to the next attempt's first step)."""
    told: list[tuple[int, float]] = []

    def heard(step: int, _: Step) -> None:
        told.append((step, time.monotonic()))

    def failed(_: str) -> None:
        told.append((-1, time.monotonic()))

    with tempfile.TemporaryDirectory() as folder:
        run = train(
            "zero-1", Task(steps=8), RANKS, saving=Saving(Path(folder), 2), restarts=1, timeout_s=timeout_s,
            faults=[Fault(RANKS - 1, POINT, action)], on_step=heard, on_failure=failed,
        )  # fmt: skip
    assert run.first_step == 4
    at = next(place for place, (step, _) in enumerate(told) if step == -1)
    return told[at][1] - told[at - 1][1], told[at + 1][1] - told[at][1]


def main() -> None:
    """Prints a row per fault."""
    warm_up()
    print(f"{'rank 1':8} {'detected':>10} {'going on':>10}")
    for action, timeout_s in ACTIONS.items():
        detected_s, going_on_s = zip(*(once(action, timeout_s) for _ in range(REPEATS)), strict=True)
        print(f"{action:8} {format_time(median(detected_s)):>10} {format_time(median(going_on_s)):>10}")


if __name__ == "__main__":
    main()
