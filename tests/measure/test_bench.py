"""`bench`: the columns of nccl-tests, right results, a wrong one seen, what was measured kept when a rank dies."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from . import needs_torch as needs_torch  # isort: skip
import torch
from tests.cli_runner import run

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.store import RunStore, compare
from lockstep.describe.hardware import Efficiency
from lockstep.run.bench import BUILT_IN, OPS, bench_collective
from lockstep.run.bench.bench import COLUMNS, CollectiveBench
from lockstep.run.bench.collective import Row, elements
from lockstep.run.bench.definition import DIVIDED, pattern, wrong_elements
from lockstep.run.execute.lanes import settled
from lockstep.run.fit import read_points
from lockstep.run.kernels import KernelRow, bench_device, fit_curve
from lockstep.run.launch import Fault
from lockstep.show.verbs.words.keeping import kept
from lockstep.simulate.collectives import algorithms, get


def served(op: str, ranks: int) -> list[str]:
    """Lockstep's algorithms that need no ranks beside the group."""
    if op == "send-recv":
        return []
    return [n for n in algorithms(op) if get(op, n).program(ranks, 4.0 * ranks, element_B=4.0).ranks == ranks]


@pytest.mark.parametrize("op", OPS)
def test_every_implementation_matches_the_definition(op: str) -> None:
    names = [BUILT_IN, *served(op, 3)]
    found = bench_collective(op, 3, [4, 240], names, repeats=1, warm_up=1, budget_s=0.0, timeout_s=60)
    assert found.ok
    assert [row.wrong for row in found.rows] == [0] * (2 * len(names))
    assert {row.algorithm for row in found.rows} == set(names)


@pytest.mark.parametrize("name", algorithms("all-reduce"))
def test_tree_segments_are_chosen_for_the_link(name: str) -> None:
    """At most as many messages as a full exchange of 16 pieces, for 2^18 elements."""
    assert settled("all-reduce", name, 4, 2.0**20).num_messages <= 4 * 3 * 16


@pytest.mark.parametrize("op", OPS)
def test_one_wrong_element_is_detected(op: str) -> None:
    elems = elements(op, 480, 2)
    data = [pattern(rank, elems, "cpu") for rank in range(2)]
    half = elems // 2
    right = {
        "all-reduce": data[0] + data[1],
        "reduce": data[0] + data[1],
        "broadcast": data[0],
        "reduce-scatter": (data[0] + data[1])[:half],
        "scatter": data[0][:half],
        "all-to-all": torch.cat([data[0][:half], data[1][:half]]),
        "all-gather": torch.cat([data[0][:half], data[1][half:]]),
        "gather": torch.cat([data[0][:half], data[1][half:]]),
        "send-recv": data[1],
    }[op]
    assert wrong_elements(op, right, 0, 2, elems) == 0
    right[1] += 1
    assert wrong_elements(op, right, 0, 2, elems) == 1


def test_bench_sizes_are_multiples_of_the_ranks() -> None:
    for op in OPS:
        for ranks in (2, 3, 7):
            for size_B in (1, 5, 4000):
                count = elements(op, size_B, ranks)
                assert count >= 1
                assert count % (ranks if op in DIVIDED else 1) == 0


def test_bandwidth_columns_match_nccl_tests() -> None:
    row = Row("ring", 1_000_000, (0.001, 0.003, 0.002), 0)
    found = CollectiveBench("all-reduce", 4, "gloo", (row,), None, "2026-01-01")
    record = found.records()[0]
    assert record["time_s"] == 0.002
    assert (record["min_s"], record["max_s"], record["count"]) == (0.001, 0.003, 250_000)
    assert record["algbw_Bps"] == pytest.approx(5e8)
    assert record["busbw_Bps"] == pytest.approx(5e8 * 2 * 3 / 4)
    assert not replace(found, rows=(replace(row, wrong=1),)).ok


def test_a_dead_rank_leaves_the_earlier_rows() -> None:
    fault = Fault(1, "mid_all_reduce_built_in:2000", "kill")
    found = bench_collective("all-reduce", 2, [400, 2000], repeats=1, warm_up=0, timeout_s=900, faults=[fault])
    assert [row.size_B for row in found.rows] == [400]
    assert found.stopped.startswith("rank 1 killed by SIGKILL during all-reduce-built-in step 2000")
    assert not found.ok


