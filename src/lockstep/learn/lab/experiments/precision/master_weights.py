"""Why weights are kept in 32 bits: an update below half a step of the format is lost, every time.

    w + u rounds back to w  if |u| < half the distance to the neighbour (and at half, if w is even)
    descent towards w* stalls at  |w - w*| = spacing / (2 a)           nearest, a: step times curvature
    rounding at random never stalls:  E (w - w*)^2 <= spacing^2 / (4 a (2 - a))
    fp32 weights, gradients of 16:  no stall, relative errors of gradients only
Refuted beside it: that 16-bit weights lose only precision of the last digit (the stall is 1 / (2 a) times that).

Sources: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.1 (master weights); Gupta et al., "Deep
learning with limited numerical precision", ICML 2015 (rounding at random).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.number_format import NumberFormat, number_format

QUESTION = "Where does training stall when weights are kept in low precision?"
SOURCE = "Micikevicius et al. 2018, section 3.1; Gupta et al. 2015"

TARGET, START = 1.7, 1.0
"""In one octave, so that the spacing is the same all the way; the target is a number of no binary format."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A quadratic f = (w - w*)^2 / 2 and its descent."""

    format: str = setting(
        "bf16", "Number format of the weights.", choices=("tf32", "bf16", "fp16", "fp8-e5m2", "fp8-e4m3")
    )
    step_size: float = setting(0.05, "Step size of gradient descent.", above=0, below=1)
    steps: int = setting(
        1000, "Number of steps of a run; statistics are taken over the second half.", least=100, most=1_000_000
    )
    repetitions: int = setting(200, "Independent runs with stochastic rounding.", least=20, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Three ways to keep the weight, and the smallest update that is not lost."""
    chosen, a = number_format(settings.format), settings.step_size
    (draw,) = streams(seed, 1)
    ways: dict[str, Callable[[Array, Array], Array]] = {
        "round to nearest": lambda w, g: chosen.rounded(w - a * g),
        "stochastic rounding": lambda w, g: chosen.rounded(w - a * g, draw),
        "fp32 weights": lambda w, g: number_format("fp32").rounded(w - a * chosen.rounded(g)),
    }
    paths = {}
    for name, step in watched(ways.items(), progress):
        paths[name] = _descended(step, settings)
    spacing = float(chosen.spacing(START))
    x = np.arange(settings.steps + 1, dtype=float)
    stall = _stall(chosen, a)
    return Findings(
        checks=(*_thresholds(chosen), *_floors(paths, chosen, settings), *_last_digit(paths, spacing, stall)),
        theory=(
            Law("distance at the stall", stall, "spacing / (2 a)", "an update of half a spacing is lost"),
            Law("largest lost update above 1", chosen.unit_roundoff, "spacing / 2 = 2^-p", "ties to even"),
            Law("squared distance, stochastic "
                "rounding, at most", spacing**2 / (4 * a * (2 - a)), "spacing^2 / (4 a (2 - a))",
                "variance f (1 - f) spacing^2 per step"),
        ),
        curves=(
            Curve("stall, law", x, np.full(len(x), stall), theory=True),
            *(Curve(name, x, np.maximum(np.sqrt((path**2).mean(axis=1)), 1e-12)) for name, path in paths.items()),
        ),
        picture=Picture("step", "distance", log_y=True),
        conclusion=f"{chosen.name} weights stop {np.abs(paths['round to nearest'][-1]).max():.3g} from the minimum, "
        f"{1 / (2 * a):g} spacings of the format away",
        assumptions=("one weight between 1 and 2, no gradient noise",),
    )  # fmt: skip


def _descended(step: Callable[[Array, Array], Array], settings: Settings) -> Array:
    """Distances to the minimum after every step, of all repetitions."""
    weight = np.full(settings.repetitions, START)
    path = [weight - TARGET]
    for _ in range(settings.steps):
        weight = step(weight, weight - TARGET)
        path.append(weight - TARGET)
    return np.array(path)


def _stall(chosen: NumberFormat, a: float) -> float:
    """Largest distance at which an update is lost; no more than the way itself."""
    return min(float(chosen.spacing(START)) / (2 * a), TARGET - START)


def _thresholds(chosen: NumberFormat) -> list[Check]:
    """The largest update that is lost above and below 1, where the spacing halves: searched by bisection."""
    up = _largest_lost(lambda u: float(chosen.rounded(1.0 + u)) == 1.0)
    down = _largest_lost(lambda u: float(chosen.rounded(1.0 - u)) == 1.0)
    u = chosen.unit_roundoff
    return [
        Check("largest lost update above 1", u, up, tolerance=1e-12, holds=ALWAYS),
        Check("largest lost update below 1", u / 2, down, tolerance=1e-12, holds=ALWAYS),
    ]


def _largest_lost(lost: Callable[[float], bool]) -> float:
    """Where `lost` turns false, to the last bits."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) else (low, middle)
    return low


def _floors(paths: dict[str, Array], chosen: NumberFormat, settings: Settings) -> list[Check]:
    """Where each way ends."""
    a, spacing = settings.step_size, float(chosen.spacing(START))
    left = (1 - a) ** (settings.steps // 2) * (TARGET - START)
    stalled = float(np.abs(paths["round to nearest"][-1]).max())
    half = paths["stochastic rounding"][settings.steps // 2 :]
    mean, error = mean_and_error((half**2).mean(axis=0))
    bound = spacing**2 / (4 * a * (2 - a))
    kept = float(np.abs(paths["fp32 weights"][-1]).max())
    # Either the update is lost in the weight, or the gradient is flushed to zero.
    precise = max(float(number_format("fp32").spacing(START)) / (2 * a), chosen.least_subnormal / 2)
    return [
        # It may stop one step of the format early or late: the weight moves on a grid.
        Check("stall, round to nearest", _stall(chosen, a), stalled, tolerance=spacing + left, holds=ALWAYS),
        Check("squared distance, stochastic rounding", bound, mean, error, left**2, relation="at most",
              runs=settings.repetitions, holds=ALWAYS),
        Check("fp32 weights stall", precise, kept, tolerance=precise + left, holds=ALWAYS),
    ]  # fmt: skip


def _last_digit(paths: dict[str, Array], spacing: float, stall: float) -> tuple[Check, ...]:
    """That nearest ends within a step of the format, at steps small enough to tell."""
    small = when(stall >= 3 * spacing, "step sizes below 1/6, at which it stalls at least three spacings away")
    end = float(np.abs(paths["round to nearest"][-1]).max())
    return (
        Check(
            "16-bit weights end within a spacing of the minimum",
            0.0,
            end,
            tolerance=spacing,
            false_law=True,
            holds=small,
        ),
    )
