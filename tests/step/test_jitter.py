"""Ranks that wait for slower ones: the closed form against ranks that are drawn one by one."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import PARTS, compose, price_step
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.waiting import factor_law, slower
from lockstep.simulate.play import Noise, simulate

FORWARD_S, BACKWARD_S = 1.0, 2.0
LAWS = ("normal:mean=1,cv=0.05", "lognormal:mean=1,cv=0.2", "uniform:low=0.9,high=1.1", "exponential:mean=0.3")
NARROW = LAWS[:3]
SPREAD, DRAWS = "normal:mean=1,cv=0.016", 40


MACHINE = replace(cluster("dgx-h100:2"), own_rank_spread_frac=0.0)


def job(devices: int, **words: str) -> Job:
    return Job(model("llama3-8b"), Recipe(seq=4096, batch=4 * devices, **words), devices)


def drawn_s(law: str, rank_law: str | None, inner: int, groups: int, microbatches: int, draws: int) -> np.ndarray:
    """Kernels of steps: in every pass the slowest of a group counts, at the end the slowest group."""
    rng, total_s = np.random.default_rng(1), np.zeros((draws, groups))
    whole = np.ones((draws, groups, inner))
    if rank_law is not None:
        whole = factor_law(rank_law).draw(rng, whole.size).reshape(whole.shape)
    for pass_s in microbatches * (FORWARD_S, BACKWARD_S):
        factors = factor_law(law).draw(rng, whole.size).reshape(whole.shape)
        total_s += pass_s * (whole * factors).max(axis=2)
    return total_s.max(axis=1)


@pytest.mark.parametrize("law", NARROW)
@pytest.mark.parametrize(("inner", "groups"), [(1, 1), (8, 1), (1, 16), (4, 8)])
def test_without_stages_the_closed_form_is_the_mean_of_simulated_steps(law: str, inner: int, groups: int) -> None:
    m, kernels_s = 16, 16 * (FORWARD_S + BACKWARD_S)
    found = slower(
        law, None, inner=np.array(inner), stages=1, replicas=np.array(groups), ranks=inner * groups, microbatches=m
    )
    assert found is not None
    steps_s = drawn_s(law, None, inner, groups, m, 3000)
    error_s = 4 * steps_s.std() / np.sqrt(len(steps_s))
    # Sums of 32 passes are not quite normal: a hundredth of what is waited for.
    waiting_s = found.waiting_s(kernels_s, FORWARD_S, BACKWARD_S)
    assert float(waiting_s) == pytest.approx(steps_s.mean() - kernels_s, abs=error_s + 0.02 * float(waiting_s) + 1e-9)


@pytest.mark.parametrize("ranks", [2, 64])
def test_unequal_devices_cost_the_slowest_of_all(ranks: int) -> None:
    law = "normal:mean=1,cv=0.01"
    found = slower(
        None, law, inner=np.array(1), stages=1, replicas=np.array(ranks), ranks=ranks, microbatches=np.array(4)
    )
    assert found is not None
    slowest = factor_law(law).draw(np.random.default_rng(0), 20_000 * ranks).reshape(-1, ranks).max(axis=1)
    assert float(found.waiting_s(100.0, 1.0, 1.0)) == pytest.approx(100 * (slowest.mean() - 1), rel=0.02)


def drawn_steps_s(
    name: str, size: tuple[int, int, int], inner: int, groups: int, times: pipelines.Times
) -> tuple[float, np.ndarray]:
    """Seconds of a step, and those of steps whose devices have a speed each, of which a stage has its slowest's."""
    schedule, (stages, _, chunks) = pipelines.get(name), size
    program = pipelines.program_of(schedule, schedule.order(*size), chunks, times)
    rng, columns, steps_s = np.random.default_rng(2), program.columns, []
    for _ in range(DRAWS):
        factors = factor_law(SPREAD).draw(rng, groups * stages * inner).reshape(groups, stages, inner).max(axis=2)
        slowed = (columns["duration_s"] * one[columns["rank"]] for one in factors)
        steps = (replace(program, columns={**columns, "duration_s": duration_s}) for duration_s in slowed)
        steps_s.append(max(simulate(one).makespan_s for one in steps))
    return simulate(program).makespan_s, np.array(steps_s)


