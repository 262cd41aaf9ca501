"""Reads measured times: a CSV of `lockstep bench`, the output of nccl-tests, or of the OSU micro-benchmarks.

nccl-tests   tables under a header `size count type redop ...` (`nccl_tables.py`), the out-of-place columns; the ranks
             of each from the `# Rank` lines before it; its collective from the `..._perf` name before it, or from the
             ratio of busbw to algbw; tables of one collective on as many ranks and hosts are repetitions
OSU          `# OSU MPI Allreduce Latency Test`, then `size latency` in bytes and microseconds; osu_latency is of one
             message, osu_bw of one in a stream, whose latency is the gap between messages

Launchers label lines (`[1,0]<stdout>:` of mpirun, `0:` of srun, a time of kubectl) and logs indent them: both is taken
away. What shells, MPI and NCCL print between rows is passed over.

Sizes become those of nccl-tests: OSU counts one rank's part of an all-gather, scatter, gather or all-to-all.
Sources: github.com/NVIDIA/nccl-tests (doc/PERFORMANCE.md); mvapich.cse.ohio-state.edu/benchmarks.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lockstep.base.documents.files import File, read_bytes
from lockstep.base.errors import BadInput
from lockstep.run.bench.collective import BUILT_IN
from lockstep.run.bench.definition import OPS
from lockstep.run.fit.nccl_tables import Row, Table, by_ratio, hosts_of, is_nccl, read_tables, without_label
from lockstep.run.fit.points import Hosts, Point, Points
from lockstep.simulate.collectives.bounds import bus_bandwidth_Bps

MOST_B = 64 << 20
"""Bytes of a benchmark's output that are read: a million rows."""
SMALLEST, LARGEST = 1e-15, 1e18
"""Of a size in bytes, a time in seconds or microseconds, a rate in MB/s: beyond these it is a mistake."""
MOST_RANKS = 10_000_000
OSU_NAMES = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reduce_scatter": "reduce-scatter",
    "reduce-scatter": "reduce-scatter", "alltoall": "all-to-all", "all-to-all": "all-to-all", "broadcast": "broadcast",
    "bcast": "broadcast", "reduce": "reduce", "scatter": "scatter", "gather": "gather",
}  # fmt: skip
OWN_COLUMNS = ("op", "algorithm", "ranks", "size_B", "time_s")
LABEL = re.compile(r"^[ \t]*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:)?[ \t]*", re.MULTILINE)
Series = tuple[str, int, tuple[int, ...]]
"""Collective, ranks, and ranks of every host."""
SAME_FRAC = 0.02
"""Between rates of large messages, which are printed with three digits or more."""
ALONE = (
    "its groups have one rank each, which sends nothing: every process ran on its own; build nccl-tests with MPI=1, "
    "and start it with the launcher of that MPI"
)
OSU_PARTS = ("all-gather", "scatter", "gather", "all-to-all")


def read_points(path: File, *, op: str | None = None, ranks: int | None = None) -> Points:
    """The times in a file. `op` and `ranks` say what the text does not, or choose among its tables.

    Raises BadInput with the line, and for tables of several collectives or ranks at the file.
    """
    found = read_series(path, op=op, ranks=ranks)
    if len(found) > 1:
        raise BadInput(f"holds times of {' and of '.join(one.label for one in found)}; give one of them", str(path))
    return found[0]


