"""The planner is exact on its space: against scoring layouts one by one, with pruning off, and by its own counts."""

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from effort import ALL
from lockstep.base.errors import BadInput, Infeasible
from lockstep.decide.planner.candidates import DUPLICATE, duplicates
from lockstep.decide.planner.estimate import estimate, estimates
from lockstep.decide.planner.goal import device_counts
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.search import Findings, search
from lockstep.decide.planner.space import Space, default_space
from lockstep.describe.hardware import Cluster, Level, cluster
from lockstep.describe.workload import RECOMPUTE, model
from lockstep.price.layout import Job, Layout, Recipe, broken_rules
from lockstep.price.step.program import step_program
from lockstep.simulate.play import simulate

NODES = cluster("dgx-a100-40gb:2")
GPT = Job(model("gpt2-xl"), Recipe(seq=1024, batch=48), 16)
MOE = Job(model("mixtral-8x7b"), Recipe(seq=2048, batch=32), 16)


def small(job: Job) -> Space:
    """A space small enough to score one layout at a time, with something for every rule to reject."""
    return Space(
        tp=(1, 2, 5, 8) if ALL else (1, 5, 8), cp=(1, 2), ep=(1, 4) if job.num_experts else (1,), pp=(1, 2, 4),
        micro_batch=(1, 3, 4) if ALL else (1, 3),
        layers=job.layers, unit=8, recompute=(0, 2), schedules=("1f1b", "zb-h1", "interleaved"),
    )  # fmt: skip


