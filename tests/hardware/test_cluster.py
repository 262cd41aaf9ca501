"""Clusters: sizes, sharing of links against hand-computed fractions, and resizing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import hardware
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import Cluster, Level, Link
from lockstep.describe.hardware.catalog import machine
from lockstep.describe.hardware.shipped import shelf

LINK = Link("wire", 1e-6, 8e9)


def made(*shape: tuple[int, int]) -> Cluster:
    """A cluster of levels (size, links per child) on an H100."""
    levels = tuple(Level(f"l{i}", size, LINK, links) for i, (size, links) in enumerate(shape))
    return Cluster("made", hardware.device("h100-sxm"), levels)


# Wire rate per device when all share, as Gbit/s written out by hand: ports x Gbit/s / GPUs.
SHARES = {
    "dgx-v100": Fraction(4 * 100, 8),
    "dgx-2": Fraction(8 * 100, 16),
    "dgx-a100-80gb": Fraction(8 * 200, 8),
    "a100-80gb-4xhdr": Fraction(4 * 200, 8),
    "dgx-h100": Fraction(8 * 400, 8),
    "gb200-nvl72": Fraction(72 * 400, 72),
    "aws-p4d": Fraction(4 * 100, 8),
    "aws-p5": Fraction(32 * 100, 8),
    "oci-a100-80gb": Fraction(1600, 8),
    "a100-pcie": Fraction(4 * 200, 8),
    "ethernet-25-v100": Fraction(25, 8),
    "tpu-v4": Fraction(6 * 50 * 8),
    "dgx-b300": Fraction(8 * 800, 8),
    "gb300-nvl72": Fraction(72 * 800, 72),
    "gh200-4": Fraction(4 * 200, 4),
    "aws-trn2": Fraction(3200, 16),
    "aws-g5": Fraction(100, 8),
    "mi355x-8": Fraction(8 * 400, 8),
    "tpu-v7-pods": Fraction(100),
    "tpu-v5e-pods": Fraction(6400, 256),
}


@pytest.mark.parametrize(("name", "Gbit_per_s"), SHARES.items())
def test_network_share_of_a_device(name: str, Gbit_per_s: Fraction) -> None:
    cluster = hardware.cluster(f"{name}:4")
    outermost = len(cluster.levels) - 1
    achieved = cluster.levels[outermost].link.achieved_frac
    assert cluster.bandwidth_per_device_Bps(outermost) == pytest.approx(float(Gbit_per_s * 10**9 / 8) * achieved)
    assert cluster.bandwidth_per_device_Bps(0) == cluster.levels[0].link.rate_Bps
    assert cluster.link_per_device(outermost).effective().bandwidth_Bps == cluster.bandwidth_per_device_Bps(outermost)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
def test_sizes_multiply_and_shares_add_up(shape: list[tuple[int, int]]) -> None:
    cluster = made(*shape)
    inside = 1
    for index, (size, links) in enumerate(shape):
        assert cluster.devices_per_child(index) == inside
        assert cluster.bandwidth_per_device_Bps(index) * inside == pytest.approx(links * LINK.rate_Bps)
        inside *= size
        assert cluster.devices_per_unit(index) == inside
    assert cluster.num_devices == inside


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(1, 400))
def test_resizing_keeps_inner_levels_or_makes_one_smaller_unit(sizes: list[int], num_devices: int) -> None:
    cluster = made(*((size, 1) for size in sizes))
    try:
        resized = cluster.resized(num_devices)
    except BadInput:
        units = [cluster.devices_per_unit(level) for level in range(len(sizes) - 1)]
        assert any(num_devices > unit and num_devices % unit for unit in units)
        return
    assert resized.num_devices == num_devices
    assert [level.link for level in resized.levels] == [level.link for level in cluster.levels]
    filled = [level.size == old.size for level, old in zip(resized.levels, cluster.levels, strict=True)][:-1]
    partial = filled.index(False) if False in filled else len(filled)
    assert all(level.size == 1 for level in resized.levels[partial + 1 :])


def test_names_carry_the_number_of_nodes_and_gpus_override_it() -> None:
    assert [level.size for level in hardware.cluster("dgx-h100:64").levels] == [8, 64]
    assert hardware.cluster("dgx-h100").num_devices == 8
    assert [level.size for level in hardware.cluster("dgx-h100:64", gpus=16).levels] == [8, 2]
    assert [level.size for level in hardware.cluster("dgx-h100", gpus=4).levels] == [4, 1]
    assert hardware.cluster("gb200-nvl72:2").num_devices == 144


BAD_NAMES = {
    "partial node": (
        "dgx-h100",
        12,
        "do not fill whole units of level 'node' .8 devices each. of dgx-h100; try 8 or 16",
    ),
    "no gpus": ("dgx-h100", 0, "at least 1"),
    "negative": ("dgx-h100", -8, "at least 1"),
    "too many": ("dgx-h100", 8 * 10**9, "more than the 10000000 allowed"),
    "zero nodes": ("dgx-h100:0", None, "at least 1"),
    "negative nodes": ("dgx-h100:-1", None, "negative"),
    "part of a node": ("dgx-h100:1.5", None, "whole number"),
    "no number": ("dgx-h100:", None, "number of nodes"),
    "two colons": ("dgx-h100:4:4", None, "number of nodes"),
    "huge": ("dgx-h100:1e30", None, "too large"),
    "a unit": ("dgx-h100:4GB", None, "not a unit"),
    "typo": ("dgx-h10:4", None, "did you mean dgx-h100"),
    "no file": ("none.yaml", None, "no such file"),
    "empty": ("", None, "unknown cluster"),
}


@pytest.mark.parametrize(("name", "gpus", "message"), BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_bad_names_and_sizes(name: str, gpus: int | None, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        hardware.cluster(name, gpus)


@pytest.mark.parametrize(
    ("gpus", "rack", "racks"), [(512, 64, 8), (1024, 64, 16), (96, 48, 2), (144, 72, 2), (64, 64, 1)]
)
def test_a_rack_may_be_used_in_part(gpus: int, rack: int, racks: int) -> None:
    """The same number in each of the fewest racks that can share them evenly, with the ports of those devices only."""
    cluster = hardware.cluster("gb200-nvl72", gpus=gpus)
    assert [level.size for level in cluster.levels] == [rack, racks]
    said = any(f"{rack} of the 72 devices of each rack are used" in note for note in cluster.notes)
    assert said == (racks > 1 and rack < 72)
    whole = hardware.cluster("gb200-nvl72:16")
    if racks > 1:
        assert cluster.bandwidth_per_device_Bps(1) == whole.bandwidth_per_device_Bps(1)
    assert cluster.resized(576).num_devices == 576
    with pytest.raises(BadInput, match="try 72 or 144"):
        hardware.cluster("gb200-nvl72", gpus=73)


def test_a_pod_may_be_used_in_part() -> None:
    cluster = hardware.cluster("tpu-v4-pods", gpus=4096)
    assert [level.size for level in cluster.levels] == [4, 512, 2]
    assert "2048 of the 3072 devices of each pod are used" in cluster.notes[0]
    assert cluster.bandwidth_per_device_Bps(2) == hardware.cluster("tpu-v4-pods:2").bandwidth_per_device_Bps(2)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.integers(17, 80), st.integers(1, 100), st.integers(1, 2000))
def test_parts_of_a_unit_are_equal_and_no_device_gains_a_port(size: int, links: int, num_devices: int) -> None:
    cluster = made((size, 1), (4, links))
    try:
        resized = cluster.resized(num_devices)
    except BadInput:
        assert not any(num_devices % part == 0 for part in range(size // 2 + 1, size + 1))
        return
    assert resized.num_devices == num_devices
    inside = resized.levels[0].size
    assert inside <= size
    if resized.levels[1].size > 1 and links >= size:
        assert resized.bandwidth_per_device_Bps(1) <= cluster.bandwidth_per_device_Bps(1) * (1 + 1e-12)


MACHINES = {
    "rtx-4090": (1, "pcie4"),
    "rtx-4090:4": (4, "pcie4"),
    "h100-sxm:8": (8, "nvlink4"),
    "a100-pcie-80gb:8": (8, "pcie4"),
    "mi300x:8": (8, "infinity-fabric-mi300x"),
    "v100-sxm-32gb:16": (16, "nvlink2"),
    "gb200:72": (72, "nvlink5-rack"),
    "a100-pcie-40gb:2": (2, "pcie4"),
    "rtx-5090:6": (6, "pcie5"),
    "l40s:8": (8, "pcie4-no-peer"),
    "h200-nvl:4": (4, "nvlink4-direct"),
    "gb300:72": (72, "nvlink5-rack"),
    "trainium2:16": (16, "neuronlink3"),
}


@pytest.mark.parametrize(("name", "shape"), MACHINES.items())
def test_a_device_with_a_number_is_one_machine_with_its_links(name: str, shape: tuple[int, str]) -> None:
    found = hardware.cluster(name)
    assert (found.num_devices, found.num_nodes) == (shape[0], 1)
    assert [(level.size, level.link.name) for level in found.levels] == [shape]
    assert found.device == hardware.device(name.partition(":")[0])
    assert f"one machine of {shape[0]} {found.device.name}" in found.notes[0]
    assert hardware.cluster(found.device.name, gpus=shape[0]) == found


def test_cards_of_one_machine_share_its_memory() -> None:
    assert hardware.cluster("rtx-4090:4").devices_per_host == 4
    assert hardware.cluster("workstation-4090", gpus=4).devices_per_host == 1
    assert hardware.cluster("gb200:8").devices_per_host == hardware.cluster("gb200-nvl72").devices_per_host
    assert hardware.cluster("rtx-4090:4").host.memory_B == hardware.cluster("workstation-4090").host.memory_B


@pytest.mark.parametrize("device", hardware.devices(), ids=lambda device: device.name)
def test_every_device_of_the_catalog_has_a_machine(device: hardware.Device) -> None:
    found = hardware.cluster(f"{device.name}:2")
    assert found.device == device
    assert found.num_devices >= 2


ONLY_DEVICES = [device.name for device in hardware.devices() if device.name not in shelf().clusters]


@pytest.mark.parametrize("name", ONLY_DEVICES)
def test_a_device_with_a_number_is_one_machine_up_to_the_largest_built(name: str) -> None:
    """`name:n` has n devices in one machine, for every n up to the largest machine of that device."""
    insides = [cluster.levels[0] for cluster in hardware.clusters() if cluster.device.name == name]
    largest = max((8 if inside.link.name.startswith("pcie") else inside.size for inside in insides), default=8)
    for number in range(1, largest + 1):
        found = hardware.cluster(f"{name}:{number}")
        assert (found.num_devices, found.num_nodes, found.device.name) == (number, 1, name)
    with pytest.raises(BadInput, match=f"joins {largest + 1} {name}, at most {largest}"):
        hardware.cluster(f"{name}:{largest + 1}")


MIXED = {
    "plus": "h100-sxm:4+rtx-4090:4",
    "comma": "h100-sxm:4,a100-sxm-80gb:4",
    "and": "dgx-h100:2 and dgx-a100-80gb:2",
    "no number": "rtx-3090+rtx-4090",
}


@pytest.mark.parametrize("name", MIXED.values(), ids=MIXED.keys())
def test_a_cluster_of_two_kinds_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(BadInput, match=r"mixes .* and .*one kind of device, as ranks get equal shares.*slowest"):
        hardware.cluster(name)


def test_one_machine_named_twice_is_one_number() -> None:
    with pytest.raises(BadInput, match="names dgx-h100 2 times; give one number: dgx-h100:N"):
        hardware.cluster("dgx-h100:2+dgx-h100:2")
    with pytest.raises(BadInput, match="unknown cluster"):
        hardware.cluster("rtx-4090+rtx-9090")


@pytest.mark.parametrize("port", [None, "pcie5"])
def test_cards_without_a_known_node_communicate_over_their_host_port(port: str | None) -> None:
    """A device that does not say its port is taken for a card of PCIe 4; at most eight are in a machine."""
    link = None if port is None else hardware.link(port)
    card = replace(hardware.device("rtx-4090"), name="card", host_link=link)
    for number in (1, 8):
        found = machine(shelf(), card, number)
        assert [(level.size, level.link) for level in found.levels] == [(number, link or hardware.link("pcie4"))]
        assert found.device == card
        assert (found.host.link, found.host.devices) == (link, number) if link else found.host is None
    with pytest.raises(BadInput, match="no machine of the catalog joins 9 card, at most 8"):
        machine(shelf(), card, 9)


@pytest.mark.parametrize("name", ["rtx-4090:9", "h100-sxm:16", "gb200:144", "a100-pcie-40gb:9", "h200-nvl:8"])
def test_a_machine_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="no machine of the catalog joins"):
        hardware.cluster(name)


def test_a_resized_level_is_marked_as_chosen_by_the_user() -> None:
    resized = hardware.cluster("dgx-h100:64")
    assert resized.provenance["levels.fabric.size"].kind == "user"
    assert resized.provenance["levels.node.size"].kind == "datasheet"


def test_notes_about_units_are_kept_as_long_as_the_units_are() -> None:
    for shape in (((8, 1), (4, 8)), ((8, 1), (6, 8), (4, 2))):
        noted = replace(made(*shape), notes=("said of the units",))
        unit = noted.num_devices // noted.levels[-1].size
        for units in (1, 2, noted.levels[-1].size):
            assert noted.resized(units * unit).notes == noted.notes
        for devices in (4, unit // 2):
            assert noted.resized(devices).notes == ()


def test_level_spanned_is_the_smallest_unit_that_holds_the_group() -> None:
    cluster = made((8, 1), (4, 8), (3, 1))
    assert cluster.level_spanned([1, 2, 8, 9, 32, 33, 96]).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert cluster.level_spanned(np.array([[8], [16]])).shape == (2, 1)
    extents = np.arange(1, 97)
    brute = [next(i for i in range(3) if extent <= cluster.devices_per_unit(i)) for extent in extents]
    assert cluster.level_spanned(extents).tolist() == brute


def test_description_names_devices_links_and_shares() -> None:
    text = hardware.cluster("aws-p5:2").describe()
    assert "16 x h100-sxm" in text
    assert "efa-p5 (32 per node)" in text


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_of_the_core_are_positive_and_finite(number: float) -> None:
    device, cluster = hardware.device("h100-sxm"), made((8, 1))
    for thing, name in ((device, "memory_B"), (device, "tdp_W"), (LINK, "bandwidth_Bps"), (LINK, "achieved_frac"),
                        (cluster, "mtbf_s"), (cluster, "storage_write_Bps")):  # fmt: skip
        with pytest.raises(BadInput, match=name):
            replace(thing, **{name: number})
    with pytest.raises(BadInput, match="fp8"):
        replace(device, peak_flops={"fp8": number})


def test_other_impossible_clusters_are_refused() -> None:
    device, level = hardware.device("h100-sxm"), Level("l", 2, LINK)
    for make, message in (
        (lambda: Level("l", 0, LINK), "size must be a whole number"),
        (lambda: Level("l", 2, LINK, 0), "links_per_child"),
        (lambda: Cluster("c", device, ()), "at least one level"),
        (lambda: Cluster("c", device, (level, level)), "same name"),
        (lambda: replace(LINK, achieved_frac=1.5), "at most 1"),
        (lambda: replace(device, peak_flops={}), "empty"),
        (lambda: replace(device, peak_flops={"fp9": 1.0}), "did you mean"),
        (lambda: made((2, 1)).devices_per_child(-1), "levels 0 to 0"),
    ):
        with pytest.raises(BadInput, match=message):
            make()
