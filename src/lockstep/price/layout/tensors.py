"""Which tensors a rank of a pipeline stage holds, by name: what a micro-batch keeps, and how states divide.

Bytes of a name are those of all layers of the stage that have such a tensor.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lockstep.describe.workload import (
    Weight,
    embedding_kept_tensors,
    embedding_weights,
    head_weights,
    kept_tensors,
    layer_weights,
    mtp_weights,
    rank_parameters,
)
from lockstep.price.layout.held import sharded, stage_parameters
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import again_frac, by_stored, piece
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.sharing import sharing_of

STATES = ("parameters", "gradients", "optimizer")


def kept_by_name(job: Job, grid: LayoutGrid, stage: int) -> dict[str, float]:
    """Bytes that one micro-batch keeps on device `stage` of one layout, in all its layers; without what goes to hosts.

    Empty for a model without layers of a transformer.
    """
    model = job.transformer
    if model is None:
        return {}
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    one, counts, (first, _, modules) = piece(job.recipe, grid, model), by_stored(held), grid.pieces_on(stage)
    if modules and model.mtp_layers:
        counts[model.kinds[-1].stored] += model.mtp_layers
    again, found = float(np.asarray(again_frac(job.recipe, grid, held))), dict[str, float]()
    for kind, count in counts.items():
        for mode, share in ((int(grid.recompute), again), ("none", 1.0 - again)):
            for tensor in kept_tensors(model, one, kind, mode) if share else ():
                found[tensor.name] = found.get(tensor.name, 0.0) + count * share * float(tensor.size_B)
    for tensor in embedding_kept_tensors(model, one) if first else ():
        found[tensor.name] = found.get(tensor.name, 0.0) + float(tensor.size_B)
    return {name: size_B for name, size_B in sorted(found.items(), key=lambda one: -one[1]) if size_B}


def _is_called(name: str, weight: Weight) -> float:
    return float(weight.name == name)


def states_by_name(job: Job, grid: LayoutGrid, stage: int) -> dict[str, dict[str, float]]:
    """By category of STATES the share of each weight in the bytes that device `stage` of one layout holds.

    Exact where every parameter has the same bytes of a state. Empty where adapters train beside frozen weights, and
    for a model without layers of a transformer.
    """
    model = job.transformer
    if model is None or job.recipe.adapters is not None:
        return {}
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    every: list[Weight] = [
        *embedding_weights(model),
        *head_weights(model),
        *(mtp_weights(model) if model.mtp_layers else ()),
    ]
    every += [weight for kind in by_stored(held) for weight in layer_weights(model, kind)]
    sharing = sharing_of(job.recipe, grid)
    divided = dict(zip(STATES, (np.logical_not(sharing.keeps), sharing.scatters, sharing.sharded), strict=True))
    found: dict[str, dict[str, float]] = {category: {} for category in STATES}
    for name in dict.fromkeys(weight.name for weight in every):
        mine = stage_parameters(job, grid, stage, held, partial(rank_parameters, each=partial(_is_called, name)))
        for category, where in divided.items():
            size = float(sharded(grid, mine.matrix_elems + mine.other_elems, mine.expert_elems, where))
            if size:
                found[category][name] = size
    wholes = {category: sum(sizes.values()) for category, sizes in found.items()}
    return {
        category: {name: size / wholes[category] for name, size in sorted(sizes.items(), key=lambda one: -one[1])}
        for category, sizes in found.items()
    }
