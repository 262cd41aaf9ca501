"""The own sends of a step's collectives: each different one of the first stage once, where it first comes.

The other members of its group become ranks of their own, which do nothing else. All start together and end together.
The collective stays one operation of each; beside it are its sends, on lanes named after its own (`tp:send`), which
take as long, to rounding. Traffic that is no whole collective of one group (`simulate/parallel/inside.py`) stays as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.inside import Inside, inside
from lockstep.simulate.parallel.script import GRADIENTS, IN_CELLS
from lockstep.simulate.program import Kind, Program, expand
from lockstep.simulate.program.expand import with_members

MOST_OPERATIONS = 100_000
"""Into which collectives are opened: some seconds to write them."""
PARTS = {"tp": "tp", "cp": "cp", "ep": "ep", "dp": "dp", GRADIENTS: "dp", IN_CELLS: "ep"}
"""By lane, the part of a step whose traffic it carries."""
Found: TypeAlias = dict[int, tuple[Inside, Sequence[int]]]
"""By operation, what it is made of, and the ranks of the grid that take part."""
GroupOf: TypeAlias = Callable[[str, str], tuple[Levels, Sequence[int]]]
"""(part, op) -> the levels and the ranks of the group of the first rank."""


def with_messages(program: Program, group_of: GroupOf, parts: Collection[str]) -> tuple[Program, list[int]]:
    """The step's program with collectives of `parts` opened, and the ranks of the grid that it has besides its own.

    Switches that reduce follow as ranks of their own.
    """
    found = _found(program, group_of, parts)
    _check(program, found)
    others = sorted({rank for _, ranks in found.values() for rank in ranks} - {0})
    place = {0: 0} | {rank: program.ranks + i for i, rank in enumerate(others)}
    members = {i: ([place[rank] for rank in ranks], one.rounds) for i, (one, ranks) in found.items()}
    known = {
        (program.name(int(program.op[i])), tuple(members[i][0]), float(program.size_B[i]) / one.rounds): one.program()
        for i, (one, _) in found.items()
    }
    whole = with_members(program, members, program.ranks + len(others))
    return expand(whole, lambda op, _, ranks, size_B: known.get((op, ranks, size_B)), keep=True), others


def _found(program: Program, group_of: GroupOf, parts: Collection[str]) -> Found:
    """The first of each kind of collective of the first stage."""
    found, seen = {}, set[tuple[str, ...]]()
    for i in np.flatnonzero((program.rank == 0) & (program.kind == Kind.COLLECTIVE)).tolist():
        part, op = PARTS.get(program.streams[program.stream[i]], ""), program.name(int(program.op[i]))
        size_B, seconds = float(program.size_B[i]), float(program.duration_s[i])
        key = part, op, f"{size_B:.9g}", f"{seconds:.9g}"
        if part in parts and key not in seen:
            seen.add(key)
            levels, ranks = group_of(part, op)
            if one := inside(op, levels, len(ranks), size_B, seconds):
                found[i] = one, ranks
    return found


def _check(program: Program, found: Found) -> None:
    """Refuses to open nothing, or too much."""
    if not found:
        raise BadInput("no traffic of the first stage is one collective by itself; take --expand layers", "--expand")
    total: dict[str, float] = {}
    for i, (one, _) in found.items():
        part = PARTS[program.streams[program.stream[i]]]
        total[part] = total.get(part, 0.0) + one.operations
    if sum(total.values()) > MOST_OPERATIONS:
        least, each = min(total, key=lambda part: total[part]), (f"{part} {many:,.0f}" for part, many in total.items())
        raise BadInput(
            f"the collectives are about {sum(total.values()):,.0f} operations ({', '.join(each)}), and at most "
            f"{MOST_OPERATIONS:,} are written; take --expand {least if total[least] <= MOST_OPERATIONS else 'layers'}",
            "--expand",
        )
