"""Energy and carbon of a run, from the power of its devices.

    energy = device hours x power x PUE,     carbon = energy x intensity of the grid
Power defaults to the device's TDP, as in published footprints; hosts, switches and storage are in it only where the
power given or the PUE (power usage effectiveness, facility over equipment) contains them. LLaMA-65B: 1,022,362 h x
400 W x 1.1 = 449 MWh, x 0.385 kg/kWh = 173 t.

Source: H. Touvron et al., "LLaMA: open and efficient foundation language models", arXiv 2302.13971, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockstep.errors import BadInput

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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"energy_J": self.energy_J, "carbon_kg": self.carbon_kg}


def energy(gpu_hours: float, power_W: float, *, pue: float = 1.0, carbon_kg_per_kWh: float | None = None) -> Energy:
    """Energy of `gpu_hours` device hours at `power_W` each. Raises BadInput."""
    if not pue >= 1:
        raise BadInput(f"a facility draws at least what its equipment does (1), got {pue:g}", "--pue")
    energy_J = gpu_hours * SECONDS_PER_HOUR * power_W * pue
    carbon_kg = None if carbon_kg_per_kWh is None else energy_J / J_PER_KWH * carbon_kg_per_kWh
    return Energy(energy_J, carbon_kg)
