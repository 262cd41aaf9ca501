"""torchtitan is asked to set up the pipelines whose options are exported to it, or refused: how many stages it makes of
the options, which layers each holds, and whether its schedule takes the micro-batches.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from agreement import Asker
from pipelines_of_torch import group_of

from lockstep.decide.planner.export.refusals import Placed
from lockstep.decide.planner.export.torchtitan import ONE_CHUNK, SCHEDULES, parallelism
from placed_pipelines import exported, placed

MOST_MICROBATCHES = 18


def cases() -> Iterator[Placed]:
    """Every schedule with stages, chunks and micro-batches, those that do not exist too."""
    for schedule in SCHEDULES:
        for ranks in (2, 3, 4, 5, 8):
            for chunks in (1, 2, 3):
                for microbatches in range(1, MOST_MICROBATCHES):
                    yield placed(schedule, ranks, microbatches, chunks)


def options_of(text: str) -> dict[str, Any]:
    """The words of `parallelism` on a command line; whole numbers as such."""
    words = (line.removeprefix("--parallelism.") for line in text.splitlines() if line.startswith("--parallelism."))
    pairs = (shlex.split(one) for one in words)
    return {name: int(value) if value.isdecimal() else value for name, value in pairs}


def set_up(found: Placed, options: dict[str, Any]) -> list[int]:
    """Layers of every stage that torchtitan builds, one after another; raises what it raises."""
    import torch
    from torch.distributed.pipelining import PipelineStage
    from torchtitan.config import ParallelismConfig
    from torchtitan.distributed import pipeline_parallel

    config = ParallelismConfig(**options)
    ranks, model = config.pipeline_parallel_degree, SimpleNamespace(layers=[None] * found.job.layers)
    stages, *of_layers = pipeline_parallel._get_pipeline_metadata(SimpleNamespace(pp=ranks), config, model)
    parts = pipeline_parallel._generate_llm_fqn_per_model_part(stages, *of_layers)
    module, device = torch.nn.Linear(1, 1), torch.device("cpu")
    with group_of(ranks):
        pipeline_parallel._build_pipeline_schedule(
            parallelism=config,
            local_batch_size=found.job.recipe.batch,
            stages=[PipelineStage(module, chunk, stages, device) for chunk in range(0, stages, ranks)],
            loss_fn=len,
        )
    return [sum(name.startswith("layers.") for name in part) for part in parts]


def taken(found: Placed) -> bool:
    """Whether torchtitan sets up a pipeline by the options that say it, exported or not."""
    from torchtitan.config import ParallelismConfig

    known = {field.name for field in fields(ParallelismConfig)}
    try:
        set_up(found, {name: value for name, value in parallelism(found).items() if name in known})
    except ValueError:
        return False
    return True


def test_torchtitan_sets_up_what_is_exported_and_nothing_that_is_refused(asked: Asker) -> None:
    with asked("torchtitan", "pipelines that are exported, or refused") as answers:
        for found in cases():
            name = f"{found.layout.schedule} {found.layout.pp} x {found.layout.vpp}, {found.job.recipe.batch}"
            answers.compare(name, exported(found, "torchtitan-cli") is not None, taken(found))


def test_stages_of_exports_hold_the_layers_that_are_priced(asked: Asker) -> None:
    with asked("torchtitan", "layers of the stages of exported pipelines") as answers:
        for found in cases():
            text, layout = exported(found, "torchtitan-cli"), found.layout
            if text is not None:
                held = found.job.device_layers(layout.pp, layout.placement, layout.stages)
                each = set_up(found, options_of(text))
                vee = [each[stage] + each[-1 - stage] for stage in range(layout.pp)]
                looped = [sum(each[stage :: layout.pp]) for stage in range(layout.pp)]
                theirs = vee if layout.placement.value == "vee" else looped
                answers.compare(f"{layout}", [sum(layers.values()) for layers in held], theirs)
                assert (layout.vpp == 1) == (layout.schedule in ONE_CHUNK)