def test_rows_are_kept_as_they_are_measured(tmp_path: Path) -> None:
    words = ("bench", "all-reduce", "--ranks", "2", "--repeats", "2", "--runs", str(tmp_path), "--json")
    first, second = (run(*words, "--sizes", sizes).json() for sizes in ("400,2000", "2000"))
    store = RunStore(tmp_path)
    kept_first, kept_second = (store.read(name) for name in store.ids())
    assert [dict(event) for event in kept_first.measurements] == first["rows"]
    assert kept_second.words["sizes_B"] == [2000]
    rows = compare(kept_first, kept_second).numbers
    assert rows["time_s.ring.2000 B"] == (first["rows"][3]["time_s"], second["rows"][1]["time_s"])


def test_kernel_measurements_are_kept(tmp_path: Path) -> None:
    answer = run("bench", "matmul", "--sizes", "8,16", "--runs", str(tmp_path), "--json").json()
    record = RunStore(tmp_path).read("last")
    assert [dict(event) for event in record.measurements] == answer["rows"]
    assert record.result is not None
    assert record.result["time_s"]["matmul"] == {row["shape"]: row["time_s"] for row in answer["rows"]}


def test_an_interrupted_benchmark_is_kept_as_failed_with_its_rows(tmp_path: Path) -> None:
    with kept("bench", {}, tmp_path) as record:
        record(size_B=400)
        record.result, record.failure = {"ok": False}, "rank 1 killed by SIGKILL"
    found = RunStore(tmp_path).read("last")
    assert (found.status, found.reason, len(found.measurements)) == ("failed", "rank 1 killed by SIGKILL", 1)


def test_csv_holds_the_machine_and_every_column(tmp_path: Path) -> None:
    file, picture = tmp_path / "rows.csv", tmp_path / "rows.png"
    command = ["bench", "all-gather", "--ranks", "2", "--sizes", "80,8000", "--repeats", "2"]
    found = run(*command, "--csv", str(file), "--plot", str(picture))
    assert found.code == 0
    assert "0 wrong elements" in found.out
    text = file.read_text()
    facts = [line for line in text.splitlines() if line.startswith("# ")]
    assert any(line.startswith("# congestion_control: ") for line in facts)
    assert any(line.startswith("# foreign_cores: ") for line in facts)
    rows = list(csv.DictReader(io.StringIO("".join(line + "\n" for line in text.splitlines() if line[0] != "#"))))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["algorithm"], row["size_B"]) for row in rows] == [
        ("built-in", "80"), ("ring", "80"), ("built-in", "8000"), ("ring", "8000"),
    ]  # fmt: skip
    assert picture.stat().st_size > 10_000
    read = read_points(file)
    assert [(point.op, point.algorithm, point.ranks) for point in read.points[:2]] == [
        ("all-gather", "", 2), ("all-gather", "ring", 2),
    ]  # fmt: skip
    assert read.date


def test_more_ranks_than_cores_on_loopback_is_noted() -> None:
    answer = lockstep.bench("all-reduce", ranks=4, sizes="1KB", algorithm="built-in", repeats=1).to_dict()
    cores = answer["machine"]["cores"]
    said = [text for text in answer["assumptions"] if "this measures the CPU, not a network" in text]
    assert bool(said) == (cores < 4)
    assert any("not a network" in text for text in answer["assumptions"])


