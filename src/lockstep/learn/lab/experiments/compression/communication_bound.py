"""How few bits can reach a target, and how many are used: the bound by volumes beside quantized and plain descent.

    f_b(w) = |w - b|^2 / 2,  b in [0, 1]^d known to the other machine only,  target f <= eps
    any scheme:          C >= log2(1 / V_d(sqrt(2 eps)))  about  (d / 2) log2(d / (4 pi e eps))
    rounding b once:     d ceil(log2(d / (8 eps)) / 2)                a constant number of bits per entry above it
    a bit per step:      each step halves the range that is left: the same bits, in rounds
    descent in fp32:     32 d log(1 / eps) / (2 log(1 / (1 - a)))     grows with the steps
C bits name at most 2^C points, each good for a ball of that radius; the balls must cover the cube. V_d(r): volume of
a ball.

Source: Tsitsiklis, Luo, "Communication complexity of convex optimization", J. Complexity 3 (1987); Korhonen, Alistarh,
"Towards tight communication lower bounds for distributed optimization", NeurIPS 2021 (n machines).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.statistics import streams

QUESTION = "How many bits must machines exchange at least to reach a target, and how many do common schemes use?"
SOURCE = "Tsitsiklis and Luo 1987; Korhonen and Alistarh 2021"

BITS_ABOVE = math.log2(math.pi * math.e / 2) / 2 + 2
"""Per entry, of rounding once over the bound: log2(pi e / 2) / 2 and one for rounding up; one for few entries."""
STEP = 0.5
"""Of the descent in fp32, which halves the distance."""
FINE = 2.0**-30
"""Target per entry from which on fp32 rounds a thousandth of the distance that is left at most."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Dimension and targets."""

    elems: int = setting(64, "Dimension of the quadratic.", least=1, most=10_000)
    targets: tuple[float, ...] = setting((1e-1, 1e-2, 1e-3, 1e-4, 1e-6), "Losses to reach.", least=1e-12, below=1)
    problems: int = setting(
        200, "Number of random problems per target, in addition to the worst corner.", least=1, most=10_000
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Bits of three schemes that reach every target, and the bound."""
    targets = sorted(settings.targets, reverse=True)
    (draw,) = streams(seed, 1)
    minima = np.vstack([draw.random((settings.problems, settings.elems)), np.ones(settings.elems)])
    rows: list[dict[str, float]] = []
    checks: list[Check] = []
    for target in watched(targets, progress):
        bits, loss = _schemes(minima, target)
        bound = bound_bits(settings.elems, target)
        for name, used in bits.items():
            checks.append(
                Check(f"{name}, target {target:g}: bits", max(bound, 0.0), used, relation="at least", holds=ALWAYS)
            )
            checks.append(
                Check(f"{name}, target {target:g}: loss", target, loss[name], relation="at most", holds=ALWAYS)
            )
        most = max(bound, 0.0) + BITS_ABOVE * settings.elems
        what = f"rounded once, target {target:g}: bits above the bound"
        checks.append(Check(what, most, bits["rounded once"], relation="at most", holds=ALWAYS))
        what = f"descent in fp32, target {target:g}: bits, of which each step sends 32 for the one of a halving"
        checks.append(Check(what, 32 * bits["a bit per step"], bits["descent in fp32"],
                            holds=when(settings.elems >= 8 and target >= settings.elems * FINE,
                                       "8 entries or more, and targets far above the rounding of fp32")))  # fmt: skip
        rows.append({"target": target, "bound_bits": max(bound, 0.0), **{f"{n}_bits": b for n, b in bits.items()}})
    return Findings(
        checks=(*checks, *_next_to_a_halving()),
        theory=tuple(Law(f"bits to {row['target']:g}", row["bound_bits"], "log2(1 / V_d(sqrt(2 eps)))",
                         "Tsitsiklis and Luo 1987") for row in rows),
        rows=tuple({key.replace(" ", "_"): value for key, value in row.items()} for row in rows),
        curves=_curves(rows),
        picture=Picture("target_loss", "bits", log_x=True, log_y=True),
        conclusion=_conclusion(rows[-1]),
        assumptions=("two machines; one knows the minimum and sends, the other must return a point near it",),
    )  # fmt: skip


def _conclusion(row: dict[str, float]) -> str:
    """The last target."""
    least = max(row["bound_bits"], 1.0)
    once, descended = row["rounded once_bits"] / least, row["descent in fp32_bits"] / least
    return (
        f"to {row['target']:g}, rounding once takes {once:.3g} times the lower bound on bits, descent in fp32 "
        f"{descended:.3g} times"
    )


def bound_bits(elems: int, target: float) -> float:
    """log2 of one over the volume of a ball of radius sqrt(2 eps) in that many dimensions."""
    log_volume = elems / 2 * math.log(math.pi * 2 * target) - math.lgamma(elems / 2 + 1)
    return -log_volume / math.log(2)


def _schemes(minima: Array, target: float) -> tuple[dict[str, float], dict[str, float]]:
    """(bits, worst loss) of each scheme."""
    elems = minima.shape[1]
    width = max(0, math.ceil(math.log2(elems / (8 * target)) / 2))
    cells = np.minimum(np.floor(minima * 2.0**width), 2.0**width - 1)
    once = (cells + 0.5) / 2.0**width
    found = np.full_like(minima, 0.5)
    for bit in range(width):
        found = found + np.where(minima > found, 0.25, -0.25) * 2.0**-bit
    descended, steps = np.full(minima.shape, 0.5, np.float32), 0
    while _worst(descended, minima) > target:
        descended = descended - np.float32(STEP) * (descended - minima.astype(np.float32))
        steps += 1
    coded = int(cells.max()).bit_length()
    bits = {"rounded once": elems * coded, "a bit per step": elems * width, "descent in fp32": 32 * elems * steps}
    points = {"rounded once": once, "a bit per step": found, "descent in fp32": descended}
    return {k: float(v) for k, v in bits.items()}, {name: _worst(point, minima) for name, point in points.items()}


def _next_to_a_halving() -> list[Check]:
    """64 entries at the corner: after 5 halvings the loss is 64 / 8 / 4^5 = 1 / 128, so that 0.0077 takes a sixth."""
    bits, loss = _schemes(np.ones((1, 64)), 0.0077)
    return [
        Check("64 entries at the corner, target 0.0077: bits", 64 * 6, bits["rounded once"], holds=example("a corner")),
        Check("64 entries at the corner, target 0.0077: loss", 1 / 512, loss["rounded once"], tolerance=1e-15,
              holds=example("a corner")),
    ]  # fmt: skip


def _worst(points: Array, minima: Array) -> float:
    """Largest loss over the problems."""
    return float((((points.astype(np.float64) - minima) ** 2).sum(axis=1) / 2).max())


def _curves(rows: list[dict[str, float]]) -> tuple[Curve, ...]:
    """Bits over the target, from one bit on."""
    x = np.array([row["target"] for row in rows])
    names = [key for key in rows[0] if key.endswith("_bits")]
    lines = {key.removesuffix("_bits"): np.maximum([row[key] for row in rows], 1.0) for key in names}
    return tuple(Curve(name, x, y, theory=name == "bound") for name, y in lines.items())
