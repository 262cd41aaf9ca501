"""One overflowing rank in an all-reduce of 16-bit gradients, and what each guard does about it.

    infinity + x = infinity, infinity - infinity and anything with not-a-number = not-a-number: all ranks get it
    a sum of n values stays finite if  n M < 65520           M: largest magnitude on a rank; M = 10^4: n <= 6
Guards, before the sum: clip every entry to M, clip the norm, divide by n; after it: look, and skip the step
everywhere. Refuted beside it: that clipping to below 65504 prevents overflow (the sum overflows), that clipping
repairs one (entries: not-a-number stays and infinity becomes a wrong finite M; norm: a factor of 0 makes 0 *
infinity), that clipping is needed (a step skipped by all ranks keeps the weights right), that not-a-number turns into
infinity on the way.

Sources: IEEE 754-2019, section 6; Micikevicius et al., "Mixed precision training", ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Domain, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.methods.number_format import number_format, rounded_sum
from lockstep.simulate.collectives import get, own_algorithms
from lockstep.simulate.program import Program
from lockstep.simulate.program.executor import execute

QUESTION = "How far does an overflow on one rank spread in an all-reduce, and which guard is correct?"
SOURCE = "IEEE 754-2019; Micikevicius et al. 2018"

HALF = number_format("fp16")
LIMIT = 60_000.0
"""Below the largest fp16 number: what the false law takes for safe."""
MAGNITUDE = 1e4
MOST_RANKS = 64
FEWER_RANKS = (2, 4, 8, 16, 32)
"""Those of the picture beside the most."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The ranks of the all-reduce."""

    ranks: int = setting(8, "Number of ranks.", least=2, most=MOST_RANKS)
    algorithm: str = setting(
        "ring", "All-reduce algorithm of the table of guards.", choices=own_algorithms("all-reduce")
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Spread for every algorithm, the largest safe entry over the ranks, and the table of guards."""
    names = own_algorithms("all-reduce")
    spread = [_spread(name, settings.ranks) for name in watched(names, progress, more=1)]
    rows = tuple(_row(guard, case, settings) for case in CASES for guard in GUARDS)
    fewer, most = [_safe(n) for n in FEWER_RANKS], _safe(MOST_RANKS)
    counts, largest = [*FEWER_RANKS, MOST_RANKS], [one.got for one in (*fewer, most)]
    progress(len(names) + 1, len(names) + 1)
    return Findings(
        checks=(*(check for found in spread for check in found), *fewer, most, *_sums(), *_guard_checks(rows)),
        theory=tuple(Law(f"largest safe entry, {n} ranks", HALF.overflows_from / n, "65520 / n", "n M < 65520")
                     for n in counts),
        rows=rows,
        curves=(
            Curve("searched", np.array(counts, float), np.array(largest), marks=True),
            Curve("law", np.array(counts, float), HALF.overflows_from / np.array(counts, float), theory=True),
        ),
        picture=Picture(
            "ranks", "largest_safe_entry", log_x=True, log_y=True,
            title="Largest entry that ranks can sum in fp16: 65504 over their number",
        ),
        conclusion="one infinity reaches every rank; only dividing first or skipping the step on all ranks is correct",
        assumptions=("sums are rounded to fp16 after every addition",),
    )  # fmt: skip


def _summed(given: list[Array], name: str = "recursive-doubling") -> list[Array]:
    """What every rank holds after an all-reduce in fp16."""
    first, *_ = given
    program = _program(name, len(given), len(first))
    empty = [np.zeros_like(first)] * (program.ranks - len(given))
    return execute(program, {"data": [*given, *empty]}, combine=rounded_sum("fp16"))["data"][: len(given)]


@cache
def _program(name: str, ranks: int, elems: int) -> Program:
    """An all-reduce of fp16."""
    return get("all-reduce", name).program(ranks, elems * 2.0, element_B=2.0)


def _spread(name: str, ranks: int) -> list[Check]:
    """Ranks that hold an infinity, and a not-a-number, where one rank, or two of opposite sign, sent infinity."""
    ones, infinity, unknown = (np.full(ranks, value) for value in (1.0, np.inf, np.nan))
    first = np.concatenate([ones, ones, infinity, unknown])
    last = np.concatenate([ones, infinity, -infinity, ones])
    given = [first, *(np.ones_like(first) for _ in range(2, ranks)), last]
    counts = np.array([[part.sum() for part in _kinds(values, ranks)] for values in _summed(given, name)])
    clean, infinite, lost = (counts == [ranks, ranks, 2 * ranks]).sum(axis=0).tolist()
    return [
        Check(f"{name}: ranks with an infinity from one", ranks, infinite, holds=ALWAYS),
        Check(f"{name}: ranks with NaN", ranks, lost, holds=ALWAYS),
        Check(f"{name}: ranks whose other entries are correct", ranks, clean, holds=ALWAYS),
    ]


def _kinds(values: Array, right: float) -> tuple[Array, Array, Array]:
    """Where entries are right, infinite, and not a number."""
    return values == right, np.isinf(values), np.isnan(values)


def _largest_safe(ranks: int) -> float:
    """The largest entry, the same on all ranks, whose sum is finite: searched among the numbers of fp16."""
    low, high = 0.0, HALF.largest
    while True:
        middle = float(HALF.rounded((low + high) / 2))
        if middle in (low, high):
            return low
        finite = bool(np.isfinite(_summed([np.array([middle])] * ranks)[0]).all())
        low, high = (middle, high) if finite else (low, middle)


def _safe(ranks: int) -> Check:
    """The largest entry that so many ranks can sum: 65520 / n."""
    got = _largest_safe(ranks)
    return Check(f"largest safe entry, {ranks} ranks", HALF.overflows_from / ranks, got,
                 tolerance=float(HALF.spacing(got)), holds=ALWAYS)  # fmt: skip


def _sums() -> list[Check]:
    """The sums of 10^4 one after the other."""
    six, seven = (float(_one_by_one(np.full(n, MAGNITUDE))) for n in (6, 7))
    return [
        Check("six times 10^4, added one by one", 59_968.0, six, holds=example("fp16")),
        Check("seven times 10^4 is finite", 1.0, float(np.isfinite(seven)), false_law=True, holds=example("fp16")),
    ]


def _one_by_one(values: Array) -> Array:
    """Sum in order, rounded to fp16 after every addition."""
    total = np.zeros(())
    for value in values:
        total = HALF.rounded(total + value)
    return total


def _clip_entries(given: Array, ranks: int) -> Array:
    return np.clip(given, -LIMIT, LIMIT)


def _clip_norm(given: Array, ranks: int) -> Array:
    """The factor limit / norm, in 64 bits; an infinite norm makes it 0."""
    return given * min(1.0, LIMIT / float(np.sqrt((given**2).sum())))


GUARDS: dict[str, Callable[[Array, int], Array]] = {
    "none": lambda given, ranks: given,
    "clip entries": _clip_entries,
    "clip norm": _clip_norm,
    "divide by n first": lambda given, ranks: HALF.rounded(given / ranks),
    "check after, skip": lambda given, ranks: given,
}
CASES = ("one rank infinite", "one rank NaN", "sum too large")


def _row(guard: str, case: str, settings: Settings) -> Json:
    """What the ranks do with the mean gradient under a guard."""
    ranks = settings.ranks
    given = [np.ones(ranks) for _ in range(ranks)]
    if case == "sum too large":
        for values in given:
            values[0] = MAGNITUDE
    else:
        first, *_ = given
        first[:] = np.inf if case == "one rank infinite" else np.nan
    after = _summed([GUARDS[guard](values, ranks) for values in given], settings.algorithm)
    bad = [not np.isfinite(values).all() for values in after]
    # Each of n - 1 sums rounds by half a spacing at most, and the n quotients by less than one together.
    near = ranks * float(HALF.spacing(MAGNITUDE))
    divided = 1 if guard == "divide by n first" else ranks
    right = case == "sum too large" and all(abs(values[0] / divided - MAGNITUDE) <= near for values in after)
    skipped = guard == "check after, skip" and all(bad)
    return {
        "case": case, "guard": guard, "ranks_with_bad_entries": 0 if skipped else sum(bad),
        "step": "skipped by all" if skipped else "lost" if any(bad) else "right" if right else "wrong but finite",
    }  # fmt: skip


def _guard_checks(rows: tuple[Json, ...]) -> list[Check]:
    """The false claims about clipping, and the two guards that keep weights right."""
    step = {(row["case"], row["guard"]): row["step"] for row in rows}
    large = step["sum too large", "none"] == "lost"  # few ranks do not overflow at this magnitude

    def said(what: str, case: str, guard: str, outcome: str, false_law: bool = False, holds: Domain = ALWAYS) -> Check:
        return Check(what, 1.0, float(step[case, guard] == outcome), false_law=false_law, holds=holds)

    few = _row("none", "sum too large", Settings(ranks=4))
    six = _row("clip entries", "one rank infinite", Settings(ranks=6))
    many = _row("divide by n first", "sum too large", Settings(ranks=61))
    shortened, kept = (_clip_norm(np.full(100, size), 1) for size in (MAGNITUDE, LIMIT / 100))
    infinite, unknown = CASES[:2]
    return [
        said("clipping entries repairs an infinity", infinite, "clip entries", "right", True),
        said("clipping entries makes an infinity a wrong finite entry", infinite, "clip entries", "wrong but finite"),
        said("clipping entries repairs NaN", unknown, "clip entries", "right", True),
        said("clipping the norm repairs an infinity", infinite, "clip norm", "wrong but finite", True),
        said("skipping on all ranks is correct after an infinity", infinite, "check after, skip", "skipped by all"),
        said("skipping on all ranks is correct after NaN", unknown, "check after, skip", "skipped by all"),
        said("dividing by n first keeps the sum finite and correct", "sum too large", "divide by n first", "right"),
        said("clipping entries below 65504 keeps the sum finite", "sum too large", "clip entries", "right", True,
             when(large, "ranks that overflow at 10^4: 7 or more")),
        Check("a sum of 10^4 over 4 ranks is right without a guard", 1.0, float(few["step"] == "right"),
              holds=example("4 ranks, ring")),
        Check("an infinity over 6 ranks is wrong after clipping, though their mean is 10^4", 1.0,
              float(six["step"] == "wrong but finite"), holds=example("6 ranks, ring")),
        Check("a sum of 10^4 over 61 ranks is right where divided first", 1.0, float(many["step"] == "right"),
              holds=example("61 ranks, ring")),
        Check("length of a gradient after clipping its norm", LIMIT, float(np.linalg.norm(shortened)),
              tolerance=1e-9 * LIMIT, holds=example("100 entries of 10^4")),
        Check("length of a short gradient after clipping its norm", LIMIT / 10, float(np.linalg.norm(kept)),
              tolerance=1e-9 * LIMIT, holds=example("100 entries of 600")),
        Check("what entries and norms are clipped to, in fp16", HALF.largest, LIMIT, relation="at most", holds=ALWAYS),
    ]  # fmt: skip
