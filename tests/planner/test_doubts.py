"""Doubts: what less evidence than published steps adds to the ends of an interval."""

import math
from dataclasses import replace

import pytest

from fit_scripts import fit_script
from lockstep.decide.planner.doubts import FEW, RANKS, Doubts, doubts_on, footing, known_doubts
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.support import steps_on
from lockstep.describe.hardware import Cluster, cluster, device, devices
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe


def doubts(name: str, machine: Cluster, ranks: int = 8, **words: object) -> Doubts:
    job = Job(model(name), replace(Recipe(seq=4096, batch=ranks), **words), ranks)
    return doubts_on(machine.device, job.recipe.dtype, ranks, bool(job.num_experts))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("h100-sxm", "steps"),
        ("a100-sxm-80gb", "steps"),
        ("gb200", "few"),
        ("h200", "few"),
        ("gb300", "kernels"),
        ("mi300x", "kernels"),
        ("rtx-5090", "borrowed"),
        ("trainium2", "foreign"),
    ],
)
def test_what_is_known_of_a_device(name: str, known: str) -> None:
    assert footing(device(name)) == known


def test_devices_with_steps_have_more_rows_than_those_with_few() -> None:
    """An independent reading: what is said to have steps has FEW rows or more, and the others of its kind less."""
    for one in devices():
        if footing(one) in ("steps", "few"):
            assert steps_on(one.name) >= FEW or one.name in one.efficiency.same_chip
        else:
            assert steps_on(one.name) < FEW


def test_dense_models_on_known_devices_are_not_doubted() -> None:
    assert doubts("llama3-8b", cluster("dgx-h100:1")) == Doubts()


def test_a_calibrated_cluster_is_not_doubted() -> None:
    machine = cluster("dgx-b300:1")
    paced = replace(machine, device=machine.device.paced(1.1, 0.03, "steps on it", "2026-11-30"))
    assert doubts("llama3-8b", machine).names == ("kernels",)
    assert doubts("llama3-8b", paced) == doubts_on(paced.device) == Doubts()


def test_doubts_add_in_quadrature_and_to_each_end_their_own() -> None:
    found, known = doubts("mixtral-8x7b", cluster("gb300-nvl72:8"), dtype="nvfp4"), known_doubts()
    assert found.names == ("kernels", "experts", "fp4")
    for end in ("below", "above"):
        squares = sum(known[name][end] ** 2 for name in found.names)
        assert getattr(found, end) == pytest.approx(math.sqrt(squares))


def test_more_devices_are_doubted_by_every_doubling() -> None:
    machine = cluster("dgx-h100:1024")
    found = [doubts("llama3-8b", machine, ranks).above for ranks in (RANKS, 2 * RANKS, 4 * RANKS, 8 * RANKS)]
    step = known_doubts()["scale"]["above"]
    assert found == pytest.approx([0.0, step, 2 * step, 3 * step])


def test_the_answer_says_what_it_doubts() -> None:
    machine = cluster("dgx-b300:1")
    found = estimate(Job(model("llama3-8b"), Recipe(seq=4096, batch=8), 8), machine, Layout(dp=8))
    said = next(line for line in found.assumptions() if "interval of the step time" in line)
    assert known_doubts()["kernels"]["words"] in said


def test_the_fit_adds_nothing_where_sources_err_as_programs_do() -> None:
    """Sources that all lie at zero need no more than the base; of errors with a sign only that end is moved."""
    script = fit_script("doubts")
    assert script.about_mean([0.0, 0.0, 0.0]) == (0.0, 0.0)
    low, high = script.about_mean([0.2, 0.2, 0.2])
    assert low == 0.0
    base = math.log1p(script.known_spread().above)
    assert math.hypot(high, base) == pytest.approx(0.2 + base)


def test_a_curve_of_ones_own_is_as_wide_as_it_states() -> None:
    known = device("b300")
    own = replace(known, name="mine", efficiency=replace(known.efficiency, name="mine", typical_error_frac=0.05))
    assert footing(own) == "stated"
    narrow, wide = (
        doubts_on(own),
        doubts_on(replace(own, efficiency=replace(own.efficiency, typical_error_frac=0.1))),
    )
    assert (wide.below, wide.above) == pytest.approx((2 * narrow.below, 2 * narrow.above))
    assert narrow.above == pytest.approx(0.05 * 1.645)
