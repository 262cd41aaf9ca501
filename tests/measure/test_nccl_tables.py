"""Logs of nccl-tests as people have them: several tables, labels, echoes, rows that failed validation, no MPI."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli_runner import run as lockstep_run
from tests.measure import nccl_output
from tests.measure.nccl_output import SIZES_B, labelled, ring_s

import lockstep
from lockstep.base.errors import BadInput
from lockstep.explain.read import find
from lockstep.run.fit import fit_link, read_points, read_series

LATENCY_S, RATE_BPS = 2.5e-6, 400e9
ALL_REDUCE = nccl_output.run("all_reduce", 8, LATENCY_S, RATE_BPS)
ALL_GATHER = nccl_output.run("all_gather", 8, LATENCY_S, RATE_BPS)
LABELS = (
    "[0] ", "[1,0]<stdout>:", "0: ", " 3: ", "2025-03-03T10:11:12.{n}456789Z ", "[prterun-node-a-77@1,0]<stdout>: ",
    "[pod/nccl-launcher-x7k2p/nccl] ", "[pod/nccl-launcher-x7k2p/nccl] 2025-03-03T10:11:12.{n}Z ", "nccl-1  | ",
    "I0804 08:14:00.{n} 1 run.cc:196] ", "Mar  3 10:11:12 host app[{n}]: ", "> ", "    ", "",
)  # fmt: skip
ECHOES = (
    "===== all_gather =====", "+ date", "srun: job 4711 queued and waiting for resources", "8 nodes",
    "2 runs of 3 done",
    "node-1:1655:1655 [0] NCCL INFO NET/Plugin: Loaded net plugin", "", "Mon Mar  3 10:11:12 UTC 2025",
    "# Collective test concluded: broadcast_perf",
)  # fmt: skip


def saved(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "nccl.txt"
    file.write_text(text)
    return file


def links(file: Path) -> dict[str, tuple[float, float]]:
    """Latency and bandwidth by table, as the command line prints them with --json."""
    found = lockstep_run("fit", str(file), "--json").json()
    tables = found.get("tables") or [{"table": "", **found}]
    return {one["table"]: (one["latency_s"], one["bandwidth_Bps"]) for one in tables}


def the_link() -> Any:
    return pytest.approx((LATENCY_S, RATE_BPS), rel=1e-3)


def test_a_run_that_is_repeated_adds_no_ranks(tmp_path: Path) -> None:
    """N1: the same table twice was one of 16 ranks."""
    file = saved(tmp_path, labelled(ALL_REDUCE * 2, ""))
    points = read_points(file)
    assert {point.ranks for point in points.points} == {8}
    assert len(points.points) == 2 * len(SIZES_B)
    assert links(file) == {"": the_link()}
    once = saved(tmp_path, labelled(ALL_REDUCE, ""))
    assert links(once) == {"": the_link()}
    for each in (file, once):
        assert lockstep_run("calibrate", str(each), "-c", "dgx-h100:1").refusal().startswith("--case: ")


@pytest.mark.parametrize("starting", ["# Collective test starting: {}", "srun {} -b 1M -e 1G -f 4", "{}"])
def test_every_collective_of_a_log_is_fitted_on_its_own(tmp_path: Path, starting: str) -> None:
    """N1: two collectives were one of 16 ranks, named after the first."""
    runs = [nccl_output.run(name, 8, LATENCY_S, RATE_BPS, starting=starting) for name in ("all_gather", "all_reduce")]
    file = saved(tmp_path, labelled([*runs[0], *ECHOES, *runs[1]], ""))
    assert links(file) == {
        "all-gather of 8 ranks on one host": the_link(),
        "all-reduce of 8 ranks on one host": the_link(),
    }
    told = lockstep_run("fit", str(file))
    assert told.code == 0
    assert "2 tables" in told.out
    assert "all-gather of 8 ranks" in told.out
    with pytest.raises(BadInput, match="all-gather of 8 ranks on one host and of all-reduce"):
        read_points(file)
    assert {point.op for point in read_points(file, op="all-gather").points} == {"all-gather"}


def test_every_number_of_ranks_is_fitted_on_its_own(tmp_path: Path) -> None:
    """N1: 2 ranks and then 8 were one table of 10; a group of one rank sends nothing and is left out."""
    runs = [nccl_output.run("all_reduce", ranks, LATENCY_S, RATE_BPS) for ranks in (2, 8)]
    alone = [*nccl_output.run("all_reduce", 2, LATENCY_S, RATE_BPS)]
    alone = [line for line in alone if "Rank  1" not in line]
    file = saved(tmp_path, labelled([*alone, *runs[0], *runs[1]], ""))
    found = read_series(file)
    assert [{point.ranks for point in one.points} for one in found] == [{2}, {8}]
    assert all("groups of one rank" in one.notes[0] for one in found)
    assert {point.ranks for point in read_points(file, ranks=8).points} == {8}
    assert lockstep_run("fit", str(file), "--ranks", "4").refusal().count("2 ranks") == 1


def test_as_many_ranks_on_more_hosts_are_another_table(tmp_path: Path) -> None:
    """Their links are others, so each level of the cluster takes the times that ran over it."""
    node = nccl_output.run("all_reduce", 8, LATENCY_S, RATE_BPS)
    fabric = nccl_output.run("all_reduce", 16, LATENCY_S, 40e9, hosts=16)
    file = saved(tmp_path, labelled([*node, *fabric], ""))
    rates = [fit_link(one).bandwidth_Bps for one in read_series(file)]
    assert rates == pytest.approx([400e9, 40e9], rel=1e-3)
    from lockstep.describe.hardware import cluster
    from lockstep.run.fit.cluster_file import with_measured_link

    made = with_measured_link(cluster("dgx-h100:16"), file)
    assert made.levels[0].link.rate_Bps == pytest.approx(400e9, rel=1e-3)
    assert made.levels[1].link.rate_Bps == pytest.approx(40e9, rel=1e-3)


def test_several_tables_require_a_choice_before_writing(tmp_path: Path) -> None:
    file, made = saved(tmp_path, labelled([*ALL_REDUCE, *ALL_GATHER], "")), tmp_path / "my.yaml"
    refusal = lockstep_run("fit", str(file), "-o", str(made), "-c", "dgx-h100:1").refusal()
    assert refusal.startswith("--out: ")
    assert "--op" in refusal
    assert not made.exists()
    written = lockstep.fit(file, out=made, cluster="dgx-h100:1", op="all-gather")
    assert written.link_bandwidth_Bps == pytest.approx(RATE_BPS, rel=1e-3)


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_launchers_are_stripped(tmp_path: Path, label: str) -> None:
    """N6: whatever every line of the table begins with; the same lines without it give the same answer."""
    plain = read_series(saved(tmp_path, labelled([*ALL_REDUCE, *ALL_GATHER], "")))
    file = saved(tmp_path, "all_reduce_perf -b 1M\n" + labelled([*ALL_REDUCE, *ALL_GATHER], label))
    assert [(one.points, one.hosts) for one in read_series(file)] == [(one.points, one.hosts) for one in plain]
    (known,) = find([file])
    assert known.kind.name == "nccl-tests"


def test_concatenated_logs_may_have_different_labels(tmp_path: Path) -> None:
    text = labelled(ALL_REDUCE, "[0] ") + labelled(ALL_GATHER, "2025-03-03T10:11:12.{n}Z ") + labelled(ALL_REDUCE, "")
    found = read_series(saved(tmp_path, text))
    assert [(one.points[0].op, len(one.points)) for one in found] == [("all-reduce", 12), ("all-gather", 6)]


@pytest.mark.parametrize("label", ["", "[0] ", "    "])
def test_a_table_without_leading_hashes_is_read(tmp_path: Path, label: str) -> None:
    """N6: as pasted into a page that takes `#` for a heading."""
    file = saved(tmp_path, labelled([line.removeprefix("#") for line in ALL_REDUCE], label))
    points = read_points(file)
    assert points.hosts is not None
    assert points.hosts.ranks == 8
    assert links(file) == {"": the_link()}


@pytest.mark.parametrize("cells", [("512", "0"), ("0", "512"), ("1e+06", "3"), ("nan", "0")])
def test_rows_that_failed_validation_are_excluded_and_noted(tmp_path: Path, cells: tuple[str, str]) -> None:
    """N2: #wrong was not looked at."""
    bad = nccl_output.run("all_reduce", 8, LATENCY_S, RATE_BPS, wrong={2: cells})
    found = read_points(saved(tmp_path, labelled(bad, "")))
    assert [point.size_B for point in found.points] == [size for place, size in enumerate(SIZES_B) if place != 2]
    assert "1 of 6 rows are left out: #wrong is not 0" in found.notes[0]
    said = lockstep_run("diagnose", str(tmp_path / "nccl.txt"), "--json").json()["links"][0]["note"]
    assert said.startswith("1 of 6 rows are left out")
    every = nccl_output.run("all_reduce", 8, LATENCY_S, RATE_BPS, wrong=dict.fromkeys(range(6), cells))
    file = saved(tmp_path, labelled(every, ""))
    first = 1 + every.index(next(line for line in every if line.lstrip().startswith("1048576")))
    assert lockstep_run("fit", str(file)).refusal().startswith(f"{file}:{first}: no row is left: #wrong is not 0")


