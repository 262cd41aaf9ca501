"""The conformance table: every registered algorithm, with the choices worth testing; registering is joining.

`promised` says what buffers hold after each op. Symbolic data: element e of rank r is the unit vector of r where the
op adds (so the result counts who contributed how often), a number of its own where the op only moves data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from effort import drawn
from lockstep import collectives
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Switch
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.collectives.op import OPS
from lockstep.simulate.collectives.registry import Algorithm
from lockstep.simulate.collectives.rounds import cut
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Program, contributions, tokens

ELEMENT_B = 4.0
quick = settings(max_examples=min(drawn(20), settings.default.max_examples), derandomize=True, deadline=None)


@dataclass(frozen=True)
class Case:
    """An algorithm with choices that fit some numbers of ranks."""

    algorithm: Algorithm
    choices: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = "-".join(f"{key}={value}" for key, value in self.choices.items())
        return f"{self.algorithm.op}:{self.algorithm.name}" + (f":{words}" if words else "")

    def fitting(self, ranks: int) -> int:
        """The next number of ranks that the choices fit."""
        return next(n for n in range(ranks, ranks + 13) if self.fits(n))

    def fits(self, ranks: int) -> bool:
        """Whether the algorithm takes the choices for so many ranks."""
        try:
            self.algorithm.price(ranks, 1.0, PlainLink(0.0, 1.0), **self.choices)
        except BadInput:
            return False
        return True

    def program(self, ranks: int, elems: int, link: PlainLink | None = None, **options: Any) -> Program:
        return self.algorithm.program(ranks, elems * ELEMENT_B, link, ELEMENT_B, **options, **self.choices)


def cases_of(algorithm: Algorithm) -> list[Case]:
    """The algorithm as it is, and with each of its examples."""
    return [Case(algorithm, choices) for choices in ({}, *algorithm.examples)]


CASES = [
    case
    for op in collectives.ops()
    for name in collectives.algorithms(op)
    for case in cases_of(collectives.get(op, name))
]

switches = st.builds(
    Switch,
    latency_s=st.floats(1e-7, 1e-5),
    achieved_frac=st.floats(0.1, 4.0),
    start_s=st.one_of(st.just(0.0), st.floats(1e-6, 1e-4)),
    to_owner=st.booleans(),
)
links = st.builds(
    PlainLink,
    latency_s=st.floats(1e-6, 1e-4),
    bandwidth_Bps=st.floats(1e9, 1e11),
    reduce_s_per_B=st.one_of(st.just(0.0), st.floats(1e-12, 1e-9)),
    switch=st.one_of(st.none(), switches),
    start_s=st.one_of(st.just(0.0), st.floats(1e-6, 1e-4)),
)
ranks_up_to_64 = st.one_of(st.integers(1, 16), st.integers(1, 64))
elements = st.one_of(st.integers(1, 64), st.integers(1, 20_000))


def simulated_s(program: Program, link: Any) -> float:
    return simulate(program, link).makespan_s


def symbolic(op: str, ranks: int, helpers: int, elems: int) -> list[np.ndarray]:
    """`data` of every rank before the collective; parameter servers and switches begin with zeros."""
    if OPS[op].adds:
        return contributions(ranks, elems) + [np.zeros((elems, ranks), dtype=np.int32) for _ in range(helpers)]
    return tokens(ranks, elems) + [np.zeros(elems, dtype=np.int64) for _ in range(helpers)]


def promised(case: Case, before: list[np.ndarray], ranks: int, elems: int) -> list[tuple[str, int, slice, np.ndarray]]:
    """(buffer, rank, elements, value) that must hold afterwards, by definition of the op."""
    shares = [slice(*pair) for pair in zip(*(lambda e: (e[:-1], e[1:]))(cut(0, elems, ranks)), strict=True)]
    whole, everyone = slice(0, elems), range(ranks)
    total = sum(before[:ranks]) if case.algorithm.op != "all-to-all" else None
    match case.algorithm.op:
        case "all-reduce":
            return [("data", r, whole, total) for r in everyone]
        case "reduce":
            return [("data", 0, whole, total)]
        case "reduce-scatter":
            return [("data", r, shares[r], total[shares[r]]) for r in everyone]
        case "broadcast":
            return [("data", r, whole, before[0]) for r in everyone]
        case "scatter":
            return [("data", r, shares[r], before[0][shares[r]]) for r in everyone]
        case "gather":
            return [("data", 0, shares[r], before[r][shares[r]]) for r in everyone]
        case "all-gather":
            return [("data", r, shares[s], before[s][shares[s]]) for r in everyone for s in everyone]
        case "all-to-all":
            size = [share.stop - share.start for share in shares]
            return [
                ("output", r, slice(s * size[r], (s + 1) * size[r]), before[s][shares[r]])
                for r in everyone
                for s in everyone
            ]
        case "parameter-server":
            return _served(case, before, ranks, elems, total)
        case "gossip":
            return [("data", r, whole, value) for r, value in enumerate(_mixed(case, before, ranks))]
    raise AssertionError(f"no promise for {case.algorithm.op}")


def _served(case: Case, before: list[np.ndarray], ranks: int, elems: int, total: np.ndarray) -> list[Any]:
    if case.algorithm.name != "asynchronous":
        return [("data", r, slice(0, elems), total) for r in range(ranks)]
    # Server j answers worker t + j in turn t with the pushes of workers j .. j + t.
    shards = case.choices.get("shards", 1)
    edges = cut(0, elems, shards)
    rows = []
    for j in range(shards):
        part = slice(edges[j], edges[j + 1])
        for turn in range(ranks):
            pushed = sum(before[(j + k) % ranks][part] for k in range(turn + 1))
            rows.append(("data", (turn + j) % ranks, part, pushed))
    return rows


def _mixed(case: Case, before: list[np.ndarray], ranks: int) -> list[np.ndarray]:
    step = np.eye(ranks, dtype=int)
    for r in range(ranks):
        for neighbour in {(r + 1) % ranks, (r - 1) % ranks} - {r}:
            step[r, neighbour] = 1
    weights = np.linalg.matrix_power(step, case.choices.get("rounds", 1))
    return [sum(weights[r, s] * before[s] for s in range(ranks)) for r in range(ranks)]
