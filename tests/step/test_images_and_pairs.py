"""Steps of models that are no decoders of text: kernels do the arithmetic that is counted, rules, units, sequences."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster, device
from lockstep.describe.workload import LayerKind, Transformer, forward_flops, model, training_flops
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import embedding_work, head_work, layer_work, tensor_rounds
from lockstep.price.kernels.recompute import modules_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.price.step import price_step, step_timeline

NAMES = ("vit-b-16", "dit-xl-2", "t5-base")
LAYOUTS = {
    "vit-b-16": Layout(dp=2, tp=2, pp=2, micro_batch=4, zero=1, recompute="full"),
    "dit-xl-2": Layout(dp=2, tp=2, pp=2, micro_batch=4, sequence_parallel=True),
    "t5-base": Layout(dp=4, tp=2, micro_batch=2, zero=3, sequence_parallel=True, recompute="selective"),
}
COUNT = 8


def asked(name: str, **recipe: object) -> Job:
    """A question about a model, with sequences as long as it reads them."""
    described = model(name)
    assert isinstance(described, Transformer)
    return Job(described, Recipe(seq=described.max_positions, batch=64, **recipe), 8)  # type: ignore[arg-type]


def shard_of(name: str) -> Shard:
    job = asked(name, flash_attention=False)
    assert job.transformer is not None
    grid = Layout(micro_batch=COUNT).grid()
    return Shard(job.transformer, grid, job.recipe, Clock.of(device("h100-sxm"), job.recipe))


@pytest.mark.parametrize("name", NAMES)
def test_kernel_flops_equal_the_counted_flops(name: str) -> None:
    """Backward twice as much, but for the images, which need no gradient."""
    shard = shard_of(name)
    described, tokens = shard.model, COUNT * shard.recipe.seq
    layers = [layer_work(shard, kind) for kind in described.kinds]
    ends = [embedding_work(shard), head_work(shard)]
    forward, backward = (
        sum(float(getattr(one, way).flops) for one in (*layers, *ends)) for way in ("forward", "backward")
    )
    counted = float(forward_flops(described, shard.recipe.seq).total) * tokens
    assert forward == pytest.approx(counted, rel=1e-12)
    patches = described.patches
    unneeded = 2 * COUNT * patches.count * patches.values * described.hidden if patches else 0
    assert backward == pytest.approx(2 * forward - unneeded, rel=1e-12)


@pytest.mark.parametrize("module", ["core_attn", "op", "mlp"])
@pytest.mark.parametrize("name", NAMES)
def test_recomputed_flops_equal_the_counted_ones(name: str, module: str) -> None:
    shard = shard_of(name)
    shard = replace(shard, recipe=replace(shard.recipe, recompute_modules=(module,)))
    again = sum(float(modules_again(shard, kind, layer_work(shard, kind).core).flops) for kind in shard.model.kinds)
    counted = training_flops(shard.model, shard.recipe.seq, recompute="selective", modules=(module,)).recomputed
    assert again == pytest.approx(float(counted.total) * COUNT * shard.recipe.seq, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_price_equals_the_simulation(name: str) -> None:
    job, hardware, layout = asked(name), cluster("dgx-h100:1"), LAYOUTS[name]
    priced = price_step(job, hardware, layout.grid())
    found = step_timeline(job, hardware, layout)
    assert float(priced.step_time_s) == pytest.approx(found.makespan_s, rel=1e-9)


def test_tensor_parallelism_halves_the_products_of_a_decoder() -> None:
    """Tensor parallelism divides a decoder's products, and leaves whole what the encoder's gradients add up to."""
    shard = shard_of("t5-base")
    halved = replace(shard, grid=Layout(micro_batch=COUNT, tp=2).grid())
    decoder = LayerKind(mixer="decoder")
    whole, half = (layer_work(one, decoder) for one in (shard, halved))
    for way in ("forward", "backward"):
        assert float(getattr(half, way).flops) == pytest.approx(float(getattr(whole, way).flops) / 2, rel=1e-12)


def test_a_decoder_layer_has_seven_collectives_per_pass_pair() -> None:
    """Three reductions forward, of attention twice and the block; four backward, where the encoder's stream has one."""
    described = model("t5-base")
    assert isinstance(described, Transformer)
    assert 2 * tensor_rounds(described, LayerKind(mixer="decoder")) == 3 + 4
    assert 2 * tensor_rounds(described, LayerKind(mixer="encoder")) == 2 + 2


