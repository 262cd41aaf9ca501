"""How fast the planner is: layouts scored per second on one core, and a plan from the shell, with its peak memory.

    python benchmarks/planner.py

Prints ratios to a calibration loop (a float addition in plain Python) beside absolute numbers, because absolute
numbers belong to one machine on one day; scoring is counted in processor time, so that other processes do not count.
Bars: 1,000,000 layouts per second, with experts too; a 175B model on 4096 GPUs in under 2 s from the shell and under
500 MB; `lockstep --help` and `import lockstep` in under 0.3 s.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from lockstep.decide.planner.search import search  # noqa: E402
from lockstep.decide.planner.space import default_space  # noqa: E402
from lockstep.describe.hardware import cluster  # noqa: E402  (numpy reads the variables above when it is imported)
from lockstep.describe.workload import model  # noqa: E402
from lockstep.price.layout import Job, Recipe  # noqa: E402

JOBS = (
    ("gpt3-175b", "dgx-a100-80gb:512", Recipe(seq=2048, batch=3072)),
    ("llama3-70b", "dgx-h100:64", Recipe(seq=8192, batch=512)),
    ("deepseek-v3", "hgx-h800:256", Recipe(seq=4096, batch=15360)),
)
COMMANDS = (
    "--help",
    "plan gpt3-175b --cluster dgx-a100-80gb:512 --batch 3072 --seq 2048 --json",
    "plan deepseek-v3 --cluster dgx-h100:256 --batch 15360 --seq 4096 --json",
    "sensitivity deepseek-v3 --cluster dgx-h100:256 --batch 15360 --seq 4096 --pp 16 --ep 64 --zero 1 --json",
)
REPEATS = 5


def calibration_s(count: int = 2_000_000) -> float:
    """Seconds of one float addition in a plain loop."""
    started, total = time.process_time(), 0.0
    for _ in range(count):
        total += 1.0
    return (time.process_time() - started) / count


def scored_per_s(name: str, where: str, recipe: Recipe) -> tuple[int, float]:
    """(layouts that keep the rules, median seconds to score all of them for memory and time, nothing pruned)."""
    hardware = cluster(where)
    job = Job(model(name), recipe, hardware.num_devices)
    space = default_space(job, hardware.devices_per_unit(0))
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        found = search(job, hardware, space, prune=False)
        times.append(time.process_time() - started)
    return found.evaluated, statistics.median(times)


def shell_s(arguments: str) -> tuple[float, float]:
    """(median seconds, peak MB) of the command as a whole process."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lockstep", *arguments.split()], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    """Runs everything and prints one line each."""
    loop_s = calibration_s()
    print(f"calibration: one float addition in a plain loop {loop_s * 1e9:.1f} ns")
    for name, where, recipe in JOBS:
        count, seconds = scored_per_s(name, where, recipe)
        each_s = seconds / count
        print(
            f"{name} on {where}: {count:,} layouts in {seconds:.3f} s, {count / seconds:,.0f} per second, "
            f"{each_s / loop_s:.1f} additions each"
        )
    for arguments in COMMANDS:
        seconds, peak_MB = shell_s(arguments)
        print(f"lockstep {arguments}: {seconds:.2f} s, peak {peak_MB:.0f} MB")
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import lockstep"], check=True)
    print(f"python -c 'import lockstep': {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
