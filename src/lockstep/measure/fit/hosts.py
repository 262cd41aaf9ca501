"""Which devices of which hosts took part in a measurement, as far as the text says it.

nccl-tests prints one line per rank, `#  Rank  0 Group  0 Pid 4711 on node-1 device  0 [0000:07:00] NVIDIA H100`. Its
groups are communicators of their own that run at the same time (NCCL_TESTS_SPLIT); the times are of one of them.

Source: github.com/NVIDIA/nccl-tests, src/common.cu, `writeDeviceReport` and the lines before it in older versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.errors import BadInput

_RANK = re.compile(r"^#\s+Rank\s+\d+(?:\s+Group\s+(\d+))?(?:.*?\son\s+(\S+)\s+device\s+(\d+))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts of one group of ranks, and the devices of each that took part."""

    devices: Mapping[str, tuple[int, ...]]

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return sum(len(devices) for devices in self.devices.values())

    @property
    def ranks_each(self) -> int:
        """Ranks per host. Raises BadInput when hosts have different numbers of them."""
        numbers = sorted({len(devices) for devices in self.devices.values()})
        if len(numbers) > 1:
            raise BadInput(
                f"hosts hold {numbers[0]} to {numbers[-1]} ranks, so no link has a rate of its own; "
                "measure with the same number on every host",
                "FILE",
            )
        return numbers[0]

    def local(self) -> tuple[int, ...]:
        """Devices of one host; numbered from 0 where the text numbers them alike, as containers do."""
        devices = next(iter(self.devices.values()))
        return devices if len(set(devices)) == len(devices) else tuple(range(len(devices)))

    def __str__(self) -> str:
        hosts = len(self.devices)
        return f"{self.ranks} ranks on one host" if hosts == 1 else f"{self.ranks} ranks on {hosts} hosts"


def read_hosts(text: str, where: str) -> tuple[int, Hosts | None]:
    """(ranks of a group, its hosts) by the rank lines of nccl-tests; (0, None) without them. Raises BadInput."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for found in _RANK.finditer(text):
        groups.setdefault(found[1] or "0", []).append((found[2] or "", found[3] or ""))
    if not groups:
        return 0, None
    sizes = sorted({len(lines) for lines in groups.values()})
    if len(sizes) > 1:
        raise BadInput(f"its groups have {sizes[0]} to {sizes[-1]} ranks; give the output of equal groups", where)
    lines = next(iter(groups.values()))
    if not all(host for host, _ in lines):
        return sizes[0], None
    devices: dict[str, tuple[int, ...]] = {}
    for host, device in lines:
        devices[host] = (*devices.get(host, ()), int(device[:9]))
    return sizes[0], Hosts(devices)
