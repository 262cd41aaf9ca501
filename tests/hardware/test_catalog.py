"""The catalog: every number has a source, rates are dense, and the numbers agree with what they are derived from."""

import json
import math
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import resources

import pytest

from lockstep import hardware
from lockstep.base import units
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import shipped
from lockstep.describe.hardware.cluster import Shelf
from lockstep.simulate.collectives import best_on_levels_time_s

DEVICES = {device.name: device for device in hardware.devices()}
LINKS = {link.name: link for link in hardware.links()}
CLUSTERS = {cluster.name: cluster for cluster in hardware.clusters()}

# An update beyond its memory traffic, which is slower with `stream_frac` already, and the host at a step beyond what
# it takes longer at launches; fp8 beside half precision.
NEVER_SLOWER = (
    "devices", "kind", "source", "typical_error_frac", "rank_spread_frac", "fp8_frac", "fp8_bytes_factor", "fp4_frac",
    "fp4_bytes_factor", "same_chip", "like",
    "optimizer_factor", "step_factor", "traffic_device_frac",
)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
def test_a_curve_slowed_by_two_takes_twice_as_long_in_every_part(device: hardware.Device) -> None:
    """Rates are shares of a peak, everything else is a time or bytes that are waited for."""
    curve = device.efficiency
    slow = curve.slowed(2.0)
    for one in fields(curve):
        before, after = getattr(curve, one.name), getattr(slow, one.name)
        if one.name == "attention":
            for kernel, known in before.items():
                rates = [
                    (known.frac(s, 128, True, way), after[kernel].frac(s, 128, True, way))
                    for s in (512, 8192)
                    for way in (False, True)
                ]
                assert all(slower == pytest.approx(rate / 2) for rate, slower in rates)
            continue
        if one.name == "power" and before is not None:
            assert after == before.slowed(2.0, 2.0, 2.0)
            times = (1.0, 0.5, 0.2)
            assert after.factors("bf16", *(2.0 * seconds for seconds in times)) == before.factors("bf16", *times)
            continue
        if isinstance(before, float) and one.name not in NEVER_SLOWER:
            assert after == pytest.approx(before / 2 if one.name.endswith("_frac") else before * 2), one.name
        else:
            assert after == before


REQUIRED_DEVICES = (
    "v100-sxm-16gb", "v100-sxm-32gb", "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb",
    "h100-sxm", "h100-pcie", "h200", "h800", "b200", "gb200", "mi300x", "tpu-v4", "tpu-v5e", "tpu-v5p",
    "b300", "gb300", "gh200", "h200-nvl", "h20", "mi325x", "mi350x", "mi355x", "l40s", "l4", "a10g", "rtx-3090",
    "rtx-4090", "rtx-5090", "rtx-6000-ada", "rtx-a6000", "rtx-pro-6000", "tpu-v6e", "tpu-v7", "trainium2",
)  # fmt: skip
REQUIRED_LINKS = (
    "nvlink2", "nvlink3", "nvlink4", "nvlink5", "infinity-fabric-mi300x", "pcie3", "pcie4", "pcie5", "hdr",
    "ndr", "xdr", "roce-100", "roce-200", "roce-400", "efa-p4d", "efa-p5", "ethernet-10", "ethernet-25",
    "ethernet-100", "ethernet-200", "ethernet-400", "wan", "ici-v4", "ici-v5e", "ici-v5p",
)  # fmt: skip
REQUIRED_CLUSTERS = (
    "dgx-v100", "dgx-2", "dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100", "dgx-h200", "hgx-h800", "dgx-b200",
    "gb200-nvl72", "mi300x-8", "aws-p4d", "aws-p5", "a100-pcie", "h100-pcie", "oci-a100-80gb", "cloud-h100",
    "tpu-v4", "tpu-v5e", "tpu-v5p", "ethernet-25-v100", "workstation-4090", "dgx-b300", "gb300-nvl72", "hgx-h20",
    "h200-nvl-4", "gh200-4", "mi325x-8", "mi350x-8", "mi355x-8", "l40s-8", "aws-g5", "aws-g6", "rtx-3090-8",
    "rtx-4090-8", "rtx-5090-8", "rtx-a6000-8", "rtx-6000-ada-8", "rtx-pro-6000-8", "aws-trn2", "tpu-v6e", "tpu-v7",
    "tpu-v5e-pods", "tpu-v5p-pods", "tpu-v6e-pods", "tpu-v7-pods",
)  # fmt: skip


