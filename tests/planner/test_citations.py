"""Citations: every key exists, every entry is reachable, and papers agree with what the formulas' own files say."""

import re
from dataclasses import replace
from typing import Any

import pytest
from advice_samples import DENSE, EXPERTS, NODES

from lockstep.decide.planner.citations import (
    OPTIMIZERS,
    ROOFLINE,
    RULES,
    bibliography,
    citations,
    papers,
    papers_of,
)
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.roofline import roofline
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import OPTIMIZERS as ALL_OPTIMIZERS
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.simulate.parallel.context import KINDS
from lockstep.simulate.parallel.pipeline import REGISTRY, Schedule

ARXIV = re.compile(r"\d{4}\.\d{4,5}")


def used_keys() -> set[str]:
    tables = [
        *(schedule.papers for schedule in REGISTRY.own.values()),
        *OPTIMIZERS.values(),
        ROOFLINE,
        tuple(key for key, _ in RULES),
    ]
    return {key for keys in tables for key in keys}


def test_every_key_exists_and_every_entry_is_used() -> None:
    assert used_keys() == set(papers())


def _with(**changes: Any) -> Job:
    """The dense job with another recipe."""
    return replace(DENSE, recipe=replace(DENSE.recipe, **changes))


def test_every_rule_is_reachable() -> None:
    samples = [
        (DENSE, Layout(tp=2, cp=2, dp=8, zero=3, shard=4, offload="optimizer")),
        (EXPERTS, Layout(ep=8, dp=32)),
        (_with(vocab_parallel="vocab-2"), Layout(pp=4, dp=8)),
        *((_with(cp_kind=kind), Layout(cp=2, dp=16)) for kind in KINDS),
        *((_with(train=train), Layout(dp=32, zero=3)) for train in ("dpo", "grpo", "ppo")),
        (_with(train="lora:r=8", base="nf4"), Layout(dp=32)),
        (_with(update_in_backward=True), Layout(dp=32, micro_batch=2)),
        (Job(model("resnet50"), Recipe(seq=1, batch=256), 32), Layout(dp=32)),
        (Job(model("dit-xl-2"), Recipe(seq=256, batch=256), 32), Layout(dp=32)),
        (Job(model("t5-base"), Recipe(seq=512, batch=256), 32), Layout(dp=32)),
    ]
    reached = {one.key for job, layout in samples for one in citations(estimate(job, NODES, layout))}
    assert {key for key, _ in RULES} <= reached


def test_every_schedule_and_optimizer_has_its_papers() -> None:
    assert all(schedule.papers for schedule in REGISTRY.own.values())
    assert set(OPTIMIZERS) <= set(ALL_OPTIMIZERS)
    assert all(papers_of(name) is not None for name in ALL_OPTIMIZERS)


@pytest.mark.parametrize("schedule", REGISTRY.own.values(), ids=lambda schedule: str(schedule.name))
def test_the_paper_of_a_schedule_is_the_one_that_its_file_names(schedule: Schedule) -> None:
    assert set(ARXIV.findall(schedule.source)) == {papers()[key].arxiv for key in schedule.papers}


@pytest.mark.parametrize("name", list(ALL_OPTIMIZERS))
def test_the_papers_of_an_optimizer_are_those_that_its_entry_names(name: str) -> None:
    named = set(ARXIV.findall(ALL_OPTIMIZERS[name].source)) - {papers()["rajbhandari2020"].arxiv}
    assert named <= {papers()[key].arxiv for key in papers_of(name)}


def test_unused_techniques_are_not_cited() -> None:
    plain = {one.key for one in citations(estimate(DENSE, NODES, Layout(dp=32)))}
    assert not plain & {"shoeybi2019", "liu2023", "lepikhin2020", "zhao2023", "qi2024", "ren2021", "williams2009"}
    piped = {one.key for one in citations(estimate(DENSE, NODES, Layout(pp=4, dp=8, schedule="zb-h1")))}
    assert "qi2024" in piped
    alone = Job(model("llama3-8b"), Recipe(seq=2048, batch=8), 1)
    single = {one.key for one in citations(estimate(alone, cluster("dgx-a100-80gb", gpus=1), Layout()))}
    assert not single & {"hockney1994", "thakur2005", "nccl"}


def test_model_curve_and_datasheets_are_cited() -> None:
    texts = " ".join(one.text for one in citations(estimate(DENSE, NODES, Layout(dp=32))))
    device = NODES.device
    for source in (DENSE.model.source, device.efficiency.source, device.provenance["memory_bandwidth_Bps"].text):
        assert source in texts
    assert device.provenance["mtbf_s"].text not in texts, "a step does not depend on failures"


def test_plans_and_rooflines_are_cited_too() -> None:
    small = Job(model("gpt2"), Recipe(seq=1024, batch=32), 8)
    found = plan(small.model, cluster("dgx-a100-40gb:1"), small.recipe)
    assert citations(found) == citations(found.best)
    keys = [one.key for one in citations(roofline(DENSE, NODES, Layout(dp=32)))]
    assert set(ROOFLINE) <= set(keys)


def test_bibtex_is_well_formed() -> None:
    answer = estimate(EXPERTS, NODES, Layout(tp=2, ep=8, dp=16, zero=3, sequence_parallel=True))
    text, keys = bibliography(answer), [one.key for one in citations(answer)]
    assert len(set(keys)) == len(keys)
    assert text.count("{") == text.count("}")
    assert re.findall(r"^@(?:article|misc)\{([^,]+),$", text, re.MULTILINE) == keys
    assert bibliography(replace(answer)) == text


def test_papers_are_complete() -> None:
    for key, paper in papers().items():
        assert key.startswith(re.sub(r"[^a-z]", "", paper.author.split(" and ")[0].split()[-1].lower())[:5]) or (
            key in ("nccl", "deepseek2024", "lamypoirier2023")
        )
        assert paper.where or paper.arxiv or paper.url, key
        assert not paper.arxiv or ARXIV.fullmatch(paper.arxiv), key


def test_papers_on_exchanges_are_cited_only_where_there_are_exchanges() -> None:
    """One device sends nothing."""
    exchanges = {"hockney1994", "thakur2005", "nccl", "cho2019", "patarasuk2009"}
    alone = Job(model("gpt2"), Recipe(seq=1024, batch=8), 1)
    pair = replace(alone, devices=2)
    cited = [
        {one.key for one in citations(estimate(job, cluster("dgx-a100-80gb").resized(job.devices), Layout(dp=dp)))}
        for job, dp in ((alone, 1), (pair, 2))
    ]
    assert not cited[0] & exchanges
    assert exchanges <= cited[1]