def test_rows_without_validation_are_used(tmp_path: Path) -> None:
    """-c 0 prints N/A."""
    unchecked = nccl_output.run("all_reduce", 8, LATENCY_S, RATE_BPS, wrong=dict.fromkeys(range(6), ("N/A", "N/A")))
    assert links(saved(tmp_path, labelled(unchecked, ""))) == {"": the_link()}


def test_processes_without_mpi_are_groups_of_one_rank(tmp_path: Path) -> None:
    """N7: every process prints a table of its own rank; this said that times do not grow with the size."""
    one = [line for line in ALL_REDUCE if "Rank" not in line or "Rank  0" in line]
    for lines in (one, [line for pair in zip(one, one, strict=True) for line in pair]):
        refusal = lockstep_run("fit", str(saved(tmp_path, labelled(lines, "")))).refusal()
        assert "groups have one rank each" in refusal
        assert "MPI=1" in refusal
        assert lockstep_run("fit", str(tmp_path / "nccl.txt"), "--ranks", "8").refusal() == refusal


def test_a_single_rank_collective_is_refused_when_selected(tmp_path: Path) -> None:
    alone = [line for line in ALL_GATHER if "Rank" not in line or "Rank  0" in line]
    file = saved(tmp_path, labelled([*ALL_REDUCE, *alone], ""))
    assert "groups have one rank each" in lockstep_run("fit", str(file), "--op", "all-gather").refusal()
    assert [one.points[0].op for one in read_series(file)] == ["all-reduce"]
    header = [line for line in ALL_REDUCE if not line.lstrip()[:1].isdigit()]
    assert (
        lockstep_run("fit", str(saved(tmp_path, labelled(header, "")))).refusal().endswith("nccl.txt: holds no times")
    )


