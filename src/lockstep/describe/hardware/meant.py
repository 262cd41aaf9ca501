"""`meant`: the name of a cluster behind what people write for one: `512 H100` is `dgx-h100:64`."""

from __future__ import annotations

import re

from lockstep.describe.hardware import shipped
from lockstep.describe.hardware.shipped import shelf

LONGEST = 100
"""Letters of a name of which it is asked what was meant."""
NUMBER = r"(?P<number>\d+(?:[,_ ]\d{3}(?!\d))*)"
BEFORE = re.compile(rf"{NUMBER}\s*(?:[x×*]\s*)?(?P<nodes>(?:nodes?|machines?)\s*(?:of\s*|x\s*)?)?(?P<name>\S.*)", re.I)
BEHIND = re.compile(rf"(?P<name>\S.*?)\s*[x×*: ]\s*{NUMBER}(?P<nodes>\s*(?:nodes?|machines?))?", re.I)
MAKERS = frozenset(("nvidia", "amd", "intel", "google", "gpu", "gpus", "geforce", "instinct", "of"))
"""Words beside the name of a device that do not tell it from others."""


def meant(said: str) -> str | None:
    """A cluster of the catalog with its number of nodes, or one machine of a device; None where nothing is understood.

    A number beside the name of a cluster is one of nodes, beside that of a device one of devices.
    """
    for pattern in (BEFORE, BEHIND) if len(said) <= LONGEST else ():
        match = pattern.fullmatch(said.strip())
        if match is not None:
            number, name = int(re.sub(r"\D", "", match["number"])), match["name"].strip().lower()
            if number and (found := _named(name, number, bool(match["nodes"]))):
                return found
    return None


def _named(name: str, number: int, nodes: bool) -> str | None:
    """The cluster or device with a number behind it."""
    if name in shelf().clusters:
        return f"{name}:{number}"
    device = _device(name)
    if device is None:
        return None
    machines = [(one, one.devices_per_child(len(one.levels) - 1)) for one in shelf().clusters.values()]
    machines = [one for one in machines if one[0].device.name == device]
    if not machines:
        return f"{device}:{number}"
    like, per_node = next((one for one in machines if one[1] > 1), machines[0])
    if nodes or number % per_node == 0:
        return f"{like.name}:{number if nodes else number // per_node}"
    return f"{device}:{number}" if number < per_node else None


def _device(name: str) -> str | None:
    """The device that has all words of a name; of several one without PCIe, with the most memory."""
    words = {one.removesuffix("s") for one in re.findall(r"[a-z0-9]+", name)} - MAKERS
    if not words:
        return None
    if name in {one.name for one in shipped.devices().every()}:
        return name
    found = [one for one in shipped.devices().every() if words <= set(one.name.split("-"))]
    exact = [one for one in found if set(one.name.split("-")) == words]
    ordered = sorted(exact or found, key=lambda one: ("pcie" in one.name, -one.memory_B, one.name))
    return ordered[0].name if ordered else None
