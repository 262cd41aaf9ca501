"""`Replans`: the fastest layouts of one model and recipe on changed hardware, with what no change touches done once.

    rules and memory    are the same on as many devices in nodes as large: such hardware shares its candidates
    step times          do not follow the memory of a device: hardware that differs in nothing else shares a search with
                        ROOM times the memory, whose front holds the fastest layout within any less

The default space is searched without gpipe, which 1f1b matches in time with less memory.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, field, replace
from lockstep.decide.planner.candidates import Candidates, candidates
from lockstep.decide.planner.search import Findings, Scored, search
from lockstep.decide.planner.space import Space, default_space
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Model
from lockstep.price.layout import Job, Recipe

ROOM = 2.0
"""Memory searched over memory asked for: enough for questions about twice as much."""


@dataclass(slots=True)
class Replans:
    """Plans of `model` with `recipe` on one cluster after another; `space` is searched instead of the default one."""

    model: Model
    recipe: Recipe
    space: Space | None = None
    _candidates: dict[tuple[int, Space], list[Candidates]] = field(default_factory=dict, init=False, repr=False)
    _searched: list[tuple[Cluster, Findings]] = field(default_factory=list, init=False, repr=False)
    """Each cluster with the memory that was searched."""

    def fastest(self, cluster: Cluster) -> Scored | None:
        """The fastest layout that fits on `cluster`, None where none does. Raises BadInput, as `search` does."""
        memory_B = cluster.device.memory_B
        for roomy, found in self._searched:
            if memory_B <= roomy.device.memory_B and _with_memory(cluster, roomy.device.memory_B) == roomy:
                return found.fastest_within(memory_B)
        roomy = scaled(cluster, memory=ROOM)
        found = self._search(roomy)
        self._searched.append((roomy, found))
        return found.fastest_within(memory_B)

    def _search(self, cluster: Cluster) -> Findings:
        """A whole search. Ctrl-C ends it without an answer."""
        job = Job(self.model, self.recipe, cluster.num_devices)
        space = self.space or _without_gpipe(default_space(job, cluster.devices_per_unit(0)))
        key = job.devices, space
        if key not in self._candidates:
            self._candidates[key] = list(candidates(job, space))
        found = search(job, cluster, space, top=1, among=self._candidates[key])
        if not found.complete:
            raise KeyboardInterrupt
        return found


def _with_memory(cluster: Cluster, memory_B: float) -> Cluster:
    return replace(cluster, device=replace(cluster.device, memory_B=memory_B))


def _without_gpipe(space: Space) -> Space:
    return replace(space, schedules=tuple(name for name in space.schedules if name != "gpipe"))
