"""Memory of one rank of every pipeline stage; without a model, the largest models that a machine trains."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, overload

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.capture import CapturedMemory, is_capture, read_capture
from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.machine import read_trainable
from lockstep.show.verbs.words.named import Cluster, Layout, Model
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import CLUSTER, EPOCHS, MODEL, SAMPLES, LayoutWords
from lockstep.show.verbs.words.varied import AT, STEPS, At, refuse_at

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.room import Use
    from lockstep.decide.planner.trainable import Trainable
    from lockstep.price.layout import Job, Memory


ALONE = "applies to a machine without a MODEL, as in lockstep memory -c rtx-4090:1"


@overload
def memory(
    model: None = None,
    cluster: str | Path | Cluster | None = None,
    *,
    samples: Quantity | None = None,
    epochs: Quantity | None = None,
    **words: Unpack[LayoutWords],
) -> "Trainable": ...


@overload
def memory(
    model: str | Path | Model,
    cluster: str | Path | Cluster | None = None,
    layout: Layout | None = None,
    *,
    rank: Quantity | None = None,
    **words: Unpack[LayoutWords],
) -> "StageMemories": ...


@verb
def memory(
    model: Annotated[str | Path | Model | None, MODEL] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    *,
    rank: Annotated[Quantity | None, Option("R", "Rank whose coordinates and process groups are listed.")] = None,
    samples: Annotated[Quantity | None, SAMPLES] = None,
    epochs: Annotated[Quantity | None, EPOCHS] = None,
    at: Annotated[At, AT] = (),
    steps: Annotated[Quantity | None, STEPS] = None,
    **words: Unpack[LayoutWords],
) -> "StageMemories | Trainable | CapturedMemory":
    """Bytes on one rank of every pipeline stage, by category; with `rank` also where that one is in the layout.

    Without a model, the largest of every family that the machine trains, by each method.
    """
    if is_capture(model):
        return read_capture(str(model), cluster, {**words, "layout": layout, "rank": rank}, at, steps)
    refuse_at(at, steps)
    if model is None:
        of_one = {
            "layout": layout,
            "--rank": rank,
            "--stages": words.get("stages"),
            "--mtp-stage": words.get("mtp_stage"),
        }
        for name, value in of_one.items():
            if value is not None:
                raise BadInput("applies to one model; give a MODEL", name)
        return read_trainable(cluster, {**words, "samples": samples, "epochs": epochs})
    for name, value in {"--samples": samples, "--epochs": epochs}.items():
        if value is not None:
            raise BadInput(ALONE, name)
    from lockstep.decide.planner.estimate import stage_memories
    from lockstep.price.layout.groups import place_of

    asked, chosen = read_asked(model, cluster, layout, dict(words))
    stages = stage_memories(asked.job, asked.cluster, chosen)
    found = StageMemories(asked.job, asked.cluster, chosen, tuple(stages))
    if rank is None:
        return found
    with flags("--rank"):
        return replace(found, place=place_of(chosen, whole(rank, "--rank", minimum=0)))


CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "buffers")


@dataclass(frozen=True, repr=False)
class StageMemories(Shown):
    """Memory by pipeline stage."""

    job: "Job"
    cluster: Cluster
    layout: Layout
    stages: "tuple[Memory, ...]"
    place: dict[str, Json] | None = None
    """By axis, the coordinate of the rank that was asked about and the ranks of its process group."""

    @property
    def fullest(self) -> int:
        """The stage that needs most; the first of equals."""
        return max(range(len(self.stages)), key=lambda stage: (float(self.stages[stage].total_B), -stage))

    @property
    def memory(self) -> "Memory":
        """Memory of the fullest stage, with the most that a rank offloads: what decides whether the layout fits."""
        return replace(self.stages[self.fullest], host_B=max(float(one.host_B) for one in self.stages))

    @property
    def fits(self) -> bool:
        """Whether the fullest stage does."""
        return bool(self.memory.fits)

    def by_category(self) -> dict[str, dict[str, float]]:
        """Bytes of each category on the fullest stage, and its share of the total."""
        sizes = {name: float(getattr(self.memory, f"{name}_B")) for name in CATEGORIES}
        total_B = float(self.memory.total_B)
        return {name: {"size_B": size_B, "frac": size_B / total_B} for name, size_B in sizes.items()}

    @cached_property
    def estimate(self) -> "Estimate":
        """Time and memory of the layout."""
        from lockstep.decide.planner.estimate import estimate

        return estimate(self.job, self.cluster, self.layout)

    @cached_property
    def room(self) -> "tuple[Use, ...]":
        """What the memory that is left could be spent on, each change alone, the fastest first."""
        from lockstep.decide.planner.room import room

        return room(self.estimate)

    def to_dict(self) -> Json:
        """Plain JSON form in the words of the command line."""
        from lockstep.decide.planner.assumptions import memory_assumptions
        from lockstep.decide.planner.from_file import imported
        from lockstep.decide.planner.uncounted import not_counted
        from lockstep.price.layout import mean_states_B, state_bytes

        each = state_bytes(self.job.recipe, self.layout.grid(), mean_states_B(self.job))
        return {
            "model": self.job.model.name,
            "cluster": self.cluster.name,
            "gpus": self.job.devices,
            "layout": self.layout.to_dict(),
            "memory": self.memory.to_dict(),
            "fullest_stage": self.fullest,
            "stages": [{"stage": number} | one.to_dict() for number, one in enumerate(self.stages)],
            "by_category": self.by_category(),
            "room": [one.to_dict() for one in self.room],
            "place": self.place,
            "bytes_per_parameter": float(each.total_B),
            "not_counted": list(not_counted(self.job)),
            "assumptions": list(memory_assumptions(self.job, self.cluster, self.layout)),
            **imported(self.job),
        }
