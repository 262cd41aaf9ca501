"""Exports of Nsight Systems: drawn files, whose operations come out as they went in."""

import sqlite3

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.explain.classes import CLASSES
from lockstep.explain.measure import measure
from lockstep.explain.read import find

PID = 0x1_0000_0000
STEP_NS = 10_000_000
NAMES = ["nvjet_tst_192x192", "flash_bwd_kernel", "vectorized_elementwise_kernel", "ncclDevKernel_AllReduce_Sum_bf16"]


def export(path, devices=1, steps=4, columns=True):
    """Steps of three kernels of 2 ms and a collective of 1 ms after 1 ms of nothing, launched long before."""
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate([*NAMES, "cudaLaunchKernel_v7000"])))
    pid = ", globalPid INTEGER" if columns else ""
    base.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
        f"correlationId INTEGER, demangledName INTEGER, shortName INTEGER{pid})"
    )
    base.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER)"
    )
    base.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER)")
    base.execute("CREATE TABLE TARGET_INFO_GPU (name TEXT)")
    base.execute("INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100')")
    correlation = 0
    for device in range(devices):
        owner, thread = PID * (device + 1), PID * (device + 1) + 7
        for step in range(steps):
            zero = 10**15 + step * STEP_NS
            base.execute(
                "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, NULL, ?)",
                (zero, zero + STEP_NS, f"ProfilerStep#{step}", thread),
            )
            at = zero + 1_000_000
            for place, _name in enumerate(NAMES):
                length = 1_000_000 if place == 3 else 2_000_000
                correlation += 1
                row = (at, at + length, device, 7 + (place == 3), correlation, place, place)
                row += (owner,) if columns else ()
                base.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * len(row))})", row)
                call = (zero + 100 * place, zero + 100 * place + 50, thread, correlation, 4)
                base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", call)
                at += length
    base.commit()
    base.close()
    return path


def test_written_operations_are_read_back_unchanged(tmp_path):
    """Times from the first operation, classes by name, launches joined, and parts that add up to the step."""
    (known,) = find([export(tmp_path / "a.txt")])
    assert known.kind.name == "nsys"
    (trace,) = known.read()
    assert (trace.rank, trace.device, len(trace.spans)) == (None, "NVIDIA H100", 16)
    assert trace.spans.start_s[0] == 0.0
    assert np.allclose((trace.spans.end_s - trace.spans.start_s)[:4], [2e-3, 2e-3, 2e-3, 1e-3])
    assert [CLASSES[kind] for kind in trace.spans.kind[:4].tolist()] == [
        "matmul", "attention", "elementwise", "communication",
    ]  # fmt: skip
    assert np.allclose(trace.spans.called_s[:4], [-1e-3, -1e-3 + 1e-7, -1e-3 + 2e-7, -1e-3 + 3e-7])
    assert trace.name(int(trace.spans.op[3])) == "all-reduce"
    found = measure([trace])
    parts = {one.part: one.measured_s for one in found.parts}
    assert sum(parts.values()) == pytest.approx(found.step_time_s)
    assert found.step_time_s == pytest.approx(STEP_NS * 1e-9)
    assert parts["compute.matmul"] == pytest.approx(2e-3)
    assert sum(seconds for name, seconds in parts.items() if "_comm" in name) == pytest.approx(1e-3)


def test_every_device_in_an_nsys_export_becomes_a_trace(tmp_path):
    """Processes that use the same correlation numbers are told apart; old files without process numbers are read."""
    traces = find([export(tmp_path / "several", devices=3)])[0].read()
    assert [one.rank for one in traces] == [0, 1, 2]
    assert all(np.isfinite(one.spans.called_s).all() for one in traces)
    (old,) = find([export(tmp_path / "old", columns=False)])[0].read()
    assert len(old.spans) == 16
    assert np.isfinite(old.spans.called_s).all()
    assert len(old.marks) == 4


def test_cuda_graphs_recorded_as_a_whole_count_as_work(tmp_path):
    """nsys writes a row for each launch of a CUDA graph instead of its kernels, unless it is told to: the device is
    busy, with work of no known class. Times of 0 were not taken; ranges of 0 or -1 have no end.
    """
    path = export(tmp_path / "graphs")
    base = sqlite3.connect(path)
    base.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, contextId INT, streamId INT, "
        "correlationId INT, globalPid INT, graphId INT, graphExecId INT)"
    )
    base.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE SELECT min(start), max(end), 0, 1, 7, min(correlationId), "
        f"{PID}, 1, 1 FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE shortName < 3 GROUP BY start / {STEP_NS}"
    )
    base.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 0, 0, 1, 7, 99, {PID}, 1, 1)")
    base.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE shortName < 3")
    base.executemany(
        "INSERT INTO NVTX_EVENTS VALUES (?, ?, 'open', NULL, ?)", [(10**15, end, PID + 7) for end in (0, -1)]
    )
    base.commit()
    (trace,) = find([path])[0].read()
    found = measure([trace])
    parts = {one.part: one.measured_s for one in found.parts}
    assert parts["compute.stream"] == pytest.approx(6e-3)
    assert any("CUDA graph" in line for line in found.not_known)
    assert {one.name for one in trace.marks} == {f"ProfilerStep#{step}" for step in range(4)}
    base.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    base.commit()
    base.close()
    (alone,) = find([path])[0].read()
    assert len(alone.spans) == 4


def test_foreign_and_damaged_databases_are_refused(tmp_path):
    """With what is missing; a file cut off in the middle too."""
    base = sqlite3.connect(tmp_path / "other")
    base.execute("CREATE TABLE t (x)")
    base.commit()
    base.close()
    with pytest.raises(BadInput, match="without kernels of Nsight Systems"):
        find([tmp_path / "other"])[0].read()
    whole = export(tmp_path / "whole", steps=200).read_bytes()
    for size in (100, 5000, len(whole) // 2):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(BadInput) as error:
            find([tmp_path / "cut"])[0].read()
        assert error.value.where == str(tmp_path / "cut")


@pytest.mark.parametrize(
    ("column", "value"), [("start", "soon"), ("end", None), ("end", 5), ("correlationId", "x"), ("streamId", 1.5)]
)
def test_non_numeric_values_are_not_accepted_as_times(column, value, tmp_path):
    """Text, nothing, an end before the start; a stream that is no whole number is cut to one."""
    path = export(tmp_path / "wrong")
    base = sqlite3.connect(path)
    base.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = ? WHERE rowid = 3", (value,))
    base.commit()
    base.close()
    if column == "streamId":
        assert len(find([path])[0].read()[0].spans) == 16
        return
    with pytest.raises(BadInput):
        find([path])[0].read()
