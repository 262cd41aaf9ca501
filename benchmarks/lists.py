"""What an estimate costs in a list of batches, beside a plain loop over the same batches.

    python benchmarks/lists.py [--batches N] [--rounds N]

Seconds of processor time, both measured in turn in one run and the least of the rounds of each: for the step times
alone, and for the whole answers in plain form.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import lockstep

ASKED: dict[str, Any] = {"model": "llama3-8b", "cluster": "dgx-h100:4", "tp": 2}


def loop_times(batches: Sequence[int]) -> list[Any]:
    """Step times, one call after another."""
    return [lockstep.estimate(**ASKED, batch=batch).step_time_s for batch in batches]


def list_times(batches: Sequence[int]) -> list[Any]:
    """The same of the rows of one call."""
    return [row.figure("step_time_s") for row in lockstep.estimate(**ASKED, batch=batches).rows]


def loop_answers(batches: Sequence[int]) -> list[Any]:
    """Whole answers, one call after another."""
    return [lockstep.estimate(**ASKED, batch=batch).to_dict() for batch in batches]


def list_answers(batches: Sequence[int]) -> list[Any]:
    """The same of the rows of one call."""
    return [row.answer for row in lockstep.estimate(**ASKED, batch=batches).rows]


def processor_s(function: Callable[[Sequence[int]], list[Any]], batches: Sequence[int]) -> float:
    """Seconds of processor time of one call."""
    began_s = time.process_time()
    function(batches)
    return time.process_time() - began_s


def main() -> None:
    """Prints a line for each of the two comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    batches = [128 * number for number in range(1, given.batches + 1)]
    loop_times(batches[:1])
    for said, one, many in (("step times", loop_times, list_times), ("whole answers", loop_answers, list_answers)):
        if one(batches) != many(batches):
            raise SystemExit(f"{said} of the list differ from those of single calls")
        seconds = [(processor_s(one, batches), processor_s(many, batches)) for _ in range(given.rounds)]
        loop_s, list_s = (min(column) for column in zip(*seconds, strict=True))
        print(f"{len(batches)} {said}: loop {loop_s:.3f} s, list {list_s:.3f} s, {list_s / loop_s:.3f} of the loop")


if __name__ == "__main__":
    main()