@pytest.mark.parametrize(
    ("name", "stages", "microbatches", "chunks", "inner", "groups", "more"),
    [
        ("1f1b", 2, 16, 1, 8, 8, 0.0), ("1f1b", 8, 16, 1, 8, 4, 0.0), ("1f1b", 16, 16, 1, 8, 4, 0.1),
        ("1f1b", 8, 8, 1, 2, 16, 0.1), ("gpipe", 4, 16, 1, 8, 4, 0.0), ("interleaved", 4, 16, 2, 8, 4, 0.0),
    ],
)  # fmt: skip
def test_unequal_devices_in_a_pipeline_match_simulated_ones(
    name: str, stages: int, microbatches: int, chunks: int, inner: int, groups: int, more: float
) -> None:
    """Of 1F1B about as much, of chunks that take turns at most a half more; never more than if all were the slowest."""
    times = pipelines.Times(
        FORWARD_S, BACKWARD_S, weight_s=1.0, last_forward_s=more * FORWARD_S, last_backward_s=more * BACKWARD_S
    )
    nominal_s, steps_s = drawn_steps_s(name, (stages, microbatches, chunks), inner, groups, times)
    found = slower(
        None, SPREAD, inner=np.array(inner), stages=stages, replicas=np.array(groups), ranks=inner * stages * groups,
        microbatches=microbatches, chunks=chunks,
    )  # fmt: skip
    assert found is not None
    pass_s, late_s = microbatches * (FORWARD_S + BACKWARD_S), steps_s - nominal_s
    fill_s = nominal_s - (1 + more) * pass_s
    waiting_s = float(found.waiting_s(nominal_s, FORWARD_S, BACKWARD_S, fill_s, more * pass_s))
    error_s = 4 * late_s.std() / np.sqrt(DRAWS)
    assert 0.8 * late_s.mean() - error_s < waiting_s < 1.5 * late_s.mean() + error_s
    if name == "1f1b":
        assert waiting_s == pytest.approx(late_s.mean(), abs=error_s + 0.12 * waiting_s)
    assert waiting_s <= float(found.waiting_s(nominal_s, FORWARD_S, BACKWARD_S))


@pytest.mark.parametrize("layout", [
    Layout(dp=2, tp=8, pp=4, micro_batch=4, recompute="full"),
    Layout(dp=2, tp=8, pp=4, schedule="interleaved", vpp=4),
    Layout(dp=2, tp=8, pp=4, schedule="gpipe"),
    Layout(dp=4, tp=8, pp=2, stages=(20, 12)),
])  # fmt: skip
def test_a_pipeline_waits_between_the_slowest_of_a_stage_and_of_all_ranks(layout: Layout) -> None:
    machine = replace(cluster("dgx-h100:8"), own_rank_spread_frac=0.02)
    step, found = price_step(job(64), machine, layout.grid()), compose(job(64), machine, layout.grid()).slower
    assert found is not None
    assert 0 < float(found.of_fill) < float(found.of_stage) < float(found.of_path)
    busy_s, path_s = float(step.compute_s), float(step.compute_s + step.bubble_s)
    assert float(found.of_fill) * busy_s < float(step.waiting_s) < float(found.of_path) * path_s


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 32), (4, 16), (8, 32)])
@pytest.mark.parametrize("name", ["1f1b", "gpipe", "zb-h1"])
def test_a_pipeline_waits_no_longer_than_if_every_round_waited(name: str, stages: int, microbatches: int) -> None:
    law, schedule = "normal:mean=1,cv=0.05", pipelines.get(name)
    times = pipelines.Times(forward_s=FORWARD_S, backward_s=BACKWARD_S, weight_s=1.0)
    program = pipelines.program_of(schedule, schedule.order(stages, microbatches, 1), 1, times)
    nominal_s = simulate(program).makespan_s
    sample = simulate(program, noise=Noise(per_operation=factor_law(law)), draws=100).sample
    assert sample is not None
    found = slower(
        law, None, inner=np.array(1), stages=stages, replicas=np.array(1), ranks=1, microbatches=microbatches
    )
    assert found is not None
    bound_s = float(found.waiting_s(nominal_s, FORWARD_S, BACKWARD_S))
    late_s = sample.mean_s - nominal_s
    assert 0 < late_s < bound_s
    assert bound_s < (2.2 if name == "1f1b" else 12) * late_s


