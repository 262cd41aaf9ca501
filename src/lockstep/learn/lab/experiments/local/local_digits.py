"""All local methods on real data: logistic regression on digits, split over workers by class.

Exact gradients, so that nothing but the workers' different data disturbs. The loss above the exact optimum (Newton),
rounds, and vectors sent by a worker, for: synchronous descent, local SGD, post-local (synchronous first), FedProx,
SCAFFOLD, DiLoCo's outer update, and local momentum whose buffers are kept, averaged or reset. What must hold: nobody is
below the optimum; SCAFFOLD ends below local SGD; synchronous first is no worse than local throughout.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.objectives import digits_logistic, dirichlet_shards
from lockstep.learn.methods.local import Outer

QUESTION = "Which local method handles workers that see different classes?"
SOURCE = "digits (Alpaydin and Kaynak 1998); Hsu, Qi and Brown 2019 for the split"

PENALTY = 0.01
SIDE = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """How different the workers' data are, and the rounds."""

    workers: int = setting(4, "Number of workers.", least=2, most=50)
    concentration: float = setting(
        0.3,
        "Concentration of the Dirichlet law of classes; a small one gives each worker few classes.",
        above=0,
        most=1e4,
    )
    period: int = setting(8, "Local steps K between averages.", least=1, most=100)
    steps: int = setting(240, "Steps of each worker.", least=8, most=100_000)
    step_size: float = setting(0.5, "Size of a local step.", above=0, most=10)
    momentum: float = setting(
        0.8, "Momentum of the local momentum runs, whose step size is scaled by 1 - momentum.", least=0, most=0.99
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Loss above the optimum over the steps, for every method."""
    whole = digits_logistic(PENALTY, SIDE)
    shards = dirichlet_shards(whole.classes, settings.workers, settings.concentration, seed)
    parts = [whole.part(shard) for shard in shards]
    weights = np.array([len(shard) for shard in shards]) / len(whole.classes) * settings.workers

    def worker_gradients(y: Array) -> Array:
        return np.stack([w * part.gradient(one) for w, part, one in zip(weights, parts, y, strict=True)])

    lowest = whole.lowest
    rows, curves, ends = [], [], {}
    ways = _ways(settings)
    for name, (method, rounds) in watched(ways.items(), progress):
        path = run_rounds(worker_gradients, settings.workers, np.zeros((1, whole.dimension)), method, rounds)
        gaps = np.array([float(whole.loss(one[0])) for one in path]) - lowest
        at = np.concatenate([[0], np.cumsum(rounds)]).astype(float)
        curves.append(Curve.until_divergence(name, at, gaps))
        ends[name] = float(gaps[-1])
        rows.append({
            "method": name, "rounds": len(rounds), "vectors_sent": len(rounds) * method.vectors_per_round,
            "gap": ends[name], "accuracy_frac": float(whole.accuracy_frac(path[-1, 0])),
        })  # fmt: skip
    below = min(ends.values())
    (_, local), (_, post) = ways["local"], ways["post-local"]
    biased = when(settings.period > 1 and settings.concentration < 10,
                  "a period above 1 and a concentration below 10: local steps are biased")  # fmt: skip
    checks = [
        Check("smallest gap to the exact optimum", 0.0, below, tolerance=1e-9, relation="at least", holds=ALWAYS),
        *(
            Check(f"vectors that {name} sends a round", count, ways[way][0].vectors_per_round, holds=ALWAYS)
            for name, way, count in (("local SGD", "local", 1), ("SCAFFOLD", "SCAFFOLD", 2))
        ),
        Check("rounds of post-local beyond those of local SGD", len(local) / 2 * (settings.period - 1),
              len(post) - len(local), holds=when(len(local) % 2 == 0, "an even number of rounds")),
        Check("steps of post-local", sum(local), sum(post), holds=ALWAYS),
        Check("gap of SCAFFOLD, at most that of local SGD", ends["local"], ends["SCAFFOLD"], relation="at most",
              holds=biased),
        Check("gap of post-local, at most that of local SGD", ends["local"], ends["post-local"],
              tolerance=0.05 * ends["local"], relation="at most", holds=biased),
    ]  # fmt: skip
    mix = np.mean([np.bincount(part.classes, minlength=10).max() / len(part.classes) for part in parts])
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("lowest loss", lowest, "Newton's method to a gradient of 1e-12", "learn/lab/objectives/logistic.py"),
        ),
        rows=tuple(rows),
        curves=tuple(curves),
        picture=Picture("step", "loss_above_the_lowest", log_y=True),
        conclusion=(
            f"the most common class is {mix:.0%} of a worker's digits; after {settings.steps} steps local SGD is "
            f"{ends['local']:.2g} above the optimum, SCAFFOLD {ends['SCAFFOLD']:.2g}, synchronous descent "
            f"{ends['synchronous']:.2g}"
        ),
        assumptions=(
            f"digits at {SIDE} x {SIDE} pixels, penalty {PENALTY:g}; exact gradients of each worker's own samples",
            "workers are weighted by their samples",
        ),
    )


def _ways(settings: Settings) -> dict[str, tuple[LocalMethod, list[int]]]:
    """Method and local steps of every round."""
    step, rounds = settings.step_size, settings.steps // settings.period
    local, half = [settings.period] * rounds, rounds // 2
    post = [1] * (half * settings.period) + [settings.period] * (rounds - half)
    slower = step * (1 - settings.momentum)
    ways: dict[str, tuple[LocalMethod, list[int]]] = {
        "synchronous": (LocalMethod(step), [1] * (rounds * settings.period)), "local": (LocalMethod(step), local),
        "post-local": (LocalMethod(step), post), "FedProx": (LocalMethod(step, proximal=0.5), local),
        "SCAFFOLD": (LocalMethod(step, scaffold=True), local),
        "DiLoCo": (LocalMethod(step, outer=Outer(0.7, 0.9, nesterov=True)), local),
    }  # fmt: skip
    for policy in ("keep", "average", "reset"):
        ways[f"momentum, {policy}"] = (LocalMethod(slower, momentum=settings.momentum, buffers=policy), local)
    return ways
