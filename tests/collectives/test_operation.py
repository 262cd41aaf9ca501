"""A collective as one operation takes the price of its own program, and expands into it."""

from __future__ import annotations

import pytest

from lockstep.simulate.collectives import PlainLink, best_time_s, expander, get, pricer
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder
from lockstep.simulate.program.expand import expand

LINK = PlainLink(2e-6, 1e10)


@pytest.mark.parametrize("algorithm", ["", "ring", "double-binary-tree", "hierarchical"])
def test_a_collective_operation_lasts_as_long_as_its_expansion(algorithm: str) -> None:
    builder = ProgramBuilder(6)
    builder.compute(0, 1e-3)
    builder.collective(range(6), "all-reduce", 1.2e6, algorithm=algorithm)
    program = builder.build()
    whole = simulate(program, LINK, price=pricer(LINK)).makespan_s
    inside = simulate(expand(program, expander(LINK)), LINK).makespan_s
    assert inside == pytest.approx(whole, rel=1e-12)


def test_without_an_algorithm_the_fastest_is_used() -> None:
    price = pricer(LINK)
    assert price("all-reduce", "", range(12), 1e5) == best_time_s("all-reduce", 12.0, 1e5, LINK)
    assert price("all-reduce", "ring", range(12), 1e5) == get("all-reduce", "ring").price_time_s(12, 1e5, LINK)
