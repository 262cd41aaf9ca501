"""Output of nccl-tests and rccl-tests: `read_tables` cuts it into its tables, each with its own collective and ranks.

A log may hold several runs. Each prints its devices (`# Rank` lines), a header and rows; whatever stands between, as
the echo of a shell or messages of NCCL, is passed over. Three forms are read, also pasted without their `#`, and behind
the label that a launcher puts before every line:

    #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw ...
    #       size         count      type    root     time   algbw   busbw  error ...
    #      bytes             N      type      op     time  algbw   busbw     res ...

The first two are in microseconds, as the line below the header says; the third, of 2017, is in milliseconds. `#wrong`
counts elements that failed validation, out of place and in place: such rows are left out. `N/A` is not validated.
`error`, `res` and `delta` are the largest deviation, of which rounding is a part.

Sources: github.com/NVIDIA/nccl-tests, src/util.cu and src/common.cu of 2.0 to 2.18 (writeDeviceReport,
writeResultHeader, writeBenchmarkLineBody) and the `print_header` of every collective in 2017; ROCm/rccl-tests,
src/common.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.run.fit.points import Hosts

LARGEST = 1e18
"""Of a size in bytes, a time in microseconds: beyond it is a mistake."""
PERF_NAMES = {
    "all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all", "broadcast": "broadcast", "reduce": "reduce", "scatter": "scatter", "gather": "gather",
    "sendrecv": "send-recv",
}  # fmt: skip
LONGEST_LINE, LONGEST_LABEL, MOST_LABELS = 2000, 200, 20
"""Characters of a line of a table and of a label; labels of one text."""
_HEADER = re.compile(
    r"(?P<label>.*?)[ \t#]*\b(?:size[ \t]+count|(?P<old>bytes[ \t]+N))[ \t]+type\b.*?"
    r"\b(?P<time>(?:cpu)?time)[ \t]+algbw[ \t]+busbw\b"
)
_UNIT = re.compile(r"^[\s#]*\(B\)\s+\(elements\)\s.*?\((ns|us|ms|s)\)")
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_RANK = re.compile(
    r"^[\s#]*Rank\s+(\d{1,9})\b(?:\s+Group\s+(\d{1,9}))?\s+"
    r"(?:(?:Pid\s+\S+\s+)?on\s+(\S+)\s+device\s+(\d{1,9})|uses\s+device\s+(\d{1,9})|Pid\b)"
)
_NAME = re.compile(r"\b([a-z_]+)_perf\b")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_NUMBER = re.compile(r"^\d[\d.eE+]*$")
_TYPE = re.compile(r"^(?:u?int\d*|char|half|float\d*|double|bfloat16|bf16|fp?(?:8|16)\w*|float8\w*)$")
_LEAST_WORDS = 6
"""Of a row whose type is damaged."""


@dataclass(frozen=True, slots=True)
class Row:
    """A size, the time of the out-of-place run, and the rates that the program gives for it."""

    size_B: float
    time_s: float
    algbw: float
    busbw: float


Devices = dict[str, re.Match[str]]


@dataclass(slots=True)
class Table:
    """One table of a text and what stands before it."""

    name: str | None
    """The collective by the `..._perf` before the table, or that word for no known one; None where there is none."""
    devices: Devices
    """Lines of its ranks, by rank."""
    unit_s: float
    columns: tuple[str, ...]
    """From the first `time` on."""
    rows: list[Row] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    """Lines of rows whose results failed validation."""

    @property
    def filled(self) -> bool:
        """Whether it has rows, right ones or wrong ones."""
        return bool(self.rows or self.wrong)


def is_nccl(text: str) -> bool:
    """Whether the header of a table is in the text."""
    return any(map(_header, _lines(text)))


def without_label(text: str) -> str:
    """The text without what launchers put before every line: as before a header, in other digits or spaces."""
    found = {_pattern(header["label"]) for line in _lines(text) if (header := _header(line))}
    for pattern in sorted(found - {""})[:MOST_LABELS]:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return text


def _pattern(label: str) -> str:
    """Of lines with this label; empty without one."""
    parts = [r"\d+" if part.isdecimal() else re.escape(part) for part in re.findall(r"\d+|[^\d\s]+", label)]
    return r"^[ \t]*" + r"[ \t]*".join(parts) + r" ?" if parts and len(label) <= LONGEST_LABEL else ""


def read_tables(text: str, where: str) -> list[Table]:
    """The tables with rows of a text without labels, in order.

    Raises BadInput with the line, for a damaged row and for times of the host.
    """
    found = _Reading(where)
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) <= LONGEST_LINE:
            found.read(line, number)
    return [table for table in found.tables if table.filled]


@dataclass(slots=True)
class _Reading:
    """Tables so far, and what the lines since the last one say of the next."""

    where: str
    tables: list[Table] = field(default_factory=list)
    devices: Devices = field(default_factory=dict)
    name: str | None = None

    def read(self, line: str, number: int) -> None:
        """Takes in a line. Raises BadInput."""
        if header := _header(line):
            self._begin(header, number)
        elif found := _RANK.match(line):
            # A rank that comes again is that of another run.
            self.devices = {} if found[1] in self.devices else self.devices
            self.devices[found[1]] = found
        elif self.tables and (found := _UNIT.match(line)):
            self.tables[-1].unit_s = _UNITS_S[found[1]]
        elif self.tables and _is_row(words := _STAMP.sub("", line).split()):
            if not self.tables[-1].devices:
                self.tables[-1].devices, self.devices = self.devices, {}
            _add_row(self.tables[-1], words, f"{self.where}:{number}", number)
        elif (found := _NAME.search(line)) and "concluded" not in line:
            # A program of another name is none that is known; in other lines the word may be anything.
            unknown = found[0] if "test starting:" in line else self.name
            self.name = PERF_NAMES.get(found[1], unknown)

    def _begin(self, header: re.Match[str], number: int) -> None:
        """Begins a table, in place of one that has no rows: processes apart from one another print headers at once."""
        if header["time"] == "cputime":
            raise BadInput("its times are those of the host (-C 1), not of the collective", f"{self.where}:{number}")
        if self.tables and not self.tables[-1].filled:
            before = self.tables.pop()
            self.name, self.devices = self.name or before.name, self.devices or before.devices
        words = header.string[header.start("time") :].replace("# ", "#").split()
        columns = tuple(word for word in words if word != "timestamp")
        self.tables.append(Table(self.name, self.devices, 1e-3 if header["old"] else 1e-6, columns))
        self.devices, self.name = {}, None


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if len(line) <= LONGEST_LINE)


def _header(line: str) -> re.Match[str] | None:
    return _HEADER.match(line) if "algbw" in line else None


def _is_row(words: Sequence[str]) -> bool:
    """Two numbers and a type of elements; of a damaged row, two of these three."""
    if len(words) < 3:
        return False
    right = bool(_NUMBER.match(words[0])), bool(_NUMBER.match(words[1])), bool(_TYPE.match(words[2]))
    return sum(right) >= 2 and (right[2] or len(words) >= _LEAST_WORDS)


def _add_row(table: Table, words: Sequence[str], where: str, number: int) -> None:
    """Adds a row to its table. Cells are counted from the end, as the operation is empty in some versions."""
    cells = words[3:][-len(table.columns) :]
    try:
        if len(cells) < len(table.columns) or not _NUMBER.match(words[1]) or not _TYPE.match(words[2]):
            raise ValueError
        size_B = float(words[0])
        time, algbw, busbw = (float(word) for word in cells[:3])
        if not (size_B <= LARGEST and abs(time) <= LARGEST):
            raise ValueError
        pairs = zip(table.columns, cells, strict=True)
        wrong = [float(cell) for name, cell in pairs if name == "#wrong" and cell.upper() != "N/A"]
    except ValueError:
        raise BadInput(f"not a row of nccl-tests: {' '.join(words)[:60]!r}", where) from None
    if any(wrong):
        table.wrong.append(number)
    elif size_B > 0 and time > 0:
        table.rows.append(Row(size_B, time * table.unit_s, algbw, busbw))


def hosts_of(table: Table, where: str) -> tuple[int, Hosts | None]:
    """(ranks of a group, its hosts) by the rank lines of a run; (0, None) where some or all are not there.

    Raises BadInput where its groups differ in size.
    """
    lines = list(table.devices.values())
    if not lines or len(lines) != 1 + max(int(found[1]) for found in lines):
        return 0, None
    groups: dict[str, list[tuple[str, str]]] = {}
    for found in lines:
        groups.setdefault(found[2] or "0", []).append((found[3] or "", found[4] or ""))
    sizes = sorted({len(each) for each in groups.values()})
    if len(sizes) > 1:
        raise BadInput(f"its groups have {sizes[0]} to {sizes[-1]} ranks; give the output of equal groups", where)
    first = next(iter(groups.values()))
    if not all(host for host, _ in first):
        return sizes[0], None
    devices: dict[str, tuple[int, ...]] = {}
    for host, device in first:
        devices[host] = (*devices.get(host, ()), int(device))
    return sizes[0], Hosts(devices)


def by_ratio(rows: Sequence[Row], ranks: int) -> str | None:
    """All-reduce is the one whose bus bandwidth is more than (n - 1)/n of its own, for three ranks and more."""
    largest = max(rows, key=lambda row: row.size_B, default=None)
    if largest is None or not largest.algbw or ranks < 3:
        return None
    return "all-reduce" if largest.busbw / largest.algbw > 1.2 else None
