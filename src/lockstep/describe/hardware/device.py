"""`Device`: one accelerator, with its dense peak rates, memory and where each number comes from.

`Efficiency`: how much of its datasheet a device reaches, as one smooth curve per device type.

A matrix product of m x k by k x n takes

    t = 2mnk / (peak * matmul_max_frac) + matmul_bytes_factor * bytes / memory_bandwidth

and never less than bytes / memory_bandwidth, which binds only for products of a few dozen rows, where the factor is
below 1. So its efficiency rises from the memory-bound rate towards `matmul_max_frac` as the operands grow. Everything
else that touches memory runs at `stream_frac` of the memory bandwidth, attention by the kernel that software chooses
(`attention.py`). What software adds on the host is in `stacks/`. Where the numbers come from is written in
`catalog/efficiency.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.brief import Brief
from lockstep.base.types.plain import Json, picked, plain
from lockstep.describe.hardware.attention import AttentionKernel
from lockstep.describe.hardware.link import Link
from lockstep.describe.hardware.power import PowerLimit
from lockstep.describe.hardware.source import Provenance, check_positive

CALIBRATED = "calibrated"
BORROWED_ERROR_FRAC = 0.20
"""Assumed error of a curve on a device that it was not fitted to."""
ONE_KIND = (
    "a cluster has one kind of device, as ranks get equal shares of the work: every step would wait for the slowest"
    " device, and the smallest memory would bound the layout of all"
)
"""Why device types are not mixed in a cluster."""
SCALED = {"mxfp8": "fp8", "nvfp4": "fp4"}
"""Formats with a scale for every few numbers (32 of mxfp8, 16 of nvfp4), and the unit that multiplies them."""
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved fractions of datasheet rates."""

    name: str
    matmul_max_frac: float
    """Fraction of the dense peak that a matrix product of unlimited size reaches."""
    matmul_bytes_factor: float
    """Seconds of a product's operand traffic (at datasheet bandwidth) that do not hide behind its arithmetic."""
    stream_frac: float
    """Fraction of the memory bandwidth that elementwise kernels reach."""
    attention_forward_frac: float
    """Fraction of the peak that a fused attention kernel reaches where `attention` has none that the software uses."""
    attention_backward_frac: float
    """The same, backward."""
    launch_s: float
    """Least time from one kernel to the next, whatever the software."""
    kind: str
    """fitted, measured, assumed, or calibrated: to steps on the cluster itself."""
    devices: tuple[str, ...]
    """Devices whose runs the curve was fitted to; on any other it is borrowed, and counts as assumed."""
    source: str
    date: str
    typical_error_frac: float
    """Relative error in step time to expect from the curve: the mean over programs of the median error of each, none of
    them fitted to, where steps of three programs and more are published (`catalog/typical_errors.toml`).
    """
    attention: Mapping[str, AttentionKernel] = field(default_factory=dict, hash=False)
    """Fused attention kernels measured on the device, by name."""
    host_factor: float = 1.0
    """Factor on all host times of the software."""
    step_factor: float = 1.0
    """Further factor on what a step costs the host beside its launches."""
    fp8_frac: float = 1.0
    """Fraction of the peak that products reach in fp8, over that in half precision."""
    fp8_bytes_factor: float = 1.0
    """Factor on `matmul_bytes_factor` of products in fp8."""
    fp4_frac: float = 1.0
    """The same as `fp8_frac`, of products in fp4."""
    fp4_bytes_factor: float = 1.0
    """The same as `fp8_bytes_factor`, of products in fp4."""
    same_chip: tuple[str, ...] = ()
    """Other devices with the same chip, which differ in memory and limits that the catalog states."""
    like: str = ""
    """The curve from which constants are taken that were not measured on the device."""
    optimizer_factor: float = 1.0
    """Factor on the seconds of an update beyond what its memory traffic at `stream_frac` takes."""
    traffic_device_frac: float = 0.0
    """Share of the device, arithmetic and memory bandwidth alike, that collectives take from kernels beside them."""
    rank_spread_frac: float = 0.0
    """Standard deviation of the speeds of such devices over their mean, found with the other constants."""
    gap_s: float = 0.0
    """Seconds from the end of a kernel to the start of the next, where the host is ahead."""
    power: PowerLimit | None = None
    """The power limit of products and attention that share a step; None if rates already are those inside of steps."""

    def kernel(self, wanted: Iterable[str]) -> tuple[str, AttentionKernel]:
        """Name and rates of the first attention kernel of `wanted` that was measured here; else of `fused`, any.

        A kernel that software takes on the devices of one curve alone is called `kernel@curve`.
        """
        asked = (one.partition("@") for one in wanted)
        here = (name for name, _, only in asked if only in ("", self.name))
        found = next((name for name in here if name in self.attention), None)
        if found is None:
            return "fused", AttentionKernel(self.attention_forward_frac, self.attention_backward_frac)
        return found, self.attention[found]

    def narrow_frac(self, dtype: str) -> float:
        """Fraction of the peak that products reach in a format over that in half precision."""
        return {"fp8": self.fp8_frac, "fp4": self.fp4_frac}.get(SCALED.get(dtype, dtype), 1.0)

    def narrow_bytes_factor(self, dtype: str) -> float:
        """Factor on `matmul_bytes_factor` of products in a format."""
        return {"fp8": self.fp8_bytes_factor, "fp4": self.fp4_bytes_factor}.get(SCALED.get(dtype, dtype), 1.0)

    def kind_on(self, device: str) -> str:
        """The curve's kind for a device: assumed where it is borrowed from another one."""
        return self.kind if device in self.devices else "assumed"

    def error_frac_on(self, device: str) -> float:
        """Relative error in step time to expect on a device: at least BORROWED_ERROR_FRAC with a borrowed curve."""
        return self.typical_error_frac if device in self.devices else max(self.typical_error_frac, BORROWED_ERROR_FRAC)

    def slowed(
        self, factor: float, matmul: float | None = None, attention: float | None = None, stream: float | None = None,
        optimizer: float | None = None, launch: float | None = None, step: float | None = None,
    ) -> Efficiency:  # fmt: skip
        """The curve of software whose kernels and host work take `factor` times as long, some of them others.

        `launch` is of the host at each launch, `step` of the host at each step.
        """
        kinds = (matmul, attention, stream, optimizer, launch, step)
        products, attends, streams, updates, launches, steps = (factor if one is None else one for one in kinds)
        return replace(
            self,
            matmul_max_frac=self.matmul_max_frac / products,
            matmul_bytes_factor=self.matmul_bytes_factor * products,
            stream_frac=self.stream_frac / streams,
            attention_forward_frac=self.attention_forward_frac / attends,
            attention_backward_frac=self.attention_backward_frac / attends,
            attention={name: one.slowed(attends) for name, one in self.attention.items()},
            launch_s=self.launch_s * factor,
            gap_s=self.gap_s * factor,
            power=self.power and self.power.slowed(products, attends, streams),
            host_factor=self.host_factor * launches,
            step_factor=self.step_factor * steps / launches,
            optimizer_factor=self.optimizer_factor * updates / streams,
        )

    def limited(self, limit_W: float) -> Efficiency:
        """The curve of the same device held to another power. Raises BadInput where what it draws is not known."""
        if self.power is None:
            raise BadInput(f"curve {self.name} does not state the power that its kernels draw")
        lower = replace(self.power, limit_W=limit_W)
        alone, fp8 = (lower.alone_frac(dtype) / self.power.alone_frac(dtype) for dtype in ("bf16", "fp8"))
        return replace(
            self, matmul_max_frac=self.matmul_max_frac * alone, fp8_frac=self.fp8_frac * fp8 / alone, power=lower
        )

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, without="host_factor step_factor optimizer_factor")


