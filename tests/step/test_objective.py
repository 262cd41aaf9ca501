"""Post-training: passes, copies and FLOPs of dpo, grpo and ppo, generation, and updates inside the backward pass."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import parameters
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import head_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, Recipe, check, memory
from lockstep.price.layout.memory import SLACK_FRAC
from lockstep.price.step import compose, price_step
from lockstep.price.step.program import step_program
from lockstep.simulate.play import simulate

from .undisturbed import undisturbed

LLAMA = workload.model("llama3-8b")
MACHINE = undisturbed(cluster("dgx-h100:2"))
GIVEN = {
    "dpo": (2, 1, 1), "grpo": (3, 1, 1), "ppo": (6, 2, 2), "dpo:reference=none": (1, 1, 0),
    "grpo:reward=model": (4, 1, 2), "ppo:reward=apart": (5, 2, 1), "ppo:reference=apart,reward=apart": (4, 2, 0),
}  # fmt: skip
"""Forward passes, trained models and frozen copies."""
LAYOUTS = (
    Layout(dp=16, zero=3, micro_batch=2),
    Layout(dp=4, tp=4, zero=1, micro_batch=2, sequence_parallel=True, recompute="selective"),
    Layout(dp=4, tp=2, pp=2, zero=1, micro_batch=2, recompute="full"),
    Layout(dp=16, zero=3, micro_batch=2, offload="parameters"),
)


def job(train: str = "full", **words: object) -> Job:
    return Job(LLAMA, Recipe(seq=4096, batch=64, train=train, **words), 16)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "train", [*GIVEN, "dpo,lora:r=16", "ppo,lora:r=16", "grpo:generation=60%", "ppo:generation=0.3,reference=none"]
)
def test_the_simulated_step_takes_the_priced_time(train: str, layout: Layout) -> None:
    asked = job(train)
    check(layout, asked)
    priced = price_step(asked, MACHINE, layout.grid())
    simulated_s = float(simulate(step_program(asked, MACHINE, layout)).makespan_s)
    assert simulated_s == pytest.approx(float(priced.step_time_s), rel=1e-9)


@pytest.mark.parametrize(("train", "passes"), GIVEN.items())
def test_kernels_of_all_passes_are_counted(train: str, passes: tuple[int, int, int]) -> None:
    """Forward and backward passes of the plain step, as often as the papers' algorithms make them."""
    plain, found = (compose(job(words), MACHINE, LAYOUTS[0].grid()).body for words in ("full", train))
    assert float(found.compute_forward_s) == pytest.approx(passes[0] * float(plain.compute_forward_s))
    assert float(found.compute_backward_s) == pytest.approx(passes[1] * float(plain.compute_backward_s))


def test_the_reference_pass_runs_without_adapters() -> None:
    kernels = {}
    for train in ("lora:r=16", "dpo,lora:r=16"):
        kernels[train] = compose(job(train), MACHINE, LAYOUTS[0].grid()).body
    full = compose(job(), MACHINE, LAYOUTS[0].grid()).body
    more_s = float(kernels["dpo,lora:r=16"].compute_forward_s - kernels["lora:r=16"].compute_forward_s)
    assert more_s == pytest.approx(float(full.compute_forward_s), rel=1e-6)


@pytest.mark.parametrize(("train", "passes"), GIVEN.items())
def test_frozen_copies_and_states_are_counted_in_memory(train: str, passes: tuple[int, int, int]) -> None:
    """Two bytes per parameter of a frozen copy, 18 of a trained one, over 16 ranks at ZeRO-3."""
    _, models, frozen = passes
    plain, found = (memory(job(words), MACHINE, LAYOUTS[0].grid()) for words in ("full", train))
    more_B = parameters(LLAMA).total / 16 * (18 * (models - 1) + 2 * frozen)
    assert float(found.total_B - plain.total_B) == pytest.approx(more_B * (1 + SLACK_FRAC), rel=1e-3)


def test_a_critic_with_adapters_has_frozen_weights_and_adapters_of_its_own() -> None:
    """Two models are trained beside what grpo's one has beside it, which already passes its reward model."""
    one, two = (memory(job(train), MACHINE, LAYOUTS[0].grid()) for train in ("grpo,lora:r=16", "ppo,lora:r=16"))
    # The model, the critic and the reward model, whose weights are all shared out.
    assert float(two.parameters_B) == pytest.approx(3 * float(one.parameters_B), rel=0.01)
    assert float(two.gradients_B + two.optimizer_B) == pytest.approx(2 * float(one.gradients_B + one.optimizer_B))
    assert float(two.activations_B) == float(one.activations_B)
    plain, ppo = (compose(job(train), MACHINE, LAYOUTS[0].grid()).body for train in ("lora:r=16", "ppo,lora:r=16"))
    assert float(ppo.compute_backward_s) == pytest.approx(2 * float(plain.compute_backward_s))
    # Of six forward passes the reference and the reward model have no adapters.
    assert 4 * float(plain.compute_forward_s) < float(ppo.compute_forward_s) < 6 * float(plain.compute_forward_s)


