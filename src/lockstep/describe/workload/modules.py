"""`Modules`: which matrices of a model are linear layers of their own in transformers' classes, as adapters find them.

Source: `modules.toml`, by `model_type`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.types.plain import Json

JOINT = {"qkv": ("query", "key", "value"), "gate_up": ("gate", "up"), "shared_gate_up": ("shared gate", "shared up")}
"""Matrices that may be one linear layer; its adapter has one A."""


@dataclass(frozen=True, slots=True)
class Modules:
    """What adapters find in a class of models."""

    joint: tuple[str, ...] = ()
    """Keys of JOINT."""
    experts: str = "apart"
    """Each expert's matrix is a linear layer (apart), or all experts' are one parameter: adapters are added to it
    (summed), or do not reach it (unreached)."""
    router: bool = False
    """Adapters on all linear layers are on the router too."""


SEPARATE = Modules()
"""Of a class that is not known: a linear layer for every matrix."""


@cache
def modules_of(model_type: str) -> Modules:
    """What adapters find in models of a type; a type that is not known has a linear layer for every matrix."""
    found = _table()
    experts = next((kind for kind in ("summed", "unreached") if model_type in found["experts"][kind]), "apart")
    router = experts == "summed" or model_type in found["experts"]["routers"]
    return Modules(tuple(found["joint"].get(model_type, ())), experts, router)


def model_type(name: str) -> str:
    """The `model_type` of a model of the catalog; nothing where it is not known."""
    types = _table()["types"]
    return str(types[max(fitting, key=len)]) if (fitting := [one for one in types if name.startswith(one)]) else ""


def _table() -> Json:
    return shipped_table("lockstep.describe.workload", "modules.toml")
