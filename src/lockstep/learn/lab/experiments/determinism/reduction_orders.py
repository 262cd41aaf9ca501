"""The order in which every collective adds, on real numbers: its rounding error, and whose results agree to the bit.

    E error^2 = sum over additions of h^2 / 12 (1 + 2 / 4^k)                    (learn/lab/laws.py)
        about  (n (n + 1) / 2 - 1) r  one by one,  n log2(n) r  in pairs        r = u^2 / 3 E 4^floor(log2 |z|)
    |error| <= ((1 + u)^depth - 1) sum|x|                                       depth: additions one after the other
    equal bits exactly where the trees of additions are equal (a + b = b + a, but (a + b) + c is not a + (b + c))
n ranks with normal entries z; h: spacing at a sum, k: bits cut off, u: unit roundoff. A program gives the same bits
however its operations are ordered; another algorithm or another n gives others. Refuted beside it: that the worst
case, growing like n, is what happens, that all orders err alike, that all algorithms agree.

Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 4.2 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.laws import Tree, rounding_energy, rounding_sum, tree_of
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.number_format import NumberFormat, number_format
from lockstep.simulate.collectives import get, ops, own_algorithms
from lockstep.simulate.program import Kind, Program
from lockstep.simulate.program.executor import execute

QUESTION = "How much does a sum depend on the order in which a collective adds?"
SOURCE = "Higham 2002, sections 4.2 and 4.3; the programs of collectives/"

ADDING = ("all-reduce", "reduce", "reduce-scatter", "parameter-server", "gossip")
SEGMENTS = 4
"""Of the pipelined trees; how many does not change what is added to what."""
DRAWN = ("ring", "recursive-doubling", "naive")
"""All-reduces in the picture."""
DRAWN_RANKS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Settings:
    """Ranks, entries and format of the collectives."""

    ranks: int = setting(8, "Number of ranks.", least=2, most=64)
    elems: int = setting(2048, "Entries per rank.", least=256, most=1_000_000)
    format: str = setting(
        "fp32", "Number format that every sum is rounded to.", choices=("fp32", "tf32", "bf16", "fp16")
    )


@dataclass(frozen=True, slots=True)
class Added:
    """What an algorithm made of the ranks' entries, beside what it should have made."""

    op: str
    name: str
    tree: Tree
    values: Array
    """(rank, entry)."""
    energy: Array
    """Expected squared error."""
    exact: Array
    sizes: Array
    """Sum of |x| in every partial sum."""
    same_in_any_order: bool

    @property
    def busiest(self) -> int:
        """The rank with most additions behind its entries."""
        return int(self.energy.sum(axis=1).argmax())


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Every algorithm that adds; then the error of three over the ranks."""
    chosen = number_format(settings.format)
    cases = [(op, name) for op in ADDING for name in own_algorithms(op)]
    found = [_added(op, name, settings.ranks, settings, seed) for op, name in watched(cases, progress, more=1)]
    curves = tuple(_curves(settings, chosen, seed))
    progress(len(cases) + 1, len(cases) + 1)
    n, r = settings.ranks, rounding_energy(0)
    return Findings(
        checks=(
            *(check for one in found for check in _checks(one, chosen)),
            *_agreement(found),
            _moving(settings.ranks),
            *_false_laws(found, chosen),
        ),
        theory=(
            Law("squared error, sequential, "
                "approximately", (n * (n + 1) / 2 - 1) * r, "(n (n + 1) / 2 - 1) r", "in u^2"),
            Law("squared error, pairwise, approximately", n * math.log2(n) * r, "n log2(n) r", "in u^2"),
        ),
        rows=tuple(_row(one, chosen) for one in found),
        curves=curves,
        picture=Picture("ranks", "error_in_unit_roundoffs", log_x=True, log_y=True),
        conclusion=_conclusion(found),
        assumptions=("standard normal entries", f"every sum rounded to {chosen.name}"),
    )  # fmt: skip


def _added(op: str, name: str, ranks: int, settings: Settings, seed: int) -> Added:
    """One algorithm on rounded normal entries."""
    chosen = number_format(settings.format)
    elems = settings.elems // ranks * ranks
    algorithm = get(op, name)
    choices: Json = {"segments": SEGMENTS} if "segments" in algorithm.choices else {}
    program = algorithm.program(ranks, elems * 4.0, element_B=4.0, **choices)
    given = [chosen.rounded(draw.standard_normal(elems)) for draw in streams(seed, ranks)]
    given += [np.zeros(elems)] * (program.ranks - ranks)
    pairs = [np.stack([entries, np.zeros(elems)], axis=1) for entries in given]
    rounded = _run(program, pairs, ranks, combine=rounding_sum(chosen))
    again = _run(program, pairs, ranks, combine=rounding_sum(chosen), order_seed=seed + 1)
    return Added(
        op, name, tree_of(program, ranks, elems), rounded[..., 0], rounded[..., 1],
        _run(program, given, ranks, combine=np.add),
        _run(program, [np.abs(entries) for entries in given], ranks, combine=np.add),
        bool((again == rounded).all()),
    )  # fmt: skip


def _run(program: Program, given: list[Array], ranks: int, **how: Any) -> Array:
    """`data` of the ranks after the program."""
    return np.array(execute(program, {"data": given}, **how)["data"][:ranks])


def _checks(one: Added, chosen: NumberFormat) -> list[Check]:
    """Energy on the rank with most additions, bound everywhere, the same bits in every order of the operations."""
    named = f"{one.op} {one.name}"
    errors = np.abs(one.values - one.exact)
    bounds = ((1 + chosen.unit_roundoff) ** one.tree.depth - 1) * one.sizes
    busy = one.busiest
    law = float(one.energy[busy].mean())
    mean, error = mean_and_error((errors[busy] ** 2 - one.energy[busy]) / law)
    # Rounding moves the next sum by part of a step, which formats of few bits show.
    slack = 0.02 + 4 * chosen.unit_roundoff
    return [
        Check(f"{named}: squared error over its law", 1.0, 1 + mean, error, slack, holds=ALWAYS),
        Check(f"{named}: errors beyond the bound", 0, int((errors > bounds * (1 + 1e-9)).sum()), holds=ALWAYS),
        Check(f"{named}: same bits in any order of operations", 1, int(one.same_in_any_order), holds=ALWAYS),
    ]


def _agreement(found: list[Added]) -> list[Check]:
    """Different bits on the ranks of an all-reduce, by trees and by values; and over all algorithms."""
    checks = []
    whole = [one for one in found if one.op == "all-reduce"]
    for one in whole:
        trees, values = len(_patterns(one.tree.signature)), len(_patterns(one.values))
        checks.append(Check(f"all-reduce {one.name}: different results on the ranks", trees, values, holds=ALWAYS))
    all_trees = {pattern for one in whole for pattern in _patterns(one.tree.signature)}
    all_values = {pattern for one in whole for pattern in _patterns(one.values)}
    return [
        *checks,
        Check("different results of all all-reduces", len(all_trees), len(all_values), holds=ALWAYS),
        Check("all all-reduces give the same bits", 1, len(all_values), false_law=True,
              holds=when(len(all_trees) > 1, "at least 3 ranks, which can be added in several orders")),
    ]  # fmt: skip


def _moving(ranks: int) -> Check:
    """Additions of all collectives that only move data."""
    moving = [(op, name) for op in ops() if op not in ADDING for name in own_algorithms(op)]
    programs = [get(op, name).program(ranks, 4.0 * ranks * ranks, element_B=4.0) for op, name in moving]
    return Check(
        "additions in collectives that only move data",
        0,
        sum(int((p.kind == Kind.REDUCE).sum()) for p in programs),
        holds=ALWAYS,
    )


def _patterns(values: Array) -> set[bytes]:
    """Different rows, bit by bit."""
    return {row.tobytes() for row in values}


def _false_laws(found: list[Added], chosen: NumberFormat) -> list[Check]:
    """The worst case as the typical one, and one error for all orders."""
    named = {one.name: one for one in found if one.op == "all-reduce"}
    tree, ring = (_error(named[name], chosen) for name in ("recursive-doubling", "ring"))
    ranks = len(named["ring"].values)
    many = when(ranks >= 8, "at least 8 ranks")
    return [
        Check("ring: the error is that of the worst case", _worst(named["ring"], chosen), ring,
              tolerance=ring / 2, false_law=True,
              holds=many),
        Check("ring and tree have the same error", ring, tree, tolerance=0.02 * ring, false_law=True, holds=many),
    ]  # fmt: skip


def _error(one: Added, chosen: NumberFormat) -> float:
    """Root mean square error on the busiest rank, in unit roundoffs."""
    errors = one.values[one.busiest] - one.exact[one.busiest]
    return float(np.sqrt((errors**2).mean())) / chosen.unit_roundoff


def _worst(one: Added, chosen: NumberFormat) -> float:
    """Mean of the bound, in unit roundoffs."""
    return float((((1 + chosen.unit_roundoff) ** one.tree.depth[0] - 1) * one.sizes[0]).mean()) / chosen.unit_roundoff


def _row(one: Added, chosen: NumberFormat) -> Json:
    law = np.sqrt(one.energy[one.busiest].mean()) / chosen.unit_roundoff
    return {
        "collective": f"{one.op} {one.name}", "depth": int(one.tree.depth.max()),
        "error_in_unit_roundoffs": _error(one, chosen), "law_in_unit_roundoffs": float(law),
        "results_on_the_ranks": len(_patterns(one.values)),
    }  # fmt: skip


def _curves(settings: Settings, chosen: NumberFormat, seed: int) -> Iterator[Curve]:
    """Error of three all-reduces over the ranks, and of the law."""
    x = np.array(DRAWN_RANKS, dtype=float)
    for name in DRAWN:
        rows = [_row(_added("all-reduce", name, n, settings, seed), chosen) for n in DRAWN_RANKS]
        yield Curve(f"{name}, measured", x, np.array([row["error_in_unit_roundoffs"] for row in rows]), marks=True)
        yield Curve(f"{name}, law", x, np.array([row["law_in_unit_roundoffs"] for row in rows]), theory=True)


def _conclusion(found: list[Added]) -> str:
    whole = [one for one in found if one.op == "all-reduce"]
    values = {pattern for one in whole for pattern in _patterns(one.values)}
    split = [one.name for one in whole if len(_patterns(one.values)) > 1]
    alone = f"; ranks disagree after {', '.join(split)}" if split else "; after each, all ranks agree"
    return f"{len(whole)} all-reduces of the same entries give {len(values)} different results{alone}"
