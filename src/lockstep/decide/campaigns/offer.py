"""`Offer`: the same campaign on demand, reserved, and on spot devices that may be taken away.

    reserved    price x (1 - discount)
    spot        price x (1 - discount), and nodes / preemption_s more interruptions per second
A preemption is a failure like any other: noticed, restarted from the last checkpoint on another node. Providers warn
some seconds to minutes ahead, which is not used to save. Discounts and preemptions differ by provider, region and
month: there are no defaults.

`energy`: energy and carbon of a run, from the power of its devices.

    energy = device hours x power x PUE,     carbon = energy x intensity of the grid
Power defaults to the device's TDP, as in published footprints; hosts, switches and storage are in it only where the
power given or the PUE (power usage effectiveness, facility over equipment) contains them. LLaMA-65B: 1,022,362 h x
400 W x 1.1 = 449 MWh, x 0.385 kg/kWh = 173 t.

Source: H. Touvron et al., "LLaMA: open and efficient foundation language models", arXiv 2302.13971, section 6.
"""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.campaigns.operation import Operation
from lockstep.decide.campaigns.run import Run

J_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Energy:
    """What a run draws."""

    energy_J: float
    carbon_kg: float | None
    """None where the grid is not known."""

    @property
    def energy_kWh(self) -> float:
        """The same in kilowatt hours."""
        return self.energy_J / J_PER_KWH

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def energy(gpu_hours: float, power_W: float, *, pue: float = 1.0, carbon_kg_per_kWh: float | None = None) -> Energy:
    """Energy of `gpu_hours` device hours at `power_W` each. Raises BadInput."""
    if not pue >= 1:
        raise BadInput(f"a facility draws at least what its equipment does (1), got {pue:g}", "--pue")
    energy_J = gpu_hours * SECONDS_PER_HOUR * power_W * pue
    carbon_kg = None if carbon_kg_per_kWh is None else energy_J / J_PER_KWH * carbon_kg_per_kWh
    return Energy(energy_J, carbon_kg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What is known about prices besides the one on demand."""

    reserved_discount_frac: float | None = None
    spot_discount_frac: float | None = None
    preemption_s: float | None = None
    """Mean time until one node is taken away."""

    def __post_init__(self) -> None:
        for flag, frac in (("--reserved-discount", self.reserved_discount_frac),
                           ("--spot-discount", self.spot_discount_frac)):  # fmt: skip
            if frac is not None and not 0 <= frac < 1:
                raise BadInput(f"must be from 0 to below 1, got {frac:g}", flag)
        if (self.spot_discount_frac is None) != (self.preemption_s is None):
            raise BadInput("--spot-discount and --preemption belong together", "--spot-discount")
        if self.preemption_s is not None and not self.preemption_s > 0:
            raise BadInput("must be above 0", "--preemption")


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to pay."""

    name: str
    price_per_hour_usd: float
    days: float
    cost_usd: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "name price_per_hour_usd days") | {"cost": self.cost_usd}


def spot_operation(operation: Operation, preemption_s: float, devices_per_node: int) -> Operation:
    """`operation` with preemptions among its failures: rates add up."""
    rate_per_s = 1 / operation.device_mtbf_s + 1 / (preemption_s * devices_per_node)
    return replace(operation, device_mtbf_s=1 / rate_per_s, law=None)


def offer(name: str, run: Run, price_per_hour_usd: float) -> Offer:
    """What `run` costs at a price per device and hour."""
    return Offer(name, price_per_hour_usd, run.days, run.paid_hours * price_per_hour_usd)
