"""Memory of many layouts at once is that of each alone, also where some of them shard and others do not.

FSDP casts what it gathers, so that under autocast a grid has layouts with an fp32 stream and layouts without one.
"""

import numpy as np
import pytest

from lockstep import workload
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import head_activation_B
from lockstep.price.layout import Job, Layout, Recipe, grids_of, memory
from lockstep.price.layout.kept import piece

LAYOUTS = [
    Layout(dp=8, zero=zero, recompute=again, micro_batch=micro_batch)
    for zero in (0, 1, 2, 3)
    for again in ("none", "selective", "full")
    for micro_batch in (2, 16)
]
MACHINE = cluster("dgx-h100")


@pytest.mark.parametrize("stack", ["trl", "hf-trainer-5"])
@pytest.mark.parametrize("train", ["full", "lora:r=16", "lora:r=16,targets=attention,dropout=0.1", "dpo"])
@pytest.mark.parametrize("name", ["llama3-8b", "gemma2-2b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b", "gpt2"])
def test_a_grid_has_the_memory_of_its_layouts(name: str, train: str, stack: str) -> None:
    job = Job(workload.model(name), Recipe.by(stack, seq=1024, batch=256, train=train), 8)
    for places, grid in grids_of(LAYOUTS):
        together = np.broadcast_to(memory(job, MACHINE, grid).total_B, len(places))
        alone = [float(memory(job, MACHINE, LAYOUTS[at].grid()).total_B) for at in places]
        assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("loss", ["whole", "chunked", "tiled"])
@pytest.mark.parametrize("name", ["llama3-8b", "gemma2-2b", "gpt2"])
def test_a_grid_has_the_head_of_its_layouts(name: str, loss: str) -> None:
    """The loss is seldom the fullest moment, so that the total alone would not tell."""
    recipe, model = Recipe.by("trl", seq=1024, batch=256), workload.model(name)
    for places, grid in grids_of(LAYOUTS):
        together = np.broadcast_to(head_activation_B(model, piece(recipe, grid, model), loss=loss), len(places))
        alone = [float(head_activation_B(model, piece(recipe, LAYOUTS[at].grid(), model), loss=loss)) for at in places]
        assert together == pytest.approx(alone, rel=1e-12)
