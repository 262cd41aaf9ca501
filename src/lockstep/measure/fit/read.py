"""Reads measured times: a CSV of `lockstep bench`, the output of nccl-tests, or of the OSU micro-benchmarks.

nccl-tests   rows under a header `size count type redop ...`, the out-of-place columns; ranks from its `# Rank` lines;
             the collective from a `..._perf` name in the text, or from the ratio of busbw to algbw
OSU          `# OSU MPI Allreduce Latency Test`, then `size latency` in bytes and microseconds; osu_latency is of one
             message, osu_bw of one in a stream, whose latency is the gap between messages

Launchers label lines (`[1,0]<stdout>:` of mpirun, `0:` of srun) and logs indent them: both is taken away. What MPI and
NCCL print between rows is passed over.

Sizes become those of nccl-tests: OSU counts one rank's part of an all-gather, scatter, gather or all-to-all.
Sources: github.com/NVIDIA/nccl-tests (src/common.cu, doc/PERFORMANCE.md); mvapich.cse.ohio-state.edu/benchmarks.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from lockstep.documents.files import File, read_bytes
from lockstep.errors import BadInput
from lockstep.measure.bench.collective import BUILT_IN
from lockstep.measure.bench.definition import OPS
from lockstep.measure.fit.points import Hosts, Point, Points, read_hosts

MOST_B = 64 << 20
SMALLEST, LARGEST = 1e-15, 1e18
"""Of a size in bytes, a time in seconds or microseconds, a rate in MB/s: beyond these it is a mistake."""
MOST_RANKS = 10_000_000
"""Bytes of a benchmark's output that are read: a million rows."""
PERF_NAMES = {
    "all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all", "broadcast": "broadcast", "reduce": "reduce", "scatter": "scatter", "gather": "gather",
    "sendrecv": "send-recv",
}  # fmt: skip
OSU_NAMES = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reduce_scatter": "reduce-scatter",
    "reduce-scatter": "reduce-scatter", "alltoall": "all-to-all", "all-to-all": "all-to-all", "broadcast": "broadcast",
    "bcast": "broadcast", "reduce": "reduce", "scatter": "scatter", "gather": "gather",
}  # fmt: skip
OWN_COLUMNS = ("op", "algorithm", "ranks", "size_B", "time_s")
LABEL = re.compile(r"^[ \t]*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:)?[ \t]*", re.MULTILINE)
NOISE = re.compile(r"^\[|NCCL (INFO|WARN|version)|^(RC|N)CCL version|^WARNING", re.IGNORECASE)
OSU_PARTS = ("all-gather", "scatter", "gather", "all-to-all")


def read_points(path: File, *, op: str | None = None, ranks: int | None = None) -> Points:
    """The times in a file. `op` and `ranks` say what the text does not. Raises BadInput with the line."""
    file = Path(str(path))
    text = unlabelled(read_bytes(path, MOST_B).decode("utf-8-sig", errors="replace"))
    if op is not None and op not in OPS:
        raise BadInput(f"{op!r} is none of {', '.join(OPS)}", "--op")
    hosts: Hosts | None = None
    if titles := re.findall(r"^# OSU.*", text, re.MULTILINE):
        points, notes = _osu(text, titles[0], file, op, ranks)
    elif re.search(r"^#\s+size\s+count\s+type", text, re.MULTILINE):
        points, hosts = _nccl(text, file, op, ranks)
        notes = ()
    elif re.search(r"^op,algorithm,", text, re.MULTILINE):
        points, notes = _own(text, file), ()
    else:
        raise BadInput(
            "is neither a CSV of lockstep bench, nor output of nccl-tests or of the OSU micro-benchmarks", str(path)
        )
    kept = tuple(point for point in points if op is None or point.op == op)
    if not kept:
        raise BadInput(f"holds no times{f' of {op}' if op else ''}", str(path))
    date = re.search(r"^# date: (\d{4}-\d{2}-\d{2})$", text, re.MULTILINE)
    return Points(kept, file.name, date[1] if date else "", notes, hosts)


def unlabelled(text: str) -> str:
    """The text without the labels of launchers and the indentation of logs."""
    return LABEL.sub("", text)


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


def _nccl(text: str, file: Path, op: str | None, ranks: int | None) -> tuple[list[Point], Hosts | None]:
    told_ranks, hosts = read_hosts(text, str(file))
    found_ranks = told_ranks or ranks
    if not found_ranks:
        raise BadInput("the text has no `# Rank` lines; give the number of ranks", "--ranks")
    rows = list(_nccl_rows(text, file))
    name = op or _perf_name(text) or _by_ratio(rows, found_ranks)
    if name is None:
        raise BadInput("the text does not state which collective it is", "--op")
    return [Point(name, "", found_ranks, size_B, time_us * 1e-6) for size_B, time_us, _, _ in rows], hosts


def _nccl_rows(text: str, file: Path) -> Iterator[tuple[float, float, float, float]]:
    """(size, time in us, algbw, busbw) of every row; the first time is that of the out-of-place run."""
    place = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip("#").split()
        if words[:3] == ["size", "count", "type"]:
            place = words.index("time") if "time" in words else None
        elif place is not None and line.strip() and not line.startswith("#") and not NOISE.search(line):
            try:
                size_B = float(words[0])
                time_us, algbw, busbw = (float(word) for word in words[place : place + 3])
            except (ValueError, IndexError):
                raise BadInput(f"not a row of nccl-tests: {line.strip()[:60]!r}", f"{file}:{number}") from None
            if 0 < size_B <= LARGEST and 0 < time_us <= LARGEST:
                yield size_B, time_us, algbw, busbw


def _perf_name(text: str) -> str | None:
    found = re.search(r"\b([a-z_]+)_perf\b", text)
    return PERF_NAMES.get(found[1]) if found else None


def _by_ratio(rows: list[tuple[float, float, float, float]], ranks: int) -> str | None:
    """All-reduce is the one whose bus bandwidth is more than (n - 1)/n of its own, for three ranks and more."""
    largest = max(rows, default=None)
    if largest is None or not largest[2] or ranks < 3:
        return None
    return "all-reduce" if largest[3] / largest[2] > 1.2 else None


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
        raise ValueError(f"{op!r} is none of {', '.join(OPS)}")
    return op