def test_copies_are_replicated_where_parameters_are() -> None:
    for layout, ranks in ((LAYOUTS[1], 4), (replace(LAYOUTS[0], zero=2), 1)):
        plain, found = (memory(job(words), MACHINE, layout.grid()) for words in ("full", "dpo"))
        more_B = float(found.parameters_B - plain.parameters_B)
        assert more_B == pytest.approx(2 * parameters(LLAMA).total / ranks, rel=1e-3)


def test_utilisation_counts_every_pass() -> None:
    """8 N FLOPs per token of DPO, 6 N of training, by the convention that counts parameters alone."""
    found = [
        lockstep.estimate(LLAMA, MACHINE, LAYOUTS[0], seq=4096, batch=64, train=train, mfu_convention="6n")
        for train in ("full", "dpo", "ppo")
    ]
    flops = [one.mfu_frac * one.step_time_s for one in found]
    assert np.array(flops) / flops[0] == pytest.approx([1, 8 / 6, (2 * 6 + 4 * 2) / 6])


@pytest.mark.parametrize("frac", [0.0, 0.25, 0.6])
def test_generation_takes_its_share_of_the_step(frac: float) -> None:
    plain, found = (price_step(job(f"grpo:generation={x}"), MACHINE, LAYOUTS[0].grid()) for x in (0, frac))
    assert float(found.generation_s) == pytest.approx(frac * float(found.step_time_s))
    assert float(found.step_time_s - found.generation_s) == pytest.approx(float(plain.step_time_s))


def test_updates_in_the_backward_pass_keep_no_gradients() -> None:
    one, machine, layout = parameters(LLAMA).total, cluster("dgx-h100", gpus=1), Layout(recompute="full")
    recipe = Recipe.by("hf-trainer", seq=4096, batch=1, optimizer="adafactor-no-master", gradient_B=2.0)
    found = [
        memory(Job(LLAMA, replace(recipe, update_in_backward=now), 1), machine, layout.grid()) for now in (False, True)
    ]
    assert [float(each.gradients_B) for each in found] == [pytest.approx(2 * one), 0]
    assert float(found[1].total_B) < float(found[0].total_B) - one
    with pytest.raises(BadInput, match="one micro-batch"):
        check(layout, Job(LLAMA, replace(recipe, update_in_backward=True, batch=2), 1))


@pytest.mark.parametrize(
    ("train", "error", "said"),
    [
        ("dpoo", UnknownName, "did you mean dpo"),
        ("dpo,grpo", BadInput, "do not go together"),
        ("full,lora:r=8", BadInput, "do not go together"),
        ("dpo:generation=50%", UnknownName, "generation"),
        ("grpo:generation=100%", BadInput, "generation"),
        ("dpo:reference=old", UnknownName, "reference"),
        ("dpo:reward=model", UnknownName, "reward"),
        ("grpo:reward=rules", UnknownName, "reward"),
        ("lora:r=8,lora:r=4", BadInput, "twice"),
        ("full:r=8", BadInput, "full takes no settings"),
        ("grpo:iterations=0", BadInput, "iterations must be a whole number"),
        ("grpo:old=sometimes", UnknownName, "if-needed"),
        ("grpo:steps-per-generation=2,generation-batch=8", BadInput, "not both"),
        ("kto:kl=maybe", UnknownName, "kl"),
    ],
)
def test_invalid_training_methods_are_refused(train: str, error: type[BadInput], said: str) -> None:
    with pytest.raises(error, match=said):
        job(train)


def test_odd_batches_of_preference_pairs_are_refused() -> None:
    with pytest.raises(BadInput, match="must be even"):
        replace(job("dpo").recipe, batch=63)


# Rows that passed forward with and without gradients in a run of so many updates, counted in TRL 1.16.0's trainers on a
# tiny Llama: the trained words, micro-batches of a step, rows of a micro-batch, (with, without), a frozen copy.
COUNTED = [
    ("full", 4, 2, (32, 0), 0), ("reward", 4, 4, (64, 0), 0), ("reward,lora:r=4", 1, 8, (32, 0), 0),
    ("dpo", 2, 8, (64, 64), 1), ("dpo:reference=precomputed", 4, 4, (64, 0), 0),
    ("kto", 4, 4, (64, 192), 1), ("kto:reference=precomputed", 1, 2, (8, 8), 0),
    ("kto:reference=precomputed,lora:r=4", 4, 2, (32, 32), 0), ("kto:kl=no,lora:r=4", 2, 4, (32, 32), 0),
    ("grpo", 4, 4, (16, 0), 0), ("grpo:beta=0.04", 4, 2, (8, 8), 1), ("grpo:iterations=2", 1, 2, (4, 2), 0),
    ("grpo:beta=0.04,iterations=2", 4, 2, (16, 16), 1), ("grpo:iterations=4,lora:r=4", 1, 4, (16, 4), 0),
    ("grpo:steps-per-generation=1", 2, 2, (4, 0), 0), ("grpo:steps-per-generation=8", 2, 4, (32, 32), 0),
    ("grpo:beta=0.04,steps-per-generation=8", 2, 2, (16, 32), 1),
    ("grpo:beta=0.04,steps-per-generation=4,lora:r=4", 4, 2, (8, 8), 0),
    ("grpo:iterations=2,steps-per-generation=2", 4, 2, (8, 0), 0),
    ("grpo:beta=0.04,iterations=4,steps-per-generation=1", 1, 2, (8, 4), 1),
    ("rloo:beta=0.04", 4, 4, (16, 32), 1), ("rloo:beta=0,steps-per-generation=8", 1, 2, (16, 16), 0),
    ("rloo:beta=0,iterations=4,steps-per-generation=4", 4, 2, (32, 8), 0),
    ("rloo:beta=0.04,iterations=2,steps-per-generation=4,lora:r=4", 2, 2, (16, 16), 0),
]  # fmt: skip


