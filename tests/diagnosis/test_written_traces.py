"""Files that `--as kineto` writes: what a viewer needs of them, and what PyTorch's profiler would say."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import run
from lockstep.explain.read.kineto import read_kineto

Event = dict[str, Any]


def events(path: Path) -> list[Event]:
    return [one for one in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one["ph"] == "X"]


def overlaps(found: list[Event]) -> int:
    """Pairs of slices of one thread of which neither holds the other nor comes after it."""
    threads: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for one in found:
        threads[one["pid"], one["tid"]].append((one["ts"], -round(one["ts"] + one["dur"], 3)))
    count = 0
    for slices in threads.values():
        open_until: list[float] = []
        for start, minus_end in sorted(slices):
            while open_until and open_until[-1] <= start + 1e-6:
                open_until.pop()
            count += bool(open_until) and -minus_end > open_until[-1] + 1e-6
            open_until.append(-minus_end)
    return count


@settings(derandomize=True, max_examples=8, deadline=None)
@given(st.integers(2, 4), st.integers(2, 8), st.sampled_from(["1f1b", "gpipe", "zb-h1"]), st.integers(1, 40))
def test_slices_of_a_thread_are_nested(
    tmp_path_factory: pytest.TempPathFactory, stages: int, batches: int, schedule: str, length_us: int
) -> None:
    """N9: calls of 3 us overlapped where the next one came sooner, which no viewer can draw."""
    folder = tmp_path_factory.mktemp("kineto")
    words = ("--stages", str(stages), "--microbatches", str(batches), "--schedule", schedule)
    times = ("--forward-s", f"{length_us}us", "--backward-s", f"{2 * length_us}us")
    made = run("trace", "pipeline", *words, *times, "--as", "kineto", "-o", str(folder / "made"))
    assert made.code == 0, made.err
    for path in (folder / "made").iterdir():
        assert overlaps(events(path)) == 0
        assert len(read_kineto(path).spans)


def test_gathers_and_scatters_record_the_shard_and_the_whole_size(tmp_path: Path) -> None:
    """N9: they said the same count of elements in and out; what is read is the whole, as before."""
    question = ("gpt2", "-c", "dgx-h100:1", "--batch", "64", "--zero", "3", "--as", "kineto")
    assert run("estimate", *question, "--trace", str(tmp_path / "made")).code == 0
    seen: set[str] = set()
    for path in (tmp_path / "made").iterdir():
        found = events(path)
        assert overlaps(found) == 0
        for one in found:
            if (args := one["args"]) and (op := args.get("Collective name")) in ("all_gather", "reduce_scatter"):
                ends = args["In msg nelems"], args["Out msg nelems"]
                part, whole = ends if op == "all_gather" else ends[::-1]
                assert part == pytest.approx(whole / 8, abs=1)
                seen.add(op)
        trace = read_kineto(path)
        sizes_B = {4.0 * max(one["args"]["In msg nelems"], one["args"]["Out msg nelems"])
                   for one in found if "Collective name" in one["args"]}  # fmt: skip
        assert set(trace.spans.size_B[trace.spans.communicates].tolist()) == sizes_B
    assert seen == {"all_gather", "reduce_scatter"}
