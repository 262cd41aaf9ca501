"""`fit -o`: the level that the text tells, the rate of one of its links, and what is refused with nothing written."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli_runner import run

import lockstep
from lockstep.base.errors import BadInput, Infeasible, LockstepError
from lockstep.describe.hardware import Cluster, cluster
from lockstep.run.fit import Point, Points, fit_link, read_points
from lockstep.show.verbs.words.network import read_network
from lockstep.simulate.collectives import PlainLink, get, times_on_levels

SIZES_B = 4.0 ** np.arange(9, 17)
FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "broadcast": 1.0, "sendrecv": 1.0}


def nccl_text(name: str, hosts: list[list[int]], times_s: Any, groups: int = 1) -> str:
    """Output of `NAME_perf`; `hosts` are the devices of each. Lines as in src/common.cu of nccl-tests 2.13."""
    ranks = sum(len(devices) for devices in hosts)
    lines = [f"# {name}_perf -b 256K -e 4G -f 4", "# Using devices"]
    number = 0
    for group in range(groups):
        for host, devices in enumerate(hosts):
            for device in devices:
                where = f"on {f'node-{host}':>10} device {device:2d} [0000:{device:02x}:00] NVIDIA H100"
                lines.append(f"#  Rank {number:2d} Group {group:2d} Pid {4000 + number:6d} {where}")
                number += 1
    lines += ["#", "#                                   out-of-place                       in-place"]
    lines += ["#       size         count      type   redop    root     time   algbw   busbw #wrong"]
    lines += ["#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"]
    for size_B, time_s in zip(SIZES_B, times_s, strict=True):
        rate = size_B / time_s / 1e9
        bus = rate * FACTORS[name] * (ranks - 1) / ranks
        lines.append(
            f"{size_B:12.0f} {size_B / 4:13.0f}     float     sum      -1 {time_s * 1e6:.3f} {rate:.3f} {bus:.3f} 0"
        )
    return "\n".join([*lines, "# Out of bounds values : 0 OK", ""])


def flat_s(op: str, ranks: int, link: PlainLink) -> Any:
    name = {"broadcast": "binomial"}.get(op, "ring")
    return [float(get(op, name).price_time_s(ranks, size_B, link)) for size_B in SIZES_B]


def ring_s(op: str, where: Cluster, ranks: int) -> Any:
    """What a ring in channels over the levels of the cluster takes, by the price over levels."""
    levels = read_network(ranks, cluster=where).levels
    return [float(times_on_levels(op, levels, size_B, ["ring"])["ring"]) for size_B in SIZES_B]


def test_a_log_of_one_host_measures_the_node(tmp_path: Path) -> None:
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    log.write_text(nccl_text("all_reduce", [list(range(8))], flat_s("all-reduce", 8, PlainLink(9e-6, 373e9))))
    found = run("fit", str(log), "-o", str(made), "-c", "dgx-h100:16", "--json").json()
    assert (found["level"], found["link_bandwidth_Bps"]) == ("node", pytest.approx(373e9, rel=1e-3))
    before, after = cluster("dgx-h100:16"), cluster(str(made))
    assert after.bandwidth_per_device_Bps(0) == pytest.approx(373e9, rel=1e-3)
    assert after.levels[0].link.bandwidth_Bps == before.levels[0].link.bandwidth_Bps
    assert after.levels[1].link == before.levels[1].link
    assert "measured" not in {source.kind for name, source in after.provenance.items() if "fabric" in name}


@pytest.mark.parametrize("name", ["dgx-a100-80gb:2", "aws-p4d:2", "mine"])
def test_a_fitted_cluster_keeps_its_hosts(tmp_path: Path, name: str) -> None:
    """What offloading needs is neither lost nor doubled, be the host's link of the catalog or of a file."""
    if name == "mine":
        name = str(tmp_path / "mine.yaml")
        link = "{latency: 2 us, bandwidth: 11 GB/s, achieved: 90%}"
        levels = "[{name: node, size: 8, link: nvlink3}, {name: fabric, size: 2, link: hdr, links: 8}]"
        Path(name).write_text(
            f"cluster:\n  device: a100-sxm-80gb\n  levels: {levels}\n  host: {{link: {link}, devices_per_link: 4}}\n"
        )
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    log.write_text(nccl_text("all_reduce", [list(range(8))], flat_s("all-reduce", 8, PlainLink(9e-6, 200e9))))
    run("fit", str(log), "-o", str(made), "-c", name, "--json").json()
    before, after = (replace(cluster(one), levels=cluster(name).levels) for one in (name, str(made)))
    assert after.host_bandwidth_Bps == pytest.approx(before.host_bandwidth_Bps, rel=1e-9)
    assert after.devices_per_host == before.devices_per_host == 8
    assert before.host is not None
    assert after.host is not None
    assert after.host.memory_B == before.host.memory_B
    assert after.host.memory_bandwidth_Bps == before.host.memory_bandwidth_Bps