@pytest.mark.parametrize(("train", "microbatches", "rows", "counted", "copies"), COUNTED)
def test_passes_are_those_that_trl_makes(
    train: str, microbatches: int, rows: int, counted: tuple[int, int], copies: int
) -> None:
    recipe = Recipe.by("trl", seq=64, batch=microbatches * rows, train=train)
    forwards, backwards = recipe.passes(Layout(micro_batch=rows).grid())
    assert backwards == 1
    assert float(forwards) == sum(counted) / counted[0]
    assert recipe.objective.frozen == copies


def test_a_copy_is_in_the_format_of_what_is_trained() -> None:
    """TRL loads the reference as the model: in fp32 under autocast, of 1.24B parameters 4.9 GB."""
    one = workload.model("llama3.2-1b")
    for stack, bytes_each in (("trl", 4), ("hf-trainer", 2)):
        plain, found = (
            memory(Job(one, Recipe.by(stack, seq=512, batch=2, train=words), 1), MACHINE, Layout().grid())
            for words in ("full", "dpo")
        )
        more_B = float(found.parameters_B - plain.parameters_B)
        assert more_B == pytest.approx(bytes_each * parameters(one).total, rel=1e-6)


def test_a_generation_of_sequences_is_one_of_micro_batches() -> None:
    for sequences in (16, 32, 64, 128):
        by_sequences, by_steps = (
            Recipe.by("trl", seq=64, batch=64, train=f"grpo:iterations=2,{words}")
            for words in (f"generation-batch={sequences}", f"steps-per-generation={sequences // 8}")
        )
        for layout in (Layout(micro_batch=8), Layout(dp=4, micro_batch=2)):
            assert by_sequences.passes(layout.grid()) == by_steps.passes(layout.grid())


def test_passes_of_several_layouts_are_priced_at_once() -> None:
    """Of two layouts one has as many micro-batches in a step as in a generation: its answers are never old."""
    asked = Job(LLAMA, Recipe.by("trl", seq=1024, batch=32, train="grpo:steps-per-generation=2"), 1)
    alone = {mb: price_step(asked, MACHINE, Layout(micro_batch=mb).grid()) for mb in (16, 8, 32)}
    plain = {
        mb: price_step(
            replace(asked, recipe=replace(asked.recipe, train="full")), MACHINE, Layout(micro_batch=mb).grid()
        )
        for mb in alone
    }
    assert float(alone[16].step_time_s) == float(plain[16].step_time_s)
    assert float(alone[8].step_time_s) == float(plain[8].step_time_s)
    assert float(alone[32].step_time_s) > 1.2 * float(plain[32].step_time_s)


def test_the_form_of_the_paper_has_a_word() -> None:
    for name in ("megatron-te", "hf-trainer", "trl"):
        found = Recipe.by(name, seq=64, batch=4, train="grpo:paper").objective
        assert (found.forwards, found.frozen) == (3, 1)
    assert Recipe.by("trl", seq=64, batch=4, train="grpo:paper,beta=0").objective.forwards == 2


def test_a_tiled_loss_computes_logits_twice() -> None:
    """Once more backward, before the gradients of its input and of its weights."""
    work = {}
    for loss in ("tiled", "fused"):
        recipe = Recipe.by("trl", seq=4096, batch=2, cross_entropy=loss)
        grid = Layout(micro_batch=2).grid()
        work[loss] = head_work(Shard(LLAMA, grid, recipe, Clock.of(MACHINE.device, recipe)))
    again_s = work["tiled"].backward.matmul_s - work["fused"].backward.matmul_s
    assert float(again_s) == pytest.approx(float(work["tiled"].forward.matmul_s), rel=1e-12)


def test_a_reward_model_scores_tokens_and_has_no_vocabulary() -> None:
    """Its head is a score for each token: hidden weights, not hidden times the vocabulary."""
    asked = job("reward")
    assert parameters(asked.model).total == parameters(LLAMA).total - LLAMA.vocab * LLAMA.hidden + LLAMA.hidden
    assert asked.recipe.objective.pair == 2
