"""`Machine`: what programs need to know of a cluster: levels, innermost first, and the link between devices of each.

`lockstep.describe.hardware.Cluster` is one; programs are priced and played without knowing where it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Level(Protocol):
    """One level: `size` children, each with `links_per_child` links."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def link(self) -> Any:
        """A `LinkLike`, which may have `reduce_s_per_B` and `effective`."""
        ...

    @property
    def links_per_child(self) -> int: ...


class Machine(Protocol):
    """Devices in a hierarchy of levels; rank r of a program is device r."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> Sequence[Level]: ...

    @property
    def num_devices(self) -> int: ...

    @property
    def mtbf_s(self) -> float | None:
        """Mean time between failures of a device in seconds; None where it is unknown."""
        ...

    def devices_per_unit(self, level: int) -> int:
        """Devices in one unit of a level."""
        ...

    def link_per_device(self, level: int) -> Any:
        """The link that each device has at a level when all of them send, a `LinkLike`."""
        ...