@pytest.mark.parametrize("name", ["dgx-h100", "a100-80gb-2xhdr", "aws-p4d", "aws-p5", "dgx-2"])
@pytest.mark.parametrize("op", ["all-reduce", "all-gather"])
def test_whole_nodes_recover_the_catalog_link(tmp_path: Path, name: str, op: str) -> None:
    """However many adapters a node has: times of a ring over the levels come back as the rate of one of them."""
    where = cluster(f"{name}:4")
    inside, fabric = where.levels
    # A ring steps as slowly as its slowest hop, so hops inside must be quick to see the others.
    where = replace(where, levels=(replace(inside, link=replace(inside.link, latency_s=1e-9)), fabric))
    node = where.devices_per_unit(0)
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    log.write_text(nccl_text(op.replace("-", "_"), [list(range(node))] * 4, ring_s(op, where, 4 * node)))
    found = lockstep.fit(log, out=made, cluster=where)
    link = where.levels[1].link
    assert found.level == where.levels[1].name
    assert found.link_bandwidth_Bps == pytest.approx(link.rate_Bps, rel=2e-3)
    again = cluster(str(made))
    assert again.bandwidth_per_device_Bps(1) == pytest.approx(where.bandwidth_per_device_Bps(1), rel=2e-3)
    assert again.levels[1].link.latency_s == pytest.approx(link.latency_s, rel=2e-3)
    assert {source.kind for source in again.levels[1].link.provenance.values()} == {"measured"}


@pytest.mark.parametrize(("name", "links"), [("dgx-h100", 1), ("aws-p5", 4), ("a100-80gb-2xhdr", 1)])
@pytest.mark.parametrize("op", ["all-reduce", "broadcast"])
def test_one_rank_per_host_reaches_the_links_of_one_device(tmp_path: Path, name: str, links: int, op: str) -> None:
    where, log = cluster(f"{name}:4"), tmp_path / "nccl.txt"
    rate_Bps = 0.6 * where.levels[1].link.bandwidth_Bps
    log.write_text(nccl_text(op.replace("-", "_"), [[5]] * 4, flat_s(op, 4, PlainLink(9e-6, links * rate_Bps))))
    found = lockstep.fit(log, out=tmp_path / "my.yaml", cluster=where)
    assert (found.level, found.link_bandwidth_Bps) == ("fabric", pytest.approx(rate_Bps, rel=1e-3))


def test_half_a_node_reaches_half_of_its_adapters(tmp_path: Path) -> None:
    """Devices 0 to 3 of a node with two adapters share one; devices 0, 2, 4, 6 reach both."""
    where, log = cluster("a100-80gb-2xhdr:2"), tmp_path / "nccl.txt"
    for devices, adapters in (([0, 1, 2, 3], 1), ([0, 2, 4, 6], 2)):
        log.write_text(nccl_text("all_reduce", [devices] * 2, flat_s("all-reduce", 8, PlainLink(9e-6, 20e9))))
        found = lockstep.fit(log, out=tmp_path / "my.yaml", cluster=where)
        assert found.link_bandwidth_Bps == pytest.approx(20e9 / adapters, rel=1e-3)


def test_concurrent_groups_are_recognised(tmp_path: Path) -> None:
    log = tmp_path / "nccl.txt"
    log.write_text(nccl_text("all_reduce", [[0, 1], [0, 1]], flat_s("all-reduce", 4, PlainLink(9e-6, 20e9)), groups=4))
    points = read_points(log)
    assert {point.ranks for point in points.points} == {4}
    assert points.hosts is not None
    assert points.hosts.devices == {"node-0": (0, 1), "node-1": (0, 1)}


@pytest.mark.parametrize(
    ("hosts", "rate_Bps", "words", "where", "says"),
    [
        ([[*range(8)]], 470e9, {}, "--level", ("470 GB/s", "450 GB/s", "node")),
        ([[0], [0]], 55e9, {}, "--level", ("55 GB/s", "50 GB/s", "fabric")),
        ([[*range(8)]] * 2, 500e9, {}, "--level", ("62.5 GB/s", "50 GB/s")),
        ([[*range(8)]], 300e9, {"level": "fabric"}, "--level", ("8 ranks on one host", "node")),
        ([[0], [0]], 30e9, {"level": "node"}, "--level", ("2 ranks on 2 hosts", "fabric")),
        ([[*range(16)]], 30e9, {}, "--cluster", ("16 ranks", "8 devices")),
        ([[0, 1, 2], [0]], 30e9, {}, "FILE", ("1 to 3 ranks",)),
    ],
)
def test_measurements_that_do_not_match_the_cluster_are_refused(
    tmp_path: Path, hosts: list[list[int]], rate_Bps: float, words: dict[str, str], where: str, says: tuple[str, ...]
) -> None:
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    ranks = sum(len(devices) for devices in hosts)
    log.write_text(nccl_text("all_reduce", hosts, flat_s("all-reduce", ranks, PlainLink(9e-6, rate_Bps))))
    with pytest.raises(BadInput) as caught:
        lockstep.fit(log, out=made, cluster="dgx-h100:16", **words)
    assert caught.value.where == where
    assert all(word in caught.value.message for word in says), caught.value.message
    assert not made.exists()