def test_a_truncated_list_of_ranks_is_not_counted(tmp_path: Path) -> None:
    """Two lines of eight, with the others left out of a pasted text."""
    cut = [line for line in ALL_REDUCE if "Rank" not in line or "Rank  0" in line or "Rank  7" in line]
    file = saved(tmp_path, labelled(cut, ""))
    assert lockstep_run("fit", str(file)).refusal().startswith("--ranks: ")
    assert {point.ranks for point in read_points(file, ranks=8).points} == {8}


def test_output_of_other_nccl_tests_versions_is_read(tmp_path: Path) -> None:
    """Without redop and root, with the deviation of 2019, with every iteration, and of 2017 in milliseconds."""
    body = [line.split() for line in ALL_REDUCE if line.lstrip()[:1].isdigit()]
    start = ["all_reduce_perf", *(line for line in ALL_REDUCE if "Rank" in line)]
    shapes: dict[str, list[str]] = {
        "# size count type  time  algbw  busbw  error  time  algbw  busbw  error\n#  (B)  (elements)  (us)  (GB/s)": [
            " ".join([*row[:3], *row[5:8], "4e-07", *row[9:12], "4e-07"]) for row in body
        ],
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong": [
            " ".join([*row[:3], *row[4:]]) for row in body
        ],
        "# size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw "
        "#wrong  i_min  i_max  i_p99  i_cv%  timestamp": [
            " ".join([*row[:9], "1", "2", "3", "4", *row[9:], "1", "2", "3", "4", "2025-03-03 10:11:12"])
            for row in body
        ],
        "#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res": [
            " ".join([*row[:4], str(float(row[5]) / 1e3), *row[6:8], "0e+00", str(float(row[5]) / 1e3), *row[6:8], "0"])
            for row in body
        ],
    }
    for header, lines in shapes.items():
        file = saved(tmp_path, "\n".join([*start, header, *lines]))
        assert links(file) == {"": pytest.approx((LATENCY_S, RATE_BPS), rel=1e-2)}, header


