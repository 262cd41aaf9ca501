"""Hardware described in YAML: what works, and a table of what is refused and where."""

from pathlib import Path

import pytest

from lockstep import hardware
from lockstep.base.errors import BadInput
from lockstep.describe.hardware.schema import json_schema
from lockstep.describe.hardware.shipped import read_hardware

GOOD = """\
devices:
  my-gpu:
    memory: 64 GiB
    memory_bandwidth: 2e12
    peak_flops: {bf16: 400 TFLOP/s, fp32: 50e12}
    efficiency: a100
    price_per_hour: 1.5
    mtbf: 100 d
    source: vendor's quote
links:
  my-roce: {latency: 8 us, bandwidth: 200 Gbit/s, achieved: 85%, reduce_bandwidth: 1 TB/s}
nodes:
  my-node:
    device: my-gpu
    levels: [{name: node, size: 4, link: nvlink4}]
cluster:
  name: NO
  node: my-node
  levels:
    - {name: rack, size: 2, link: my-roce, links: 2}
    - name: hall
      size: 3
      link: {latency: 20 us, bandwidth: 50e9}
      links: 4
  storage_write: 40 GB/s
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_path_objects_are_accepted_in_place_of_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert hardware.cluster(path) == hardware.cluster(str(path))


def test_a_file_defines_a_cluster_of_its_own_parts(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    cluster = hardware.cluster(path)
    assert cluster.name == "NO"
    assert cluster.num_devices == 24
    assert cluster.device.peak("bf16") == 400e12
    assert cluster.device.memory_B == 64 * 2**30
    assert cluster.price_per_hour_usd == 1.5
    assert cluster.mtbf_s == 100 * 86400
    assert cluster.storage_write_Bps == 40e9
    assert cluster.levels[1].link.rate_Bps == 0.85 * 25e9
    assert cluster.levels[1].link.reduce_s_per_B == 1e-12
    assert cluster.bandwidth_per_device_Bps(1) == pytest.approx(2 * 0.85 * 25e9 / 4)
    assert cluster.bandwidth_per_device_Bps(2) == pytest.approx(4 * 50e9 / 8)
    assert hardware.cluster(path, gpus=16).num_devices == 16


def test_numbers_from_a_file_cite_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    cluster = hardware.cluster(path)
    source = cluster.provenance["storage_write_Bps"]
    assert (source.kind, source.text) == ("user", f"given in {path}:25")
    assert cluster.device.provenance["memory_B"].text == "vendor's quote"
    assert cluster.levels[0].link.provenance["bandwidth_Bps"].kind == "datasheet"
    assert cluster.levels[2].link.provenance["achieved_frac"].kind == "assumed"


def test_catalog_names_and_inline_parts_mix(tmp_path: Path) -> None:
    path = written(
        tmp_path, "cluster:\n  node: dgx-h100\n  levels: [{name: hall, size: 2, link: roce-400, links: 4}]\n"
    )
    cluster = hardware.cluster(path)
    assert (cluster.name, cluster.num_devices) == ("mine", 16)
    assert cluster.device == hardware.device("h100-sxm")
    assert hardware.cluster(written(tmp_path, "cluster: {node: dgx-h100}")).num_devices == 8


def test_a_file_may_define_parts_only(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD[: GOOD.index("cluster:")])
    found = read_hardware(path)
    assert (list(found.devices), list(found.links), list(found.nodes)) == (["my-gpu"], ["my-roce"], ["my-node"])
    with pytest.raises(BadInput, match="defines no cluster"):
        hardware.cluster(path)


# (text to replace, replacement, line of the message, part of the message)
BAD = {
    "typo in a section": ("links:\n  my-roce", "linkks:\n  my-roce", 10, "unknown key 'linkks'; did you mean links"),
    "typo in a link": ("latency: 8 us", "latncy: 8 us", 11, "did you mean latency"),
    "typo in an inline link": ("{latency: 20 us,", "{latncy: 20 us,", 23, "did you mean latency"),
    "typo in a device": ("    mtbf:", "    mtbff:", 8, "did you mean mtbf"),
    "missing": ("    memory: 64 GiB\n", "", 2, "key 'devices.my-gpu.memory' is missing"),
    "wrong unit": ("64 GiB", "64 GB/s", 3, "not a unit of size"),
    "bits for bytes": ("2e12", "2 Tflop", 4, "not a unit of bandwidth"),
    "negative": ("64 GiB", "-64 GiB", 3, "negative"),
    "zero": ("2e12", "0", 4, "above zero"),
    "infinite": ("2e12", ".inf", 4, "not a bandwidth"),
    "overflow": ("2e12", "1e999", 4, "finite"),
    "boolean": ("64 GiB", "true", 3, "expected a size"),
    "null": ("64 GiB", "", 3, "expected a size"),
    "clock time": ("8 us", "12:30", 11, "not a unit of time"),
    "fraction above one": ("85%", "850%", 11, "at most 1"),
    "unknown format": ("fp32: 50e12", "fp31: 50e12", 5, "fp31"),
    "sparse brochure format": ("fp32: 50e12", "bf16-sparse: 800e12", 5, "bf16-sparse"),
    "no rates": ("{bf16: 400 TFLOP/s, fp32: 50e12}", "{}", 5, "peak_flops"),
    "unknown curve": ("efficiency: a100", "efficiency: a10", 6, "unknown efficiency curve"),
    "unknown device": ("device: my-gpu", "device: my-gpuu", 14, "did you mean my-gpu"),
    "unknown link": ("link: nvlink4", "link: nvlinkk4", 15, "did you mean nvlink4"),
    "unknown node": ("node: my-node", "node: my-nod", 18, "did you mean my-node"),
    "link is a number": ("link: nvlink4", "link: 5", 15, "expected a name or a mapping"),
    "size is a fraction": ("size: 4", "size: 4.5", 15, "whole number"),
    "size is zero": ("size: 3", "size: 0", 22, "at least 1"),
    "size is huge": ("size: 3", "size: 1e12", 16, "more than the 10000000 allowed"),
    "no links": ("      links: 4", "      links: 0", 24, "at least 1"),
    "twice the same level": ("name: hall", "name: rack", 16, "same name"),
    "node and device": ("  node: my-node", "  node: my-node\n  device: h100-sxm", 16, "either `node`"),
    "duplicate key": ("    mtbf: 100 d", "    mtbf: 100 d\n    mtbf: 10 d", 9, "given twice"),
    "price in other money": ("1.5", "1.5 EUR", 7, "not a unit of price"),
}


@pytest.mark.parametrize(("old", "new", "line", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_at_their_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(BadInput) as caught:
        hardware.cluster(path)
    assert message in caught.value.message
    assert caught.value.where == f"{path}:{line}"


HOSTS = {
    "a catalog device brings its port": ("device: h100-sxm", "", ("pcie5", 8, 1, None)),
    "the node's host": ("node: dgx-a100-80gb", "", ("pcie4", 8, 2, 2048 * 2**30)),
    "own numbers": (
        "node: dgx-a100-80gb",
        "host: {link: pcie3, devices: 4, devices_per_link: 4, memory: 1 TB, memory_bandwidth: 200 GB/s}",
        ("pcie3", 4, 4, 1e12),
    ),
    "memory alone": ("device: h100-sxm", "host: {memory: 1 TB, source: dmidecode}", ("pcie5", 8, 1, 1e12)),
    "a link in place": (
        "device: my-gpu",
        "host: {link: {latency: 1 us, bandwidth: 7 GB/s}}",
        ("host-link", 8, 1, None),
    ),
}


def with_host(device: str, host: str) -> str:
    levels = "[{name: fabric, size: 2, link: ndr, links: 8}]"
    if "node" not in device:
        levels = "[{name: node, size: 8, link: nvlink4}, {name: fabric, size: 2, link: ndr, links: 8}]"
    return GOOD[: GOOD.index("links:")] + f"cluster:\n  {device}\n  levels: {levels}\n  {host}\n"


@pytest.mark.parametrize(("device", "text", "expected"), HOSTS.values(), ids=HOSTS.keys())
def test_a_file_may_describe_its_hosts(tmp_path: Path, device: str, text: str, expected: tuple[object, ...]) -> None:
    host = hardware.cluster(written(tmp_path, with_host(device, text))).host
    assert host is not None
    assert (host.link.name, host.devices, host.devices_per_link, host.memory_B) == expected


def test_a_device_of_unknown_port_has_no_host_until_the_file_names_one(tmp_path: Path) -> None:
    cluster = hardware.cluster(written(tmp_path, with_host("device: my-gpu", "")))
    assert cluster.host is None
    with pytest.raises(
        BadInput, match="does not describe its hosts, so nothing can be offloaded to them; give `host: "
    ):
        _ = cluster.host_bandwidth_Bps
    with pytest.raises(BadInput, match="give `link`, as my-gpu does not state how it reaches its host") as caught:
        hardware.cluster(written(tmp_path, with_host("device: my-gpu", "host: {memory: 1 TB}")))
    assert str(caught.value.where).endswith("mine.yaml:13")


@pytest.mark.parametrize(
    "cluster",
    ["{device: [h100-sxm, rtx-4090], levels: [{name: node, size: 8, link: pcie5}]}", "{node: [dgx-h100, dgx-b200]}"],
)
def test_a_file_with_two_kinds_of_device_is_refused_with_the_reason(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(BadInput, match=r"one kind of device.*slowest device.*a file of its own") as caught:
        hardware.cluster(written(tmp_path, f"cluster: {cluster}\n"))
    assert "mine.yaml:1" in str(caught.value.where)


def test_a_device_needs_levels(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give `levels`"):
        hardware.cluster(written(tmp_path, "cluster: {device: h100-sxm}\n"))


def test_the_schema_of_hardware_files_can_be_exported() -> None:
    assert set(json_schema()["properties"]) == {"devices", "links", "nodes", "clusters", "cluster"}


AMBIGUOUS = [
    ("latency: 8 us", "latency: 8", "8 us or 8 s"),
    ("latency: 20 us", "latency: 1.0", "1.0 us or 1.0 s"),
    ("latency: 20 us", 'latency: "20"', "20 us or 20 s"),
    ("bandwidth: 200 Gbit/s", "bandwidth: 200", "200 GB/s or 200 Gbit/s"),
    ("storage_write: 40 GB/s", "storage_write: 40", "40 GB/s or 40 Gbit/s"),
    ("memory: 64 GiB", "memory: 64", "64 GB or 64 GiB"),
    ("bf16: 400 TFLOP/s", "bf16: 400", "400 TFLOP/s or 400 PFLOP/s"),
    ("mtbf: 100 d", "mtbf: 5", "5 years or 5 days"),
]


@pytest.mark.parametrize(("given", "bare", "readings"), AMBIGUOUS)
def test_an_implausible_number_without_a_unit_is_refused_with_the_possible_units(
    tmp_path: Path, given: str, bare: str, readings: str
) -> None:
    with pytest.raises(BadInput, match=f"mine.yaml:[0-9]+: .*has no unit; write {readings}"):
        hardware.cluster(written(tmp_path, GOOD.replace(given, bare)))


@pytest.mark.parametrize(("given", "plain"), [("latency: 8 us", "latency: 8e-6"), ("latency: 8 us", "latency: 0"),
                                              ("latency: 8 us", "latency: 8 s"), ("mtbf: 100 d", "mtbf: 8640000"),
                                              ("bandwidth: 200 Gbit/s", "bandwidth: 25000000000"),
                                              ("memory: 64 GiB", "memory: 68719476736")])  # fmt: skip
def test_plausible_numbers_without_units_are_si(tmp_path: Path, given: str, plain: str) -> None:
    assert hardware.cluster(written(tmp_path, GOOD.replace(given, plain))).num_devices == 24
