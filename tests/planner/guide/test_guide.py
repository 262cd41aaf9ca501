"""The guide never promises what does not run, never beats the planner, and each rule answers as its source says."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import drawn
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.guide import RULES, Guidance, guide
from lockstep.decide.planner.guide.draft import Draft
from lockstep.decide.planner.guide.rules.bubble import bubble_frac, decide
from lockstep.describe.hardware import Cluster, Level, cluster, link
from lockstep.describe.workload import model
from lockstep.price.layout import Layout, broken_by
from lockstep.show.verbs.words.question import read_question
from lockstep.simulate.parallel.pipeline import get

PANEL = [
    ("gpt2", "dgx-a100-40gb:1", 64, None),
    ("bert-large", "dgx-v100:4", 256, None),
    ("resnet50", "big-basin-p100:4", 1024, None),
    ("llama3-8b", "dgx-h100:4", 256, None),
    ("llama3-8b", "ethernet-25-v100:4", 32, None),
    ("llama2-7b", "dgx-a100-40gb:64", 96, None),
    ("llama3-70b", "dgx-h100:64", 1024, None),
    ("llama3-405b", "dgx-h100:128", 1024, None),
    ("llama3-8b", "dgx-h100:8", 64, 1048576),
    ("gpt3-175b", "dgx-a100-80gb:128", 1536, None),
    ("mixtral-8x7b", "dgx-h100:16", 512, None),
    ("deepseek-v2", "hgx-h800:32", 1024, None),
]


@cache
def ask(name: str, machine: str, batch: int, seq: int | None = None) -> Guidance:
    asked = read_question(name, machine, batch=batch, seq=seq)
    return guide(asked.model, asked.cluster, asked.recipe)


def answers(found: Guidance) -> dict[str, str]:
    return {rule.name: finding.answer for rule, finding in found.findings}


def promises_hold(found: Guidance) -> None:
    """What a guidance says about its layout, checked from outside."""
    runs = not broken_by(found.layout, found.job)
    fits = runs and bool(estimate(found.job, found.cluster, found.layout).memory.fits)
    assert found.feasible == fits
    if found.feasible:
        assert found.layout.world == found.job.devices
        assert found.optimum is not None, "the planner's space holds what the rules can say"
        assert found.slower_frac is not None
        assert found.slower_frac >= -1e-9


@pytest.mark.parametrize("case", PANEL, ids=lambda case: f"{case[0]} on {case[1]}")
def test_the_guides_layout_runs_and_is_not_better_than_the_best(case: tuple[str, str, int, int | None]) -> None:
    promises_hold(ask(*case))


@pytest.mark.parametrize("case", PANEL, ids=lambda case: f"{case[0]} on {case[1]}")
def test_the_rules_find_a_layout_within_half_again_of_the_best(
    case: tuple[str, str, int, int | None],
) -> None:
    found = ask(*case)
    assert found.feasible
    assert found.slower_frac is not None
    assert found.slower_frac < 0.5


@settings(max_examples=drawn(30), deadline=None)
@given(
    name=st.sampled_from(["gpt2", "gpt3-6b7", "llama3-8b", "mixtral-8x7b", "bert-large", "resnet50", "llama2-70b"]),
    base=st.sampled_from(["dgx-a100-40gb", "dgx-h100", "workstation-4090", "ethernet-10-v100"]),
    node=st.sampled_from([1, 2, 3, 4, 8]),
    nodes=st.integers(1, 6),
    outside=st.sampled_from(["ndr", "ethernet-10", "wan"]),
    batch=st.integers(1, 96),
    seq=st.sampled_from([128, 1024, 8192]),
)
def test_the_guide_keeps_its_promises_on_random_machines(
    name: str, base: str, node: int, nodes: int, outside: str, batch: int, seq: int
) -> None:
    inner = replace(cluster(base).levels[0], size=node)
    machine = replace(cluster(base), levels=(inner, Level("outside", nodes, link(outside))))
    asked = read_question(name, machine, batch=batch, seq=None if name == "resnet50" else seq)
    found = guide(asked.model, asked.cluster, asked.recipe)
    promises_hold(found)
    assert [rule.name for rule, _ in found.findings] == [rule.name for rule in RULES]
    assert all(finding.because for _, finding in found.findings)


def test_a_model_that_fits_is_only_replicated() -> None:
    found = ask("gpt2", "dgx-a100-40gb:1", 64, None)
    assert answers(found)["one device"] == "yes"
    assert (found.layout.tp, found.layout.pp, found.layout.cp, found.layout.dp) == (1, 1, 1, 8)
    assert found.layout.recompute == "none"


@pytest.mark.parametrize("case", PANEL, ids=lambda case: f"{case[0]} on {case[1]}")
def test_expert_parallelism_is_used_exactly_for_models_with_experts(case: tuple[str, str, int, int | None]) -> None:
    found = ask(*case)
    assert (found.layout.ep > 1) == (found.job.num_experts > 0)


@pytest.mark.parametrize("case", PANEL, ids=lambda case: f"{case[0]} on {case[1]}")
def test_tensor_parallelism_stays_in_the_node(case: tuple[str, str, int, int | None]) -> None:
    assert ask(*case).layout.tp <= ask(*case).cluster.devices_per_unit(0)


def test_a_long_sequence_uses_context_parallelism() -> None:
    found = ask("llama3-8b", "dgx-h100:8", 64, 1048576)
    assert found.layout.cp > 1
    assert answers(found)["context"] == f"yes, tp 8, cp {found.layout.cp}"
    assert ask("llama3-8b", "dgx-h100:4", 256, None).layout.cp == 1


def test_a_small_batch_makes_replicas_wider() -> None:
    """96 sequences feed at most gcd(512, 96) = 32 replicas."""
    found = ask("llama2-7b", "dgx-a100-40gb:64", 96, None)
    assert found.layout.dp <= 32
    assert answers(found)["batch"] == "yes"


def test_a_wide_layer_uses_tensor_parallelism_on_a_small_device() -> None:
    """A layer of PaLM 540B has 4.5B parameters: 9 GB gathered and 18 GB of gradients, of 16 GB."""
    found = ask("palm-540b", "tpu-v5e:512", 4096)
    assert answers(found)["width"].startswith("yes, tp")
    assert answers(ask("palm-540b", "dgx-h200:64", 1024))["width"] == "no"


def test_gathers_hide_on_a_fast_network_and_not_on_a_slow_one() -> None:
    """The same model and devices: ZeRO-3 over InfiniBand, stages over 10 Gbit/s."""
    fast = cluster("dgx-h100:4")
    slow = replace(fast, levels=(fast.levels[0], Level("outside", 4, link("ethernet-10"))))
    asked = read_question("llama3-8b", fast, batch=256)
    assert guide(asked.model, fast, asked.recipe).layout.zero == 3
    assert guide(asked.model, slow, asked.recipe).layout.zero == 1


def test_slow_links_between_nodes_are_crossed_by_stages() -> None:
    found = ask("llama3-8b", "ethernet-25-v100:4", 32, None)
    assert answers(found)["network"].startswith("yes, 2 stages")
    numbers = next(finding.numbers for rule, finding in found.findings if rule.name == "network")
    assert numbers["staged_traffic_share"] < numbers["traffic_share"]


@given(stages=st.integers(2, 16), rounds=st.integers(1, 8), chunks=st.sampled_from([1, 2, 3]))
def test_the_bubble_is_that_of_the_schedules(stages: int, rounds: int, chunks: int) -> None:
    microbatches, schedule = stages * rounds, get("1f1b" if chunks == 1 else "interleaved")
    found = schedule.price(stages, microbatches, chunks=chunks, forward_s=1.0, backward_s=2.0)
    idle = 1 - 3.0 * microbatches / float(found.makespan_s)
    assert bubble_frac(stages, microbatches, chunks) == pytest.approx(idle)


def test_the_folklore_of_four_micro_batches_per_stage_leaves_a_sixth() -> None:
    assert bubble_frac(8, 32) == pytest.approx(0.179, abs=5e-4)
    assert bubble_frac(8, 63) == pytest.approx(0.10)


def test_a_listed_difference_is_the_effect_of_that_option_alone() -> None:
    found = ask("gpt3-175b", "dgx-a100-80gb:128", 1536, None)
    assert found.estimate is not None
    assert found.optimum is not None
    assert found.differences
    for each in found.differences:
        assert each.rules != each.optimum
        if each.word == "pp" and each.step_time_s is not None:
            stages = found.optimum.layout.pp
            layout = replace(found.layout, pp=stages, dp=found.job.devices // stages // found.layout.tp)
            step_s = estimate(found.job, found.cluster, layout).step_time_s
            assert each.step_time_s == pytest.approx(step_s)
            assert each.saved_frac == pytest.approx(1 - step_s / found.estimate.step_time_s)


def test_the_named_loss_is_the_part_that_differs_most() -> None:
    found = ask("llama3-70b", "dgx-h100:64", 1024, None)
    assert found.lost is not None
    assert found.estimate is not None
    assert found.optimum is not None
    part, seconds = found.lost
    mine, best = found.estimate.step.breakdown_s(), found.optimum.step.breakdown_s()
    assert seconds == mine[part] - best[part]
    assert all(mine[name] - best[name] <= seconds for name in mine)
    assert found.estimate.step_time_s - found.optimum.step_time_s <= seconds * len(mine)


def test_guide_and_planner_agree_that_nothing_fits() -> None:
    found = ask("llama3-405b", "dgx-h100:1", 8)
    assert not found.feasible
    assert found.optimum is None
    assert found.verdict().startswith("neither the rules nor the planner")


def test_rules_name_their_sources() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule.question.endswith("?")
        assert len(rule.source) > 8


def test_guide_answers_are_deterministic() -> None:
    again = ask("mixtral-8x7b", "dgx-h100:16", 512)
    assert again.to_dict()["rules"] == ask("mixtral-8x7b", "dgx-h100:16", 512, None).to_dict()["rules"]
    assert model("mixtral-8x7b") == again.job.model


def test_guide_does_not_modify_the_cluster() -> None:
    machine: Cluster = cluster("dgx-h100:4")
    asked = read_question("llama3-8b", machine, batch=256)
    guide(asked.model, machine, asked.recipe)
    assert machine == cluster("dgx-h100:4")


@pytest.mark.parametrize(("batch", "answer"), [(9, "yes"), (8, "no, vpp 2")])
def test_a_bubble_of_a_tenth_is_accepted(batch: int, answer: str) -> None:
    """Two stages idle 1 / (m + 1) of the time: a tenth with nine micro-batches, a ninth with eight."""
    asked = read_question("gpt2-xl", "dgx-h100:1", gpus=2, batch=batch)
    found = decide(Draft(asked.job, asked.cluster, Layout(pp=2)))
    assert found.answer == answer
    assert found.numbers["bubble_frac"] == 1 / (batch + 1)
    assert found.draft.layout.vpp == (1 if batch == 9 else 2)
