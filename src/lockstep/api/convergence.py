"""The verb about how many steps: `converge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from lockstep.api.calling import strict
from lockstep.api.quantity import Quantity
from lockstep.api.question import whole
from lockstep.errors import BadInput

if TYPE_CHECKING:
    from lockstep.lab import Experiment, Findings, Group


@dataclass(frozen=True, slots=True)
class Experiments:
    """What the lab can be asked: its groups, and the experiments in them."""

    groups: tuple[Group, ...]
    experiments: tuple[Experiment, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "groups": [group.to_dict() for group in self.groups],
            "experiments": [one.to_dict() for one in self.experiments],
        }


@overload
def converge(experiment: None = None, *, group: str | None = None) -> Experiments: ...


@overload
def converge(
    experiment: str,
    settings: Mapping[str, object] | None = None,
    *,
    seed: Quantity = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Findings: ...


@strict
def converge(
    experiment: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    seed: Quantity = 0,
    progress: Callable[[int, int], None] | None = None,
    group: str | None = None,
) -> Experiments | Findings:
    """Runs one experiment of the lab with its `settings`; lists those of a group, or all, when none is named.

    `progress(done, total)` is called now and then. Raises `BadInput` for unknown names and for settings that are not
    allowed.
    """
    from lockstep.lab import GROUPS, find_experiment, find_group
    from lockstep.lab.experiment import silent

    if experiment is None and (settings or whole(seed, "--seed", minimum=0)):
        raise BadInput("needs an experiment to run; without one they are listed", "--set" if settings else "--seed")
    if experiment is not None and group is not None:
        raise BadInput("lists the experiments of a group; leave it out to run one", "group")
    if experiment is None:
        groups = GROUPS if group is None else (find_group(group),)
        return Experiments(groups, tuple(find_experiment(name) for one in groups for name in one.experiments))
    number = whole(seed, "--seed", minimum=0)
    return find_experiment(experiment).answer(settings or {}, number, progress or silent)