def read_series(path: File, *, op: str | None = None, ranks: int | None = None) -> tuple[Points, ...]:
    """The times in a file: of nccl-tests one `Points` per collective, number of ranks and number of hosts.

    `op` and `ranks` say what the text does not, or choose among its tables. Raises BadInput with the line.
    """
    file = Path(str(path))
    text = read_bytes(path, MOST_B).decode("utf-8-sig", errors="replace")
    if op is not None and op not in OPS:
        raise BadInput(f"{op!r} is not one of {', '.join(OPS)}", "--op")
    if is_nccl(text):
        return tuple(_nccl(without_label(text), file, op, ranks))
    text = LABEL.sub("", text)
    notes: tuple[str, ...] = ()
    if titles := re.findall(r"^# OSU.*", text, re.MULTILINE):
        points, notes = _osu(text, titles[0], file, op, ranks)
    elif re.search(r"^op,algorithm,", text, re.MULTILINE):
        points = _own(text, file)
    else:
        raise BadInput(
            "is neither a CSV of lockstep bench, nor output of nccl-tests or of the OSU micro-benchmarks", str(path)
        )
    kept = tuple(point for point in points if op is None or point.op == op)
    if not kept:
        raise BadInput(f"holds no times{f' of {op}' if op else ''}", str(path))
    date = re.search(r"^# date: (\d{4}-\d{2}-\d{2})$", text, re.MULTILINE)
    return (Points(kept, file.name, date[1] if date else "", notes),)


def is_times(text: str) -> bool:
    """Whether the beginning of a file is one that `read_series` reads."""
    return is_nccl(text) or re.search(r"^# OSU|^op,algorithm,", LABEL.sub("", text), re.MULTILINE) is not None


def _own(text: str, file: Path) -> list[Point]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    points = []
    for number, row in enumerate(_records(lines, file), start=1):
        try:
            if float(row.get("wrong") or 0):
                continue
            algorithm = "" if row["algorithm"] == BUILT_IN else row["algorithm"]
            size_B, time_s = _positive(row["size_B"]), _positive(row["time_s"])
            points.append(Point(_known(row["op"]), algorithm, _ranks(row["ranks"]), size_B, time_s))
        except (TypeError, ValueError) as error:
            raise BadInput(f"row {number} is damaged: {error}", str(file)) from None
    return points


