"""Which gradients a number format loses: flushed to zero, subnormal, or infinite, over the loss scale.

    zero:       |g| S <= half the smallest subnormal         fp16: 2.98e-8
    subnormal:  above that, below the smallest normal        fp16: 6.10e-5; fewer bits, not zero
    overflow:   |g| S >= the largest and half a step         fp16: 65520
Shares follow from the law of |g|: normal of deviation sigma, or log-normal of median sigma and width w in powers of
e. Refuted beside it, for N(0, 1e-4) in fp16: 45, 2, 0.5 and 25 % overflow at scales 2^15, 2^18, 2^20, 2^24 (there is
none up to 2^27, 1.5 % at 2^28; 45.7 % is the subnormal share at scale 1), that everything under 6e-5 is zero, and
that bf16 adds underflow.

Source: IEEE 754-2019; Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2 (loss scaling).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example
from lockstep.learn.lab.laws import tail
from lockstep.learn.lab.statistics import share_error, streams
from lockstep.learn.methods.number_format import FORMATS, NumberFormat, number_format

QUESTION = "Which gradients become zero, subnormal or infinite in a number format, at which loss scale?"
SOURCE = "IEEE 754-2019; Micikevicius et al. 2018, section 3.2"

SHARES = ("zero", "subnormal", "overflow")
PRINTED_LAW = "N(0, 1e-4) in fp16"
PRINTED_OVERFLOW = {15: 0.45, 18: 0.02, 20: 0.005, 24: 0.25}
"""Shares printed for N(0, 1e-4) in fp16, by the power of two of the loss scale."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The gradients, the format and the scales."""

    format: str = setting("fp16", "Number format of the gradients.", choices=tuple(FORMATS))
    law: str = setting("normal", "Probability law of the gradients.", choices=("normal", "log-normal"))
    size: float = setting(
        1e-4, "Standard deviation of normal gradients, or median of log-normal ones.", above=0, most=1e30
    )
    width: float = setting(3.0, "Standard deviation of log |g| for log-normal gradients.", above=0, most=50)
    most_doublings: int = setting(32, "Loss scales go from 1 to 2 to this power.", least=1, most=120)
    gradients: int = setting(200_000, "Number of gradients drawn.", least=1000, most=20_000_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Shares at every power of two, counted and by formula."""
    chosen = number_format(settings.format)
    (draw,) = streams(seed, 1)
    given = draw.standard_normal(settings.gradients)
    gradients = settings.size * (given if settings.law == "normal" else np.exp(settings.width * given))
    powers = range(settings.most_doublings + 1)
    counted, laws = [], []
    for power in powers:
        counted.append(_counted(chosen, gradients * 2.0**power))
        laws.append(lost_fracs(chosen, settings, 2.0**power))
        progress(power + 1, len(powers))
    return Findings(
        checks=(*_checks(counted, laws, settings), *_edge_checks(chosen), _log_normal(), *_false_laws(seed)),
        theory=tuple(
            Law(f"{name} at scale 2^{twice}", laws[twice][at], "P of the law beyond the format's edges", chosen.name)
            for twice in {0, settings.most_doublings // 2, settings.most_doublings}
            for at, name in enumerate(SHARES)
        ),
        rows=tuple({"loss_scale": 2.0**p, **{f"{name}_frac": counted[p][at] for at, name in enumerate(SHARES)}}
                   for p in powers[::4]),
        curves=tuple(_curves(np.array(counted), np.array(laws))),
        picture=Picture("loss_scale", "share_frac", log_x=True),
        conclusion=_conclusion(chosen, laws),
        assumptions=("every gradient is rounded once, to the nearest",),
    )  # fmt: skip


def _counted(chosen: NumberFormat, values: Array) -> tuple[float, float, float]:
    """Shares of the values that become zero, subnormal, not finite."""
    stored = np.abs(chosen.rounded(values))
    subnormal = (stored > 0) & (stored < chosen.least_normal)
    return float((stored == 0).mean()), float(subnormal.mean()), float((~np.isfinite(stored)).mean())


def lost_fracs(chosen: NumberFormat, settings: Settings, scale: float) -> tuple[float, float, float]:
    """Shares that become zero, subnormal, not finite at a loss scale, by formula: probabilities beyond three edges."""
    zero, normal, over = (_beyond(edge / scale, settings) for edge in _edges(chosen))
    return 1 - zero, zero - normal, over


def _edges(chosen: NumberFormat) -> tuple[float, float, float]:
    """From where on values are not rounded to zero, not to a subnormal number, and no longer to a finite one."""
    return chosen.least_subnormal / 2, chosen.least_normal - chosen.least_subnormal / 2, chosen.overflows_from


def _edge_checks(chosen: NumberFormat) -> list[Check]:
    """Two values next to each edge, of which one, two and one are zero, subnormal and not finite."""
    beside = np.outer(_edges(chosen), (1 - 1e-6, 1 + 1e-6)).ravel()
    return [
        Check(f"{name} next to the edges of {chosen.name}", count / 6, got, tolerance=1e-9, holds=ALWAYS)
        for name, count, got in zip(SHARES, (1, 2, 1), _counted(chosen, beside), strict=True)
    ]


def _beyond(edge: float, settings: Settings) -> float:
    """P(|g| > edge)."""
    if settings.law == "normal":
        return tail(edge / settings.size)
    return 1 - NormalDist().cdf(math.log(edge / settings.size) / settings.width)


def _log_normal() -> Check:
    """P(|g| > 20) for a median of 10 and a width of 3: half of erfc(log 2 / (3 sqrt 2))."""
    return Check("share of log-normal gradients above twice their median, width 3",
                 math.erfc(math.log(2) / (3 * math.sqrt(2))) / 2,
                 _beyond(20.0, Settings(law="log-normal", size=10.0, width=3.0)), tolerance=1e-12,
                 holds=example("log-normal gradients"))  # fmt: skip


def _checks(
    counted: Sequence[tuple[float, float, float]], laws: Sequence[tuple[float, float, float]], settings: Settings
) -> list[Check]:
    """Every share within the error of counting."""
    checks = []
    for power, (seen, law) in enumerate(zip(counted, laws, strict=True)):
        for name, got, expected in zip(SHARES, seen, law, strict=True):
            error = share_error(expected, settings.gradients)
            checks.append(
                Check(f"{name} at scale 2^{power}", expected, got, error, 1.5 / settings.gradients, holds=ALWAYS)
            )
    return checks


def _false_laws(seed: int) -> list[Check]:
    """The printed shares, flushing of subnormals, and underflow of bf16."""
    normal, half = Settings(), number_format("fp16")
    (draw,) = streams(seed, 1)
    gradients = normal.size * draw.standard_normal(normal.gradients)
    checks = []
    for power, printed in PRINTED_OVERFLOW.items():
        over = _counted(half, gradients * 2.0**power)[2]
        checks.append(
            Check(
                f"published overflow at scale 2^{power}",
                printed,
                over,
                tolerance=0.001,
                false_law=True,
                holds=example(PRINTED_LAW),
            )
        )
    zero, subnormal, _ = _counted(half, gradients)
    brain = _counted(number_format("bf16"), gradients)
    return [
        *checks,
        Check("overflow at scale 2^28", 0.0148, _counted(half, gradients * 2.0**28)[2], tolerance=0.002,
              holds=example(PRINTED_LAW)),
        Check("zero at scale 1", 0.00024, zero, tolerance=0.0002, holds=example(PRINTED_LAW)),
        Check("subnormal at scale 1", 0.457, subnormal, tolerance=0.006, holds=example(PRINTED_LAW)),
        Check("everything below 6.1e-5 is "
              "flushed to zero", 1 - tail(half.least_normal / normal.size), zero, tolerance=0.01, false_law=True,
              holds=example(PRINTED_LAW)),
        Check("bf16 flushes small gradients too", zero, sum(brain), tolerance=zero / 2, false_law=True,
              holds=example(PRINTED_LAW)),
    ]  # fmt: skip


def _curves(counted: Array, laws: Array) -> Iterator[Curve]:
    x = 2.0 ** np.arange(len(counted))
    for at, name in enumerate(SHARES):
        yield Curve(f"{name}, counted", x, counted[:, at], marks=True)
        yield Curve(f"{name}, law", x, laws[:, at], theory=True)


def _conclusion(chosen: NumberFormat, laws: Sequence[tuple[float, float, float]]) -> str:
    lost = [law[0] + law[1] + law[2] for law in laws]
    best = min(range(len(lost)), key=lambda power: lost[power])
    return (
        f"{chosen.name} loses least at a loss scale of 2^{best}: {lost[best]:.2g} of the gradients are not normal "
        "numbers there"
    )
