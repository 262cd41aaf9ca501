"""What a run costs on every engine of a sweep, beside the same trials as rows of one array.

    python benchmarks/sweeps.py [--runs 40] [--workers 2]

`vectorised` is one run of the experiment with all trials as rows of one array; the engines make as many trials in
so many runs. `ratio` is the seconds of an engine over those of the vectorised run. An empty sweep shows what an engine
takes apart from the work: `start` is a sweep of one empty run per worker (processes or the cluster come and go), and
`per run` what each further empty run adds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from lockstep.lab.sweep.engines import find_engine

import lockstep
from lockstep.lab.experiment import silent
from lockstep.verbs.converge import sweep

EXPERIMENT, TRIALS = "gradient-variance", 200
EMPTY = 1000
ROUNDS = 3


def seconds(action: Callable[[], object]) -> float:
    """Median of some calls."""
    taken = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    """Prints a row per engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    runs, workers = given.runs, given.workers
    lockstep.converge(EXPERIMENT, {"trials": TRIALS})
    vectorised_s = seconds(lambda: lockstep.converge(EXPERIMENT, {"trials": runs * TRIALS}))
    print(f"{EXPERIMENT}, {runs * TRIALS:,} trials; {runs} runs of {TRIALS} on the engines; medians of {ROUNDS}")
    print(f"{'':<14}{'seconds':>9}{'ratio':>8}{'ms a run':>10}{'start s':>9}{'per run us':>12}")
    print(f"{'vectorised':<14}{vectorised_s:>9.2f}{1:>8.2f}{'':>10}{'':>9}{'':>12}", flush=True)
    for name in ("serial", f"processes:{workers}", f"dask:{workers}"):
        engine, few = find_engine(name), list(range(workers))

        def whole(name: str = name) -> object:
            return sweep(EXPERIMENT, {}, {"trials": TRIALS}, seeds=runs, engine=name)

        taken_s = seconds(whole)
        start_s = seconds(lambda engine=engine, few=few: engine.map(abs, few, silent))
        many_s = seconds(lambda engine=engine: engine.map(abs, list(range(EMPTY)), silent))
        print(
            f"{name:<14}{taken_s:>9.2f}{taken_s / vectorised_s:>8.2f}{taken_s / runs * 1e3:>10.1f}"
            f"{start_s:>9.3f}{max(many_s - start_s, 0) / (EMPTY - workers) * 1e6:>12.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