def _records(lines: list[str], file: Path) -> Iterator[dict[str, str]]:
    """The rows under the header, which must hold OWN_COLUMNS."""
    rows = csv.DictReader(io.StringIO("\n".join(lines)))
    try:
        missing = [name for name in OWN_COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise BadInput(f"has no column {missing[0]!r}; give {','.join(OWN_COLUMNS)}", str(file))
        yield from rows
    except csv.Error as error:
        raise BadInput(f"is not a CSV: {error}", f"{file}:{rows.line_num}") from None


def _nccl(text: str, file: Path, op: str | None, ranks: int | None) -> Iterator[Points]:
    """The tables of one collective, as many ranks and hosts together. Raises BadInput, where none is left too."""
    found = _by_series(text, file, op, ranks)
    chosen = {key: each for key, each in found.items() if op in (None, key[0]) and ranks in (None, key[1])}
    kept = {key: each for key, each in chosen.items() if key[1] > 1 and any(table.rows for table in each)}
    if not kept:
        if all(group == 1 for _, group, _ in chosen or found):
            raise BadInput(ALONE if found else "holds no times", str(file))
        if not chosen:
            there = " and of ".join(f"{name} of {group} ranks" for name, group, _ in found)
            raise BadInput(f"has no times of the requested kind; it has {there}", str(file))
        line = min(line for each in chosen.values() for table in each for line in table.wrong)
        raise BadInput("no row is left: #wrong is not 0, so their results failed validation", f"{file}:{line}")
    notes = tuple(_left_out(chosen))
    for (name, group, _), each in kept.items():
        points = (Point(name, "", group, row.size_B, row.time_s) for table in each for row in table.rows)
        yield Points(tuple(points), file.name, "", notes, hosts_of(each[0], str(file))[1])


def _by_series(text: str, file: Path, op: str | None, ranks: int | None) -> dict[Series, list[Table]]:
    """Tables by collective, ranks and hosts. Raises BadInput where neither text nor arguments say them."""
    found: dict[Series, list[Table]] = {}
    name: str | None = None
    for table in read_tables(text, str(file)):
        own, hosts = hosts_of(table, str(file))
        group = own or ranks or 0
        if not group:
            raise BadInput("the text does not list its ranks as `# Rank` lines; give their number", "--ranks")
        name = table.name or by_ratio(table.rows, group) or _as_before(name, table.rows, group) or op
        name = op if name not in OPS else name
        if name is None:
            raise BadInput(f"the text does not state which collective {table.name or 'it'} is", "--op")
        found.setdefault((name, group, _shape(hosts)), []).append(table)
    return found


def _as_before(name: str | None, rows: Sequence[Row], ranks: int) -> str | None:
    """The collective of the table before, where the two rates of the rows differ as they do for it."""
    largest = max(rows, key=lambda row: row.size_B, default=None)
    if name is None or largest is None or ranks < 2:
        return None
    rate_Bps = largest.size_B / largest.time_s
    factor = float(bus_bandwidth_Bps(name, ranks, largest.size_B, largest.time_s)) / rate_Bps
    return name if abs(largest.busbw - factor * largest.algbw) <= SAME_FRAC * largest.busbw else None


def _shape(hosts: Hosts | None) -> tuple[int, ...]:
    """Ranks of every host: tables with another shape ran over other links."""
    return () if hosts is None else tuple(sorted(len(devices) for devices in hosts.devices.values()))


def _left_out(chosen: Mapping[Series, Sequence[Table]]) -> Iterator[str]:
    """What is said of rows that failed validation and of tables of one rank."""
    tables = [table for each in chosen.values() for table in each]
    wrong, rows = sum(len(table.wrong) for table in tables), sum(len(table.rows) for table in tables)
    if wrong:
        yield f"{wrong} of {wrong + rows} rows are left out: #wrong is not 0, so their results failed validation"
    if alone := sum(key[1] == 1 for key in chosen):
        yield f"{alone} tables are left out: groups of one rank send nothing"


def _osu(text: str, first: str, file: Path, op: str | None, ranks: int | None) -> tuple[list[Point], tuple[str, ...]]:
    title = first.lower()
    streams = "bandwidth test" in title
    if streams or "mpi latency test" in title or ("latency test" in title and not _osu_name(title)):
        name, group = "send-recv", 2
    else:
        name, group = op or _osu_name(title) or "", ranks or 0
    if not name:
        raise BadInput(f"the title does not state which collective it is: {first[:60]!r}", "--op")
    if not group:
        raise BadInput("OSU output does not contain the number of ranks; give it", "--ranks")
    points = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        try:
            size_B, value = _positive(words[0]), _positive(words[1])
        except (ValueError, IndexError):
            raise BadInput(f"not a row of OSU output: {line.strip()[:60]!r}", f"{file}:{number}") from None
        whole_B = size_B * (group if name in OSU_PARTS else 1)
        points.append(Point(name, "", group, whole_B, size_B / (value * 1e6) if streams else value * 1e-6))
    note = "osu_bw streams messages: the latency found is the gap between them, not that of one"
    return points, (note,) if streams else ()


def _osu_name(title: str) -> str | None:
    found = re.search(r"mpi\s+(?:non-blocking\s+)?([a-z_-]+)\s+latency test", title)
    return OSU_NAMES.get(found[1]) if found else None


def _positive(text: str) -> float:
    number = float(text)
    if not SMALLEST <= number <= LARGEST:
        raise ValueError(f"{text!r} is not {SMALLEST:g} to {LARGEST:g}")
    return number


def _ranks(text: str) -> int:
    """A number of ranks: one rank sends nothing."""
    number = int(text)
    if not 2 <= number <= MOST_RANKS:
        raise ValueError(f"{number} ranks are not 2 to {MOST_RANKS:,}")
    return number


def _known(op: str) -> str:
    if op not in OPS:
        raise ValueError(f"{op!r} is not one of {', '.join(OPS)}")
    return op