def test_a_collective_that_does_not_determine_the_link_is_refused(tmp_path: Path) -> None:
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    log.write_text(nccl_text("broadcast", [[0, 1]] * 2, flat_s("broadcast", 4, PlainLink(9e-6, 20e9))))
    with pytest.raises(BadInput, match="one rank per host, or a ring"):
        lockstep.fit(log, out=made, cluster="dgx-h100:2")
    log.write_text(nccl_text("sendrecv", [[0, 1]] * 2, 9e-6 + SIZES_B / 20e9))
    assert lockstep.fit(log, out=made, cluster="dgx-h100:2").link_bandwidth_Bps == pytest.approx(20e9, rel=1e-3)


OSU = "# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n"
OWN = "op,algorithm,ranks,size_B,time_s\n"


def test_output_that_does_not_determine_the_level_asks_for_it(tmp_path: Path) -> None:
    log, made = tmp_path / "rows.txt", tmp_path / "my.yaml"
    times_s = 2e-6 + SIZES_B / 24e9
    osu = OSU + "".join(f"{size:.0f} {time * 1e6:.4f}\n" for size, time in zip(SIZES_B, times_s, strict=True))
    own = OWN + "".join(f"send-recv,built-in,2,{size},{time}\n" for size, time in zip(SIZES_B, times_s, strict=True))
    for text in (osu, own):
        log.write_text(text)
        asked = run("fit", str(log), "-o", str(made), "-c", "dgx-h100:2")
        assert asked.refusal().startswith("--level: ")
        assert "node or fabric" in asked.refusal()
        assert not made.exists()
        for level in ("node", "fabric"):
            assert run("fit", str(log), "-o", str(made), "-c", "dgx-h100:2", "--level", level, "--json").json()["level"]
            assert cluster(str(made)).levels[level == "fabric"].link.rate_Bps == pytest.approx(24e9, rel=1e-3)
            made.unlink()
        assert run("fit", str(log), "-o", str(made), "--device", "h100-sxm", "--json").json()["level"] == "network"
        made.unlink()


def test_refitting_a_fitted_file_keeps_the_wire_rate(tmp_path: Path) -> None:
    """A second measurement may be faster than the first: what is written is a share of the wire, not a new wire."""
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    for where, rate_Bps in (("dgx-h100:2", 30e9), (str(made), 45e9)):
        log.write_text(nccl_text("all_reduce", [[0], [0]], flat_s("all-reduce", 2, PlainLink(9e-6, rate_Bps))))
        lockstep.fit(log, out=made, cluster=where)
        assert cluster(str(made)).levels[1].link.rate_Bps == pytest.approx(rate_Bps, rel=1e-3)


def test_two_levels_fitted_in_sequence_stay_separate(tmp_path: Path) -> None:
    """The fabric into a file, then the node on top of it: each has the rate that was measured on it."""
    log, made = tmp_path / "nccl.txt", tmp_path / "my.yaml"
    for where, hosts, rate_Bps in (("dgx-h100:2", [[0], [0]], 41e9), (str(made), [[0, 1]], 370e9)):
        log.write_text(nccl_text("all_reduce", hosts, flat_s("all-reduce", 2, PlainLink(9e-6, rate_Bps))))
        lockstep.fit(log, out=made, cluster=where)
    node, fabric = cluster(str(made)).levels
    assert node.link.rate_Bps == pytest.approx(370e9, rel=1e-3)
    assert fabric.link.rate_Bps == pytest.approx(41e9, rel=1e-3)
    assert {source.kind for level in (node, fabric) for source in level.link.provenance.values()} == {"measured"}


