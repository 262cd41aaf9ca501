"""Whether Lockstep has become slower since a kept result, on whatever machine this is.

    python benchmarks/compare.py           measures, compares with the newest file of benchmarks/results, exit code 1
                                           if a figure is more than 1.5 times the kept one
    python benchmarks/compare.py --keep    also keeps what it measured, as benchmarks/results/DATE.json

Every figure is processor time divided by that of a calibration loop (a float addition in plain Python) which runs
in turns with it, so that a slower machine or a busy one does not count as a change; each the least of seven rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from engine import Postal, one_f_one_b, ring_all_reduce
from lockstep.decide.planner.search import search
from lockstep.decide.planner.space import default_space
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job
from lockstep.simulate.play import simulate
from planner import JOBS, calibration_s

RESULTS = Path(__file__).with_name("results")
ROUNDS = 7
LIMIT = 1.5
"""Ratio to the kept figure from which on a figure counts as slower: other machines differ by up to a third."""


def cases() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    name, where, recipe = JOBS[0]
    hardware = cluster(where)
    job = Job(model(name), recipe, hardware.num_devices)
    space = default_space(job, hardware.devices_per_unit(0))
    ring, pipeline, link = ring_all_reduce(256), one_f_one_b(16, 256), Postal()
    return {
        f"search {name} on {where}": lambda: search(job, hardware, space, prune=False),
        "simulate a ring on 256 ranks": lambda: simulate(ring, link),
        "simulate 1F1B, 16 stages, 256 micro-batches": lambda: simulate(pipeline, link),
        "write 1F1B, 16 stages, 256 micro-batches": lambda: one_f_one_b(16, 256),
    }


def additions(action: Callable[[], object]) -> float:
    """Least time of a call, in additions of the calibration loop."""
    action()
    taken_s, loop_s = list[float](), list[float]()
    for _ in range(ROUNDS):
        loop_s.append(calibration_s(500_000))
        started = time.process_time()
        action()
        taken_s.append(time.process_time() - started)
    return min(taken_s) / min(loop_s)


def newest() -> tuple[str, dict[str, float]]:
    """Name and figures of the newest kept result; none the first time."""
    kept = sorted(RESULTS.glob("*.json"))
    return (kept[-1].stem, json.loads(kept[-1].read_text("utf-8"))) if kept else ("", {})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the result under today's date")
    keep = parser.parse_args().keep
    date, before = newest()
    print(f"additions of a plain loop; ratio to {date or 'nothing kept yet'}, limit {LIMIT}")
    now, slower = dict[str, float](), list[str]()
    for name, action in cases().items():
        now[name] = round(additions(action))
        ratio = now[name] / before[name] if name in before else 1.0
        slower += [name] if ratio > LIMIT else []
        print(f"{name:<46}{now[name]:>14,.0f}{ratio:>7.2f}{'  slower' * (ratio > LIMIT)}", flush=True)
    if keep:
        RESULTS.mkdir(exist_ok=True)
        kept = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}.json"
        kept.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
