"""Parallel programs as data: `Program`, how to build it, and how to run it in process. Semantics: `program.program`."""

from lockstep.program.builder import DEFAULT_STREAMS, ProgramBuilder
from lockstep.program.executor import contributions, execute, execution_order, tokens
from lockstep.program.graph import TaskGraph, longest_path
from lockstep.program.program import COLUMNS, Kind, Operation, Program
from lockstep.program.timeline import Timeline, TimelineDiff, diff, merge

__all__ = [
    "COLUMNS",
    "DEFAULT_STREAMS",
    "Kind",
    "Operation",
    "Program",
    "ProgramBuilder",
    "TaskGraph",
    "Timeline",
    "TimelineDiff",
    "contributions",
    "diff",
    "execute",
    "execution_order",
    "longest_path",
    "merge",
    "tokens",
]
