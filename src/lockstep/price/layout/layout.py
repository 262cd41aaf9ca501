"""`Layout`, one parallel layout in the field's words, and `LayoutGrid`, many of them as broadcastable arrays.

Every formula of the package reads a `LayoutGrid`. A single layout is a grid of shape (); the planner's space is a
grid in which choices that limit one another share the first axis, its rows, and each of the others has an axis of its
own. So rows that break a rule can be left out, and a formula costs the product of the axes it depends on, not of all.

World size: dp * tp * pp * cp. Expert layers have a grid of their own over the same tp * cp * dp ranks of a stage:
etp * ep * edp, where etp ranks cut an expert, ep ranks divide the experts, and edp = tp cp dp / (etp ep) hold the same
ones. In `order` the axes of either grid stand at their place: tp or etp, cp (of the dense grid alone), ep (of the
experts' alone), dp or edp.

Layers placed by hand: `stages` counts those of every chunk along the way of a micro-batch, the embedding comes before
the first chunk and the head behind the last one, so a chunk may hold either of them and no layer.

Offload is what of a rank's training states lives in host memory:

    paged        optimizer states that find no room beside the rest: they come for an update and leave after it (QLoRA)
    optimizer    optimizer states and gradients, and the host updates            (ZeRO-Offload)
    parameters   these, and a rank's shard of the parameters, at zero 3          (ZeRO-Infinity, FSDP's CPU offload)

Gradients leave the device after every micro-batch where a rank owns what it sends: where they are reduced as often
(`simulate/parallel/data/sharing.py`), or with nothing to reduce. Else they add up on the device, and the rank's part
goes down once per step, as DeepSpeed does at stage 1.

Sources: QLoRA (arXiv 2305.14314) section 3, paged optimizers; ZeRO-Offload (arXiv 2101.06840) section 4; ZeRO-Infinity
(arXiv 2104.07857) section 5; DeepSpeed 0.16,
deepspeed/runtime/zero/stage_1_and_2.py: reduce_ready_partitions_and_remove_grads, copy_grads_in_partition.
Both grids: "MoE Parallel Folding" (arXiv 2504.14960); Megatron Core 0.15, initialize_model_parallel in
core/parallel_state.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, fields, replace
from lockstep.base.types.arrays import Bools, Ints, Number
from lockstep.base.types.plain import Json, picked
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import RECOMPUTE
from lockstep.simulate.parallel.pipeline import SCHEDULES, Placement, code, get, routes

MOST = 10**9
"""Of a degree or a micro-batch, as on the command line; larger ones are no 64-bit integers when multiplied."""

OFFLOAD = ("none", "paged", "optimizer", "parameters")
KEEP, PAGED, OFFLOAD_OPTIMIZER, OFFLOAD_PARAMETERS = range(4)

AXES = ("tp", "cp", "ep", "dp", "pp")
"""The rank grid's axes, innermost first: the axis that talks most gets the fastest links."""
EXPERT_AXES = {"tp": "etp", "ep": "ep", "dp": "edp", "pp": "pp"}
"""The axes of the experts' grid, by the axis of `order` at whose place each stands."""
HOST_USABLE_FRAC = 0.9
"""Share of host memory that states may fill; the system, data loading and staging buffers take the rest: assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a training run is spread over devices. Degrees are counts of ranks."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0
    """Ranks that cut an expert (expert tensor parallelism); 0 means as many as tp, Megatron Core's default."""
    vpp: int = 1
    """Model chunks per pipeline stage (virtual stages); 2 where the schedule folds the model or holds two copies."""
    micro_batch: int = 1
    """Sequences per micro-batch and data-parallel replica."""
    zero: int = 0
    """0 replicate, 1 shard optimizer states, 2 also gradients, 3 also parameters (FSDP)."""
    recompute: str = "none"
    """none, selective (modules of the recipe, the attention core by default) or full (each layer from its input)."""
    sequence_parallel: bool = False
    """Shard norms, dropout and residual over the tensor-parallel group."""
    schedule: str = "1f1b"
    shard: int = 0
    """Data-parallel ranks that share one sharded copy (HSDP); 0 means all of them."""
    offload: str = "none"
    """none, paged (optimizer states that find no room), optimizer (its states and the gradients live in host memory) or
    parameters (sharded parameters too)."""
    order: tuple[str, ...] = AXES
    """Axes of the rank grid, innermost first; the experts' grid has its axes at the same places (`EXPERT_AXES`)."""
    stages: tuple[int, ...] = ()
    """Layers of every pipeline stage, of every chunk where stages have several; () shares them out evenly."""
    mtp_stage: int | None = None
    """Of `stages`, the one with the multi-token-prediction modules; None for the last, beside the head."""

    def __post_init__(self) -> None:
        for name in ("dp", "tp", "pp", "cp", "ep", "vpp", "micro_batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
                raise BadInput(
                    f"{name} must be a whole number from 1 to {MOST:,}, got {value!r}", f"--{name.replace('_', '-')}"
                )
        if self.zero not in (0, 1, 2, 3):
            raise BadInput(f"zero must be 0, 1, 2 or 3, got {self.zero!r}", "--zero")
        for name, allowed in (("recompute", RECOMPUTE), ("offload", OFFLOAD)):
            if getattr(self, name) not in allowed:
                raise UnknownName(name, str(getattr(self, name)), allowed, f"--{name}")
        for name, usual in (("shard", "all"), ("etp", "as tp")):
            if not 0 <= getattr(self, name) <= MOST:
                message = f"{name} must be 0 ({usual}) or a count of ranks up to {MOST:,}, got {getattr(self, name)}"
                raise BadInput(message, f"--{name}")
        if sorted(self.order) != sorted(AXES):
            raise BadInput(f"order must name each of {'-'.join(AXES)} once, got {'-'.join(self.order)}", "--order")
        if any(not isinstance(count, int) or not 0 <= count <= MOST for count in self.stages):
            raise BadInput(f"stages must be counts of layers, got {self.stages}", "--stages")
        if self.mtp_stage is not None and not 0 <= self.mtp_stage < len(self.stages):
            raise BadInput(f"mtp_stage must be the number of one of the stages, got {self.mtp_stage}", "--mtp-stage")
        code(self.schedule, "--schedule")

    @property
    def world(self) -> int:
        """Ranks in all."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def expert_tp(self) -> int:
        """Ranks that cut an expert."""
        return self.etp or self.tp

    @property
    def split(self) -> str:
        """`stages` as on the command line: 29 equal counts of 2 layers as 29x2."""
        runs = [(layers, len(list(some))) for layers, some in groupby(self.stages)]
        return ",".join((f"{count}x" if count > 1 else "") + str(layers) for layers, count in runs)

    @property
    def placement(self) -> Placement:
        """Where the schedule puts layers."""
        return get(self.schedule).placement

    @property
    def batch_unit(self) -> int:
        """Sequences that batches come in: a micro-batch per replica and direction, a round of them if interleaved."""
        together = self.pp if self.schedule == "interleaved" else get(self.schedule).copies
        return self.dp * self.micro_batch * together

    def grid(self) -> LayoutGrid:
        """This layout as a grid of shape ()."""
        words = {
            "recompute": RECOMPUTE.index(self.recompute),
            "offload": OFFLOAD.index(self.offload),
            "schedule": code(self.schedule),
        }
        arrays: Json = {name: np.asarray(words.get(name, getattr(self, name)), dtype=np.int64) for name in GRID_FIELDS}
        return LayoutGrid(
            order=self.order, split=self.stages, mtp_stage=-1 if self.mtp_stage is None else self.mtp_stage, **arrays
        )

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return picked(self, without="order") | {"order": "-".join(self.order)}

    def texts(self) -> dict[str, str]:
        """What is written of each field, in order; nothing of a degree of 1 and of what is not done."""
        degrees = {name: getattr(self, name) for name in ("tp", "cp", "ep", "etp", "pp", "dp")}
        return {
            **{name: f"{name}{value}" if value > (name != "etp") else "" for name, value in degrees.items()},
            "micro_batch": f"mb{self.micro_batch}",
            "zero": f"zero{self.zero}",
            "schedule": (self.schedule + (f"x{self.vpp}" if self.vpp > 1 else "")) if self.pp > 1 else "",
            "stages": f"stages {self.split}" if self.stages else "",
            "recompute": f"recompute-{self.recompute}" if self.recompute != "none" else "",
            "sequence_parallel": "sp" if self.sequence_parallel else "",
            "shard": f"shard{self.shard}" if self.shard else "",
        }

    def __str__(self) -> str:
        return " ".join(filter(None, self.texts().values()))


@dataclass(frozen=True, kw_only=True)
class LayoutGrid:
    """Layouts as integer arrays that broadcast against each other; words are held as codes. What follows is kept."""

    dp: Ints
    tp: Ints
    pp: Ints
    cp: Ints
    ep: Ints
    etp: Ints
    vpp: Ints
    micro_batch: Ints
    zero: Ints
    recompute: Ints
    sequence_parallel: Ints
    schedule: Ints
    shard: Ints
    offload: Ints
    order: tuple[str, ...] = AXES
    split: tuple[int, ...] = ()
    """`Layout.stages` of all layouts."""
    mtp_stage: int = -1
    """`Layout.mtp_stage` of all layouts, -1 for None."""
    batches: tuple[int, ...] = ()
    """Global batches of every layout, along an axis before those of the grid; () for the recipe's alone."""
    paired: bool = False
    """Whether the grid has one axis, along which each layout has its own of `batches`."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape to which all fields broadcast."""
        return np.broadcast_shapes(*(getattr(self, name).shape for name in GRID_FIELDS))

    @cached_property
    def stages(self) -> int:
        """Pipeline stages. Raises BadInput when the layouts differ in them."""
        stages = int(self.pp.flat[0])
        if self.pp.size > 1 and np.any(self.pp != stages):
            raise BadInput("layouts of one grid must have the same number of pipeline stages")
        return stages

    @cached_property
    def placement(self) -> Placement:
        """Where the schedules put layers. Raises BadInput when they differ."""
        found: set[Placement] = {SCHEDULES[number].placement for number in set(self.schedule.ravel().tolist())}
        if len(found) > 1:
            raise BadInput("layouts of one grid must place layers on stages in the same way")
        return found.pop()

    @cached_property
    def route(self) -> tuple[tuple[int, int], ...]:
        """(device, chunk) of every entry of `split`, along the way of a micro-batch."""
        return routes(self.placement, self.stages, len(self.split) // self.stages)[0]

    def pieces_on(self, stage: int) -> tuple[bool, bool, bool]:
        """Whether device `stage` holds the embedding, the head and the multi-token-prediction modules."""
        outer = stage in (0, self.stages - 1)
        if self.placement is Placement.BOTH_WAYS:
            return outer, outer, outer
        last = stage == (0 if self.placement is Placement.VEE else self.stages - 1)
        return stage == 0, last, last if self.mtp_stage < 0 else self.route[self.mtp_stage][0] == stage

    @cached_property
    def copies(self) -> int:
        """Copies of the model that run through the pipeline in different directions."""
        return 2 if self.placement is Placement.BOTH_WAYS else 1

    @cached_property
    def on_host(self) -> Bools:
        """Where optimizer states live in host memory, and the host updates."""
        return self.offload >= OFFLOAD_OPTIMIZER

    @cached_property
    def data_ranks(self) -> Ints:
        """Ranks over which gradients of dense parameters are reduced, of one stage: dp * cp."""
        return self.dp * self.cp

    @cached_property
    def shard_ranks(self) -> Ints:
        """Ranks that share one sharded copy of the training state, those of both directions of a pipeline."""
        return np.where(self.shard > 0, self.shard, self.data_ranks * self.copies)

    @property
    def expert_shard_ranks(self) -> Ints:
        """The same for an expert: as many copies of it as of the dense layers."""
        parted = self.expert_data_ranks * self.shard // self.data_ranks
        return np.where(self.shard > 0, np.maximum(1, parted), self.expert_data_ranks * self.copies)

    @cached_property
    def expert_tp(self) -> Ints:
        """Ranks that cut an expert."""
        return np.where(self.etp > 0, self.etp, self.tp) if self.etp.any() else self.tp

    @cached_property
    def expert_data_ranks(self) -> Ints:
        """Ranks of one stage that hold the same experts: edp."""
        ranks: Ints = np.maximum(1, self.data_ranks * self.tp // (self.ep * self.expert_tp))
        return ranks

    def degrees(self, experts: bool = False) -> list[tuple[str, Ints]]:
        """(axis, ranks) of the grid of dense or of expert layers, innermost first."""
        if experts:
            found = {"tp": self.expert_tp, "ep": self.ep, "dp": self.expert_data_ranks, "pp": self.pp}
            return [(EXPERT_AXES[axis], found[axis]) for axis in self.order if axis in found]
        return [(axis, getattr(self, axis)) for axis in self.order if axis != "ep"]

    def microbatches(self, batch: int) -> Ints:
        """Micro-batches per step and replica, for a global batch of `batch` sequences, or for each of `batches`."""
        axes = () if self.paired else (1,) * np.ndim(self.dp)
        each = np.reshape(self.batches, (-1, *axes)) if self.batches else batch
        return each // (self.dp * self.micro_batch)

    def rows(self, places: NDArray[np.intp]) -> LayoutGrid:
        """The layouts at `places` of the first axis, which every field must have; of size 1, it holds for all."""
        arrays = {name: getattr(self, name) for name in GRID_FIELDS}
        picked: Json = {name: array[places] if len(array) > 1 else array for name, array in arrays.items()}
        return replace(self, **picked)

    def layouts(self, places: NDArray[np.intp]) -> list[Layout]:
        """The layouts at `places` of the flattened grid."""
        shape = self.shape or (1,)
        index = np.unravel_index(places, shape)
        columns = [np.broadcast_to(getattr(self, name), shape)[index].tolist() for name in GRID_FIELDS]
        return [self._layout(dict(zip(GRID_FIELDS, codes, strict=True))) for codes in zip(*columns, strict=True)]

    def _layout(self, codes: dict[str, int]) -> Layout:
        """One layout from the numbers of its fields."""
        words: Json = {
            "recompute": RECOMPUTE[codes["recompute"]],
            "offload": OFFLOAD[codes["offload"]],
            "schedule": SCHEDULES[codes["schedule"]].name,
            "sequence_parallel": bool(codes["sequence_parallel"]),
        }
        modules = None if self.mtp_stage < 0 else self.mtp_stage
        return Layout(order=self.order, stages=self.split, mtp_stage=modules, **{**codes, **words})


def stack(layouts: Sequence[Layout]) -> LayoutGrid:
    """Layouts with the same order of axes, and the same layers per stage, along one dimension."""
    grids = [layout.grid() for layout in layouts]
    arrays: Json = {name: np.array([getattr(grid, name) for grid in grids]) for name in GRID_FIELDS}
    return replace(grids[0], **arrays)


def grids_of(layouts: Sequence[Layout]) -> list[tuple[list[int], LayoutGrid]]:
    """The layouts in few grids, each with their places: one for those whose stages are placed alike.

    A layout with layers placed by hand has a grid of its own, of shape ().
    """
    kinds: dict[object, list[int]] = {}
    for place, layout in enumerate(layouts):
        kinds.setdefault(place if layout.stages else (layout.pp, layout.placement), []).append(place)
    return [
        (places, layouts[places[0]].grid() if layouts[places[0]].stages else stack([layouts[at] for at in places]))
        for places in kinds.values()
    ]


GRID_FIELDS = tuple(field.name for field in fields(LayoutGrid) if field.type == "Ints")


def host_states_B(grid: LayoutGrid, parameters_B: Number, gradients_B: Number, optimizer_B: Number) -> Number:
    """Bytes that one rank keeps in host memory of its own part of parameters, gradients and optimizer states."""
    kept_B = np.where(grid.offload == OFFLOAD_PARAMETERS, parameters_B, 0.0)
    return np.where(grid.on_host, kept_B + gradients_B, 0.0) + np.where(grid.offload == KEEP, 0.0, optimizer_B)


def host_capacity_B(cluster: Cluster) -> float:
    """Bytes of host memory that each device of `cluster` may fill when all do; infinite where it is not known."""
    host = cluster.host
    if host is None or host.memory_B is None:
        return float("inf")
    return HOST_USABLE_FRAC * host.memory_B / cluster.devices_per_host