def catalog_text(name: str) -> str:
    return resources.files("lockstep.describe.hardware").joinpath(f"catalog/{name}").read_text(encoding="utf-8")


def test_the_required_catalog_names_exist() -> None:
    assert set(REQUIRED_DEVICES) <= set(DEVICES)
    assert set(REQUIRED_LINKS) <= set(LINKS)
    assert set(REQUIRED_CLUSTERS) <= set(CLUSTERS)


@pytest.mark.parametrize("thing", [*DEVICES.values(), *LINKS.values(), *CLUSTERS.values()], ids=lambda x: x.name)
def test_every_number_has_a_source(thing: hardware.Device | hardware.Link | hardware.Cluster) -> None:
    expected = {
        field.name
        for field in fields(thing)
        if isinstance(getattr(thing, field.name), float) and getattr(thing, field.name)
    }
    if isinstance(thing, hardware.Device):
        expected |= {f"peak_flops.{dtype}" for dtype in thing.peak_flops}
    if isinstance(thing, hardware.Cluster):
        expected |= {f"levels.{level.name}.{key}" for level in thing.levels for key in ("size", "links_per_child")}
        expected |= {f"levels.{level.name}.links_per_group" for level in thing.levels if level.links_per_group}
        expected |= {f"levels.{level.name}.crowding" for level in thing.levels if level.crowding}
    if isinstance(thing, hardware.Link) and thing.switch is not None:
        expected |= {f"switch.{key}" for key in ("latency", "achieved", "start")}
        expected |= {"switch.piece"} if thing.switch.piece_B else set()
    assert expected == set(thing.provenance)
    for source in thing.provenance.values():
        assert source.kind in ("datasheet", "measured", "fitted", "assumed")
        assert len(source.text) > 10
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", source.date)


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=lambda cluster: cluster.name)
def test_every_cluster_describes_its_hosts_with_sources(cluster: hardware.Cluster) -> None:
    host = cluster.host
    assert host is not None
    assert {"memory_B", "memory_bandwidth_Bps", "devices_per_link"} <= set(host.provenance)
    for source in host.provenance.values():
        assert source.kind in ("datasheet", "measured", "assumed")
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", source.date)
    assert host.link == LINKS[host.link.name]
    assert cluster.devices_per_unit(0) % host.devices == 0
    assert host.devices % host.devices_per_link == 0
    # All links of a machine together do not outrun the memory that they read.
    assert host.memory_bandwidth_Bps is not None
    assert cluster.host_bandwidth_Bps * host.devices <= host.memory_bandwidth_Bps


@pytest.mark.parametrize(
    ("name", "link"),
    [("v100-sxm-32gb", "pcie3"), ("a100-sxm-80gb", "pcie4"), ("h100-sxm", "pcie5"), ("h200", "pcie5"),
     ("gb200", "nvlink-c2c"), ("mi300x", "pcie5"), ("rtx-4090", "pcie4"), ("tpu-v5e", "pcie3")],
)  # fmt: skip
def test_devices_reach_their_host_by_the_port_on_their_datasheet(name: str, link: str) -> None:
    assert DEVICES[name].host_link == LINKS[link]


