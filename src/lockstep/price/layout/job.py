"""`Job`: what a layout must fit (model, recipe, number of devices), and how its layers fall onto pipeline stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Truth, Whole
from lockstep.base.types.brief import Brief
from lockstep.describe.workload import LayerKind, Model, Transformer, scored
from lockstep.price.layout.recipe import Recipe
from lockstep.simulate.parallel.pipeline import Placement, routes


@dataclass(frozen=True, repr=False)
class Job(Brief):
    """A model to train with a recipe on `devices` devices."""

    model: Model
    recipe: Recipe
    devices: int

    def __post_init__(self) -> None:
        if isinstance(self.model, Transformer) and self.recipe.objective.name == "reward":
            object.__setattr__(self, "model", scored(self.model))

    @property
    def transformer(self) -> Transformer | None:
        """The model if tensor, pipeline, context and expert parallelism apply to it, else None."""
        return self.model if isinstance(self.model, Transformer) else None

    @property
    def images(self) -> bool:
        """Whether the model reads images, not text."""
        return self.transformer is None or self.transformer.patches is not None

    @property
    def attends(self) -> bool:
        """Whether any layer has attention."""
        return self.transformer is not None and self.transformer.num_attention_layers > 0

    @property
    def crosses(self) -> bool:
        """Whether the model is an encoder with a decoder."""
        return self.transformer is not None and self.transformer.encoder_layers > 0

    @property
    def unit(self) -> str:
        """What a step and a rate are counted in: tokens or images."""
        return "images" if self.images else "tokens"

    @property
    def sequence_units(self) -> int:
        """Of these, how many a sequence is: an image is one."""
        return 1 if self.images else self.recipe.seq

    @property
    def step_units(self) -> int:
        """Tokens or images of an optimizer step."""
        return self.recipe.batch * self.sequence_units

    @property
    def hidden(self) -> int:
        """Width of the model, 0 for a convolutional network."""
        return self.transformer.hidden if self.transformer else 0

    @property
    def layers(self) -> int:
        """Layers that pipeline stages can share out."""
        return self.transformer.layers if self.transformer else 1

    @property
    def heads(self) -> int:
        """Attention heads, which tensor parallelism shares out."""
        return self.transformer.attention.heads if self.transformer else 1

    @property
    def kv_heads(self) -> int:
        """Key and value heads; replicated where tensor parallelism has more ranks."""
        return self.transformer.attention.kv_heads if self.transformer else 1

    @property
    def recurrent_heads(self) -> int:
        """Heads of recurrent layers, which tensor parallelism shares out; 0 without such layers."""
        return self.transformer.recurrent.heads if self.transformer and self.transformer.recurrent else 0

    @property
    def num_experts(self) -> int:
        """Routed experts per layer, 0 for a dense model."""
        return self.transformer.experts.experts if self.transformer and self.transformer.experts else 0

    @property
    def expert_width(self) -> int:
        """Inner width of a routed expert, 0 for a dense model."""
        return self.transformer.experts.ffn if self.transformer and self.transformer.experts else 0

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The kind of every layer, in order."""
        return self.transformer.kinds if self.transformer else ()

    def stage_layers(self, stages: int, chunks: int = 1) -> list[Counter[LayerKind]]:
        """For each pipeline stage, how many layers of each kind it holds.

        Chunk c of stage s is the virtual stage c*stages + s. Layers are shared out evenly; where they do not divide,
        the stages after the first get one more each, as the first holds the embedding and the last the head.
        """
        held: list[Counter[LayerKind]] = [Counter() for _ in range(stages)]
        for virtual, layers in enumerate(self.chunk_layers(_sizes(self.layers, stages * chunks))):
            held[virtual % stages] += layers
        return held

    def chunk_layers(self, sizes: Sequence[int]) -> list[Counter[LayerKind]]:
        """The layers of consecutive chunks with `sizes` layers."""
        return [Counter(self.kinds[end - size : end]) for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def device_layers(self, stages: int, placement: Placement, split: tuple[int, ...] = ()) -> list[Counter[LayerKind]]:
        """For each device of a pipeline, the layers it holds: of one stage, or of the two that meet on it.

        A V of p devices has 2p virtual stages, number s and 2p - 1 - s on device s; with copies in both directions
        device s holds stages s and p - 1 - s. `split` are the layers of every chunk where they are placed by hand.
        """
        if split:
            route, held = routes(placement, stages, len(split) // stages)[0], [Counter[LayerKind]()] * stages
            for (device, _), layers in zip(route, self.chunk_layers(split), strict=True):
                held[device] = held[device] + layers
            return held
        if placement is Placement.LOOPED:
            return self.stage_layers(stages)
        held = self.stage_layers(2 * stages if placement is Placement.VEE else stages)
        return [held[s] + held[-1 - s] for s in range(stages)]

    @cached_property
    def _compositions(self) -> dict[tuple[int, Placement], list[tuple[int, Counter[LayerKind]]]]:
        return {}

    def telling_stages(
        self, stages: int, placement: Placement = Placement.LOOPED, split: tuple[int, ...] = ()
    ) -> list[tuple[int, Counter[LayerKind]]]:
        """(device, its layers) of every device of a pipeline that differs from the ones before it, and of the last.

        Devices with the same layers differ in nothing that costs time; the first of them holds most in flight. The
        first device has the embedding too and the last the head, so they stand for themselves. With a `split` all do.
        """
        if split:
            return list(enumerate(self.device_layers(stages, placement, split)))
        key = stages, placement
        if key not in self._compositions:
            held = self.device_layers(stages, placement)
            seen: dict[tuple[bool, frozenset[tuple[LayerKind, int]]], int] = {}
            for stage, layers in enumerate(held):
                seen.setdefault((stage == 0, frozenset(layers.items())), stage)
            # Of two copies, devices in the middle hold most in flight.
            middle = {stages // 2} if placement is Placement.BOTH_WAYS else set()
            self._compositions[key] = [(stage, held[stage]) for stage in sorted({*seen.values(), stages - 1, *middle})]
        return self._compositions[key]


def _sizes(layers: int, parts: int) -> list[int]:
    """Layers per part: equal, or one more in the parts that follow the first."""
    base, extra = divmod(layers, parts)
    return [base + (1 <= part <= extra) for part in range(parts)]


def splits_evenly(layers: int, parts: Whole) -> Truth:
    """Whether every part gets the same, or would if embedding and head each counted as a layer (as in Llama 3 405B)."""
    return (layers % parts == 0) | ((layers + 2) % parts == 0)
