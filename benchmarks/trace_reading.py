"""How fast a trace of PyTorch's profiler is read and measured, and how much memory that takes.

    python benchmarks/trace_reading.py TRACE [--size 1GB] [--packed]

The events of a real trace are written again and again, each time later and with ids of their own, until the file is as
large as asked; then `lockstep.diagnose` answers of it in a process of its own. Rates are per second of processor time
and count the bytes of the unpacked JSON. What was found on a day is in benchmarks/results/trace_reading.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lockstep.base.units import parse_size_B

IDS = ("correlation", "External id")
ONE = "import sys, lockstep; print(lockstep.diagnose(sys.argv[1]).seen.step_time_s)"


def main() -> None:
    """Writes the trace, has it read, prints."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("trace", type=Path)
    given.add_argument("--size", default="1GB")
    given.add_argument("--packed", action="store_true", help="written with gzip")
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large"
        with gzip.open(path, "wb", compresslevel=1) if asked.packed else path.open("wb") as file:
            size_B, copies = repeated(asked.trace, file, int(parse_size_B(asked.size)))
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = time.perf_counter()
        found = subprocess.run([sys.executable, "-c", ONE, path], check=True, capture_output=True, text=True).stdout
        wall, ended = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime
    print(
        f"{size_B / 1e6:.0f} MB, {copies} times {asked.trace.name}: {took_s:.1f} s of processor time ({wall:.1f} s), "
        f"{size_B / 1e6 / took_s:.1f} MB/s, at most {ended.ru_maxrss * 1024 / 1e6:.0f} MB held; "
        f"a step takes {float(found):.6f} s"
    )


def repeated(trace: Path, file: IO[bytes], least_B: int) -> tuple[int, int]:
    """(bytes, copies) of the trace's events, written until they are `least_B`."""
    data = trace.read_bytes()
    whole = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events = [one for one in whole.pop("traceEvents") if one.get("ph") == "X"]
    begin = min(one["ts"] for one in events)
    long_us = max(one["ts"] + one.get("dur", 0) for one in events) - begin + 10.0
    most = max(int(one.get("args", {}).get(name) or 0) for one in events for name in IDS) + 1
    steps = len({one["name"] for one in events if one["name"].startswith("ProfilerStep#")})
    size_B = file.write(json.dumps(whole)[:-1].encode() + b', "traceEvents": [\n')
    for copy in range(sys.maxsize):
        later = ",\n".join(json.dumps(one) for one in _later(events, copy, long_us, most, steps))
        size_B += file.write((",\n" if copy else "").encode() + later.encode())
        if size_B >= least_B:
            break
    return size_B + file.write(b"]}\n"), copy + 1


def _later(events: list[dict[str, Any]], copy: int, long_us: float, most: int, steps: int) -> Iterator[dict[str, Any]]:
    """The events of another stretch of the run."""
    for one in events:
        args = (
            {name: value + copy * most if name in IDS and value else value for name, value in one["args"].items()}
            if "args" in one
            else {}
        )
        name = one["name"]
        if name.startswith("ProfilerStep#"):
            name = f"ProfilerStep#{int(name.split('#')[1]) + copy * steps}"
        yield one | {"name": name, "ts": one["ts"] + copy * long_us, "args": args}


if __name__ == "__main__":
    main()
