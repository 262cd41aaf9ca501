"""Random valid programs for property tests, and an independent longest path in plain Python."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from lockstep.simulate.program import Kind, Program, ProgramBuilder


@dataclass(frozen=True)
class Link:
    """A link of made-up numbers."""

    latency_s: float = 3e-6
    bandwidth_Bps: float = 7e9
    reduce_s_per_B: float = 2e-11


def random_program(seed: int, ranks: int, steps: int) -> Program:
    """Computations, messages, reductions, barriers and collectives of random ranks, after random earlier operations."""
    rng = random.Random(seed)
    builder = ProgramBuilder(ranks)

    def earlier() -> list[int]:
        number = min(len(builder), rng.choice((0, 0, 1, 2, 6)))
        return rng.sample(range(len(builder)), number)

    for step in range(steps):
        rank, peer = rng.randrange(ranks), rng.randrange(ranks)
        choice = rng.random()
        if choice < 0.4 or rank == peer:
            builder.compute(
                rank, rng.choice((0.0, 1e-6, rng.random() * 1e-5)), label=f"F{step}", after=earlier(),
                memory_start_B=rng.randrange(3), memory_B=-rng.randrange(3),
            )  # fmt: skip
        elif choice < 0.75:
            size_B = float(rng.randrange(10**6))
            builder.message(rank, peer, size_B, after=earlier(), to_after=earlier(), tag=rng.randrange(2))
        elif choice < 0.85:
            builder.reduce(rank, float(rng.randrange(10**6)), after=earlier())
        else:
            members = sorted(rng.sample(range(ranks), rng.randrange(1, ranks + 1)))
            if choice < 0.92:
                builder.barrier(members, after=earlier())
            else:
                builder.collective(members, "all-reduce", 8.0 * step, algorithm="ring", after=earlier())
    return builder.build()


programs = st.builds(random_program, st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 60))


def price(op: str, algorithm: str, ranks: tuple[int, ...], size_B: float) -> float:
    """Some price of a collective."""
    return 1e-6 * len(ranks) + size_B * 1e-9


def oracle(program: Program, link: Link) -> tuple[list[float], list[float]]:
    """Starts and ends by relaxation until nothing changes, straight from the words of `simulate.program.program`."""
    number = len(program)
    before: list[list[int]] = [list(program[i].after) for i in range(number)]
    last: dict[tuple[int, str], int] = {}
    for i in range(number):
        lane = (program[i].rank, program[i].stream)
        if lane in last:
            before[i].append(last[lane])
        last[lane] = i
    together: list[list[int]] = [[i] for i in range(number)]
    for i in range(number):
        if program[i].kind in ("send", "recv"):
            together[i] = [i, int(program.match[i])]
        elif program.group[i] >= 0:
            together[i] = [j for j in range(number) if program.group[j] == program.group[i]]
    start, end = [0.0] * number, [0.0] * number
    changed = True
    while changed:
        changed = False
        for i in range(number):
            ready = max((end[j] for member in together[i] for j in before[member]), default=0.0)
            done = ready + _time(program, i, len(together[i]), link)
            changed = changed or (ready, done) != (start[i], end[i])
            start[i], end[i] = ready, done
    return start, end


def _time(program: Program, i: int, members: int, link: Link) -> float:
    kind, size_B = Kind(int(program.kind[i])), float(program.size_B[i])
    if kind == Kind.COMPUTE:
        return float(program.duration_s[i])
    if kind in (Kind.SEND, Kind.RECV):
        return link.latency_s + size_B / link.bandwidth_Bps
    if kind == Kind.REDUCE:
        return link.reduce_s_per_B * size_B
    return price("", "", tuple(range(members)), size_B) if kind == Kind.COLLECTIVE else 0.0
