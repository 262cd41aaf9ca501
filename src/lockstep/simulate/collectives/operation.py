"""Collectives that are one operation of a program: their price for the engine, their program for `program.expand`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockstep.simulate.collectives.best import best_time_s, contenders, usable
from lockstep.simulate.collectives.cost import LinkLike
from lockstep.simulate.collectives.registry import Algorithm, get
from lockstep.simulate.program import Program


def pricer(link: LinkLike) -> Callable[[str, str, Sequence[int], float], float]:
    """`price(op, algorithm, ranks, size_B)` in seconds on one link; without an algorithm the fastest."""

    def price(op: str, algorithm: str, ranks: Sequence[int], size_B: float) -> float:
        if algorithm:
            return float(get(op, algorithm).price(len(ranks), size_B, link).time_s)
        return float(best_time_s(op, float(len(ranks)), size_B, link))

    return price


def expander(link: LinkLike) -> Callable[[str, str, Sequence[int], float], Program]:
    """`program(op, algorithm, ranks, size_B)` of the algorithm that `pricer` prices; equal shares."""

    def program(op: str, algorithm: str, ranks: Sequence[int], size_B: float) -> Program:
        chosen = get(op, algorithm) if algorithm else _fastest(op, len(ranks), size_B, link)
        return chosen.program(len(ranks), size_B, link)

    return program


def _fastest(op: str, ranks: int, size_B: float, link: LinkLike) -> Algorithm:
    among = [algorithm for algorithm in contenders(op) if usable(algorithm, link)]
    return min(among, key=lambda algorithm: float(algorithm.price_time_s(float(ranks), size_B, link)))