def test_other_links_of_a_user_file_are_unchanged(tmp_path: Path) -> None:
    log, made, mine = tmp_path / "nccl.txt", tmp_path / "my.yaml", tmp_path / "mine.yaml"
    mine.write_text(
        "links:\n  wire: {latency: 4us, bandwidth: 40GB/s, achieved: 0.8, reduce_bandwidth: 90GB/s, source: tender}\n"
        "cluster:\n  name: mine\n  device: h100-sxm\n  levels:\n"
        "    - {name: node, size: 8, link: nvlink4}\n    - {name: fabric, size: 2, link: wire, links: 8}\n"
    )
    log.write_text(nccl_text("all_reduce", [[0, 1]], flat_s("all-reduce", 2, PlainLink(9e-6, 370e9))))
    lockstep.fit(log, out=made, cluster=mine)
    before, after = cluster(str(mine)).levels[1], cluster(str(made)).levels[1]
    assert replace(after.link, provenance={}) == replace(before.link, provenance={})
    assert {source.kind for source in after.link.provenance.values()} == {"user"}


@pytest.mark.parametrize("seed", range(6))
def test_times_that_no_link_explains_are_refused(tmp_path: Path, seed: int) -> None:
    """Times that have nothing to do with the size, around 1 ms: exit 1, and nothing is written."""
    log, made = tmp_path / "rows.csv", tmp_path / "my.yaml"
    times_s = 1e-3 * np.exp(np.random.default_rng(np.random.SeedSequence(seed + 9)).normal(size=len(SIZES_B)))
    log.write_text(OWN + "".join(f"send-recv,,2,{size},{time}\n" for size, time in zip(SIZES_B, times_s, strict=True)))
    found = run("fit", str(log), "-o", str(made), "--device", "h100-sxm")
    assert found.code in (1, 2)
    assert "not a line" in found.err or "do not grow with the size" in found.err
    assert (found.out, made.exists()) == ("", False)


def test_a_line_is_distinguished_from_a_constant_by_cross_validation() -> None:
    rising = tuple(Point("send-recv", "", 2, size_B, 5e-6 + size_B / 1e10) for size_B in SIZES_B)
    fit_link(Points(rising, "a line", ""))
    falling = [*(5e-3, 6e-3, 4.8e-3, 5.5e-3), *(5.1e-3, 4.9e-3, 5.6e-3, 5.3e-3)]
    same = tuple(Point("send-recv", "", 2, size_B, time_s) for size_B, time_s in zip(SIZES_B, falling, strict=True))
    with pytest.raises(Infeasible, match="not a line"):
        fit_link(Points(same, "no line", ""))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["all-reduce", "send-recv", "all-gather"]),
            st.sampled_from(["1", "2", "0", "-3", "1e9", "4", "999999999999999999999"]),
            st.sampled_from(["1e308", "1e18", "8", "1024", "65536", "1e6", "0", "nan", "inf", "1e-300"]),
            st.sampled_from(["1e308", "1e-15", "1e-3", "1e-6", "2e-6", "1e18", "nan", "-1", "5e-324"]),
        ),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_arbitrary_tables_give_a_link_or_one_refusal(rows: list[tuple[str, ...]]) -> None:
    text = OWN + "".join(f"{op},,{ranks},{size},{time}\n" for op, ranks, size, time in rows)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        file.write_text(text)
        try:
            found = lockstep.fit(file)
        except LockstepError:
            return
    assert np.isfinite([found.found.latency_s, found.found.bandwidth_Bps]).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OWN + "all-reduce,ring,0,8,1e-6\n", "0 ranks are not 2 to"),
        (OWN + "all-reduce,ring,2,1e308,1e-6\n", "is not 1e-15 to 1e+18"),
        (OWN + f"all-reduce,{'x' * 140_000},2,8,1e-6\n", "field larger than field limit"),
        ("PK\x03\x04 and # OSU somewhere in the middle\n" * 3, "is neither a CSV"),
        ("#  Rank  0 Group  0 Pid 1 on a device 0\n#  Rank  1 Group  1 Pid 2 on a device 1\n"
         "#  Rank  2 Group  1 Pid 3 on a device 2\n#   size  count  type  time  algbw  busbw\n 8 2 float 1 2 3\n",
         "its groups have 1 to 2 ranks"),
        (OWN + "".join(f"send-recv,,2,{size},{1e-6 * size}\n" for size in range(1, 400)), "3 to 200 sizes"),
    ],
)  # fmt: skip
def test_damaged_texts_are_one_located_refusal(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "pasted.csv"
    file.write_text(text)
    refusal = run("fit", str(file)).refusal()
    assert says in refusal
    assert "pasted.csv" in refusal


def test_the_output_path_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    loop, folder = tmp_path / "loop.yaml", tmp_path / "folder.yaml"
    loop.symlink_to(loop)
    folder.mkdir()
    for out in (loop, folder, tmp_path / "missing" / "x.yaml", tmp_path / ("x" * 300 + ".yaml")):
        refusal = run("fit", str(tmp_path / "not-there.csv"), "-o", str(out), "-c", "dgx-h100:2").refusal()
        assert refusal.startswith("--out: ")