def test_devices_that_share_a_port_to_the_host_share_its_rate() -> None:
    """DGX-2: about 12 GB/s for one GPU alone, 3.0 measured for each of 16 (arXiv 2104.07857, figure 2)."""
    alone, all_busy = (hardware.cluster("dgx-2:1", gpus=count).host_bandwidth_Bps for count in (1, 16))
    assert alone == pytest.approx(12e9, rel=0.1)
    assert all_busy == pytest.approx(3.0e9, rel=0.1)
    assert hardware.cluster("dgx-2:1", gpus=2).host_bandwidth_Bps == alone / 2


def test_a_rack_of_superchips_is_many_hosts() -> None:
    """GB200 NVL72: 17 TB at 18.4 TB/s in all (datasheet)."""
    rack = hardware.cluster("gb200-nvl72:1")
    host = rack.host
    assert host is not None
    assert rack.devices_per_host == 4
    assert host.memory_B == pytest.approx(17e12 * 4 / 72, rel=0.05)
    assert host.memory_bandwidth_Bps == pytest.approx(18.4e12 * 4 / 72, rel=0.01)


def test_prices_are_assumptions_and_failure_rates_are_measured() -> None:
    for thing in (*DEVICES.values(), *CLUSTERS.values()):
        if thing.price_per_hour_usd is not None:
            assert thing.provenance["price_per_hour_usd"].kind == "assumed"
        if thing.mtbf_s is not None:
            assert thing.provenance["mtbf_s"].kind == "measured"


@pytest.mark.parametrize("name", shipped.FILES)
def test_every_source_is_used_and_every_quantity_is_written_with_its_unit(name: str) -> None:
    document = tomllib.loads(catalog_text(name))
    named = document.pop("sources")
    pairs = list(_pairs(document))
    assert {source for _, source in pairs} == set(named)
    for quantity, _ in pairs:
        assert isinstance(quantity, int) or (isinstance(quantity, float) and quantity <= 1) or " " in quantity


