"""Searches of several batches together find what each search finds alone, to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lockstep
from lockstep.decide.planner.alike import TOGETHER, alike
from lockstep.decide.planner.search import Scored, search, searches
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout
from recipes import recipe_by

NODES = cluster("dgx-a100-40gb:2")
JITTER = "lognormal:mean=1,cv=0.05"
QUESTIONS = {
    "dense": ("gpt2-xl", {"seq": 1024}, (0,)),
    "experts": ("mixtral-8x7b", {"seq": 2048}, (0,)),
    "offloaded": ("gpt2-xl", {"seq": 1024, "offload_layers": 4}, (0, 1, 2)),
    "autocast and jitter": ("gpt2-xl", {"seq": 1024, "autocast": True, "jitter": JITTER}, (0,)),
    "images": ("resnet50", {"seq": 1}, (0,)),
}


def numbers(several: list[Scored]) -> list[tuple[float, float, Layout]]:
    """What an answer has of layouts; their places in grids follow from how these were cut."""
    return [(one.step_time_s, one.memory_B, one.layout) for one in several]


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("most", [400_000, 500])
def test_searching_several_batches_together_equals_separate_searches(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.decide.planner.candidates.MAX_GRID", most)
    known, words, offload = QUESTIONS[name]
    jobs = [Job(model(known), recipe_by(batch=batch, **words), 16) for batch in (48, 96, 16, 720)]
    transformer = jobs[0].transformer is not None
    space = Space(
        tp=(1, 4) if transformer else (1,), cp=(1,), ep=(1, 4) if jobs[0].num_experts else (1,),
        pp=(1, 2, 4) if transformer else (1,), micro_batch=(1, 4), layers=jobs[0].layers if transformer else 1, unit=8,
        recompute=(0, 2) if transformer else (0,), sequence_parallel=(0,), offload=offload,
    )  # fmt: skip
    together = searches(jobs, NODES, space, [None] * len(jobs))
    for job, found in zip(jobs, together, strict=True):
        alone = search(job, NODES, space)
        for name in ("best", "near", "front"):
            assert numbers(getattr(found, name)) == numbers(getattr(alone, name))
        assert (found.evaluated, found.feasible, found.rejected) == (alone.evaluated, alone.feasible, alone.rejected)
        assert (found.nearest_miss, found.host_miss) == (alone.nearest_miss, alone.host_miss)
    assert len({one.best[0].step_time_s for one in together if one.best}) == sum(bool(one.best) for one in together)


def test_shared_work_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counted(jobs: list[Job], *rest: object, **words: object) -> object:
        searched.append(len(jobs))
        return searches(jobs, *rest, **words)  # type: ignore[arg-type]

    monkeypatch.setattr("lockstep.decide.planner.alike.searches", counted)
    asked = {"cluster": "dgx-a100-40gb:2", "seq": 1024}
    with alike([128, 256, 128, 48]):
        # A batch of 48 has other micro-batches, so another space.
        found = [lockstep.plan("gpt2-xl", batch=batch, **asked).to_dict() for batch in (128, 256, 48)]
    assert searched == [2]
    assert found == [lockstep.plan("gpt2-xl", batch=batch, **asked).to_dict() for batch in (128, 256, 48)]
    assert TOGETHER.get() is None


def test_an_invalid_batch_is_refused_in_its_own_row() -> None:
    words = {"cluster": "dgx-a100-40gb:2", "seq": 1024, "objective": "time", "engine": "serial"}
    rows = lockstep.plan("gpt2-xl", batch=[128, 0, "many", 256], **words).rows
    assert [row.answer is None for row in rows] == [False, True, True, False]
    assert all("--batch" in rows[at].why for at in (1, 2))


def test_jobs_that_differ_in_more_than_the_batch_share_nothing() -> None:
    job = Job(model("gpt2-xl"), recipe_by(seq=1024, batch=64), 16)
    space = Space((1,), (1,), (1,), (1,), (1,), job.layers, 8)
    with alike([64, 128]):
        together = TOGETHER.get()
        assert together is not None
        first = together.find(job, NODES, lambda *_: space, lambda _: None, 5)
        longer = replace(job, recipe=job.recipe.having(seq=512, batch=128))
        second = together.find(longer, NODES, lambda *_: space, lambda _: None, 5)
    assert first is not None
    assert second is not None
    assert numbers(second.best) == numbers(search(longer, NODES, space).best) != numbers(first.best)
