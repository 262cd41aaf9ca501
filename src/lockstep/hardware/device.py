"""`Device`: one accelerator, with its dense peak rates, memory and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.errors import BadInput, UnknownName
from lockstep.hardware.efficiency import Efficiency
from lockstep.hardware.link import Link
from lockstep.hardware.source import Provenance, check_positive, provenance_dict

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator. Optional numbers are None where unknown; they never have a silent default."""

    name: str
    vendor: str
    memory_B: float
    """Bytes that one program can address, which is less than the label says: an A100-80GB exposes 79.25 GiB."""
    memory_bandwidth_Bps: float
    peak_flops: Mapping[str, float] = field(hash=False)
    """Dense FLOP/s by number format (never the sparse rate), by the fastest unit that computes in that format."""
    efficiency: Efficiency
    tdp_W: float | None = None
    price_per_hour_usd: float | None = None
    mtbf_s: float | None = None
    """Mean time between failures that interrupt a job, per device in service."""
    host_link: Link | None = None
    """The port by which it reaches host memory; machines may join several devices to one (`Host`)."""
    successors: tuple[str, ...] = ()
    """Clusters of its next generation."""
    provenance: Provenance = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        owner = f"device {self.name}"
        check_positive(owner, memory_B=self.memory_B, memory_bandwidth_Bps=self.memory_bandwidth_Bps)
        check_positive(owner, tdp_W=self.tdp_W, price_per_hour_usd=self.price_per_hour_usd, mtbf_s=self.mtbf_s)
        if not self.peak_flops:
            raise BadInput(f"{owner}: peak_flops is empty; give at least one of {', '.join(DTYPES)}")
        for dtype, rate in self.peak_flops.items():
            if dtype not in DTYPES:
                raise UnknownName("number format", dtype, DTYPES, owner)
            check_positive(f"{owner} peak_flops", **{dtype: rate})

    def peak(self, dtype: str) -> float:
        """Dense peak FLOP/s in `dtype`. Raises BadInput when this device has no unit for it."""
        rate = self.peak_flops.get(dtype)
        if rate is None:
            known = ", ".join(self.peak_flops)
            raise BadInput(f"{self.name} has no peak rate for {dtype!r}; it has {known}")
        return rate

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "name": self.name,
            "vendor": self.vendor,
            "memory_B": self.memory_B,
            "memory_bandwidth_Bps": self.memory_bandwidth_Bps,
            "peak_flops": dict(self.peak_flops),
            "efficiency": {**self.efficiency.to_dict(), "kind": self.efficiency.kind_on(self.name)},
            "tdp_W": self.tdp_W,
            "price_per_hour_usd": self.price_per_hour_usd,
            "mtbf_s": self.mtbf_s,
            "host_link": None if self.host_link is None else self.host_link.name,
            "provenance": provenance_dict(self.provenance),
        }
