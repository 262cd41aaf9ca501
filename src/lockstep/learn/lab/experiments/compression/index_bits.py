"""What it costs to say which entries travel: plain indices, the shortest ones, coded gaps, and the least possible.

    32-bit indices       64 r d bits                     saves 1 / (2 r)
    shortest indices     r d (32 + ceil(log2 d))         loses against all entries above 32 / (32 + ceil(log2 d))
    gaps, Rice code      r d (32 + about log2(1 / r) + 1.5), an entry at a time
    any code             d (32 r + H(r)),  H(r) = -r log2 r - (1 - r) log2(1 - r), for a random choice
r: share of d entries that travel, in fp32. Rice: a gap g costs floor(g / 2^k) + 1 + k bits, with the best k. Refuted
beside it: 100 times fewer bytes for the top 1 % (50; 79.8 at best), 3 times for the top 10 % of 10^9 (5.16; 8.72 at
best), indices "often larger than" everything (only above r = 0.516), and a quantizer whose code 2^b does not fit in b
bits.

Source: R. F. Rice, "Some practical universal noiseless coding techniques", JPL 1979; Shannon 1948 (entropy).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.statistics import streams

QUESTION = "How many bits does it take to encode which entries are sent?"
SOURCE = "Shannon 1948; Rice 1979"

VALUE_BITS = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """Vectors and shares."""

    elems: int = setting(
        1_000_000, "Entries of the vector whose index gaps are encoded.", least=10_000, most=50_000_000
    )
    keep_fracs: tuple[float, ...] = setting(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3), "Fractions of the entries that are sent.", above=0, below=1
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Bits per entry of the vector, for every way to say which ones travel."""
    shares = sorted(settings.keep_fracs)
    (draw,) = streams(seed, 1)
    coded = []
    for share in watched(shares, progress):
        chosen = np.flatnonzero(draw.random(settings.elems) < share)
        coded.append(_coded_bits(chosen) / settings.elems)
    x = np.array(shares)
    least = np.array([entropy_bits(share) for share in shares])
    short = math.ceil(math.log2(settings.elems))
    lines = {"32-bit": VALUE_BITS * x, "shortest": short * x, "coded gaps": np.array(coded)}
    return Findings(
        checks=(*_coding_checks(shares, coded, settings.elems), *_golden(), *_quantizer()),
        theory=tuple(Law(f"bits per entry at {r:g}", entropy_bits(r), "H(r)", "Shannon 1948") for r in shares),
        rows=tuple(_row(r, {name: float(line[at]) for name, line in lines.items()}) for at, r in enumerate(shares)),
        curves=(Curve("least possible", x, least, theory=True), *(Curve(name, x, y) for name, y in lines.items())),
        picture=Picture("keep_frac", "bits_per_entry", log_x=True, log_y=True),
        conclusion=f"32-bit indices make the top 1 % {saving(0.01, 32):g} times smaller than the whole vector, the "
        f"best code {best_saving(0.01):.3g} times",
        assumptions=("entries chosen independently; 32-bit values",),
    )  # fmt: skip


def entropy_bits(share: float) -> float:
    """H(r): bits per entry that no code of the choice goes below."""
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def saving(share: float, index_bits: float) -> float:
    """How many times fewer bits than the whole vector, with plain indices."""
    return VALUE_BITS / (share * (VALUE_BITS + index_bits))


def best_saving(share: float) -> float:
    """The same with as few bits as there can be."""
    return VALUE_BITS / (VALUE_BITS * share + entropy_bits(share))


def _row(share: float, bits: dict[str, float]) -> Json:
    """Times fewer bits, for every way."""
    times = {f"times_{name.replace(' ', '_')}": VALUE_BITS / (VALUE_BITS * share + line) for name, line in bits.items()}
    return {"keep_frac": share, **times, "times_at_best": best_saving(share)}


def _coded_bits(chosen: Array) -> int:
    """Bits of the gaps between chosen entries, by the Rice code with the best parameter."""
    gaps = np.diff(chosen, prepend=-1) - 1
    return min(int((gaps >> k).sum()) + (k + 1) * len(gaps) for k in range(24))


def _coding_checks(shares: list[float], coded: list[float], elems: int) -> list[Check]:
    """The code between the entropy and 5 % with a tenth of a bit per chosen entry above it."""
    checks = []
    for share, bits in zip(shares, coded, strict=True):
        # The number of chosen entries is random, and with it the bits.
        spread = 4 * math.sqrt(share * (1 - share) / elems) * abs(math.log2(share / (1 - share)))
        least = entropy_bits(share)
        checks.append(
            Check(
                f"coded gaps at {share:g}, bits per entry",
                least,
                bits,
                tolerance=spread,
                relation="at least",
                holds=ALWAYS,
            )
        )
        most = 1.05 * least + 0.1 * share
        checks.append(
            Check(f"coded gaps at {share:g}, close to the bound", most, bits,
                  tolerance=spread, relation="at most", holds=when(
                share <= 1 / 2, "a fraction of at most 1/2: each gap takes at least one bit, and above it the omitted "
                                "entries are fewer"))
        )  # fmt: skip
    return checks


def _golden() -> list[Check]:
    """Savings for published fractions, and the printed ones."""
    widest = VALUE_BITS / (VALUE_BITS + 30)
    return [
        Check("top 10 % of 10^9, 30-bit "
              "indices", 5.161, saving(0.1, 30), tolerance=5e-4, holds=example("published fractions")),
        Check("top 10 %, best code", 8.72, best_saving(0.1), tolerance=5e-3, holds=example("published fractions")),
        Check("top 1 %, 32-bit indices", 50.0, saving(0.01, 32), tolerance=1e-9, holds=example("published fractions")),
        Check("top 1 %, best code", 79.8, best_saving(0.01), tolerance=0.1, holds=example("published fractions")),
        Check("fraction from which 30-bit indices lose", 0.516, widest,
              tolerance=1e-3, holds=example("published fractions")),
        Check("top 1 % saves 100 times", 100.0, best_saving(0.01),
              tolerance=1, false_law=True, holds=example("published fractions")),
        Check("top 10 % of 10^9 saves 3 "
              "times", 3.0, saving(0.1, 30), tolerance=0.1, false_law=True, holds=example("published fractions")),
        Check("indices of the top 10 % are larger than the vector", 1.0, 0.1 * 30 / VALUE_BITS, relation="at least",
              false_law=True, holds=example("30-bit indices")),
    ]  # fmt: skip


def _quantizer() -> list[Check]:
    """8 bits between -10 and 10: 255 steps fit, 256 need a ninth bit."""
    values = np.linspace(-10, 10, 100_001)
    codes = {steps: np.rint((values + 10) / 20 * steps) for steps in (255, 256)}
    error = float(np.abs(codes[255] / 255 * 20 - 10 - values).max())
    return [
        Check("largest error of 8 bits on [-10, 10]", 20 / (2 * 255), error,
              tolerance=1e-4, holds=example("255 steps")),
        Check("largest error of 8 bits on [-10, 10] is 0.078", 0.078, error,
              tolerance=1e-3, false_law=True, holds=example("256 steps")),
        Check("code 2^8 fits in 8 bits", 255.0, float(codes[256].max()), relation="at most", false_law=True,
              holds=example("256 steps")),
    ]  # fmt: skip
