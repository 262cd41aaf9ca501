"""Parallel programs as data: `Program`, how to build it, and how to run it in process. Semantics: `program.program`."""

from lockstep.simulate.program.builder import DEFAULT_STREAMS, ProgramBuilder
from lockstep.simulate.program.draw import draw
from lockstep.simulate.program.executor import contributions, execute, execution_order, extents, tokens
from lockstep.simulate.program.expand import expand
from lockstep.simulate.program.graph import TaskGraph, longest_path
from lockstep.simulate.program.idle import idle_s, waits_s, working_s
from lockstep.simulate.program.program import COLUMNS, Kind, Operation, Program
from lockstep.simulate.program.timeline import Timeline, TimelineDiff, diff, merge
from lockstep.simulate.program.trace import Slice, read_trace, trace_events, write_trace

__all__ = [
    "COLUMNS",
    "DEFAULT_STREAMS",
    "Kind",
    "Operation",
    "Program",
    "ProgramBuilder",
    "Slice",
    "TaskGraph",
    "Timeline",
    "TimelineDiff",
    "contributions",
    "diff",
    "draw",
    "execute",
    "execution_order",
    "expand",
    "extents",
    "idle_s",
    "longest_path",
    "merge",
    "read_trace",
    "tokens",
    "trace_events",
    "waits_s",
    "working_s",
    "write_trace",
]
