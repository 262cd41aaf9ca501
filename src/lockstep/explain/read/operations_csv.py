"""A table of operations (CSV): what any program's ranks did, as the traces of all of them.

Columns, in any order: `rank`, `step`, `op`, `start_s` and `duration_s`; optional `group`, `bytes`, `microbatch`,
`stage` and `dp_rank`. Starts may begin anew in every step. Other names of the columns that are understood are in
`ALIASES`, among them those of ByteDance's tables of stragglers (arXiv 2505.05713), whose files are read as they are. An
operation is communication if its name says so (`send`, `recv`, `all-gather`, `comm`, ...).

Operations that meet: collectives of one group, or, where no group is given, of one name and one stage, clipping by the
norm of all gradients those of all ranks; messages of neighbouring stages of a replica, by their order in the direction
that the name says (forward to the next stage).
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.explain.classes import CLASSES, COMMUNICATION, op_of
from lockstep.explain.read import TABLE, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.trace import TABLE_HOST, Mark, RankTrace, Spans, sorted_spans

ALIASES = {
    "rank": ("rank", "global_rank", "worker"), "step": ("step", "iteration"),
    "op": ("op", "optype", "operation", "name"),
    "start_s": ("start_s", "start_ts", "start"), "duration_s": ("duration_s", "duration", "dur_s"),
    "group": ("group",), "bytes": ("bytes", "size_b"), "microbatch": ("microbatch", "mb_id", "micro_batch"),
    "stage": ("stage", "pp_rank"), "dp_rank": ("dp_rank", "replica"),
}  # fmt: skip
NEEDED = ("rank", "step", "op", "start_s", "duration_s")
MOST_ROWS = 20_000_000
COMMS = re.compile(r"comm|send|recv|reduce|gather|all-?to-?all|broadcast|barrier|sync", re.IGNORECASE)
NORM = re.compile(r"clip|grad_?-?norm", re.IGNORECASE)
OPTIMIZER = re.compile(r"optimizer|clip|update", re.IGNORECASE)
LATEST_S, MOST_COUNT = 1e12, 10_000_000
"""Seconds of a clock, and ranks, steps and stages of a run: more is damaged."""
STEP_GAP_S = 1.0
"""Between steps whose starts begin anew."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation."""

    rank: int
    step: int
    op: str
    start_s: float
    duration_s: float
    group: str
    size_B: float
    microbatch: int
    stage: int
    replica: int


def read_operations(path: File) -> list[RankTrace]:
    """The traces of all ranks. Raises BadInput with the line of what is wrong."""
    with stream(path) as file, io.TextIOWrapper(file, "utf-8", errors="replace") as text:
        lines = csv.reader(text)
        try:
            rows = list(_rows(str(path), lines))
        except csv.Error as error:
            raise BadInput(f"is not a table: {error}", f"{path}:{lines.line_num}") from None
    if not rows:
        raise BadInput("has a heading but no operations", str(path))
    rows.sort(key=lambda row: (row.rank, row.step, row.start_s, row.op))
    zero = _step_zeros(rows)
    names: dict[str, int] = {}
    world = max(row.rank for row in rows) + 1
    edges: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        edges[row.step] += [row.start_s + zero[row.step], row.start_s + row.duration_s + zero[row.step]]
    marks = tuple(Mark(f"ProfilerStep#{step}", min(each), max(each)) for step, each in sorted(edges.items()))
    return [
        _trace(str(path), rank, list(of), zero, names, world, marks)
        for rank, of in itertools.groupby(rows, key=lambda row: row.rank)
    ]


def _rows(path: str, lines: Iterator[list[str]]) -> Iterator[Row]:
    """The rows; the names of columns in the first line."""
    heading = [one.strip().lower() for one in next(lines, [])]
    place = {name: heading.index(alias) for name, others in ALIASES.items() for alias in others[:] if alias in heading}
    place |= {name: next(heading.index(a) for a in ALIASES[name] if a in heading) for name in place}
    if missing := [name for name in NEEDED if name not in place]:
        raise BadInput(f"has no column {missing[0]!r}; a table of operations has {', '.join(NEEDED)}", path)
    for line, cells in enumerate(lines, start=2):
        if not cells or not any(cells):
            continue
        if line > MOST_ROWS:
            raise BadInput(f"has more than {MOST_ROWS:,} rows", path)
        try:
            yield _row(cells, place)
        except IndexError:
            raise BadInput(f"has {len(cells)} cells where the heading has {len(heading)}", f"{path}:{line}") from None
        except ValueError as error:
            raise BadInput(str(error), f"{path}:{line}") from None


