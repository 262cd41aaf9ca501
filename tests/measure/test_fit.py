"""`fit`: constants that made the times come back, intervals cover, protocols and outliers are found, files are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from tests.cli_runner import run

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.explain.read import find
from lockstep.run.bench.bench import CollectiveBench
from lockstep.run.bench.collective import Row
from lockstep.run.execute.exchange import fit_line
from lockstep.run.fit import Point, Points, fit_link, read_points
from lockstep.simulate.collectives import PlainLink, get

SIZES_B = 2.0 ** np.arange(3, 27)


def times(
    op: str, algorithm: str, ranks: int, link: PlainLink, noise: float = 0.0, seed: int = 0, sizes_B: object = SIZES_B
) -> list[Point]:
    """Points as the price says, with multiplicative noise."""
    generator = np.random.default_rng(seed)
    rows = []
    for size_B in np.asarray(sizes_B, dtype=float).tolist():
        exact_s = size_B / link.bandwidth_Bps + link.latency_s
        if op != "send-recv":
            exact_s = float(get(op, algorithm).price(ranks, size_B, link).time_s)
        rows.append(Point(op, algorithm, ranks, size_B, exact_s * float(np.exp(noise * generator.normal()))))
    return rows


def fitted(rows: list[Point], **words: str) -> object:
    return fit_link(Points(tuple(rows), "test", ""), **words)


@pytest.mark.parametrize(
    ("op", "algorithm", "ranks"),
    [("send-recv", "", 2), ("all-reduce", "ring", 8), ("all-reduce", "", 8), ("all-gather", "bruck", 5),
     ("broadcast", "binomial", 6), ("all-to-all", "direct", 4)],
)  # fmt: skip
def test_exact_times_recover_the_link(op: str, algorithm: str, ranks: int) -> None:
    link = PlainLink(7e-6, 12e9)
    found = fitted(times(op, algorithm or "ring", ranks, link))
    assert found.latency_s == pytest.approx(link.latency_s, rel=1e-6)
    assert found.bandwidth_Bps == pytest.approx(link.bandwidth_Bps, rel=1e-6)
    assert len(found.segments) == 1
    assert not found.outliers
    assert found.r2 == pytest.approx(1.0)
    assert found.left_out is not None
    assert found.left_out[1] < 1e-6


def test_gamma_is_fitted_where_reductions_vary_independently_of_messages() -> None:
    link = PlainLink(5e-6, 10e9, 2e-11)
    rows = times("all-reduce", "ring", 8, link) + times("all-gather", "ring", 8, link)
    found = fitted(rows)
    assert found.gamma_found
    assert found.link.reduce_s_per_B == pytest.approx(2e-11, rel=1e-6)
    alone = fitted(times("all-reduce", "ring", 8, link))
    assert not alone.gamma_found
    assert any("reductions are part of the bandwidth" in text for text in alone.assumptions)


def test_intervals_cover_the_truth_at_their_stated_rate() -> None:
    """400 repetitions at 95 %; the count is binomial, so its 99.9 % interval is the tolerance."""
    link, hits = PlainLink(5e-6, 10e9), np.zeros(2, dtype=int)
    for seed in range(400):
        rows = times("send-recv", "", 2, link, noise=0.02, seed=seed, sizes_B=4.0 ** np.arange(3, 13))
        segment = fitted(rows).segments[0]
        low, high = segment.bandwidth_ci95_Bps
        hits += [segment.latency_ci95_s[0] <= 5e-6 <= segment.latency_ci95_s[1], low <= 10e9 <= (high or np.inf)]
    allowed = scipy.stats.binom.interval(0.999, 400, 0.95)
    assert (hits >= allowed[0]).all()
    assert (hits <= allowed[1]).all()


def test_small_and_large_messages_both_affect_the_fit() -> None:
    """Unweighted squares would put the latency anywhere: the largest time is a million times the smallest."""
    found = fitted(times("send-recv", "", 2, PlainLink(1e-6, 1e9), noise=0.03, sizes_B=10.0 ** np.arange(0, 10)))
    assert found.latency_s == pytest.approx(1e-6, rel=0.1)
    assert found.bandwidth_Bps == pytest.approx(1e9, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_a_protocol_change_is_found_at_its_size(seed: int) -> None:
    small = times("send-recv", "", 2, PlainLink(2e-6, 5e9), noise=0.02, seed=seed, sizes_B=SIZES_B[:13])
    large = times("send-recv", "", 2, PlainLink(30e-6, 20e9), noise=0.02, seed=seed + 50, sizes_B=SIZES_B[13:])
    found = fitted(small + large)
    assert [segment.from_B for segment in found.segments] == [SIZES_B[0], SIZES_B[13]]
    assert found.latency_s == pytest.approx(2e-6, rel=0.1)
    assert found.bandwidth_Bps == pytest.approx(20e9, rel=0.1)


@pytest.mark.parametrize("factor", [0.2, 5.0, 1000.0])
def test_outliers_are_named_and_excluded(factor: float) -> None:
    rows = times("send-recv", "", 2, PlainLink(5e-6, 10e9), noise=0.01)
    bad = Point("send-recv", "", 2, rows[8].size_B, rows[8].time_s * factor)
    found = fitted([*rows[:8], bad, *rows[9:]])
    assert found.outliers == (8,)
    assert str(bad) in found.to_dict()["outliers"]
    assert found.latency_s == pytest.approx(5e-6, rel=0.03)


def test_disturbed_measurements_are_marked() -> None:
    rows = times("send-recv", "", 2, PlainLink(5e-6, 10e9), noise=0.01)
    spiked = [
        Point("send-recv", "", 2, row.size_B, row.time_s * (50 if i % 4 == 2 else 1)) for i, row in enumerate(rows)
    ]
    assert not any("disturbed" in line for line in fitted(rows).assumptions)
    assert any(f"6 of {len(rows)} times are left out" in line for line in fitted(spiked).assumptions)


def test_a_file_that_gives_no_link_is_named(tmp_path: Path) -> None:
    flat = "op,algorithm,ranks,size_B,time_s\n" + "".join(f"send-recv,built-in,2,{2**i},1e-3\n" for i in range(3, 9))
    path = tmp_path / "flat.csv"
    path.write_text(flat)
    assert run("fit", str(path)).refusal().startswith("flat.csv: times do not grow")


def test_a_handmade_table_needs_five_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("op,algorithm,ranks,size_B\nsend-recv,built-in,2,8\n")
    assert run("fit", str(path)).refusal() == f"{path}: has no column 'time_s'; give op,algorithm,ranks,size_B,time_s"


def test_leave_one_out_predicts_the_omitted_size() -> None:
    """By hand: every size is predicted by the line through the others."""
    rows = times("send-recv", "", 2, PlainLink(5e-6, 10e9), noise=0.05, sizes_B=4.0 ** np.arange(4, 12))
    found = fitted(rows)
    sizes_B, times_s = np.array([row.size_B for row in rows]), np.array([row.time_s for row in rows])
    for i in range(len(rows)):
        rest = np.arange(len(rows)) != i
        line = fit_line(sizes_B[rest], times_s[rest])
        assert found.left_out_frac[i] == pytest.approx(line.time_s(sizes_B[i]) / times_s[i] - 1, rel=1e-6)


def test_too_few_measurements_are_refused() -> None:
    with pytest.raises(BadInput, match="give 3 to 200 sizes"):
        fitted(times("send-recv", "", 2, PlainLink(1e-6, 1e9), sizes_B=[8, 16]))
    with pytest.raises(BadInput, match="do not grow with the size"):
        fitted([Point("send-recv", "", 2, size_B, 1e-3 / size_B) for size_B in (1.0, 2.0, 4.0, 8.0)])
    with pytest.raises(BadInput, match="by the link"):
        fitted(times("all-reduce", "pipelined-tree", 8, PlainLink(1e-6, 1e9)))


NCCL = """# nThread 1 nGpus 4 minBytes 1024 maxBytes 67108864 step: 4(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   1 on host device  0 [0x07] A
#  Rank  1 Group  0 Pid   1 on host device  1 [0x0b] A
#  Rank  2 Group  0 Pid   1 on host device  2 [0x48] A
#  Rank  3 Group  0 Pid   1 on host device  3 [0x4c] A
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
{rows}
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 12.3
"""


def nccl_text(rows: list[Point], factor: float) -> str:
    lines = []
    for row in rows:
        rate = row.size_B / row.time_s / 1e9
        cells = f"{rate:.4f} {rate * factor:.4f} 0"
        count, time_us = int(row.size_B / 4), row.time_s * 1e6
        lines.append(f"{int(row.size_B):>12} {count} float sum -1 {time_us:.4f} {cells} {2 * time_us:.2f} {cells}")
    return NCCL.format(rows="\n".join(lines))


def test_pasted_nccl_tests_output_is_read(tmp_path: Path) -> None:
    link = PlainLink(8e-6, 20e9)
    rows = times("all-reduce", "ring", 4, link, sizes_B=4.0 ** np.arange(5, 14))
    file = tmp_path / "all_reduce.txt"
    file.write_text(nccl_text(rows, 1.5))
    read = read_points(file)
    assert [point.op for point in read.points] == ["all-reduce"] * 9
    assert {point.ranks for point in read.points} == {4}
    found = fit_link(read)
    assert found.latency_s == pytest.approx(8e-6, rel=1e-3)
    assert found.bandwidth_Bps == pytest.approx(20e9, rel=1e-3)
    assert "the library's all-reduce counts as ring" in found.assumptions


@pytest.mark.parametrize(
    "label",
    ["[1,0]<stdout>:", "0: ", "    "],
    ids=["mpirun --tag-output", "srun --label", "indented"],
)
def test_launcher_output_between_nccl_tests_rows_is_ignored(label: str, tmp_path: Path) -> None:
    """Labels of lines, and what MPI and NCCL print between rows, as in outputs of nccl-tests 2.17 and 2.18."""
    rows = times("all-reduce", "ring", 4, PlainLink(8e-6, 20e9), sizes_B=4.0 ** np.arange(5, 14))
    plain, file = tmp_path / "plain.txt", tmp_path / "labelled.txt"
    plain.write_text(nccl_text(rows, 1.5))
    lines = nccl_text(rows, 1.5).splitlines()
    place = next(i for i, line in enumerate(lines) if "(elements)" in line) + 1
    lines[place:place] = [
        "[host-11:01650] 15 more processes have sent help message help-mca-var.txt / mutually-exclusive-vars",
        "host-11:1655:1655 [0] NCCL INFO NET/Plugin: Loaded net plugin",
    ]
    file.write_text("\n".join(label + line for line in ["NCCL version 2.30.3+cuda13.0", *lines]))
    one, two = read_points(plain), read_points(file)
    assert one.points == two.points
    assert one.hosts == two.hosts
    (known,) = find([file])
    assert known.kind.name == "nccl-tests"


def test_nccl_tests_output_without_a_collective_needs_op(tmp_path: Path) -> None:
    rows = times("reduce-scatter", "ring", 4, PlainLink(8e-6, 20e9), sizes_B=4.0 ** np.arange(5, 14))
    file = tmp_path / "pasted.txt"
    file.write_text(nccl_text(rows, 0.75))
    with pytest.raises(BadInput, match="--op"):
        read_points(file)
    assert read_points(file, op="reduce-scatter").points[0].op == "reduce-scatter"
    file.write_text("# reduce_scatter_perf -b 1K\n" + nccl_text(rows, 0.75))
    assert read_points(file).points[0].op == "reduce-scatter"


OSU_LATENCY = "# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n"
OSU_ALLGATHER = "# OSU MPI Allgather Latency Test v7.4\n# Size       Avg Latency(us)\n"
OSU_BANDWIDTH = "# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n"


def test_osu_output_is_read(tmp_path: Path) -> None:
    link = PlainLink(1.5e-6, 25e9)
    rows = times("send-recv", "", 2, link, sizes_B=2.0 ** np.arange(0, 23))
    file = tmp_path / "osu.txt"
    file.write_text(OSU_LATENCY + "\n".join(f"{int(p.size_B)}   {p.time_s * 1e6:.6f}" for p in rows))
    assert fit_link(read_points(file)).latency_s == pytest.approx(1.5e-6, rel=1e-3)
    file.write_text(OSU_BANDWIDTH + "\n".join(f"{int(p.size_B)}   {p.size_B / p.time_s / 1e6:.6f}" for p in rows))
    streamed = read_points(file)
    assert fit_link(streamed).bandwidth_Bps == pytest.approx(25e9, rel=1e-3)
    assert "gap between them" in streamed.notes[0]


def test_osu_counts_one_ranks_part_of_an_all_gather(tmp_path: Path) -> None:
    file = tmp_path / "osu.txt"
    file.write_text(OSU_ALLGATHER + "1024 10.0\n2048 20.0\n4096 40.0\n")
    with pytest.raises(BadInput, match="--ranks"):
        read_points(file)
    assert [point.size_B for point in read_points(file, ranks=4).points] == [4096, 8192, 16384]


@pytest.mark.parametrize(
    "text",
    ["", "hello", "op,algorithm,ranks\n", "op,algorithm,ranks,size_B,time_s,wrong\nall-reduce,ring,2,-1,nan,0\n",
     OSU_LATENCY + "8 fast\n", OSU_LATENCY, NCCL.format(rows="8 2 float sum -1 slow 0 0 0"), "\x00\x01" * 100],
)  # fmt: skip
def test_text_that_is_not_a_benchmark_is_refused_at_its_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pasted.txt"
    file.write_text(text)
    found = run("fit", str(file))
    assert str(file) in found.refusal() or "--op" in found.refusal()


def test_bench_csv_becomes_a_cluster_that_plan_calls_calibrated(tmp_path: Path) -> None:
    link, file, made = PlainLink(20e-6, 5e9), tmp_path / "rows.csv", tmp_path / "my-cluster.yaml"
    rows = [Row("built-in", int(p.size_B), (p.time_s,), 0) for p in times("send-recv", "", 2, link, noise=0.02)]
    file.write_text(CollectiveBench("send-recv", 2, "gloo", tuple(rows), None, "2026-01-02").to_csv())
    picture = tmp_path / "fit.png"
    where = ("-c", "dgx-h100:2", "--level", "fabric")
    written = run("fit", str(file), "-o", str(made), *where, "--plot", str(picture), "--json").json()
    assert written["level"] == "fabric"
    assert written["date"] == "2026-01-02"
    assert written["latency_s"] == pytest.approx(link.latency_s, rel=0.05)
    assert picture.stat().st_size > 10_000
    read = cluster(str(made))
    assert read.levels[1].link.latency_s == pytest.approx(written["latency_s"], rel=1e-5)
    assert read.levels[1].link.rate_Bps == pytest.approx(written["bandwidth_Bps"], rel=1e-5)
    kinds = {name: source.kind for name, source in read.levels[1].link.provenance.items()}
    assert set(kinds.values()) == {"measured"}
    assert read.levels[1].link.provenance["latency_s"].date == written["date"]
    said = lockstep.estimate("gpt2", str(made), batch=64).to_dict()["assumptions"]
    assert any(text.startswith("measured is calibrated: lockstep fit of rows.csv, leave-one-out") for text in said)


def test_estimates_note_uncalibrated_links() -> None:
    said = lockstep.estimate("gpt2", "dgx-h100:2", batch=64).to_dict()["assumptions"]
    assert any("is uncalibrated" in text for text in said)


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ({"out": "x.txt", "device_name": "h100-sxm"}, "--out"),
        ({"out": "x.yaml"}, "--out"),
        ({"device_name": "h100-sxm"}, "--device"),
        ({"level": "fabric"}, "--level"),
        ({"out": "x.yaml", "device_name": "h900"}, "--device"),
        ({"out": "x.yaml", "cluster": "dgx-h100:2", "level": "moon"}, "--level"),
        ({"out": "x.yaml", "cluster": "dgx-h100:2", "level": "fabric"}, "--level"),
        ({"out": "missing/x.yaml", "cluster": "dgx-h100:2"}, "--out"),
        ({"out": "x" * 400 + ".yaml", "cluster": "dgx-h100:2"}, "--out"),
        ({"op": "all-reduces"}, "--op"),
        ({"algorithm": "circle"}, "--algorithm"),
    ],
)
def test_refusals_name_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str], where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = times("all-reduce", "ring", 4, PlainLink(8e-6, 20e9), sizes_B=4.0 ** np.arange(5, 14))
    file = tmp_path / "all_reduce.txt"
    file.write_text(nccl_text(rows, 1.5))
    with pytest.raises(BadInput) as caught:
        lockstep.fit(file, **words)  # type: ignore[arg-type]
    assert caught.value.where == where
    assert not (tmp_path / "x.yaml").exists()


def test_an_unused_algorithm_option_is_refused(tmp_path: Path) -> None:
    rows = "".join(
        f"all-reduce,ring,4,{size},{2e-5 + size / 1e10}\n" for size in (1000, 10_000, 100_000, 1_000_000, 10**7)
    )
    path = tmp_path / "own.csv"
    path.write_text(f"op,algorithm,ranks,size_B,time_s\n{rows}")
    assert run("fit", str(path)).code == 0
    for name in ("ring", "nonsense"):
        assert (
            run("fit", str(path), "--algorithm", name).refusal().startswith("--algorithm: is for times of a library's")
        )
