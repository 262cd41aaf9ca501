"""What an estimate costs in a list of batches, beside a plain loop over the same batches.

    python benchmarks/lists.py [--batches N] [--rounds N]

Seconds of processor time, both measured in turn in one run and the least of the rounds of each: for the step times
alone, and for the whole answers in plain form; without a layout, so that each is the best of a plan, with a layout but
for the micro-batch, and with a whole one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import lockstep

Words = dict[str, Any]
Function = Callable[[Words, Sequence[int]], list[Any]]
RUN: Words = {"model": "llama3-8b", "cluster": "dgx-h100:4"}
ASKED: dict[str, Words] = {
    "no layout": RUN,
    "tp 2": {**RUN, "tp": 2},
    "tp 2, micro-batch 1": {**RUN, "tp": 2, "micro_batch": 1},
}


def loop_times(words: Words, batches: Sequence[int]) -> list[Any]:
    """Step times, one call after another."""
    return [lockstep.estimate(**words, batch=batch).step_time_s for batch in batches]


def list_times(words: Words, batches: Sequence[int]) -> list[Any]:
    """The same of the rows of one call."""
    return [row.figure("step_time_s") for row in lockstep.estimate(**words, batch=batches).rows]


def loop_answers(words: Words, batches: Sequence[int]) -> list[Any]:
    """Whole answers, one call after another."""
    return [lockstep.estimate(**words, batch=batch).to_dict() for batch in batches]


def list_answers(words: Words, batches: Sequence[int]) -> list[Any]:
    """The same of the rows of one call."""
    return [row.answer for row in lockstep.estimate(**words, batch=batches).rows]


COMPARED: dict[str, tuple[Function, Function]] = {
    "step times": (loop_times, list_times),
    "whole answers": (loop_answers, list_answers),
}


def processor_s(function: Function, words: Words, batches: Sequence[int]) -> tuple[float, list[Any]]:
    """Seconds of processor time of one call, and what it returns."""
    began_s = time.process_time()
    found = function(words, batches)
    return time.process_time() - began_s, found


def compared(said: str, words: Words, batches: Sequence[int], rounds: int) -> str:
    """A line about the functions `said`. Exits where the list differs from the loop in any digit."""
    seconds = []
    for _ in range(rounds):
        (loop_s, one), (list_s, many) = (processor_s(function, words, batches) for function in COMPARED[said])
        if one != many:
            raise SystemExit(f"{said} of the list differ from those of single calls")
        seconds.append((loop_s, list_s))
    loop_s, list_s = (min(column) for column in zip(*seconds, strict=True))
    return f"{len(batches)} {said}: loop {loop_s:.3f} s, list {list_s:.3f} s, {list_s / loop_s:.3f} of the loop"


def main() -> None:
    """Prints a line for each comparison of each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    batches = [128 * number for number in range(1, given.batches + 1)]
    loop_times(RUN, batches[:1])
    for asked, words in ASKED.items():
        for said in COMPARED:
            print(f"{asked}: {compared(said, words, batches, given.rounds)}", flush=True)


if __name__ == "__main__":
    main()
