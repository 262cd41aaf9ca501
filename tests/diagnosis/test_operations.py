"""Tables of operations: what is read, what one stage costs, and tables that are wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.explain.measure import measure
from lockstep.explain.read.operations_csv import read_operations
from lockstep.explain.whatif import what_if
from lockstep.simulate.parallel.pipeline import Times, get, program
from lockstep.simulate.play import simulate

HEAD = "rank,step,op,start_s,duration_s"


def table(folder: Path, *lines: str, head: str = HEAD) -> Path:
    """A file of some lines."""
    path = folder / "operations.csv"
    path.write_text("\n".join((head, *lines)) + "\n")
    return path


def pipeline(folder: Path, forward_s: list[float], microbatches: int = 6) -> tuple[Path, float]:
    """A simulated pipeline as a table, two steps of it, and its step time."""
    times = Times(forward_s, [2 * one for one in forward_s])
    made = program(get("1f1b"), len(forward_s), microbatches, times=times)
    line, rows = simulate(made), []
    for step in (3, 4):
        seen: dict[tuple[int, str], int] = {}
        for i in range(len(made)):
            label = made.name(int(made.label[i]))
            if label[:1] in ("F", "B") and line.end_s[i] > line.start_s[i]:
                name = "forward-compute" if label[0] == "F" else "backward-compute"
                stage, start = int(made.rank[i]), float(line.start_s[i])
                rows.append(f"{stage},{step},{name},{start},{float(line.end_s[i]) - start},{stage},0")
                ends = [(stage, "forward-send", stage + 1), (stage, "backward-send", stage - 1)][label[0] == "B"]
                if 0 <= ends[2] < len(forward_s):
                    rows.append(f"{stage},{step},{ends[1]},{float(line.end_s[i])},0,{stage},0")
                    rows.append(f"{ends[2]},{step},{ends[1][:-4]}recv,{float(line.end_s[i])},0,{ends[2]},0")
                    seen[stage, name] = seen.get((stage, name), 0) + 1
    return table(folder, *rows, head=f"{HEAD},stage,dp_rank"), line.makespan_s


def test_a_replayed_pipeline_takes_the_measured_time(tmp_path: Path) -> None:
    """And its slowdowns are those of the schedule's simulation with other times."""
    path, step_s = pipeline(tmp_path, [1.0, 1.0, 1.0, 1.6])
    found = what_if(read_operations(path))
    assert found.replayed_s == pytest.approx(step_s)
    mean = [1.15] * 4
    _, ideal_s = pipeline(tmp_path, mean)
    assert found.ideal_s == pytest.approx(ideal_s)
    _, alone_s = pipeline(tmp_path, [1.15, 1.15, 1.15, 1.6])
    assert found.by_stage[3] == pytest.approx(alone_s / ideal_s)
    assert found.worst_stage == 3


def test_columns_are_found_by_aliases_in_any_order(tmp_path: Path) -> None:
    """Are understood."""
    lines = ("0,gemm,5,1.0,0.5", "1,gemm,5,1.0,0.7", "0,all-reduce,5,1.5,0.6", "1,all-reduce,5,1.7,0.4")
    path = table(tmp_path, *lines, head="worker, optype, iteration, start_ts, duration")
    found = measure(read_operations(path))
    parts = {one.part: one.measured_s for one in found.parts}
    assert found.step_time_s == pytest.approx(1.1)
    assert parts["compute.matmul"] == pytest.approx(0.6)
    assert parts["dp_comm.waiting"] == pytest.approx(0.1)
    assert parts["dp_comm.transfer"] == pytest.approx(0.4)
    (slow,) = found.stragglers
    assert slow.rank == 1


@pytest.mark.parametrize(
    ("lines", "why", "where"),
    [
        ((), "no operations", ""),
        (("0,1,gemm,0",), "has 4 cells where the heading has 5", ":2"),
        (("0,1,gemm,0,1", "0,1,gemm,soon,1"), "could not convert", ":3"),
        (("0,1,gemm,0,-1",), "a duration is 0 or more", ":2"),
        (("0,1,gemm,nan,1",), "not a number", ":2"),
        (("-3,1,gemm,0,1",), "a rank is 0 or more", ":2"),
    ],
)
def test_invalid_operation_tables_are_refused_at_their_line(
    lines: tuple[str, ...], why: str, where: str, tmp_path: Path
) -> None:
    """Are bad input, with their line."""
    path = table(tmp_path, *lines)
    with pytest.raises(BadInput) as raised:
        read_operations(path)
    assert why in raised.value.message
    assert raised.value.where == f"{path}{where}"


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """Is named."""
    with pytest.raises(BadInput, match="has no column 'duration_s'"):
        read_operations(table(tmp_path, "0,1,gemm,0", head="rank,step,op,start_s"))


def test_a_kernel_class_that_was_not_measured_has_no_rate(tmp_path: Path) -> None:
    """As of another model's run; the parts of both steps still add up."""
    rows = [f"0,{step},forward-compute,{step}.0,0.6" for step in range(5)]
    found = lockstep.diagnose(table(tmp_path, *rows), model="gpt2-medium", cluster="dgx-h100:1", batch=64, seq=1024)
    both = found.comparison()
    assert found.beside is not None
    assert both is not None
    assert math.isfinite(found.beside.replayed_s or math.nan)
    assert sum(row["difference_s"] for row in both.parts) == pytest.approx(both.difference_s)
    assert (both.a.step_time_s, both.b.step_time_s) == pytest.approx(
        (found.predicted.step_time_s, found.measured_s), rel=1e-12
    )
