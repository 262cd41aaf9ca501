"""What a shell offers for the word under the cursor: names of the catalog and of the registries, by prefix.

Each kind imports the one list that it needs, when the shell asks. Where nothing of the list fits, the shell may go on
with the names of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Completion = Callable[[str], list[str]]


def models() -> Iterable[str]:
    """Models of the catalog."""
    from lockstep.describe.workload import names

    return names()


def clusters() -> Iterable[str]:
    """Clusters of the catalog, and devices, each a machine too; with `:`, after which a number follows."""
    from lockstep.describe.hardware.shipped import shelf

    names = dict.fromkeys([*shelf().clusters, *devices()])
    return [spelled for name in names for spelled in (name, f"{name}:")]


def devices() -> Iterable[str]:
    """Devices of the catalog."""
    from lockstep.describe.hardware import shipped

    return shipped.devices().names()


def schedules() -> Iterable[str]:
    """Pipeline schedules."""
    from lockstep.simulate.parallel.pipeline.registry import names

    return names()


def ops() -> Iterable[str]:
    """Collective operations."""
    from lockstep.simulate.collectives import ops as names

    return names()


def algorithms() -> Iterable[str]:
    """Algorithms of any collective."""
    from lockstep.simulate.collectives.registry import REGISTRY

    return dict.fromkeys(name.partition(".")[2] for name in REGISTRY.names())


def programs() -> Iterable[str]:
    """What can be run or traced: a pipeline or a collective."""
    return ("pipeline", *ops())


def methods() -> Iterable[str]:
    """Training methods."""
    from lockstep.run.train import METHODS

    return METHODS.names()


def optimizers() -> Iterable[str]:
    """Optimizers of a recipe."""
    from lockstep.price.layout import OPTIMIZERS

    return OPTIMIZERS


def stacks() -> Iterable[str]:
    """Training software by name and release."""
    from lockstep.describe.stacks import stacks as known

    return known()


def software() -> Iterable[str]:
    """Training software that plans can be for."""
    from lockstep.decide.planner.software import SOFTWARE

    return SOFTWARE


def trainers() -> Iterable[str]:
    """Optimizers of `train`."""
    from lockstep.run.train.task import ENTRYWISE

    return ENTRYWISE


def experiments() -> Iterable[str]:
    """Experiments of the lab and their groups."""
    from lockstep.learn.lab.experiment import EXPERIMENTS, GROUPS

    return (*EXPERIMENTS, *(group.name for group in GROUPS))


def starting(names: Callable[[], Iterable[str]]) -> Completion:
    """Offers those of `names` that begin as the word does; after a comma the next name of a list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        return [before + comma + name for name in names() if name.startswith(word)]

    return complete
