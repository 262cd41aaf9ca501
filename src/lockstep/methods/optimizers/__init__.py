"""Optimisers, one file each: gradients in, directions out, the same for numpy arrays and torch tensors."""

from dataclasses import fields
from typing import Any

from lockstep.errors import BadInput, UnknownName
from lockstep.methods.optimizers.adam import Adam
from lockstep.methods.optimizers.lamb import Lamb
from lockstep.methods.optimizers.lars import Lars
from lockstep.methods.optimizers.momentum import Momentum
from lockstep.methods.optimizers.muon import Muon
from lockstep.methods.optimizers.optimizer import Layers, Optimizer, State, step
from lockstep.methods.optimizers.sgd import Sgd
from lockstep.methods.optimizers.sign import Sign
from lockstep.types.plain import Json

OPTIMIZERS: Json = {one.name: one for one in (Sgd, Momentum, Adam, Lars, Lamb, Muon, Sign)}


def optimizer(name: str, **settings: Any) -> Optimizer:
    """The optimiser of that name with its settings. Raises `BadInput` for what it does not have."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    kind = OPTIMIZERS[name]
    allowed = [one.name for one in fields(kind)]
    unknown = sorted(set(settings) - set(allowed))
    if unknown:
        raise BadInput(f"{name} has no {', '.join(unknown)}; it has {', '.join(allowed)}")
    made: Optimizer = kind(**settings)
    return made


__all__ = [
    "OPTIMIZERS",
    "Adam",
    "Lamb",
    "Lars",
    "Layers",
    "Momentum",
    "Muon",
    "Optimizer",
    "Sgd",
    "Sign",
    "State",
    "optimizer",
    "step",
]
