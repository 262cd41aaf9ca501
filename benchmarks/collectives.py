"""Lockstep's all-reduce programs against the library's own, in turns on the same ranks.

    python benchmarks/collectives.py [--ranks 2,4] [--size 16777216] [--repeats 40] [--algorithms ring,tree]

In every repetition each implementation runs once, the first one another every time, and `ratio` is the library's time
over Lockstep's of the same repetition: 1 is equal, above 1 Lockstep is faster. So whatever else the machine does falls
on both. Buffers are made anew every few repetitions, because where they happen to lie costs up to a tenth. Medians, and
the middle half in brackets. The bar is 0.9 for the ring at 16 MB.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.run.bench.collective import built_in, own
from lockstep.run.bench.definition import wrong_elements
from lockstep.run.launch import Rank, launch
from lockstep.run.machine import Load, LoadMeter, Machine, this_machine, with_load

ALGORITHMS = ("ring", "bidirectional-ring", "rabenseifner", "direct", "tree")
LIBRARY = "built-in"
BAR = 0.9
WARM_UP, SAME_BUFFERS = 2, 10


@dataclass(frozen=True, slots=True)
class Turns:
    """Start and end of every repetition of every implementation on one rank, and what it ran on."""

    stamps_ns: dict[str, list[tuple[int, int]]]
    wrong: int
    load: Load
    machine: Machine


def take_turns(rank: Rank, elems: int, algorithms: tuple[str, ...], repeats: int) -> Turns:
    """Body of a rank."""
    meter = LoadMeter()
    stamps: dict[str, list[tuple[int, int]]] = {name: [] for name in (LIBRARY, *algorithms)}
    wrong = 0
    for first in range(0, repeats, SAME_BUFFERS):
        ready = {LIBRARY: built_in("all-reduce", rank, elems)}
        ready |= {name: own("all-reduce", name, rank, elems) for name in algorithms}
        for turn in range(-WARM_UP, min(SAME_BUFFERS, repeats - first)):
            for name in np.roll(list(ready), first + turn).tolist():
                span = _timed(ready[name])
                if turn >= 0:
                    stamps[name].append(span)
        for prepared in ready.values():
            if first + SAME_BUFFERS >= repeats:
                wrong += wrong_elements("all-reduce", prepared.result, rank.number, rank.ranks, elems)
            prepared.close()
    return Turns(stamps, wrong, meter.read(), this_machine())


def _timed(prepared: Any) -> tuple[int, int]:
    """Start and end of one run that all ranks begin together."""
    import torch.distributed as dist

    prepared.reset()
    dist.barrier()
    start = time.monotonic_ns()
    prepared.run()
    return start, time.monotonic_ns()


def times_ms(found: list[Turns], name: str) -> Any:
    """Milliseconds of every repetition, from the last rank's start to the last rank's end."""
    stamps = np.array([turns.stamps_ns[name] for turns in found])
    return (stamps[:, :, 1].max(axis=0) - stamps[:, :, 0].max(axis=0)) / 1e6


def quartiles(values: Any) -> str:
    """Median and middle half."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:6.2f} ({low:5.2f} to {high:5.2f})"


def main() -> None:
    """Runs all groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--size", type=int, default=1 << 24, help="bytes")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    given = parser.parse_args()
    groups = [int(word) for word in given.ranks.split(",")]
    algorithms = tuple(given.algorithms.split(","))
    found = {n: launch(take_turns, n, (given.size // 4, algorithms, given.repeats)) for n in groups}
    scheduling = found[groups[0]][0].machine.scheduling
    print(f"all-reduce of {given.size:,} B over gloo, {given.repeats} repetitions in turns, scheduling {scheduling}")
    print(" " * 20 + "".join(f"{f'{n} ranks, ms':>24}{'ratio':>24}" for n in groups))
    for name in (LIBRARY, *algorithms):
        cells = ""
        for turns in found.values():
            times = times_ms(turns, name)
            ratio = quartiles(times_ms(turns, LIBRARY) / times) if name != LIBRARY else ""
            cells += f"{quartiles(times):>24}{ratio:>24}"
        print(f"{name:<20}{cells}")
    for n, turns in found.items():
        machine = with_load(turns[0].machine, [one.load for one in turns])
        if "ring" in algorithms:
            reached = float(np.median(times_ms(turns, LIBRARY) / times_ms(turns, "ring")))
            print(f"{n} ranks: the ring reaches {reached:.2f}, bar {BAR} {'met' if reached >= BAR else 'NOT met'}")
        print(f"{n} ranks: {sum(one.wrong for one in turns)} wrong; " + "; ".join(machine.warnings(n)))


if __name__ == "__main__":
    main()
