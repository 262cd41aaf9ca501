"""How long whole runs take to simulate, beside SimPy on the same campaigns in the same run, one core.

    python benchmarks/campaign.py

10,000 campaigns of 60 days of work on 16,384 H100 at the failure rate of Llama 3 (a stop every 3.1 h): detection 5 min,
restart 10 min, checkpoints of 30 s at the exact interval. SimPy simulates a few of them, one event at a time. The last
columns hold the simulated overhead to the exact formula.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from lockstep.simulate.failures import (
    Campaigns,
    Pattern,
    Pool,
    intervals_of,
    llama3,
    optimum,
    pool_overhead_frac,
    run_time_s,
    simulate_campaigns,
    single,
    two_level,
)
from lockstep.simulate.play import Exponential, restarting

WORK_S = 60 * 86_400.0
CAMPAIGNS = 10_000
SIMPY_CAMPAIGNS = 20
ROUNDS = 5


def timed(action: Callable[[], Campaigns]) -> tuple[float, Campaigns]:
    """(seconds, result) of one call."""
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def measure(name: str, pattern: Pattern, mtbf_s: float, simpy_s: float, pool: Pool | None = None) -> None:
    """Prints one row of the table."""
    law, best_s = Exponential(mtbf_s), optimum(pattern, mtbf_s).work_s
    runs = [
        timed(lambda: simulate_campaigns(pattern, WORK_S, best_s, law, pool=pool, campaigns=CAMPAIGNS))
        for _ in range(ROUNDS)
    ]
    seconds, found = statistics.median(one for one, _ in runs), runs[0][1]
    number = intervals_of(WORK_S, best_s, pattern)
    exact = run_time_s(pattern, WORK_S / number, number, mtbf_s) / WORK_S - 1
    if pool is not None:
        exact = float(pool_overhead_frac(pattern, pool, WORK_S / number, mtbf_s))
    low, high = found.overhead.interval_s()
    failures = int(found.failures.sum())
    print(
        f"{name:<34}{seconds:>9.2f}{failures / seconds / 1e6:>12.1f}{simpy_s * CAMPAIGNS / seconds:>9.0f}x"
        f"{found.goodput.mean_s:>10.4f}{exact:>10.5f}  {low:.5f} to {high:.5f}",
        flush=True,
    )


def main() -> None:
    """Runs all cases."""
    mtbf_s = llama3().failures(16_384).mtbf_s
    alone = single(30.0, 600.0)
    best_s = optimum(alone, mtbf_s).work_s
    begin = time.perf_counter()
    restarting(WORK_S, Exponential(mtbf_s), 600.0, SIMPY_CAMPAIGNS, segment_s=best_s, segment_cost_s=30.0)
    simpy_s = (time.perf_counter() - begin) / SIMPY_CAMPAIGNS
    print(f"{CAMPAIGNS:,} campaigns of 60 days on 16,384 devices; SimPy: {simpy_s:.3f} s for one (budget: 5 s for all)")
    print(f"{'':<34}{'seconds':>9}{'M failures/s':>13}{'/ SimPy':>9}{'goodput':>10}{'exact':>10}  simulated overhead")
    measure("no detection, as SimPy", alone, mtbf_s, simpy_s)
    measure("one level", single(30.0, 600.0, 300.0), mtbf_s, simpy_s)
    measure("asynchronous, 90 % hidden", single(30.0, 600.0, 300.0, 0.9), mtbf_s, simpy_s)
    levels = two_level(3.0, 30.0, 10, 0.9, local_restart_s=120.0, remote_restart_s=600.0, detection_s=300.0)
    measure("two levels, 10th remote", levels, mtbf_s, simpy_s)
    pool = Pool(2048, 8, 86_400.0, fewest=1024)
    measure("8 spare nodes, shrinking", single(30.0, 600.0, 300.0), mtbf_s, simpy_s, pool)


if __name__ == "__main__":
    main()
