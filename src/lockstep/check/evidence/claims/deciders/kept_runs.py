"""Two kept runs of descent on squares, one thing switched between them: where they part, and whether it is told why."""

from __future__ import annotations

import numpy as np

from lockstep.check.evidence.claims.deciders import decides
from lockstep.run.partings import Compared, Record, compare

CAUSE_OF = {"order": "summation", "seed": "seed", "data": "data-order", "noise": "dropout", "format": "dtype"}
"""What is switched -> the cause that should be told."""


def kept_run(switched: dict[str, int], width: int, batch: int, parts: int, steps: int) -> Record:
    """Weights w before the first step and after each of |x w|^2 / 2, the samples scaled by noise, and their numbers."""
    on = dict.fromkeys(CAUSE_OF, 0) | switched
    dtype = (np.float32, np.float64)[on["format"]]
    samples = np.cos(np.arange(steps * batch * width)).reshape(steps * batch, width).astype(dtype)
    noise = np.random.default_rng(on["noise"]).standard_normal(samples.shape).astype(dtype)
    w = np.random.default_rng(on["seed"]).standard_normal(width).astype(dtype)
    kept = [{"w": w}]
    order = np.random.default_rng(on["data"]).permutation(len(samples))
    for numbers, scales in zip(np.split(order, steps), np.split(noise, steps), strict=True):
        shares = np.split(samples[numbers] * scales, parts)
        # Shares are added one after another, from the first or from another one on.
        w = w - sum(np.roll([x.T @ (x @ w) for x in shares], on["order"], axis=0)) / dtype(len(samples))
        kept.append({"data": numbers, "w": w})
    return Record(str(switched), dict(enumerate(kept)))


def _compared(switch: str, width: int, batch: int, parts: int, steps: int) -> Compared:
    return compare(*(kept_run(switched, width, batch, parts, steps) for switched in ({}, {switch: 1})))


@decides("simulated")
def parts_at(switch: str, width: int, batch: int, parts: int, steps: int) -> float:
    """Steps done at the first difference; not a number where there is none."""
    found = _compared(switch, width, batch, parts, steps).step
    return float("nan" if found is None else found)


@decides("simulated")
def left_frac(width: int, batch: int, parts: int, steps: int) -> float:
    """Size of the weights after all steps over that before the first, so that a run is one that learns."""
    run = kept_run({}, width, batch, parts, steps)
    first, last = (run.steps[step]["w"] for step in (min(run.steps), max(run.steps)))
    return float(np.linalg.norm(last) / np.linalg.norm(first))


@decides("simulated")
def told(width: int, batch: int, parts: int, steps: int) -> int:
    """Switches, of all in CAUSE_OF, whose cause is named from the two runs alone."""
    return sum(_compared(one, width, batch, parts, steps).cause == cause for one, cause in CAUSE_OF.items())
