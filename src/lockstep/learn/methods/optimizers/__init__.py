"""Optimisers, one file each: gradients in, directions out, the same for numpy arrays and torch tensors."""

from dataclasses import fields
from typing import Any

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.plain import Json
from lockstep.learn.methods.optimizers.adam import Adam
from lockstep.learn.methods.optimizers.lamb import Lamb
from lockstep.learn.methods.optimizers.lars import Lars
from lockstep.learn.methods.optimizers.momentum import Momentum
from lockstep.learn.methods.optimizers.muon import Muon
from lockstep.learn.methods.optimizers.optimizer import Layers, Optimizer, State, step
from lockstep.learn.methods.optimizers.sgd import Sgd
from lockstep.learn.methods.optimizers.sign import Sign

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
