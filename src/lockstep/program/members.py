"""`with_members`: gives collectives that stand for a whole group, as operations of one rank, their other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.program.builder import ProgramBuilder
from lockstep.program.program import COLUMNS, Program

Members = Mapping[int, tuple[Sequence[int], int]]
"""Operation -> the ranks of its group, and how many equal collectives, one behind another, it is."""


def with_members(program: Program, members: Members, ranks: int) -> Program:
    """The same program on `ranks` ranks, those of `members` doing nothing but their collectives."""
    copies = np.ones(len(program), dtype=np.int64)
    for i, (group, times) in members.items():
        copies[i] = len(group) * times
    row, start = np.repeat(np.arange(len(program)), copies), np.cumsum(copies) - copies
    columns, turn = {name: program.columns[name][row] for name in COLUMNS}, np.zeros(len(row), dtype=np.int64)
    end = start.copy()
    for i, (group, times) in members.items():
        end[i] += (times - 1) * len(group)
        here = slice(int(start[i]), int(start[i] + copies[i]))
        turn[here], columns["rank"][here] = np.repeat(np.arange(times), len(group)), np.tile(group, times)
        columns["size_B"][here] /= times
        columns["duration_s"][here] /= times
    grouped = columns["group"] >= 0
    named = columns["group"][grouped] * (1 + turn.max(initial=0)) + turn[grouped]
    columns["group"][grouped] = np.unique(named, return_inverse=True)[1]
    builder = ProgramBuilder(ranks, program.streams)
    for text in program.names:
        builder.name(text)
    builder.extend(**columns)
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(start[heads], end[program.after])
    return builder.build()
