"""The one schema of hardware descriptions: what the catalog's TOML and a user's YAML may say.

A file holds any of `devices`, `links`, `nodes` (named things that the rest of the file may use) and `cluster`:

    links:
      my-roce: {latency: 8 us, bandwidth: 200 Gbit/s, achieved: 85%, lowest: 60%, highest: 90%}
      my-quantum:                              # InfiniBand whose switches reduce (SHARP)
        {latency: 4 us, bandwidth: 400 Gbit/s, achieved: 90%, switch: {latency: 3 us, achieved: 90%, sums_to: everyone}}
    nodes:
      my-node:
        device: h100-sxm                       # a catalog name, a name of this file, or the device itself
        levels: [{name: node, size: 8, link: nvlink4}]
    cluster:
      name: my-cluster
      node: my-node                            # a catalog or own node; or `device` and all levels
      levels: [{name: fabric, size: 16, link: my-roce, links: 4}]    # 4 NICs per node
      host: {link: pcie5, memory: 2 TB}        # what a node's devices reach of its memory, for --offload
      price_per_hour: 2.20                     # dollars per device and hour
      storage_write: 40 GB/s

A device's `efficiency` is a curve of the catalog by name, or a mapping of its own (`CurveEntry`). Quantities are text
with a unit, or plain SI numbers, unless those can hardly be meant (`units.Plausible`): `latency: 8`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lockstep.base import units
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.describe.hardware.device import ONE_KIND


def _above_zero(parse: Callable[[object], float]) -> Callable[[object], float]:
    """`parse`, refusing zero."""

    def positive(value: object) -> float:
        number = parse(value)
        if number <= 0:
            raise BadInput(f"must be above zero, got {value!r}")
        return number

    return positive


def _plain(known: units.Plausible, parse: Callable[[object], float]) -> Callable[[object], float]:
    """`parse`, refusing a number without a unit that is not plausible as SI."""

    def checked(value: object) -> float:
        known.check(value)
        return parse(value)

    return checked


def _fraction(value: object) -> float:
    """A fraction above 0 and at most 1."""
    number = _above_zero(units.parse_frac)(value)
    if number > 1:
        raise BadInput(f"a fraction is at most 1 (or 100%), got {value!r}")
    return number


def _name(value: object) -> object:
    """Names are text even when they look like numbers or booleans."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _single_or_inline(value: object) -> object:
    """A reference is a name or a mapping; anything else would make pydantic explain both alternatives."""
    if not isinstance(value, (str, dict, BaseModel)):
        raise BadInput(f"expected a name or a mapping, got {value!r}")
    return value


def _one_kind(value: object) -> object:
    """One device or node: a list of them would be a cluster of several kinds."""
    if isinstance(value, list):
        raise BadInput(f"{ONE_KIND}; describe each kind in a file of its own, got {value!r}")
    return value


Name = Annotated[str, BeforeValidator(_name), Field(min_length=1, max_length=80)]
Size = Annotated[float, BeforeValidator(_plain(units.PLAIN_SIZE, _above_zero(units.parse_size_B)))]
Bandwidth = Annotated[float, BeforeValidator(_plain(units.PLAIN_BANDWIDTH, _above_zero(units.parse_bandwidth_Bps)))]
Mtbf = Annotated[float, BeforeValidator(_plain(units.PLAIN_MTBF, _above_zero(units.parse_time_s)))]
Latency = Annotated[float, BeforeValidator(_plain(units.PLAIN_LATENCY, units.parse_time_s))]
Flops = Annotated[float, BeforeValidator(_plain(units.PLAIN_FLOPS, _above_zero(units.parse_flops)))]
Power = Annotated[float, BeforeValidator(_above_zero(units.parse_power_W))]
Price = Annotated[float, BeforeValidator(_above_zero(units.parse_money_usd))]
Fraction = Annotated[float, BeforeValidator(_fraction)]
Share = Annotated[float, BeforeValidator(_above_zero(units.parse_frac))]
"""Of a rate that may itself be measured, so that it may be above 1."""
Least0 = Annotated[float, BeforeValidator(units.parse_frac), Field(ge=0)]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Count = Annotated[int, BeforeValidator(units.parse_integer)]
Dtype = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"]


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CurveEntry(Strict):
    """A device's own efficiency curve, as `lockstep bench device` measures it; keys as in `efficiency.Efficiency`."""

    matmul_max_frac: Share
    matmul_bytes_factor: Least0
    stream_frac: Share
    attention_forward_frac: Share
    attention_backward_frac: Share
    launch_s: Latency
    kind: Literal["measured", "fitted", "assumed"]
    source: Annotated[str, Field(min_length=1)]
    date: Date
    typical_error_frac: Least0


CurveReference = Annotated[Annotated[str, Field(min_length=1)] | CurveEntry, BeforeValidator(_single_or_inline)]


class DeviceEntry(Strict):
    """An accelerator."""

    vendor: Name = "unknown"
    memory: Size
    memory_bandwidth: Bandwidth
    peak_flops: Annotated[dict[Dtype, Flops], Field(min_length=1)]
    efficiency: CurveReference
    """A curve of the catalog by name, or its own."""
    tdp: Power | None = None
    price_per_hour: Price | None = None
    mtbf: Mtbf | None = None
    host_link: Name | None = None
    """The link of the catalog by which it reaches host memory."""
    successors: Annotated[list[Name], Field(max_length=8)] = []
    """Clusters of its next generation, which upgrades try."""
    source: str | None = None