def _pairs(value: object) -> Iterator[tuple[object, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in shipped.NAMING_KEYS:
                yield from _pairs(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from _pairs(inner)
    elif isinstance(value, list):
        yield value[0], value[1]


SOURCES = '[sources]\nhere = {kind = "measured", text = "a stopwatch", date = "2026"}\n'
BAD_CATALOG = {
    "number without source": ("latency = '1 us'\nbandwidth = ['1 GB/s', 'here']", "needs a source"),
    "bare number": ("latency = ['1 us', 'here']\nbandwidth = 5e9", "needs a source"),
    "unknown source": ("latency = ['1 us', 'there']\nbandwidth = ['1 GB/s', 'here']", "unknown source 'there'"),
    "wrong unit": ("latency = ['1 GB', 'here']\nbandwidth = ['1 GB/s', 'here']", "not a unit of time"),
    "unknown key": ("latencyy = ['1 us', 'here']\nbandwidth = ['1 GB/s', 'here']", "did you mean latency"),
}


@pytest.mark.parametrize(("entry", "message"), BAD_CATALOG.values(), ids=BAD_CATALOG.keys())
def test_the_loader_refuses_an_entry(entry: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        shipped.load(f"{SOURCES}[links.x]\n{entry}\n", "x.toml", Shelf())


def test_an_unknown_kind_of_source_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean measured"):
        hardware.Source("mesured", "a stopwatch", "2026")


# Dense rates double each time the number format halves, except where the vendor built it otherwise.
HALVING = (("tf32", "bf16"), ("bf16", "fp8"), ("bf16", "int8"), ("fp8", "fp4"))
NOT_HALVING = {
    ("tpu-v4", "int8"), ("tpu-v5p", "fp8"), ("tpu-v6e", "fp8"), ("rtx-3090", "int8"), ("rtx-4090", "int8"),
    ("rtx-5090", "int8"), ("rtx-5090", "fp4"), ("b300", "int8"), ("b300", "fp4"), ("gb300", "int8"), ("gb300", "fp4"),
    ("trainium2", "bf16"),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda device: device.name)
def test_rates_are_dense_and_consistent_between_formats(device: hardware.Device) -> None:
    rates = device.peak_flops
    for wide, narrow in HALVING:
        if wide in rates and narrow in rates and (device.name, narrow) not in NOT_HALVING:
            assert rates[narrow] / rates[wide] == pytest.approx(2, rel=0.03)
    if "fp16" in rates and "bf16" in rates:
        assert rates["fp16"] == rates["bf16"]
    assert rates.get("fp64", 0) <= rates.get("fp32", math.inf)


@pytest.mark.parametrize(
    ("name", "dtype", "cores", "flop_per_core_and_clock", "clock_Hz"),
    [
        ("v100-sxm-16gb", "fp16", 640, 128, 1.530e9),
        ("a100-sxm-80gb", "bf16", 432, 512, 1.410e9),
        ("h100-sxm", "bf16", 528, 1024, 1.830e9),
        ("h100-pcie", "bf16", 456, 1024, 1.620e9),
        ("mi300x", "bf16", 304, 2048, 2.100e9),
        ("rtx-4090", "bf16", 512, 128, 2.520e9),
        ("gh200", "bf16", 528, 1024, 1.830e9),
        ("mi325x", "bf16", 304, 2048, 2.100e9),
        ("mi350x", "bf16", 256, 4096, 2.200e9),
        ("mi355x", "bf16", 256, 4096, 2.400e9),
        ("mi355x", "fp64", 256, 128, 2.400e9),
        ("a10g", "bf16", 320, 128, 1.710e9),
        ("rtx-3090", "bf16", 328, 128, 1.695e9),
        ("rtx-5090", "bf16", 680, 128, 2.407e9),
        ("rtx-5090", "fp4", 680, 1024, 2.407e9),
        ("rtx-a6000", "bf16", 336, 256, 1.800e9),
        ("rtx-6000-ada", "bf16", 568, 256, 2.505e9),
        ("rtx-pro-6000", "bf16", 752, 256, 2.617e9),
    ],
)
def test_peak_rates_follow_from_cores_and_clocks(
    name: str, dtype: str, cores: int, flop_per_core_and_clock: int, clock_Hz: float
) -> None:
    """An oracle that no brochure with sparsity passes: cores x dense FLOP per clock x boost clock."""
    assert DEVICES[name].peak(dtype) == pytest.approx(cores * flop_per_core_and_clock * clock_Hz, rel=0.01)


@pytest.mark.parametrize(
    ("name", "label_GB"),
    [("v100-sxm-16gb", 16), ("v100-sxm-32gb", 32), ("a100-sxm-40gb", 40), ("a100-sxm-80gb", 80), ("h100-sxm", 80),
     ("h200", 141), ("b200", 180), ("gb200", 186), ("mi300x", 192), ("tpu-v4", 32), ("tpu-v5e", 16), ("tpu-v5p", 95),
     ("b300", 270), ("gb300", 279), ("gh200", 96), ("h200-nvl", 141), ("h20", 96), ("mi325x", 256), ("mi350x", 288),
     ("mi355x", 288), ("a10g", 24), ("l4", 24), ("rtx-3090", 24), ("rtx-5090", 32), ("rtx-a6000", 48), ("l40s", 48),
     ("rtx-6000-ada", 48), ("rtx-pro-6000", 96), ("tpu-v6e", 32), ("tpu-v7", 192)],
)  # fmt: skip
def test_device_memory_is_what_programs_see(name: str, label_GB: float) -> None:
    """Labels mix GB and GiB; what is visible is close to both and was measured."""
    device = DEVICES[name]
    assert 0.95 * label_GB * 1e9 < device.memory_B < 1.01 * label_GB * 2**30
    assert device.provenance["memory_B"].kind == "measured"


def test_h100_failure_rate_is_that_of_llama_3() -> None:
    assert DEVICES["h100-sxm"].mtbf_s == pytest.approx(16384 * 54 * 86400 / 419, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "lanes", "rate_Bps"),
    [("nvlink2", 6, 25e9), ("nvlink3", 12, 25e9), ("nvlink4", 18, 25e9), ("nvlink5", 18, 50e9),
     ("infinity-fabric-mi300x", 7, 64e9), ("ici-v4", 6, 50e9), ("ici-v5e", 4, 50e9), ("ici-v5p", 6, 100e9),
     ("pcie3", 16, 8e9 / 8 * 128 / 130), ("pcie4", 16, 16e9 / 8 * 128 / 130), ("pcie5", 16, 32e9 / 8 * 128 / 130),
     ("nvlink4-direct", 18, 25e9), ("infinity-fabric-mi350", 7, 76.8e9), ("ici-v6e", 4, 100e9), ("ici-v7", 6, 100e9),
     ("neuronlink3", 4, 128e9), ("pcie6", 16, 64e9 / 8 * 242 / 256), ("efa-trn2", 4, 50e9 / 8),
     ("hdr", 4, 50e9 / 8), ("ndr", 4, 100e9 / 8), ("xdr", 4, 200e9 / 8)],
)  # fmt: skip
def test_wire_rates_follow_from_lanes(name: str, lanes: int, rate_Bps: float) -> None:
    assert LINKS[name].bandwidth_Bps == pytest.approx(lanes * rate_Bps, rel=1e-4)


# Measured times of large collectives: (cluster, ranks, passes over the ring, bytes, seconds, tolerance).
# Every row was either left out of the fit of its link or is its largest message.
MEASURED = {
    "V100 x 4, Jean Zay": ("dgx-v100", 4, 2, 4e9, 48353.0e-6, 0.02),
    "A100 x 8, ml-engineering": ("dgx-a100-80gb", 8, 2, 17179869184, 127997e-6, 0.05),
    "H200 x 8 ring, ml-engineering": ("dgx-h200", 8, 2, 17179869184, 81875.7e-6, 0.05),
    "H100 x 8 all-gather, SimuMax": ("dgx-h100", 8, 1, 8589934592, 21025e-6, 0.05),
    "B200 x 4 ring, ml-engineering": ("dgx-b200", 4, 2, 8589934592, 19139.8e-6, 0.05),
    "A100 x 32, deepops": ("dgx-a100-80gb:4", 32, 2, 4294967296, 4294967296 / 98.61e9, 0.10),
}


@pytest.mark.parametrize(
    ("name", "ranks", "passes", "size_B", "measured_s", "tolerance"), MEASURED.values(), ids=MEASURED
)
def test_large_collectives_are_close_to_measurements(
    name: str, ranks: int, passes: int, size_B: float, measured_s: float, tolerance: float
) -> None:
    """A flat ring over one node, or over nodes whose boundary it crosses once per network port."""
    cluster = hardware.cluster(name)
    level = int(cluster.level_spanned(ranks))
    rate_Bps = cluster.bandwidth_per_device_Bps(level) * cluster.devices_per_child(level)
    link = cluster.levels[level].link
    copied_s = size_B / ranks / link.copy_Bps if link.copy_Bps else 0.0
    time_s = passes * (ranks - 1) * (link.latency_s + size_B / ranks / rate_Bps) + copied_s
    assert time_s == pytest.approx(measured_s, rel=tolerance)


def test_two_nodes_over_efa_are_as_fast_as_they_are_priced() -> None:
    """Their link is fitted to the fastest way, not to a flat ring: 4 GB at 23.36 GB/s (aws-samples/aws-efa-eks)."""
    levels = hardware.cluster("aws-p4d:2").levels_of(16)
    priced_s = float(best_on_levels_time_s("all-reduce", levels, 4294967296.0))
    assert priced_s == pytest.approx(4294967296 / 23.36e9, rel=0.10)


def test_newer_generations_are_not_slower() -> None:
    for family in (("nvlink2", "nvlink3", "nvlink4", "nvlink5"), ("pcie3", "pcie4", "pcie5", "pcie6"),
                   ("hdr", "ndr", "xdr"), ("ici-v4", "ici-v5p", "ici-v7"), ("ici-v5e", "ici-v6e"),
                   ("infinity-fabric-mi300x", "infinity-fabric-mi350"),
                   ("ethernet-10", "ethernet-25", "ethernet-100", "ethernet-200", "ethernet-400")):  # fmt: skip
        rates = [LINKS[name].rate_Bps for name in family]
        assert rates == sorted(rates)


# What vendors print with 2:4 sparsity, per device: systems of 8 or 72 divided by their devices.
SPARSE = {
    ("h200-nvl", "bf16"): 1671e12, ("h200-nvl", "fp8"): 3341e12, ("gh200", "bf16"): 1979e12, ("gh200", "fp8"): 3958e12,
    ("b300", "bf16"): 36e15 / 8, ("b300", "fp8"): 72e15 / 8, ("b300", "tf32"): 18e15 / 8,
    ("gb300", "bf16"): 360e15 / 72, ("gb300", "fp8"): 720e15 / 72, ("gb300", "tf32"): 180e15 / 72,
    ("l40s", "bf16"): 733e12, ("l40s", "fp8"): 1466e12, ("l4", "bf16"): 242e12, ("l4", "fp8"): 485e12,
    ("rtx-6000-ada", "fp8"): 1457e12, ("rtx-pro-6000", "fp4"): 4030e12, ("rtx-5090", "fp4"): 3352e12,
    ("mi325x", "fp8"): 5229.8e12, ("rtx-a6000", "bf16"): 309.7e12, ("rtx-3090", "bf16"): 142e12,
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), SPARSE)
def test_dense_rates_are_half_of_those_with_sparsity(name: str, dtype: str) -> None:
    assert DEVICES[name].peak(dtype) == pytest.approx(SPARSE[name, dtype] / 2, rel=0.02)


def test_sparsity_that_does_not_double_still_counts_as_sparsity() -> None:
    """Blackwell Ultra prints fp4 with and without, 18 and 14 or 20 and 15 PFLOP/s; Trainium2 one sparse rate, 2563."""
    assert DEVICES["b300"].peak("fp4") < 144e15 / 8
    assert DEVICES["gb300"].peak("fp4") == pytest.approx(1080e15 / 72)
    assert max(DEVICES["trainium2"].peak_flops.values()) < 2563e12


GENERATIONS = (
    ("p100-sxm-16gb", "v100-sxm-32gb", "a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm", "h200", "b200", "b300"),
    ("gh200", "gb200", "gb300"), ("h800", "h20"), ("h100-pcie", "h200-nvl"), ("mi300x", "mi325x", "mi350x", "mi355x"),
    ("tpu-v4", "tpu-v5p", "tpu-v7"), ("tpu-v5e", "tpu-v6e"), ("rtx-3090", "rtx-4090", "rtx-5090"),
    ("rtx-a6000", "rtx-6000-ada", "rtx-pro-6000"),
)  # fmt: skip


@pytest.mark.parametrize("family", GENERATIONS, ids=lambda family: family[-1])
def test_memory_never_gets_slower_within_a_family(family: tuple[str, ...]) -> None:
    rates = [DEVICES[name].memory_bandwidth_Bps for name in family]
    assert rates == sorted(rates)


def test_systems_add_up_to_what_vendors_print() -> None:
    """Memory bandwidth and peak rates of whole systems: GB300 NVL72, trn2.48xlarge, a TPU v6e pod, MI355X platform."""
    for name, dtype, peak, memory_Bps in (
        ("gb300-nvl72:1", "fp8", 360e15, 576e12), ("aws-trn2:1", "fp8", 20.8e15, 46.4e12),
        ("tpu-v6e-pods:1", "bf16", 234.9e15, 256 * 1638e9), ("mi355x-8:1", "fp4", 80.5e15, 64e12),
    ):  # fmt: skip
        system = hardware.cluster(name)
        assert system.num_devices * system.device.peak(dtype) == pytest.approx(peak, rel=0.002)
        assert system.num_devices * system.device.memory_bandwidth_Bps == pytest.approx(memory_Bps, rel=0.002)


def test_a_pod_has_as_many_chips_as_its_torus() -> None:
    """Of v5p, whose pods have 8960 chips, the largest slice."""
    pods = {"tpu-v5e": 256, "tpu-v5p": 6144, "tpu-v6e": 256, "tpu-v7": 9216}
    assert {name: hardware.cluster(f"{name}-pods:1").num_devices for name in pods} == pods


def test_boards_without_a_switch_cannot_reduce_in_the_network() -> None:
    for name in ("h200-nvl-4", "gh200-4", "mi355x-8", "l40s-8", "aws-trn2"):
        assert CLUSTERS[name].levels[0].link.switch is None
    for name in ("dgx-b300", "gb300-nvl72", "hgx-h20"):
        assert CLUSTERS[name].levels[0].link.switch is not None


def test_effective_links_carry_their_achieved_rate_once() -> None:
    for link in LINKS.values():
        assert 0 < link.rate_Bps <= link.bandwidth_Bps
        assert link.effective().bandwidth_Bps == link.rate_Bps
        assert link.effective().effective() == link.effective()


def test_formatted_units_parse_back() -> None:
    for device in DEVICES.values():
        assert units.parse_size_B(units.format_size(device.memory_B, 6)) == pytest.approx(device.memory_B, rel=1e-5)
        for rate in device.peak_flops.values():
            assert units.parse_flops(units.format_flops(rate, 6)) == pytest.approx(rate, rel=1e-5)


def test_catalog_entries_are_json_picklable_and_hashable() -> None:
    for thing in (*DEVICES.values(), *LINKS.values(), *CLUSTERS.values()):
        assert json.loads(json.dumps(thing.to_dict(), allow_nan=False))["name"] == thing.name
        assert pickle.loads(pickle.dumps(thing)) == thing
        assert hash(replace(thing)) == hash(thing)


def test_unknown_names_suggest() -> None:
    for look_up, name, close in ((hardware.device, "h100-sxn", "h100-sxm"), (hardware.link, "nvlinc4", "nvlink4")):
        with pytest.raises(UnknownName, match=close):
            look_up(name)


def test_an_unsupported_format_error_lists_the_supported_ones() -> None:
    with pytest.raises(BadInput, match="no peak rate for 'bf16'; it has fp64, fp32, fp16"):
        DEVICES["v100-sxm-16gb"].peak("bf16")


def test_importing_is_light() -> None:
    """Pydantic and PyYAML come with the first look-up, not with the import."""
    heavy = ("pydantic", "yaml", "torch", "scipy")
    code = f"import sys, lockstep.describe.hardware; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_borrowed_efficiency_curve_counts_as_assumed() -> None:
    kinds = {device.name: device.to_dict()["efficiency"]["kind"] for device in hardware.devices()}
    assert kinds["gb200"] == "fitted"
    assert kinds["h200"] == kinds["rtx-3090"] == kinds["tpu-v4"] == "assumed"
    assert kinds["a100-sxm-80gb"] == kinds["h100-sxm"] == kinds["h20"] == kinds["rtx-4090"] == "measured"
    borrowed = ("b300", "gb300", "gh200", "h20", "mi355x", "l40s", "rtx-5090", "rtx-pro-6000", "tpu-v7", "trainium2")
    for device in map(hardware.device, borrowed):
        assert device.efficiency.error_frac_on(device.name) >= 0.2
