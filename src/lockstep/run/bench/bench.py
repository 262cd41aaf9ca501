"""`bench_collective`: a sweep over sizes and implementations on real ranks.

The result, `CollectiveBench`, has the columns of nccl-tests, as a table, CSV and JSON.

algbw = size / time; busbw = algbw times the factor that makes it comparable with the rate of one link, both as
nccl-tests defines them (doc/PERFORMANCE.md there). The time is the median; the quartiles are the spread.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, RunFailed, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_time
from lockstep.run.bench.collective import BUILT_IN, ELEMENT_B, Row, Sweep, run_sweep
from lockstep.run.bench.definition import OPS, REDUCING
from lockstep.run.launch import Fault, Host, launch
from lockstep.run.machine import Machine, with_load
from lockstep.simulate.collectives import bus_bandwidth_Bps, get

COLUMNS = (
    "op", "algorithm", "ranks", "backend", "size_B", "count", "dtype", "redop", "time_s", "min_s", "q25_s", "q75_s",
    "max_s", "repeats", "algbw_Bps", "busbw_Bps", "wrong",
)  # fmt: skip
MOST_B = 8 << 30


@dataclass(frozen=True, slots=True, repr=False)
class CollectiveBench(Shown):
    """What a sweep measured; `stopped` says why it ended early."""

    op: str
    ranks: int
    backend: str
    rows: tuple[Row, ...]
    machine: Machine | None
    date: str
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether the sweep finished and no element was wrong."""
        return not self.stopped and not any(row.wrong for row in self.rows)

    @property
    def clock_error_s(self) -> float:
        """How far off a time may be because ranks of several machines read different clocks."""
        return max((row.clock_error_s for row in self.rows), default=0.0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers."""
        clocks = f"times may be off by {format_time(self.clock_error_s)}: clocks of several machines"
        warnings = self.machine.warnings(self.ranks) if self.machine else ()
        return (clocks, *warnings) if self.clock_error_s else warnings

    def records(self) -> list[Json]:
        """One mapping per row, with the keys of COLUMNS."""
        return [record_of(self.op, self.ranks, self.backend, row) for row in self.rows]

    def to_csv(self) -> str:
        """A comment line per fact about the machine, a header, and one line per row; `lockstep fit` reads it."""
        text = io.StringIO()
        facts = {"date": self.date, **(self.machine.to_dict() if self.machine else {})}
        for name, value in facts.items():
            text.write(f"# {name}: {value}\n")
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return text.getvalue()

    def to_dict(self) -> Json:
        """Plain JSON form."""
        shown = picked(self, "op ranks backend ok stopped")
        return shown | {"rows": self.records()} | picked(self, "machine clock_error_s date assumptions")

    def summary(self) -> Json:
        """Plain JSON form with times and rates by algorithm and bytes instead of rows, as a kept run's answer."""
        found = {name: value for name, value in self.to_dict().items() if name != "rows"}
        for name in ("time_s", "busbw_Bps"):
            by_algorithm: dict[str, dict[str, float]] = {}
            for row in self.records():
                by_algorithm.setdefault(row["algorithm"], {})[f"{row['size_B']} B"] = row[name]
            found[name] = by_algorithm
        return found


def record_of(op: str, ranks: int, backend: str, row: Row) -> Json:
    """A row with the keys of COLUMNS."""
    least, low, middle, high, most = np.quantile(row.times_s, (0, 0.25, 0.5, 0.75, 1)).tolist()
    values = (
        op, row.algorithm, ranks, backend, row.size_B, row.size_B // ELEMENT_B, "float32",
        "sum" if op in REDUCING else "none", middle, least, low, high, most, len(row.times_s),
        row.size_B / middle if middle else 0.0, float(bus_bandwidth_Bps(op, ranks, row.size_B, middle)), row.wrong,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def bench_collective(
    op: str,
    ranks: int,
    sizes_B: Sequence[int],
    algorithms: Sequence[str] = (BUILT_IN,),
    *,
    backend: str = "gloo",
    repeats: int = 20,
    warm_up: int = 3,
    budget_s: float = 2.0,
    timeout_s: float = 60.0,
    hosts: Sequence[Host] = (),
    faults: Sequence[Fault] = (),
    progress: Progress | None = None,
    on_row: Callable[[Mapping[str, Any]], None] | None = None,
) -> CollectiveBench:
    """Times of `op` on `ranks` ranks: every size with every implementation, `built-in` or a name of an algorithm.

    `on_row` hears of every row as it is measured, with the keys of COLUMNS. A rank that fails ends the sweep; what was
    measured until then is in the result, with the reason in `stopped`. Raises BadInput, and RunFailed when nothing was
    measured.
    """
    if op not in OPS:
        raise UnknownName("collective", op, OPS, "op")
    for name in algorithms:
        if name != BUILT_IN:
            _check(op, name, ranks)
    if not sizes_B or min(sizes_B) < 1 or max(sizes_B) > MOST_B:
        raise BadInput(f"sizes must be 1 B to {MOST_B >> 30} GiB, at least one", "sizes")
    sweep = Sweep(op, tuple(algorithms), tuple(sizes_B), repeats, warm_up, budget_s)
    rows: list[Row] = []

    def on_message(rank: int, row: Any) -> None:
        rows.append(row)
        if on_row is not None:
            on_row(record_of(op, ranks, backend, row))
        if progress is not None:
            progress(len(rows), len(sizes_B) * len(algorithms))

    machine, stopped = None, ""
    try:
        found = launch(
            run_sweep, ranks, (sweep,),
            backend=backend, timeout_s=timeout_s, hosts=hosts, faults=faults, on_message=on_message,
        )  # fmt: skip
        machine = with_load(found[0][0], [load for _, load in found])
    except RunFailed as error:
        if not rows:
            raise
        stopped = str(error)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return CollectiveBench(op, ranks, backend, tuple(rows), machine, date, stopped)


def _check(op: str, name: str, ranks: int) -> None:
    """Raises when an algorithm does not exist, or needs ranks beside the group."""
    if op == "send-recv":
        raise UnknownName("implementation of send-recv", name, (BUILT_IN,), "algorithm")
    if get(op, name).program(ranks, 4.0 * ranks, element_B=4.0).ranks != ranks:
        raise BadInput(f"{op} {name} needs servers in addition to the {ranks} ranks", "algorithm")
