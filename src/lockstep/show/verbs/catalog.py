"""What ships with Lockstep: models, devices, clusters, links, software stacks and optimizers."""

from collections.abc import Callable
from typing import Annotated

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument


@dataclass(frozen=True, slots=True, repr=False)
class Catalog(Shown):
    """Shelves of the catalog as rows, every row with its source."""

    shelves: dict[str, list[Json]]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return dict(self.shelves)


@strict
def catalog(
    shelf: Annotated[
        str | None,
        Argument(
            "SHELF", "Part of the catalog: models, devices, clusters, links, stacks or optimizers; all when omitted."
        ),
    ] = None,
) -> Catalog:
    """The models, devices, clusters, links, software stacks and optimizers of Lockstep, or one of these shelves.

    Raises UnknownName.
    """
    if shelf is not None and shelf not in SHELVES:
        raise UnknownName("shelf", shelf, tuple(SHELVES), "SHELF")
    return Catalog({name: read() for name, read in SHELVES.items() if shelf in (None, name)})


def _models() -> list[Json]:
    from lockstep import workload

    return workload.models()


def _devices() -> list[Json]:
    from lockstep import hardware

    return [device.to_dict() for device in hardware.devices()]


def _clusters() -> list[Json]:
    from lockstep import hardware

    return [cluster.to_dict() | {"device": cluster.device.name} for cluster in hardware.clusters()]


def _links() -> list[Json]:
    from lockstep import hardware

    return [link.to_dict() for link in hardware.links()]


def _stacks() -> list[Json]:
    from lockstep.describe.stacks import stacks

    return [one.to_dict() for one in stacks().values()]


def _optimizers() -> list[Json]:
    from lockstep.price.layout import OPTIMIZERS

    return [one.to_dict() for one in OPTIMIZERS.values()]


SHELVES: dict[str, Callable[[], list[Json]]] = {
    "models": _models,
    "devices": _devices,
    "clusters": _clusters,
    "links": _links,
    "stacks": _stacks,
    "optimizers": _optimizers,
}
