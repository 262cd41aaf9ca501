"""Lockstep's all-reduce programs against the library's own, alternating in one run on the same ranks.

    python benchmarks/collectives.py [--ranks 2,4] [--size 16777216] [--repeats 40]

`ratio` is the library's median time over Lockstep's: 1 is equal, above 1 Lockstep is faster. The bar is 0.9 for the
ring at 16 MB. Repetitions alternate, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from lockstep.measure.bench.built_in import built_in
from lockstep.measure.bench.own import own
from lockstep.measure.launch import Rank, launch
from lockstep.measure.machine import LoadMeter, this_machine, with_load

ALGORITHMS = ("ring", "bidirectional-ring", "rabenseifner", "direct", "tree")
BAR = 0.9


def alternate(rank: Rank, elems: int, algorithms: tuple[str, ...], repeats: int) -> tuple[Any, ...]:
    """Seconds of every repetition on this rank, by implementation; the load and the machine."""
    import torch.distributed as dist

    meter = LoadMeter()
    ready = {"built-in": built_in("all-reduce", rank, elems)}
    ready |= {name: own("all-reduce", name, rank, elems) for name in algorithms}
    stamps: dict[str, list[tuple[int, int]]] = {name: [] for name in ready}
    for turn in range(repeats + 3):
        for name, prepared in ready.items():
            prepared.reset()
            dist.barrier()
            start = time.monotonic_ns()
            prepared.run()
            if turn >= 3:
                stamps[name].append((start, time.monotonic_ns()))
    for prepared in ready.values():
        prepared.close()
    return stamps, meter.read(), this_machine()


def main() -> None:
    """Runs all groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--size", type=int, default=1 << 24, help="bytes")
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_args()
    print(
        f"all-reduce of {given.size:,} B over gloo, {given.repeats} alternating repetitions; ms, ratio to the built-in"
    )
    print(f"{'ranks':>5} {'':<20}{'median':>9}{'25 %':>9}{'75 %':>9}{'ratio':>8}  bar {BAR}")
    for ranks in (int(word) for word in given.ranks.split(",")):
        found = launch(alternate, ranks, (given.size // 4, ALGORITHMS, given.repeats))
        machine = with_load(found[0][2], [load for _, load, _ in found])
        times = {}
        for name in found[0][0]:
            by_rank = [stamps[name] for stamps, _, _ in found]
            turns = zip(*by_rank, strict=True)
            times[name] = [(max(end for _, end in turn) - max(start for start, _ in turn)) / 1e6 for turn in turns]
        middle = {name: statistics.median(values) for name, values in times.items()}
        for name, values in times.items():
            low, _, high = statistics.quantiles(values, n=4)
            ratio = middle["built-in"] / middle[name]
            verdict = ("  met" if ratio >= BAR else "  NOT met") if name == "ring" else ""
            print(f"{ranks:>5} {name:<20}{middle[name]:>9.2f}{low:>9.2f}{high:>9.2f}{ratio:>8.2f}{verdict}", flush=True)
        for text in machine.warnings(ranks):
            print(f"      {text}")


if __name__ == "__main__":
    main()
