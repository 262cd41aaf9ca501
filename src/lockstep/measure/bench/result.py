"""Results of `bench` on collectives: rows with the columns of nccl-tests, as a table, CSV and JSON.

algbw = size / time; busbw = algbw times the factor that makes it comparable with the rate of one link, both as
nccl-tests defines them (doc/PERFORMANCE.md there). The time is the median; the quartiles are the spread.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.collectives import bus_bandwidth_Bps
from lockstep.measure.bench.collective import ELEMENT_B, Row
from lockstep.measure.bench.definition import REDUCING
from lockstep.measure.machine import Machine
from lockstep.units import format_time

COLUMNS = (
    "op", "algorithm", "ranks", "backend", "size_B", "count", "dtype", "redop", "time_s", "min_s", "q25_s", "q75_s",
    "max_s", "repeats", "algbw_Bps", "busbw_Bps", "wrong",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CollectiveBench:
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

    def records(self) -> list[dict[str, Any]]:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "op": self.op,
            "ranks": self.ranks,
            "backend": self.backend,
            "ok": self.ok,
            "stopped": self.stopped,
            "rows": self.records(),
            "machine": self.machine.to_dict() if self.machine else None,
            "clock_error_s": self.clock_error_s,
            "date": self.date,
            "assumptions": list(self.assumptions),
        }

    def summary(self) -> dict[str, Any]:
        """Plain JSON form with times and rates by algorithm and bytes instead of rows, as a kept run's answer."""
        found = {name: value for name, value in self.to_dict().items() if name != "rows"}
        for name in ("time_s", "busbw_Bps"):
            by_algorithm: dict[str, dict[str, float]] = {}
            for row in self.records():
                by_algorithm.setdefault(row["algorithm"], {})[f"{row['size_B']} B"] = row[name]
            found[name] = by_algorithm
        return found


def record_of(op: str, ranks: int, backend: str, row: Row) -> dict[str, Any]:
    """A row with the keys of COLUMNS."""
    least, low, middle, high, most = np.quantile(row.times_s, (0, 0.25, 0.5, 0.75, 1)).tolist()
    values = (
        op, row.algorithm, ranks, backend, row.size_B, row.size_B // ELEMENT_B, "float32",
        "sum" if op in REDUCING else "none", middle, least, low, high, most, len(row.times_s),
        row.size_B / middle if middle else 0.0, float(bus_bandwidth_Bps(op, ranks, row.size_B, middle)), row.wrong,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
