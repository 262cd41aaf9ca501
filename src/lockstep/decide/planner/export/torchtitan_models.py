"""`flavor_of(model)`: what torchtitan calls a model of the catalog, from `torchtitan_models.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.describe.workload import Model, Transformer, parameters


@dataclass(frozen=True, slots=True)
class Flavor:
    """One of torchtitan's models."""

    model: str
    """Of `[model] name`, and of --module."""
    flavor: str
    """Of `[model] flavor`."""
    parameters: int
    config: str | None = None
    """Of --config; None where release 0.3 has none that trains it in bf16."""
    flex: bool = False
    """Whether its attention runs in FlexAttention, which releases until 0.2 do not split over ranks."""


@cache
def flavors() -> Mapping[str, Flavor]:
    """Every flavor, by the catalog's name of its model."""
    return {name: Flavor(**values) for name, values in shipped_table(__package__, "torchtitan_models.toml").items()}


@lru_cache(maxsize=64)
def flavor_of(model: Model) -> Flavor | None:
    """The flavor that is `model` to the last parameter; None where torchtitan has none."""
    found = flavors().get(model.name)
    if found is None or not isinstance(model, Transformer) or model.mtp_layers:
        return None
    return found if parameters(model).total == found.parameters else None