@cache
def curves() -> dict[str, Efficiency]:
    """Every efficiency curve of the catalog by name."""
    typical = _entries("typical_errors")
    entries = _entries("efficiency")
    return {name: _curve(name, _filled(entry, entries), typical) for name, entry in entries.items()}


def _filled(entry: Json, entries: Json) -> Json:
    """The entry with what it does not state as in the curve that it is like."""
    base: Json = _filled(entries[entry["like"]], entries) if "like" in entry else {}
    kernels = base.get("attention", {}) | entry.get("attention", {})
    return {**base, **entry, **({"attention": kernels} if kernels else {})}


def _entries(file: str) -> Json:
    table: Json = shipped_table("lockstep.describe.hardware", "catalog", f"{file}.toml")
    return table


def _curve(name: str, entry: Json, typical: Json) -> Efficiency:
    kernels = {
        kernel: AttentionKernel(**{**rates, "head_sizes": tuple(rates.get("head_sizes", ()))})
        for kernel, rates in entry.get("attention", {}).items()
    }
    error = {"typical_error_frac": typical[name]} if name in typical else {}
    power = PowerLimit(**entry["power"]) if "power" in entry else None
    several: Json = {name: tuple(entry.get(name, ())) for name in ("devices", "same_chip")}
    several |= {"attention": kernels, "power": power}
    return Efficiency(name=name, **{**entry, **error, **several})


def measured_on_steps(name: str) -> bool:
    """Whether steps of several programs are published on the devices of a curve."""
    return name in _entries("typical_errors")


def efficiency(name: str) -> Efficiency:
    """The curve called `name`. Raises UnknownName."""
    found = curves().get(name)
    if found is None:
        raise UnknownName("efficiency curve", name, curves())
    return found


@dataclass(frozen=True, slots=True, repr=False)
class Device(Brief):
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
        rate = self.peak_flops.get(SCALED.get(dtype, dtype))
        if rate is None or not self.takes(dtype):
            known = ", ".join([*self.peak_flops, *filter(self.takes, SCALED)])
            raise BadInput(f"{self.name} has no peak rate for {dtype!r}; it has {known}")
        return rate

    def takes(self, dtype: str) -> bool:
        """Whether its units multiply a format: scales by block where they have fp4 too, NVIDIA's own on NVIDIA's."""
        if dtype in SCALED:
            return "fp4" in self.peak_flops and (dtype != "nvfp4" or self.vendor == "NVIDIA")
        return dtype in self.peak_flops

    def paced(self, factor: float, error_frac: float, source: str, date: str) -> Device:
        """The device on which kernels and host take `factor` times as long, known to `error_frac` from steps on it."""
        return self.calibrated(self.efficiency.slowed(factor), error_frac, source, date)

    def calibrated(self, curve: Efficiency, error_frac: float, source: str, date: str) -> Device:
        """The device with a curve that steps or kernels on it showed."""
        known = replace(
            curve, kind=CALIBRATED, devices=(self.name,), source=source, date=date, typical_error_frac=error_frac
        )
        return replace(self, efficiency=known)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "name vendor memory_B memory_bandwidth_Bps peak_flops"),
            "efficiency": {**self.efficiency.to_dict(), "kind": self.efficiency.kind_on(self.name)},
            **picked(self, "tdp_W price_per_hour_usd mtbf_s"),
            "host_link": None if self.host_link is None else self.host_link.name,
            "provenance": plain(self.provenance),
        }
