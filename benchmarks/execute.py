"""Collectives as predicted and as measured on this machine, whose cores the ranks share.

    python benchmarks/execute.py [--ranks 2,4,8] [--sizes 65536,1048576,16777216] [--algorithms ring] [--repeats 9]

Errors are prediction / measurement - 1; the measurement is the median makespan. The prediction is calibrated in the
same run, on messages and additions alone and on all ranks at once.
"""

from __future__ import annotations

import argparse

from lockstep.run.execute import execute
from lockstep.simulate.collectives import get


def main() -> None:
    """Runs all, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="65536,1048576,16777216", help="bytes")
    parser.add_argument("--algorithms", default="ring")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    print(f"{'all-reduce':<16}{'ranks':>6}{'B':>11}{'measured, ms':>14}{'predicted, ms':>22}")
    for algorithm in given.algorithms.split(","):
        for ranks in map(int, given.ranks.split(",")):
            for size_B in map(int, given.sizes.split(",")):
                program = get("all-reduce", algorithm).program(ranks, float(size_B), element_B=4.0)
                found = execute(program, op="all-reduce", algorithm=algorithm, elems=size_B // 4, repeats=given.repeats)
                measured_s = found.measured.makespan_s
                both = f"{found.predicted.makespan_s * 1e3:.2f} ({found.difference.makespan_frac:+.0%})"
                print(f"{algorithm:<16}{ranks:>6}{size_B:>11,}{measured_s * 1e3:>14.2f}{both:>22}", flush=True)


if __name__ == "__main__":
    main()
