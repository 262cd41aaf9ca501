"""How often the diagnosis finds the fault of a run whose fault is known, and how near it says its cost.

    python benchmarks/diagnose.py [--runs 200] [--seed 0] [--fault NAME] [--lost 0.2]

Layouts of dense models and models with experts on one or two nodes are drawn; each run has one fault, or none, and is
written as the trace files of all its ranks, read, aligned, partitioned and compared with the prediction. What was
found on a day is in benchmarks/results/diagnose.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "diagnosis"))

from drawn import FAULTS, draw


def main() -> None:
    """Draws, diagnoses and prints."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--runs", type=int, default=200)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--fault", choices=FAULTS)
    given.add_argument("--lost", type=float, default=0.0, help="share of kernels whose launch and group are lost")
    asked = given.parse_args()
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    begun = time.process_time()
    for number in range(asked.runs):
        fault = asked.fault or FAULTS[number % len(FAULTS)]
        run = draw(asked.seed + number, fault)
        with tempfile.TemporaryDirectory() as folder:
            found = run.diagnosed(Path(folder), seen=1.0 - asked.lost)
        true_s = run.true_s()
        first = found.causes[0] if found.causes else None
        right = found.as_predicted if fault == "none" else first is not None and first.kind == fault
        near = fault == "none" or (first is not None and abs((first.seconds or 0.0) - true_s) <= 0.05 * true_s)
        rows[fault].append((right, near))
        if not (right and near):
            said = [(one.kind, round(one.seconds or 0.0, 4)) for one in found.causes]
            measured, replayed = found.measured_s or 0.0, found.replayed_s or 0.0
            print(
                f"{number}: {fault} {run.told} of {true_s:.4f} s in {run.estimate.layout}, "
                f"{run.estimate.job.model.name}: {said}; predicted {found.predicted_s:.4f}, "
                f"measured {measured:.4f}, replayed {replayed:.4f}",
                flush=True,
            )
    print(f"\n{'fault':12} {'runs':>5} {'right':>6} {'within 5 %':>11}")
    for fault, each in rows.items():
        print(f"{fault:12} {len(each):5} {sum(r for r, _ in each):6} {sum(n for _, n in each):11}")
    faulty = [one for fault, each in rows.items() if fault != "none" for one in each]
    if faulty:
        right, near = sum(r for r, _ in faulty) / len(faulty), sum(r and n for r, n in faulty) / len(faulty)
        print(f"with a fault: right {right:.1%}, right and within 5 % {near:.1%}")
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