def test_an_unknown_program_is_not_named_after_the_previous_one(tmp_path: Path) -> None:
    """hypercube_perf and alltoallv_perf are no collectives here; other words that end alike are no programs."""
    other = [line.replace("all_gather_perf", "hypercube_perf") for line in ALL_GATHER]
    file = saved(tmp_path, labelled([*ALL_REDUCE, "my_perf", *other], ""))
    assert lockstep_run("fit", str(file)).refusal() == (
        "--op: the text does not state which collective hypercube_perf is"
    )
    assert {one.points[0].op for one in read_series(file, op="all-to-all")} == {"all-to-all"}
    file = saved(tmp_path, labelled(["all_reduce_perf", "my_perf results", *ALL_REDUCE[1:]], ""))
    assert read_points(file).points[0].op == "all-reduce"


def test_host_timings_are_refused(tmp_path: Path) -> None:
    """-C 1 reports how long the host took to launch."""
    text = labelled(ALL_REDUCE, "").replace("     time   algbw", "  cputime   algbw")
    assert "-C 1" in lockstep_run("fit", str(saved(tmp_path, text))).refusal()


@pytest.mark.parametrize(
    ("place", "cell"), [(0, "10x8576"), (1, "262x44"), (2, "flaot"), (5, "34,59"), (5, "nan"), (12, "??")]
)
def test_a_damaged_row_is_refused_at_its_line(tmp_path: Path, place: int, cell: str) -> None:
    """Silence would lose a time."""
    lines = list(ALL_REDUCE)
    number = next(i for i, line in enumerate(lines) if line.lstrip().startswith("4194304"))
    words = lines[number].split()
    words[place] = cell
    lines[number] = " ".join(words)
    file = saved(tmp_path, labelled(lines, ""))
    assert lockstep_run("fit", str(file)).refusal().startswith(f"{file}:{number + 1}: not a row of nccl-tests")


RUN = st.tuples(st.sampled_from(sorted(nccl_output.TURNS)), st.sampled_from([2, 3, 4, 8, 16]))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(RUN, st.lists(st.sampled_from(ECHOES), max_size=3)), min_size=1, max_size=4),
    st.sampled_from(LABELS), st.sampled_from(["us", "ms"]), st.sampled_from(["float", "half", "bfloat16", "f8e4m3"]),
    st.floats(1e-6, 2e-5), st.floats(5e9, 4e11), st.booleans(),
)  # fmt: skip
def test_every_random_log_recovers_its_links(
    runs: Any, label: str, unit: str, kind: str, latency_s: float, rate_Bps: float, hashes: bool
) -> None:
    """Collectives, ranks, labels, echoes and repetitions are drawn: latency and bandwidth come back from each table."""
    lines: list[str] = []
    for (name, ranks), echoes in runs:
        lines += [*nccl_output.run(name, ranks, latency_s, rate_Bps, unit=unit, kind=kind), *echoes]
    lines = lines if hashes else [line.removeprefix("#") for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        found = read_series(saved(Path(folder), labelled(lines, label)))
    drawn = {(name.replace("_", "-"), ranks) for (name, ranks), _ in runs}
    assert {(one.points[0].op, one.points[0].ranks) for one in found} == drawn
    assert sum(len(one.points) for one in found) == len(runs) * len(SIZES_B)
    for one in found:
        for point in one.points:
            exact_s = ring_s(point.op.replace("-", "_"), point.ranks, point.size_B, latency_s, rate_Bps)
            assert point.time_s == pytest.approx(exact_s, rel=2e-3, abs=1e-8)
        fitted = fit_link(one)
        assert fitted.bandwidth_Bps == pytest.approx(rate_Bps, rel=0.02)
        assert fitted.latency_s == pytest.approx(latency_s, rel=0.02, abs=2e-8)


def test_a_table_that_gives_no_link_is_noted_beside_the_others(tmp_path: Path) -> None:
    """Times that fall with the size, of one collective of two."""
    rows = [line.split() for line in ALL_GATHER]
    times = iter(["900", "800", "700", "600", "500", "400"])
    lines = [" ".join([*row[:5], next(times), *row[6:]] if row and row[0].isdigit() else row) for row in rows]
    found = lockstep_run("fit", str(saved(tmp_path, labelled([*ALL_REDUCE, *lines], "")))).out
    assert "all-reduce of 8 ranks" in found
    assert "Not fitted: all-gather of 8 ranks on one host: times do not grow with the size" in " ".join(found.split())
