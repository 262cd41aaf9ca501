"""What an operation of a group is made of: its own sends take as long as it is priced, and carry its bytes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from lockstep.describe.hardware import Switch
from lockstep.simulate.collectives import bus_factor
from lockstep.simulate.parallel.group import collective_s, send_s
from lockstep.simulate.parallel.inside import Inside, inside
from lockstep.simulate.play import simulate

NODE, FABRIC, FAR = (3e-6, 4e11, 1e-13, None), (8e-6, 5e10, 1e-13, None), (2e-5, 1e10, 0.0, None)
SWITCHED = (*NODE[:3], Switch(5e-7, 0.9, start_s=2e-5))
GROUPS: dict[str, list[Any]] = {
    "one node": [(8, *NODE), (1, *FABRIC)],
    "one rank per node": [(1, *NODE), (6, *FABRIC)],
    "two levels": [(8, *NODE), (4, *FABRIC)],
    "three levels": [(4, *NODE), (2, *FABRIC), (3, *FAR)],
}
IN_SWITCH: dict[str, list[Any]] = {
    "a switch": [(8, *SWITCHED), (1, *FABRIC)],
    "switches and a fabric": [(8, *SWITCHED), (3, *FABRIC)],
}
OPS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def opened(op: str, name: str, size_B: float, rounds: int) -> tuple[Inside, float]:
    """What is found in `rounds` collectives of `size_B` altogether, and their seconds."""
    levels = (GROUPS | IN_SWITCH)[name]
    seconds = rounds * float(collective_s(op, levels, size_B / rounds))
    found = inside(op, levels, prod(level[0] for level in levels), size_B, seconds)
    assert found is not None
    return found, seconds


@pytest.mark.parametrize("name", [*GROUPS, *IN_SWITCH])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size_B", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_messages_of_a_collective_take_its_priced_time(op: str, name: str, size_B: float, rounds: int) -> None:
    found, seconds = opened(op, name, size_B, rounds)
    program = found.program()
    assert found.rounds == rounds
    assert found.rounds * simulate(program).makespan_s == pytest.approx(seconds, rel=1e-12)
    assert len(program) * rounds <= 1.2 * found.operations


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("op", OPS)
def test_every_rank_sends_the_bytes_of_the_bus_factor(op: str, name: str) -> None:
    found, _ = opened(op, name, 1e9, 1)
    program = found.program()
    assert program.sent_B() == pytest.approx(np.full(program.ranks, bus_factor(op, program.ranks) * 1e9))


def test_a_switch_that_adds_takes_every_buffer_once() -> None:
    """Its rank comes after those of the group; each of these sends its buffer and, back, its eighth of the sum."""
    program = opened("all-reduce", "a switch", 1e9, 1)[0].program()
    assert program.ranks == 9
    assert program.sent_B()[:8] == pytest.approx(np.full(8, 9 / 8 * 1e9))
    assert program.received_B()[8] == pytest.approx(9 * 1e9)


def test_small_collectives_have_other_send_patterns() -> None:
    """Trees the same in the mean, up to 20 % more or less on a rank; regrouped blocks travel once per level."""
    tree, regrouped = (
        opened("all-reduce", "one rank per node", 1e3, 1)[0],
        opened("all-to-all", "two levels", 1e3, 1)[0],
    )
    sent_B = tree.program().sent_B() / (bus_factor("all-reduce", 6) * 1e3)
    assert sent_B.mean() == pytest.approx(1.0)
    assert (sent_B.min(), sent_B.max()) == pytest.approx((0.9, 1.2))
    assert regrouped.way == "hierarchical"
    assert regrouped.program().sent_B() == pytest.approx(np.full(32, (7 / 8 + 3 / 4) * 1e3))


@pytest.mark.parametrize("name", GROUPS)
def test_context_parallel_blocks_travel_around_a_ring(name: str) -> None:
    """Context parallelism: every rank passes a block on, once less than there are ranks."""
    levels, block_B = GROUPS[name], 1e6
    ranks = prod(level[0] for level in levels)
    seconds = (ranks - 1) * float(send_s(levels, block_B))
    found = inside("send", levels, ranks, (ranks - 1) * block_B, seconds)
    assert found is not None
    program = found.program()
    assert simulate(program).makespan_s == pytest.approx(seconds, rel=1e-12)
    assert program.sent_B() == pytest.approx(np.full(ranks, (ranks - 1) * block_B))


def test_durations_that_are_not_whole_collectives_are_not_expanded() -> None:
    levels = GROUPS["two levels"]
    seconds = float(collective_s("all-gather", levels, 1e6))
    assert inside("all-gather", levels, 32, 1e6, 0.75 * seconds) is None
    assert inside("all-gather", levels, 32, 1e6, seconds * (1 + 1e-8)) is None
    assert inside("all-gather", levels, 16, 1e6, seconds) is None
    assert inside("all-gather", [(1, *NODE)], 1, 1e6, 0.0) is None
