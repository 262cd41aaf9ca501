"""`Link`: a latency-bandwidth (alpha-beta) link between two endpoints.

A message of S bytes takes latency_s + S / (bandwidth_Bps * achieved_frac), the postal model of Hockney (1994).

`Host`: what devices reach of the machine they sit in, for states that do not stay on a device.

A device reaches host memory over a link that it may share with its neighbours (two GPUs behind one PCIe switch), so
when all of them move at once each has `link.rate_Bps / devices_per_link`, per direction. The memory and its bandwidth
are those of the whole machine, whose devices share them.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number, Whole
from lockstep.base.types.plain import Json, picked
from lockstep.describe.hardware.source import Provenance, check_positive


@dataclass(frozen=True, slots=True)
class Switch:
    """What the switch behind a link does in collectives: it adds what its ports receive, and copies what it sends."""

    latency_s: float
    """Seconds per message through it."""
    achieved_frac: float
    """Of its link's bandwidth, what large collectives reach."""
    start_s: float = 0.0
    """Seconds before the first message of a collective: launch, and ranks that wait for one another."""
    to_owner: bool = True
    """Whether it hands a sum to the rank that owns it, which sends it back for everyone (NVLink SHARP); otherwise it
    sends the sum to everyone itself (SHARP of InfiniBand)."""
    piece_B: float = 0.0
    """Least bytes of one rank's share of a segment: a library's buffers are no finer. 0 where any are."""

    def __post_init__(self) -> None:
        check_positive("switch", achieved_frac=self.achieved_frac)
        for name in ("latency_s", "start_s", "piece_B"):
            if getattr(self, name) != 0:
                check_positive("switch", **{name: getattr(self, name)})

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second of one rank of a group, by collective, where what it copies itself takes time; broadcasts."""

    all_reduce_Bps: Number
    gather_Bps: Number
    """Of all-gather and of reduce-scatter."""
    all_to_all_Bps: Number

    def of(self, op: str) -> Number | None:
        """The rate of one collective; None for those whose copies are not known."""
        known = {"all-reduce": self.all_reduce_Bps, "all-to-all": self.all_to_all_Bps}
        return self.gather_Bps if op in ("all-gather", "reduce-scatter") else known.get(op)


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link; every number is per direction and per endpoint (a GPU's whole NVLink, one NIC port)."""

    name: str
    latency_s: float
    """Alpha: seconds per message, software included."""
    bandwidth_Bps: float
    """Wire rate of the datasheet."""
    achieved_frac: float = 1.0
    """Fraction of the wire rate that large messages reach."""
    lowest_frac: float | None = None
    """Where that is assumed: the least that links of the kind were seen to reach. None where it is known."""
    highest_frac: float | None = None
    """The most."""
    reduce_s_per_B: float = 0.0
    """Gamma: seconds to reduce one received byte that do not hide behind the transfer; 0 when they do."""
    start_s: float = 0.0
    """Seconds before the first message of a collective: launch, and ranks that wait for one another."""
    copy_Bps: float | None = None
    """Rate at which a rank copies the last chunk of a collective out of the library's buffer; None hides this copy."""
    kept_Bps: float | None = None
    """Rate at which a rank copies the part of an all-to-all that it keeps; None hides this copy."""
    switch: Switch | None = None
    """How collectives go through a switch that reduces; None where it cannot, or is not used so."""
    provenance: Provenance = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        owner = f"link {self.name}"
        check_positive(owner, bandwidth_Bps=self.bandwidth_Bps, achieved_frac=self.achieved_frac)
        if self.achieved_frac > 1:
            raise BadInput(f"{owner}: achieved_frac must be at most 1, got {self.achieved_frac:g}")
        for name in ("latency_s", "reduce_s_per_B", "start_s"):
            if getattr(self, name) != 0:
                check_positive(owner, **{name: getattr(self, name)})
        check_positive(owner, lowest_frac=self.lowest_frac, highest_frac=self.highest_frac)
        check_positive(owner, copy_Bps=self.copy_Bps, kept_Bps=self.kept_Bps)

    @property
    def range_frac(self) -> tuple[float, float]:
        """Least and most of the wire rate that large messages may reach; twice the same where it is known."""
        ends = [self.achieved_frac, *(end for end in (self.lowest_frac, self.highest_frac) if end is not None)]
        return min(ends), max(ends)

    def reaching(self, achieved_frac: float) -> Link:
        """The link at another fraction of its wire rate, its switch slower or faster in proportion."""
        ratio = achieved_frac / self.achieved_frac
        switch = self.switch and replace(self.switch, achieved_frac=self.switch.achieved_frac * ratio)
        return replace(self, achieved_frac=achieved_frac, lowest_frac=None, highest_frac=None, switch=switch)

    @property
    def rate_Bps(self) -> float:
        """Bytes per second that large messages reach."""
        return self.bandwidth_Bps * self.achieved_frac

    def rates_among(self, ranks: Whole, rank_Bps: Number) -> Rates | None:
        """What collectives among so many ranks reach of a rank's `rank_Bps`; None where copies hide. Broadcasts.

        After n - 1 messages of S/n (2 (n - 1) in an all-reduce) the threads of a ring copy one such part (NCCL,
        src/device/all_reduce.h, `runRing`: the last primitive only receives); in an all-to-all a rank copies the part
        that it keeps (sendrecv.h). The copy lengthens every message alike.
        """
        if self.copy_Bps is None and self.kept_Bps is None:
            return None
        message_s_per_B, others = 1 / rank_Bps, np.maximum(ranks, 2) - 1
        copy_s_per_B, kept_s_per_B = (1 / rate / others if rate else 0.0 for rate in (self.copy_Bps, self.kept_Bps))
        return Rates(
            1 / (message_s_per_B + copy_s_per_B / 2),
            1 / (message_s_per_B + copy_s_per_B),
            1 / (message_s_per_B + kept_s_per_B),
        )

    def effective(self) -> Link:
        """The same link with its achieved rate as its bandwidth: what the cost formulas take."""
        rate_Bps, switch = self.rate_Bps, self.effective_switch
        return replace(
            self, bandwidth_Bps=rate_Bps, achieved_frac=1.0, lowest_frac=None, highest_frac=None, switch=switch
        )

    @property
    def effective_switch(self) -> Switch | None:
        """The switch as a part of the achieved rate."""
        return self.switch and replace(self.switch, achieved_frac=self.switch.achieved_frac / self.achieved_frac)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Host:
    """One machine of a cluster as its devices see it. Optional numbers are None where unknown."""

    link: Link
    """Between a device, or `devices_per_link` neighbours together, and host memory."""
    devices: int
    """Devices in one machine."""
    devices_per_link: int = 1
    memory_B: float | None = None
    """Host memory of one machine."""
    memory_bandwidth_Bps: float | None = None
    """Datasheet rate of all memory channels of one machine together."""
    provenance: Provenance = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, number in (("devices", self.devices), ("devices_per_link", self.devices_per_link)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise BadInput(f"host: {name} must be a whole number of at least 1, got {number!r}")
        check_positive("host", memory_B=self.memory_B, memory_bandwidth_Bps=self.memory_bandwidth_Bps)

    def rate_Bps(self, num_devices: int) -> float:
        """Bytes per second and direction of one device when `num_devices` devices, neighbours first, all move."""
        return self.link.rate_Bps / min(self.devices_per_link, num_devices)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)
