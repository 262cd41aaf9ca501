"""`python tools/fit/risk.py`: how probably a run runs out of memory that is predicted to fill so much of it.

By maximum likelihood, over the tables that record runs which ran out of memory beside those which ran: the constants of
`price/layout/risk.py`. Each table is also left out, and its runs predicted by the others.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from lockstep.check.validation.ran_out import RAN_OUT
from lockstep.check.validation.report import TABLES
from lockstep.price.layout import memory
from lockstep.price.layout.risk import out_of_memory_frac

Runs = dict[str, tuple[np.ndarray, np.ndarray]]


def runs() -> Runs:
    """Of each table, the share of memory that its runs are predicted to fill, and whether they ran out."""
    found: Runs = {}
    for name, ran_out in RAN_OUT.items():
        outcomes = [*((case, 1.0) for case in ran_out()), *((case, 0.0) for case in TABLES[name].cases())]
        sizes = [memory(case.job, case.cluster, case.layout.grid()) for case, _ in outcomes]
        filled = np.array([float(one.total_B) / one.capacity_B for one in sizes])
        found[name] = filled, np.array([ran_out for _, ran_out in outcomes])
    return found


def fitted(found: Runs) -> tuple[float, float]:
    """The share at which one of two runs out, and the width, with the greatest likelihood."""
    filled, ran_out = (np.concatenate(parts) for parts in zip(*found.values(), strict=True))

    def unlikely(asked: np.ndarray) -> float:
        chance = out_of_memory_frac(filled, float(np.exp(asked[0])), float(np.exp(asked[1])))
        return -float(np.log(np.where(ran_out > 0, chance, 1 - chance)).sum())

    best = minimize(unlikely, np.log([1.0, 0.03]), method="Nelder-Mead").x
    return float(np.exp(best[0])), float(np.exp(best[1]))


def main() -> None:
    """Prints the constants, and what is predicted of each table by the others."""
    found = runs()
    print("EVEN_FRAC = {:.3f}, WIDTH = {:.3f}".format(*fitted(found)))
    for name, (filled, ran_out) in found.items():
        others = fitted({one: both for one, both in found.items() if one != name})
        expected = float(np.sum(out_of_memory_frac(filled, *others)))
        print(f"{name}: of {len(filled)} the others expect {expected:.1f} to run out, {ran_out.sum():.0f} did")


if __name__ == "__main__":
    main()
