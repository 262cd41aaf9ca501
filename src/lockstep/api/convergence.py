"""The verb about how many steps: `converge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from lockstep.api.question import Quantity, whole

if TYPE_CHECKING:
    from lockstep.converge import Experiment, Findings


@dataclass(frozen=True, slots=True)
class Experiments:
    """What the lab can be asked."""

    experiments: tuple[Experiment, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"experiments": [one.to_dict() for one in self.experiments]}


@overload
def converge(experiment: None = None) -> Experiments: ...


@overload
def converge(
    experiment: str,
    settings: Mapping[str, object] | None = None,
    *,
    seed: Quantity = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Findings: ...


def converge(
    experiment: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    seed: Quantity = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Experiments | Findings:
    """Runs one experiment of the lab with its `settings`; lists all experiments when none is named.

    `progress(done, total)` is called now and then.
    """
    from lockstep.converge import all_experiments, find_experiment
    from lockstep.converge.experiment import silent

    if experiment is None:
        return Experiments(all_experiments())
    number = whole(seed, "--seed", minimum=0)
    return find_experiment(experiment).answer(settings or {}, number, progress or silent)