def one_by_one(
    job: Job, hardware: Cluster, space: Space
) -> tuple[list[tuple[float, float, Layout]], int, Counter[str]]:
    """(feasible as (seconds, bytes, layout), layouts that keep the rules, rejections) by plain loops."""
    feasible, valid, layouts = [], 0, 0
    rejected: Counter[str] = Counter()
    axes = (space.tp, space.cp, space.ep, space.micro_batch, space.sharding, space.recompute, space.sequence_parallel)
    for pp in space.pp:
        for tp, cp, ep, mb, (zero, hsdp), mode, sp in product(*axes):
            for schedule, chunks in space.schedules_of(pp):
                dp = max(1, job.devices // (tp * cp * pp))
                shard = math.gcd(max(1, space.unit // tp), dp * cp) if hsdp else 0
                layout = Layout(
                    dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, vpp=chunks, micro_batch=mb, zero=zero, shard=shard,
                    recompute=RECOMPUTE[mode], sequence_parallel=bool(sp), schedule=schedule,
                )  # fmt: skip
                if layout.world != job.devices:
                    continue
                layouts += 1
                grid = layout.grid()
                broken = [key for key, mask in broken_rules(grid, job).items() if mask.any()]
                if bool(duplicates(grid)):
                    broken.append(DUPLICATE)
                if broken:
                    rejected[broken[0]] += 1
                    continue
                valid += 1
                found = estimate(job, hardware, layout)
                if found.memory.fits:
                    feasible.append((found.step_time_s, float(found.memory.total_B), layout))
                else:
                    rejected["memory"] += 1
    assert layouts == len(feasible) + sum(rejected.values())
    return feasible, valid, rejected


@pytest.fixture(scope="module", params=["gpt", "moe"])
def both(
    request: pytest.FixtureRequest,
) -> tuple[Job, Space, Findings, tuple[list[tuple[float, float, Layout]], int, Counter[str]]]:
    job = GPT if request.param == "gpt" else MOE
    space = small(job)
    return job, space, search(job, NODES, space, top=10), one_by_one(job, NODES, space)


def test_the_best_layouts_are_those_of_a_plain_loop(both: tuple) -> None:  # type: ignore[type-arg]
    _, _, found, (feasible, _, _) = both
    expected = sorted(feasible, key=lambda one: (one[0], one[1]))[:10]
    assert [one.step_time_s for one in found.best] == pytest.approx([one[0] for one in expected], rel=1e-12)
    assert [one.memory_B for one in found.best] == pytest.approx([one[1] for one in expected], rel=1e-12)


def test_counts_are_those_of_a_plain_loop(both: tuple) -> None:  # type: ignore[type-arg]
    _, space, found, (feasible, valid, rejected) = both
    assert found.feasible == len(feasible)
    assert found.evaluated == valid
    assert found.rejected == dict(rejected)
    assert found.feasible + sum(found.rejected.values()) <= space.size


def test_the_front_contains_the_undominated_layouts(both: tuple) -> None:  # type: ignore[type-arg]
    _, _, found, (feasible, _, _) = both
    points = {(seconds, memory_B) for seconds, memory_B, _ in feasible}
    undominated = sorted(
        one for one in points if not any(o[0] <= one[0] and o[1] <= one[1] and o != one for o in points)
    )
    assert np.array([(one.step_time_s, one.memory_B) for one in found.front]) == pytest.approx(
        np.array(undominated), rel=1e-12
    )


def test_pruning_changes_nothing(both: tuple) -> None:  # type: ignore[type-arg]
    job, space, found, _ = both
    assert search(job, NODES, space, top=10, prune=False) == found


def test_cutting_the_grid_changes_nothing(both: tuple, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[type-arg]
    job, space, found, _ = both
    monkeypatch.setattr("lockstep.decide.planner.candidates.MAX_GRID", 10)
    cut = search(job, NODES, space, top=10)
    assert [(one.step_time_s, one.layout) for one in cut.best] == [(one.step_time_s, one.layout) for one in found.best]
    assert [one.layout for one in cut.front] == [one.layout for one in found.front]
    assert (cut.evaluated, cut.feasible, cut.rejected) == (found.evaluated, found.feasible, found.rejected)


def test_rows_of_a_grid_contain_the_layouts_of_the_whole_grid() -> None:
    grid = small(MOE).grid(2, 16)
    inner = int(np.prod(grid.shape[1:]))
    whole = grid.layouts(np.arange(grid.shape[0] * inner))
    rows = np.array([7, 0, 23])
    assert len(set(whole)) == len(whole)
    assert grid.rows(rows).layouts(np.arange(3 * inner)) == [
        whole[row * inner + i] for row in rows for i in range(inner)
    ]


def test_returned_layouts_simulate_to_their_time(both: tuple) -> None:  # type: ignore[type-arg]
    """A sample of the search: the closed form is the simulation of the step's program, or within its stated bound."""
    job, _, found, _ = both
    for one in found.front:
        simulated = float(simulate(step_program(job, NODES, one.layout)).makespan_s)
        if one.layout.schedule in ("1f1b", "gpipe"):
            assert one.step_time_s == pytest.approx(simulated, rel=1e-12)
        else:
            assert simulated * 0.995 <= one.step_time_s <= simulated * 1.1


def test_ties_go_to_less_memory_then_to_the_first_in_the_space() -> None:
    found = search(GPT, NODES, small(GPT), top=50)
    assert found.best == sorted(found.best, key=lambda one: (one.step_time_s, one.memory_B, one.place))


@pytest.mark.parametrize("better", ["memory", "links", "choices"])
def test_better_hardware_never_gives_a_worse_best(better: str) -> None:
    space, hardware = small(GPT), NODES
    if better == "memory":
        hardware = replace(NODES, device=replace(NODES.device, memory_B=2 * NODES.device.memory_B))
    elif better == "links":
        links = [replace(level.link, bandwidth_Bps=2 * level.link.bandwidth_Bps) for level in NODES.levels]
        levels = tuple(replace(level, link=link) for level, link in zip(NODES.levels, links, strict=True))
        hardware = replace(NODES, levels=levels)
    else:
        space = replace(space, micro_batch=(1, 2, 3, 4, 8), recompute=(0, 1, 2))
    assert search(GPT, hardware, space).best[0].step_time_s <= search(GPT, NODES, small(GPT)).best[0].step_time_s


def test_ctrl_c_keeps_known_results() -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = search(GPT, NODES, small(GPT), progress=stop)
    assert not found.complete
    assert found.best
    assert found.evaluated < search(GPT, NODES, small(GPT)).evaluated


def test_an_infeasible_plan_names_the_missing_memory() -> None:
    with pytest.raises(Infeasible, match="too much") as caught:
        plan(model("gpt3-175b"), cluster("dgx-a100-40gb:1"), Recipe(seq=2048, batch=64))
    memory = caught.value.violations[0]
    assert memory.why == "memory"
    assert memory.excess > 0
    assert memory.limit == cluster("dgx-a100-40gb").device.memory_B


def test_the_nearest_miss_is_the_smallest_excess() -> None:
    job = replace(GPT, recipe=replace(GPT.recipe, batch=192))
    found = search(job, NODES, replace(small(job), micro_batch=(1, 4, 12), recompute=(0,)))
    assert found.nearest_miss is not None
    assert found.nearest_miss.memory_B > NODES.device.memory_B
    assert float(estimate(job, NODES, found.nearest_miss.layout).memory.total_B) == pytest.approx(
        found.nearest_miss.memory_B
    )


def test_a_deadline_picks_the_fewest_sufficient_devices() -> None:
    whole, recipe, tokens = cluster("dgx-h100:16"), Recipe(seq=4096, batch=256), 3e11
    described = model("llama3-8b")
    found = plan(described, whole, recipe, tokens=tokens, deadline_s=30 * 86400.0)
    counts = device_counts(whole)
    devices = found.job.devices
    assert found.best.campaign(tokens)[0] <= 30
    fewer = [count for count in counts if count < devices]
    for count in fewer[-2:]:
        slower = plan(described, whole.resized(count), recipe, tokens=tokens)
        assert slower.best.campaign(tokens)[0] > 30


def test_numbers_of_devices_to_try_fill_every_level() -> None:
    """Four racks of six nodes of eight: 8 and 16 nodes would leave racks unequal."""
    link = cluster("dgx-h100").levels[0].link
    racks = Cluster(
        "racks",
        cluster("dgx-h100").device,
        tuple(Level(name, size, link) for name, size in (("node", 8), ("rack", 6), ("hall", 4))),
    )
    counts = device_counts(racks)
    assert counts == [1, 2, 4, *(8 * nodes for nodes in (1, 2, 3, 4, 6, 12, 24))]
    assert [racks.resized(count).num_devices for count in counts] == counts
    assert device_counts(cluster("dgx-h100:3")) == [1, 2, 4, 8, 16, 24]
    assert device_counts(cluster("dgx-h100:3").resized(6)) == [1, 2, 6]
    assert device_counts(cluster("dgx-h100").resized(1)) == [1]


def test_an_impossible_deadline_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="within 60 min: even at their full peak rate they take at least") as caught:
        plan(model("llama3-70b"), cluster("dgx-h100:1"), Recipe(seq=4096, batch=64), tokens=1e13, deadline_s=3600.0)
    (missed,) = caught.value.violations
    peak_flops = 8 * max(cluster("dgx-h100").device.peak_flops.values())
    assert missed.excess + missed.limit >= 3 * 69e9 * 1e13 / peak_flops


def test_a_missed_deadline_reports_the_shortest_time() -> None:
    described, whole, recipe = model("llama3-8b"), cluster("dgx-h100:2"), Recipe(seq=4096, batch=256)
    days, _ = plan(described, whole, recipe, tokens=1e11).best.campaign(1e11)
    with pytest.raises(Infeasible, match="the fastest takes") as caught:
        plan(described, whole, recipe, tokens=1e11, deadline_s=0.9 * days * 86400.0)
    (missed,) = caught.value.violations
    assert missed.margin_frac == pytest.approx(1 / 0.9 - 1)


def test_cost_never_exceeds_that_of_the_whole_cluster() -> None:
    whole, recipe = cluster("cloud-h100:8"), Recipe(seq=4096, batch=256)
    cheap = plan(model("llama3-8b"), whole, recipe, objective="cost")
    fast = plan(model("llama3-8b"), whole, recipe)
    assert cheap.best.cost_per_token is not None
    assert fast.best.cost_per_token is not None
    assert cheap.best.cost_per_token <= fast.best.cost_per_token
    assert cheap.best.step_time_s >= fast.best.step_time_s


def test_cost_without_a_price_is_refused() -> None:
    unpriced = replace(NODES, price_per_hour_usd=None, device=replace(NODES.device, price_per_hour_usd=None))
    with pytest.raises(BadInput, match="no price is known"):
        plan(model("gpt2-xl"), unpriced, Recipe(seq=1024, batch=48), objective="cost")


def test_a_plan_explains_itself() -> None:
    found = plan(model("gpt2-xl"), NODES, GPT.recipe, tokens=1e9)
    answer = found.to_dict()
    assert answer["evaluated"] == answer["feasible"] + sum(
        row["count"] for row in answer["rejected"] if row["why"] == "memory"
    )
    assert answer["plans"][0]["step_time_s"] == min(row["step_time_s"] for row in answer["plans"])
    assert any("uncalibrated" in text or "fitted" in text for text in answer["assumptions"])
    assert answer["days"] > 0
    assert f"{GPT.model.name} on 16" in found.verdict()
    assert all(0 < row["causal_mfu_frac"] <= row["hfu_frac"] <= 1 for row in answer["plans"])
    assert all(np.isfinite(row["mfu_frac"]) and row["mfu_frac"] >= row["causal_mfu_frac"] for row in answer["plans"])


def test_the_default_space_holds_every_factorisation() -> None:
    space = default_space(replace(GPT, devices=24), 8)
    assert space.tp == (1,)  # 25 heads
    assert space.pp == (1, 2, 3, 4, 6, 8, 12, 24)
    assert default_space(replace(MOE, devices=16), 8).ep == (1, 2, 4, 8)


def test_estimates_together_are_estimates_alone(both: tuple) -> None:  # type: ignore[type-arg]
    job, _, found, _ = both
    layouts = [one.layout for one in (*found.best, *found.front)]
    for layout, together in zip(layouts, estimates(job, NODES, layouts), strict=True):
        alone = estimate(job, NODES, layout)
        assert together.layout == layout
        assert together.step.breakdown_s() == pytest.approx(alone.step.breakdown_s(), rel=1e-12, abs=1e-15)
        both_memories = together.memory.to_dict(), alone.memory.to_dict()
        assert both_memories[0].pop("fullest_at") == both_memories[1].pop("fullest_at")
        assert both_memories[0] == pytest.approx(both_memories[1], rel=1e-12)
        between = together.interval, alone.interval
        assert between[0].to_dict() == pytest.approx(between[1].to_dict(), rel=1e-12)
