"""`search`: the split of devices and the engine's tensor parallelism with the fastest step that fits, exactly.

The space: all devices in turn (where no staleness is asked for), or K devices that generate for every K of whole units
of the innermost level that leaves one to train; engines cut over t = 1, 2, 4, ... devices of a unit, as far as t
divides the attention heads and the devices, and weights and an answer fit. Devices whose updates alone take longer than
the best step found are left out, as no engine makes their step faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.rl_step import rl_step, updates_s, with_step
from lockstep.decide.planner.rollout import Rollout
from lockstep.describe.hardware import Cluster
from lockstep.price.generation import Engine

Generate = Callable[[Engine], Rollout]
Train = Callable[[Cluster, Rollout], Estimate]
Refuses = Callable[[Rollout], Infeasible | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """One split and engine, and its step."""

    generating: int
    """Devices that generate."""
    training: int
    colocated: bool
    tp: int
    step_time_s: float
    generate_s: float
    train_s: float
    fits: bool

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def search(
    engine: Engine,
    machine: Cluster,
    generate: Generate,
    train: Train,
    staleness: int,
    refuses: Refuses = lambda found: None,
    pads: bool = False,
) -> Rollout:
    """The rollout of the fastest step that fits, with all choices that were tried; the fastest of all where none fits.

    `refuses`: why software cannot run a step; such choices are left out. Raises BadInput where no choice is possible,
    and Infeasible with the reasons of the last one where the software runs none.
    """
    tried: list[tuple[Choice, Rollout]] = []
    refused: list[Infeasible] = []
    for devices in _splits(machine, staleness):
        with suppress(BadInput, Infeasible):
            for choice in _on(engine, machine, devices, generate, train, staleness, _best_s(tried), pads):
                error = refuses(choice[1])
                if error is None:
                    tried.append(choice)
                else:
                    refused.append(error)
    if not tried and refused:
        raise refused[-1]
    if not tried:
        raise BadInput("no split and no engine is possible; give --rollout-tp and --split to see why", "--search")
    choices = sorted((choice for choice, _ in tried), key=lambda one: (not one.fits, one.step_time_s))
    best = next(found for choice, found in tried if choice is choices[0])
    return replace(best, choices=tuple(choices))


def _best_s(tried: list[tuple[Choice, Rollout]]) -> float:
    """Seconds of the fastest step that fits so far."""
    return min((choice.step_time_s for choice, _ in tried if choice.fits), default=float("inf"))


def _splits(machine: Cluster, staleness: int) -> Iterator[int]:
    """Numbers of devices that generate; all of them where they train too."""
    if not staleness:
        yield machine.num_devices
    unit = machine.devices_per_unit(0) if machine.num_devices > machine.devices_per_unit(0) else 1
    yield from range(unit, machine.num_devices, unit)


def _on(
    engine: Engine,
    machine: Cluster,
    devices: int,
    generate: Generate,
    train: Train,
    staleness: int,
    best_s: float,
    pads: bool,
) -> list[tuple[Choice, Rollout]]:
    """The choices on so many devices that generate. Raises Infeasible where the others cannot train."""
    whole = devices == machine.num_devices
    generating = machine if whole else machine.resized(devices)
    training = machine if whole else machine.resized(machine.num_devices - devices)
    found: list[tuple[Choice, Rollout]] = []
    trainer: Estimate | None = None
    for ranks in _ranks(engine, generating):
        with suppress(BadInput):
            one = generate(replace(engine, cluster=generating, tp=ranks))
            trainer = trainer or train(training, one)
            if updates_s(one, trainer) > min(best_s, _best_s(found)):
                break
            step = rl_step(one, trainer, machine, staleness, pads)
            choice = Choice(
                devices, training.num_devices, whole, ranks, step.step_time_s, step.generate_s, step.train_s, step.fits
            )
            found.append((choice, with_step(one, step)))
    return found


def _ranks(engine: Engine, generating: Cluster) -> Iterator[int]:
    """Powers of two that engines may be cut over."""
    most = min(generating.devices_per_unit(0), generating.num_devices)
    return (2**power for power in range(most.bit_length()) if engine.model.attention.heads % 2**power == 0)
