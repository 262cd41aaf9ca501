"""What an answer says to bind a step: the largest part, or the host where the device waits for it for longer."""

from dataclasses import replace

import pytest

import lockstep
from cli_runner import run
from lockstep.base.types.plain import Json
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.estimate import estimate as estimate_layout

SMALL = ("gpt2", "dgx-h100:1")
LATE: Json = {"batch": 64, "dp": 8, "micro_batch": 1}
DRAWN: tuple[tuple[str, str, Json], ...] = (
    (*SMALL, LATE),
    (*SMALL, LATE | {"micro_batch": 8, "cuda_graphs": "step"}),
    ("resnet50", "dgx-h100:1", {"batch": 64, "dp": 8, "micro_batch": 8}),
    ("vit-b-16", "dgx-a100-80gb:1", {"batch": 64, "dp": 8, "micro_batch": 1}),
    ("llama3-8b", "dgx-h100:2", {"batch": 64, "tp": 2, "zero": 1, "micro_batch": 1}),
    ("mixtral-8x7b", "dgx-h100:2", {"batch": 64, "ep": 8, "zero": 1, "micro_batch": 1}),
    ("gpt3-6b7", "ethernet-25-v100:4", {"batch": 32, "micro_batch": 1, "zero": 3, "recompute": "full"}),
)


def without_host(found: Estimate) -> Estimate:
    """The same step on a host that takes no time."""
    quick = replace(found.job.recipe.software, launch_s=0.0, recompute_host_s=0.0, step_s=0.0)
    return estimate_layout(
        replace(found.job, recipe=replace(found.job.recipe, stack=quick)), found.cluster, found.layout
    )


@pytest.mark.parametrize(("model", "cluster", "words"), DRAWN)
def test_the_host_binds_where_it_costs_more_than_any_other_part(model: str, cluster: str, words: Json) -> None:
    found = lockstep.estimate(model, cluster, **words)
    quick = without_host(found)
    saved_s, parts = found.step_time_s - quick.step_time_s, quick.step.breakdown_s()
    name = max(parts, key=lambda part: parts[part])
    assert abs(saved_s - parts[name]) > 0.02 * found.step_time_s
    assert found.bound_by == ("host" if saved_s > parts[name] else name)


def test_the_answer_names_the_host_as_the_bound() -> None:
    arguments = (SMALL[0], "-c", SMALL[1], "--batch", "64", "--dp", "8", "--micro-batch", "1")
    assert run("estimate", *arguments, "--json").json()["bound_by"] == "host"
    said = " ".join(run("estimate", *arguments).out.split())
    assert "bound by the time of the host, which launches kernels" in said


def test_larger_micro_batches_unbind_it() -> None:
    """The micro-batch that is taken where none is given leaves a small model computing."""
    found = lockstep.estimate(*SMALL, batch=512, dp=8)
    assert found.bound_by == "compute"
    assert found.layout.micro_batch > 1