def test_two_more_images_take_twice_the_activations() -> None:
    job, hardware = asked("dit-xl-2"), cluster("dgx-h100:1")
    held = [float(memory(job, hardware, Layout(dp=8, micro_batch=b).grid()).activations_B) for b in (1, 2, 4)]
    assert held[2] - held[1] == pytest.approx(2 * (held[1] - held[0]), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rates_are_of_images_or_of_tokens(name: str) -> None:
    job = asked(name)
    found = estimate(job, cluster("dgx-h100:1"), Layout(dp=8))
    each = job.recipe.seq if name == "t5-base" else 1
    assert found.tokens_per_s * found.step_time_s == pytest.approx(64 * each)
    tokens = float(np.asarray(forward_flops(job.model, job.recipe.seq).total)) * job.recipe.seq  # type: ignore[arg-type]
    rate = 3 * tokens * 64 / found.step_time_s / 8
    assert found.model_flops_per_gpu_per_s == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("vit-b-16", {"seq": 512}, "reads images, not sequences"),
        ("vit-b-16", {"batch_tokens": "4M", "batch": None}, "give --batch"),
        ("vit-b-16", {"train": "dpo"}, "trains on answers in text"),
        ("vit-b-16", {"sample_tokens": 50}, "packed into sequences of text"),
        ("vit-b-16", {"cross_entropy": "chunked"}, "has no vocabulary"),
        ("dit-xl-2", {"cp": 2}, "splits long sequences"),
        ("dit-xl-2", {"pp": 2, "vocab_parallel": "vocab-2"}, "spreads a vocabulary"),
        ("dit-xl-2", {"mfu_convention": "6n"}, "once per image"),
        ("t5-base", {"pp": 2}, "reads the encoder's output"),
        ("t5-base", {"cp": 2}, "encoder's keys and values"),
        ("t5-base", {"tp": 2, "sequence_parallel": True, "overlap_tp": "async"}, "reads two streams"),
    ],
)
def test_unsupported_options_of_images_and_pairs_are_refused(name: str, words: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.estimate(name, "dgx-h100:1", **{"batch": 64, **words})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("vit-b-16", "megatron", "reads images"),
        ("dit-xl-2", "torchtitan", "reads images"),
        ("t5-base", "megatron", "encoder with a decoder"),
        ("t5-base", "nanotron", "encoder with a decoder"),
    ],
)
def test_decoder_only_software_refuses_other_models(name: str, target: str, said: str) -> None:
    with pytest.raises(Infeasible, match=said):
        lockstep.plan(name, "dgx-h100:1", batch=64, software=target)


@pytest.mark.parametrize("name", NAMES)
def test_plans_keep_images_and_pairs_whole(name: str) -> None:
    found = lockstep.plan(name, "dgx-h100:1", batch=64)
    assert all(one.layout.cp == 1 for one in found.plans)
    assert name != "t5-base" or all(one.layout.pp == 1 for one in found.plans)


def test_the_answer_states_what_a_sequence_is() -> None:
    told = {name: " ".join(lockstep.estimate(name, "dgx-h100:1", batch=64).assumptions()) for name in NAMES}
    assert "one sequence of 197 tokens: 14 x 14 patches and a class token" in told["vit-b-16"]
    assert "one sequence of 256 tokens" in told["dit-xl-2"]
    assert "512 tokens into the encoder and as many out of the decoder" in told["t5-base"]