class SwitchEntry(Strict):
    """Collectives in the switch behind a link (NVLink SHARP, SHARP of InfiniBand)."""

    latency: Latency
    achieved: Fraction
    """Of the link's bandwidth, what traffic that the switch adds or copies reaches."""
    start: Latency = 0.0
    """Time before the first message of a collective."""
    sums_to: Literal["owner", "everyone"] = "owner"
    """Whom the switch sends a sum: the rank that owns it, which multicasts it, or everyone."""
    piece: Size = 0.0
    """Least bytes of one rank's share of what is in the switch at a time."""


class LinkEntry(Strict):
    """A link; rates per direction and endpoint. `reduce_bandwidth` is absent when reductions hide behind transfers."""

    latency: Latency
    bandwidth: Bandwidth
    achieved: Fraction = 1.0
    lowest: Fraction | None = None
    """Where `achieved` is a guess: the least it may be, for the interval of an answer."""
    highest: Fraction | None = None
    """And the most."""
    reduce_bandwidth: Bandwidth | None = None
    start: Latency = 0.0
    """Time before the first message of a collective."""
    copy_bandwidth: Bandwidth | None = None
    """At which a rank copies a collective's last chunk out of the library's buffer, beside nothing."""
    kept_bandwidth: Bandwidth | None = None
    """At which a rank copies the part of an all-to-all that it keeps, beside nothing."""
    switch: SwitchEntry | None = None
    """Absent where no switch reduces, or it is not used."""
    measured: Date | None = None
    """Day on which all of its numbers were measured."""
    source: str | None = None


DeviceReference = Annotated[
    Annotated[str, Field(min_length=1)] | DeviceEntry, BeforeValidator(_single_or_inline), BeforeValidator(_one_kind)
]
LinkReference = Annotated[Annotated[str, Field(min_length=1)] | LinkEntry, BeforeValidator(_single_or_inline)]


class LevelEntry(Strict):
    """A level: `size` children, each with `links` links."""

    name: Name
    size: Count
    link: LinkReference
    links: Count = 1
    links_per_group: Count | None = None
    crowding: float = 0.0


class HostEntry(Strict):
    """The machine around the devices; what is left out is the device's own `host_link`, or unknown."""

    link: LinkReference | None = None
    devices: Count | None = None
    """Devices in one machine: those of the node, or of a unit of the innermost level."""
    devices_per_link: Count = 1
    memory: Size | None = None
    memory_bandwidth: Bandwidth | None = None
    source: str | None = None


class NodeEntry(Strict):
    """A kind of node: its device and the levels inside it."""

    device: DeviceReference
    levels: Annotated[list[LevelEntry], Field(min_length=1, max_length=8)]
    host: HostEntry | None = None


class FactorEntry(Strict):
    """Kernels of a kind, or the host, take `factor` times as long as predicted."""

    factor: Share
    error: Least0 = 0.0
    """Its relative standard deviation."""


class ProductsEntry(Strict):
    """Matrix products as a run's recorded shapes show them: constants of the device's curve with 95 % intervals."""

    max_frac: Share
    max_frac_ci95: tuple[Share, Share]
    bytes_factor: Least0
    bytes_factor_ci95: tuple[Least0, Least0]
    shapes: Count
    """How many different products they rest on."""


class PaceEntry(Strict):
    """How much longer than predicted kernels and host take on a cluster, as `calibrate` and `diagnose` find it."""

    factor: Share
    """Of all kernels and the host that have no factor of their own below."""
    error: Least0
    """Relative error that is left in step times."""
    matmul: FactorEntry | None = None
    attention: FactorEntry | None = None
    stream: FactorEntry | None = None
    """Norms and elementwise kernels."""
    optimizer: FactorEntry | None = None
    launch: FactorEntry | None = None
    """The host at every launch of a kernel."""
    step: FactorEntry | None = None
    """The host at every step beside its launches: loading data, clipping, logging."""
    products: ProductsEntry | None = None
    """Instead of the curve's own constants and of `matmul`."""
    source: Annotated[str, Field(min_length=1)]
    date: Date


class ClusterEntry(Strict):
    """A cluster: a node and the levels above it, or a device and all levels."""

    name: Name | None = None
    node: Annotated[Name | None, BeforeValidator(_one_kind)] = None
    device: DeviceReference | None = None
    pace: PaceEntry | None = None
    """Of the device's kernels and of software on its host."""
    levels: Annotated[list[LevelEntry], Field(max_length=8)] = []
    price_per_hour: Price | None = None
    mtbf: Mtbf | None = None
    storage_write: Bandwidth | None = None
    rank_spread: Annotated[float, BeforeValidator(units.parse_frac)] | None = None
    """Standard deviation of the devices' speeds over their mean."""
    host: HostEntry | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _node_or_device(self) -> ClusterEntry:
        if (self.node is None) == (self.device is None):
            raise BadInput("give either `node` (and the levels above it) or `device` (and all levels)")
        if self.device is not None and not self.levels:
            raise BadInput("give `levels`, innermost first")
        return self


class HardwareFile(Strict):
    """A user's file, and, without `cluster`, each file of the catalog."""

    devices: dict[str, DeviceEntry] = {}
    links: dict[str, LinkEntry] = {}
    nodes: dict[str, NodeEntry] = {}
    clusters: dict[str, ClusterEntry] = {}
    cluster: ClusterEntry | None = None


def json_schema() -> Json:
    """The schema as JSON Schema, for documentation and editors."""
    return HardwareFile.model_json_schema()