def _row(cells: list[str], place: dict[str, int]) -> Row:
    def number(name: str, default: float) -> float:
        text = cells[place[name]].strip() if name in place else ""
        if not text:
            return default
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{name} is {text}, not a number")
        return value

    duration_s = number("duration_s", 0.0)
    if duration_s < 0:
        raise ValueError(f"duration_s is {duration_s:g}; a duration is 0 or more")

    def whole(name: str, default: int) -> int:
        value = float(number(name, default))
        if not (value.is_integer() and -MOST_COUNT <= value <= MOST_COUNT):
            raise ValueError(f"{name} is {value:g}; it is a whole number of at most {MOST_COUNT:,}")
        return int(value)

    start_s, size_B, op = number("start_s", 0.0), number("bytes", 0.0), cells[place["op"]].strip()
    if max(abs(start_s), duration_s) > LATEST_S:
        raise ValueError(f"start_s {start_s:g} and duration_s {duration_s:g} are no seconds of a run")
    if (rank := whole("rank", -1)) < 0:
        raise ValueError(f"rank is {rank}; a rank is 0 or more")
    if not op or size_B < 0:
        raise ValueError("op is empty" if not op else f"bytes is {size_B:g}; a size is 0 or more")
    return Row(
        rank, whole("step", 0), op, start_s, duration_s,
        cells[place["group"]].strip() if "group" in place else "", size_B,
        whole("microbatch", -1), whole("stage", -1), whole("dp_rank", -1),
    )  # fmt: skip


def _step_zeros(rows: list[Row]) -> dict[int, float]:
    """What to add to the starts of every step, so that steps follow one another."""
    low: dict[int, float] = defaultdict(lambda: math.inf)
    high: dict[int, float] = defaultdict(lambda: -math.inf)
    for row in rows:
        low[row.step] = min(low[row.step], row.start_s)
        high[row.step] = max(high[row.step], row.start_s + row.duration_s)
    steps = sorted(low)
    if all(low[after] >= high[before] - 1e-9 for before, after in itertools.pairwise(steps)):
        return dict.fromkeys(steps, -low[steps[0]])
    zero, found = 0.0, {}
    for step in steps:
        found[step] = zero - low[step]
        zero += high[step] - low[step] + STEP_GAP_S
    return found


def kind_of(op: str) -> int:
    """Class of an operation by its name."""
    if COMMS.search(op) or NORM.search(op):
        return COMMUNICATION
    return CLASSES.index("optimizer" if OPTIMIZER.search(op) else "matmul")


def group_of(row: Row) -> tuple[str, str, str]:
    """(name of the group, its kind, what ranks of the group call it) of an operation that communicates."""
    if row.group:
        return row.group, row.group, row.op
    if (op := op_of(row.op)) in ("send", "recv"):
        onward = 1 if "forward" in row.op else -1
        source = row.stage if op == "send" else row.stage - onward
        return f"messages of replica {row.replica} from stage {source} to {source + onward}", "pp", "message"
    if NORM.search(row.op):
        return "world", "world", row.op
    if "embedding" in row.op:
        return f"embedding of replica {row.replica}", "pp", row.op
    return f"dp of stage {row.stage}", "dp", row.op


def _trace(
    path: str,
    rank: int,
    rows: list[Row],
    zero: dict[int, float],
    names: dict[str, int],
    world: int,
    marks: tuple[Mark, ...],
) -> RankTrace:
    """The trace of one rank."""

    def index(name: str) -> int:
        return names.setdefault(name, len(names))

    columns: list[tuple[float, float, int, int, int, int, float, int, int]] = []
    titles: dict[str, str] = {}
    for row in rows:
        begin = row.start_s + zero[row.step]
        kind, group, op, peer = kind_of(row.op), -1, -1, -1
        if kind == COMMUNICATION:
            name, title, called = group_of(row)
            titles[name] = title
            group, op = index(name), index(called)
        columns.append(
            (begin, begin + row.duration_s, kind, index(row.op), group, op, row.size_B, peer, row.microbatch)
        )
    start, end, kind_, name_, group_, op_, size, peer_, microbatch = (
        np.array(one) for one in zip(*columns, strict=True)
    )
    stream_ = np.where(kind_ == COMMUNICATION, op_ + 1, 0)
    spans = Spans(start, end, kind_, name_, stream_, start.copy(), group_, op_, size, peer_, microbatch)
    stage = rows[0].stage
    return RankTrace(
        path=path, rank=rank, world=world, device="", host=TABLE_HOST, zero_ns=0, names=tuple(names),
        spans=sorted_spans(spans), marks=marks, groups=dict.fromkeys(titles, ()), titles=titles,
        stage=None if stage < 0 else stage, on_host=True,
    )  # fmt: skip


def _recognise(begun: Head) -> bool:
    first = begun.text.split("\n", 1)[0].lower()
    cells = {one.strip() for one in first.split(",")}
    return all(cells & set(ALIASES[name]) for name in NEEDED)


KIND = register(Kind("operations", "a table of operations (CSV)", TABLE, _recognise, read_operations))