def kernel_rows(peak: float, best_frac: float, factor: float, bandwidth_Bps: float) -> list[KernelRow]:
    """Rows that follow the formula of the curve exactly."""
    rows = []
    for size in (64, 256, 1024, 4096):
        for width in (size, size // 8):
            flops, size_B = 2.0 * size * size * width, 4.0 * (size * size + 2 * size * width)
            time_s = flops / (peak * best_frac) + factor * size_B / bandwidth_Bps
            rows.append(KernelRow("matmul", "", flops, size_B, 1, (time_s,)))
    rows.append(KernelRow("memory", "", 0.0, 3e9, 1, (3e9 / (0.8 * bandwidth_Bps),)))
    rows.append(KernelRow("attention", "", 1e12, 0.0, 1, (1e12 / (0.5 * peak),)))
    rows.append(KernelRow("attention backward", "", 1e12, 0.0, 1, (1e12 / (0.25 * peak),)))
    rows.append(KernelRow("launch", "", 0.0, 0.0, 100, (1e-3,)))
    return rows


def test_the_fitted_curve_recovers_the_constants_behind_the_times() -> None:
    found = fit_curve(kernel_rows(1e14, 0.7, 1.5, 2e12), "A Device", "2026-01-01", 1e14, 2e12)
    curve = found.efficiency
    assert curve.matmul_max_frac == pytest.approx(0.7)
    assert curve.matmul_bytes_factor == pytest.approx(1.5)
    assert curve.stream_frac == pytest.approx(0.8)
    assert (curve.attention_forward_frac, curve.attention_backward_frac) == pytest.approx((0.5, 0.25))
    assert curve.launch_s == pytest.approx(1e-5)
    assert curve.kind == "measured"
    # The two shortest of eight products would wait for their launch.
    assert found.errors_frac == pytest.approx([0.0] * 6, abs=1e-9)


def test_the_fitted_curve_is_a_valid_catalog_entry() -> None:
    import tomllib

    found = fit_curve(kernel_rows(1e14, 0.7, 1.5, 2e12), 'A "Device"', "2026-01-01", None, None)
    ((name, entry),) = tomllib.loads(found.to_toml()).items()
    read = Efficiency(name=name, **{**entry, "devices": tuple(entry["devices"])})
    assert read.name == "a-device"
    assert "best rates measured" in read.source
    assert read.matmul_max_frac == pytest.approx(found.efficiency.matmul_max_frac, rel=1e-3)


def test_kernels_of_the_local_machine_are_measured() -> None:
    found = bench_device(["matmul", "memory", "attention", "optimizer", "launch"], sizes=[64])
    assert {row.kernel for row in found.rows} == {
        "matmul", "memory", "attention", "attention backward", "optimizer", "launch",
    }  # fmt: skip
    assert found.curve is None, "copy was left out"
    assert all(row.time_s > 0 for row in found.rows)
    square = found.rows[0].to_dict()
    assert square["flops"] == 2 * 64**3
    assert square["flops_per_s"] == pytest.approx(square["flops"] / square["time_s"])
    assert np.isfinite([row.to_dict()["bandwidth_Bps"] for row in found.rows]).all()


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ({"op": "all-reduces"}, "OP"),
        ({"op": "all-reduce", "ranks": 0}, "--ranks"),
        ({"op": "all-reduce", "ranks": 2, "device": "cpu"}, "--device"),
        ({"op": "all-reduce", "ranks": 2, "sizes": "4MB:1KB"}, "--sizes"),
        ({"op": "all-reduce", "ranks": 2, "sizes": "1:2:3:4"}, "--sizes"),
        ({"op": "all-reduce", "ranks": 2, "sizes": "0"}, "--sizes"),
        ({"op": "all-reduce", "ranks": 2, "sizes": ""}, "--sizes"),
        ({"op": "all-reduce", "ranks": 2, "timeout": 1e30}, "--timeout"),
        ({"op": "all-reduce", "ranks": 2, "backend": ""}, "--backend"),
        ({"op": "matmul", "sizes": ""}, "--sizes"),
        ({"op": "matmul", "device": ""}, "--device"),
        ({"op": "matmul", "dtype": ""}, "--dtype"),
        ({"op": "all-reduce", "ranks": 2, "algorithm": "circle"}, "--algorithm"),
        ({"op": "all-reduce", "ranks": 2, "csv": "/nowhere/at/all.csv"}, "--csv"),
        ({"op": "send-recv", "ranks": 2, "algorithm": "ring"}, "--algorithm"),
        ({"op": "matmul", "ranks": 2}, "--ranks"),
        ({"op": "matmul", "device": "tpu"}, "--device"),
        ({"op": "matmul", "dtype": "fp12"}, "--dtype"),
        ({"op": "matmul", "curve": "curve.toml"}, "--curve"),
        ({"op": "device", "sizes": "64"}, "--sizes"),
    ],
)
def test_refusals_name_the_flag(words: dict[str, object], where: str) -> None:
    with pytest.raises(BadInput) as caught:
        lockstep.bench(**words)  # type: ignore[arg-type]
    assert caught.value.where == where