@pytest.mark.parametrize("zero", [1, 3])
def test_more_devices_wait_longer_so_weak_scaling_falls(zero: int) -> None:
    waited, shares = [], []
    for nodes in (1, 8, 64, 256):
        machine = cluster(f"dgx-h100:{nodes}")
        layout = Layout(dp=machine.num_devices // 8, tp=8, zero=zero, recompute="full")
        step = price_step(job(machine.num_devices, rank_jitter="normal:mean=1,cv=0.01"), machine, layout.grid())
        waited.append(float(step.waiting_s))
        shares.append(float(step.waiting_s / step.step_time_s))
    assert waited == sorted(waited)
    assert 0 < max(shares) < 0.1


def test_without_a_jitter_law_there_are_no_waits() -> None:
    machine = MACHINE
    layout = Layout(dp=2, tp=8)
    assert float(price_step(job(16), machine, layout.grid()).waiting_s) == 0
    same = job(16, jitter="constant:value=1")
    assert float(price_step(same, machine, layout.grid()).waiting_s) == pytest.approx(0, abs=1e-12)


def test_device_spread_applies_unless_a_law_overrides_it() -> None:
    layout, spread = Layout(dp=2, tp=8), replace(MACHINE, own_rank_spread_frac=0.02)
    found = price_step(job(16), spread, layout.grid())
    said = price_step(job(16, rank_jitter="normal:mean=1,cv=0.02"), MACHINE, layout.grid())
    assert 0 < float(found.waiting_s) == pytest.approx(float(said.waiting_s))
    alike = price_step(job(16, rank_jitter="constant:value=1"), spread, layout.grid())
    assert float(alike.waiting_s) == pytest.approx(0, abs=1e-12)


def test_waits_for_slower_ranks_are_a_separate_part() -> None:
    machine, layout = MACHINE, Layout(dp=2, tp=8)
    even = price_step(job(16), machine, layout.grid()).breakdown_s()
    step = price_step(job(16, jitter="lognormal:mean=1,cv=0.1"), machine, layout.grid())
    late = step.breakdown_s()
    assert float(step.waiting_s) > 0
    assert late.pop("waiting") == pytest.approx(float(step.waiting_s))
    assert even.pop("waiting") == 0
    assert late == even
    assert set(late) == set(PARTS) - {"waiting"}


def test_only_the_shape_of_a_law_counts_and_more_spread_costs_more() -> None:
    machine, layout = MACHINE, Layout(dp=4, tp=4)
    waited = [
        float(price_step(job(16, jitter=f"lognormal:mean={mean},cv={cv}"), machine, layout.grid()).waiting_s)
        for mean, cv in (("1", 0.05), ("3", 0.05), ("1", 0.1))
    ]
    assert waited[0] == pytest.approx(waited[1])
    assert waited[2] > 1.9 * waited[0]


def test_groups_that_gather_per_layer_wait_per_layer() -> None:
    machine = MACHINE
    waited = [compose(job(16, jitter=LAWS[0]), machine, Layout(dp=16, zero=zero).grid()).slower for zero in (1, 3)]
    assert waited[0] is not None
    assert waited[1] is not None
    assert float(waited[0].of_path) == 0 < float(waited[1].of_path)


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ("pareto:minimum=1,shape=1.5", "no variance"),
        ("lognormal:mean=1,cv=0.9", "at most 50%"),
        ("normal:mean=0,std=1", "mean > 0"),
        ("gauss:mean=1", "gauss"),
    ],
)
def test_an_invalid_jitter_law_is_refused(law: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        factor_law(law, "--jitter")


def test_pricing_several_layouts_equals_pricing_each() -> None:
    from lockstep.price.layout import stack

    machine, asked = MACHINE, job(16, jitter=LAWS[1], rank_jitter=LAWS[0])
    layouts = [Layout(dp=16), Layout(dp=4, tp=4, zero=3), replace(Layout(dp=2, tp=8), micro_batch=2)]
    together = price_step(asked, machine, stack(layouts).rows(np.arange(3))).step_time_s
    alone = [float(price_step(asked, machine, one.grid()).step_time_s) for one in layouts]
    assert np.asarray(together).tolist() == pytest.approx(alone)
