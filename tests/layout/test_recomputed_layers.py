"""Some layers of a stage are recomputed and the others keep their activations: between all and none, exactly."""

from dataclasses import replace

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, check, memory, stage_memory
from lockstep.price.step import price_step
from lockstep.price.step.program import step_program
from lockstep.simulate.play import simulate

MACHINE = cluster("dgx-h100:1")
JOB = Job(model("llama3-8b"), Recipe(seq=4096, batch=32), 8)
LAYOUTS = (
    (Layout(dp=8, zero=1), 32),
    (Layout(dp=2, tp=2, pp=2, sequence_parallel=True), 16),
    (Layout(dp=4, pp=2, vpp=4, schedule="interleaved"), 4),
    (Layout(dp=4, pp=2, stages=(16, 16)), 16),
)
"""Layouts, and the layers of a stage or chunk."""


def asked(layers: int) -> Job:
    return replace(JOB, recipe=replace(JOB.recipe, recompute_layers=layers))


def found(layers: int, layout: Layout, recompute: str = "full") -> tuple[float, float, float]:
    """(bytes that the first stage keeps, step seconds, hardware FLOPs over model FLOPs)."""
    job, placed = asked(layers), replace(layout, recompute=recompute)
    one, kept = estimate(job, MACHINE, placed), stage_memory(job, MACHINE, placed.grid(), 0)
    return float(kept.activations_B), one.step_time_s, one.hfu_frac / one.mfu_frac


@pytest.mark.parametrize(("layout", "held"), LAYOUTS, ids=str)
def test_memory_and_work_follow_the_number_of_layers(layout: Layout, held: int) -> None:
    """Kept bytes and executed FLOPs are straight lines between none and all; the time lies between."""
    none, every = found(0, layout, "none"), found(0, layout)
    assert found(held, layout) == found(held + 1, layout) == every
    for layers in (1, held // 2, held - 1):
        share, one = layers / held, found(layers, layout)
        for at in (0, 2):
            assert one[at] == pytest.approx(none[at] + share * (every[at] - none[at]), rel=1e-9)
        assert none[1] < one[1] < every[1]


@pytest.mark.parametrize(("layout", "held"), [one for one in LAYOUTS if one[0].vpp == 1], ids=str)
def test_the_simulated_step_takes_the_priced_time(layout: Layout, held: int) -> None:
    job, placed = asked(held // 2), replace(layout, recompute="full")
    simulated_s = float(simulate(step_program(job, MACHINE, placed)).makespan_s)
    assert simulated_s == pytest.approx(float(price_step(job, MACHINE, placed.grid()).step_time_s), rel=1e-9)


def test_recompute_layers_requires_full_recomputation() -> None:
    for recompute in ("none", "selective"):
        with pytest.raises(BadInput, match="for --recompute full"):
            check(Layout(dp=8, recompute=recompute), asked(2))
    with pytest.raises(BadInput, match="a count of layers"):
        asked(-1)
    searched = lockstep.plan("llama3-8b", "dgx-h100", batch=32, seq=4096, recompute_layers=2).plans
    assert {one.layout.recompute for one in searched} == {"full"}


def test_memory_falls_with_every_recomputed_layer() -> None:
    """The least number of recomputed layers that fits is found by asking: memory falls with every one."""
    grid = Layout(dp=8, zero=1, recompute="full").grid()
    sizes = [float(memory(asked(layers), MACHINE, grid).total_B) for layers in range(1, 33)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 32
