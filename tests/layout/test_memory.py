"""Memory laws: what shards shrinks, parts add up to the whole model, and the published ZeRO arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Mlp, Transformer, model, parameters
from lockstep.price.layout import OPTIMIZERS, Job, Layout, Memory, memory, peak_B, stage_memory
from lockstep.price.layout.held import stage_parameters
from lockstep.price.layout.memory import SLACK_FRAC
from lockstep.price.layout.risk import SAFE_RISK_FRAC
from recipes import recipe_by

CLUSTER = cluster("dgx-h100:8")
LLAMA = Job(model("llama3-8b"), recipe_by(seq=4096, batch=512), 64)


def fullest(job: Job, layout: Layout) -> Memory:
    return memory(job, CLUSTER, layout.grid())


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from(["none", "selective", "full"]))
def test_zero_stages_never_need_more_state(tp: int, pp: int, recompute: str) -> None:
    states = []
    for zero in range(4):
        found = fullest(LLAMA, Layout(tp=tp, pp=pp, dp=64 // (tp * pp), zero=zero, recompute=recompute))
        states.append(float(found.parameters_B + found.gradients_B + found.optimizer_B))
    assert states == sorted(states, reverse=True)


def test_zero_changes_no_state_without_replicas() -> None:
    for zero in range(4):
        layout = Layout(tp=8, pp=8, zero=zero)
        found, plain = fullest(LLAMA, layout), fullest(LLAMA, replace(layout, zero=0))
        assert float(found.parameters_B + found.gradients_B + found.optimizer_B) == pytest.approx(
            float(plain.parameters_B + plain.gradients_B + plain.optimizer_B), rel=1e-12
        )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("pp", [1, 4])
def test_a_prediction_module_keeps_an_embedding_on_its_own_stage(tied: bool, pp: int) -> None:
    """Megatron Core, GPTModel: an embedding where `pre_process or mtp_process`, which a tied head shares."""
    described = model("deepseek-v3")
    assert isinstance(described, Transformer)
    described = replace(described, tied_embeddings=tied)
    grid = Layout(tp=2, pp=pp, dp=2, sequence_parallel=True).grid()

    def last_elems(modules: int) -> float:
        job = Job(replace(described, mtp_layers=modules), recipe_by(seq=2048, batch=64), 4 * pp)
        return float(stage_parameters(job, grid, pp - 1, job.stage_layers(pp)[-1]).other_elems)

    table_elems = described.vocab * described.hidden / 2
    copied = table_elems if pp > 1 and not tied else 0.0
    latent = described.attention.latent
    assert latent
    assert latent.q_rank
    norms = 5 * described.hidden + latent.q_rank + latent.kv_rank
    assert last_elems(1) - last_elems(0) == pytest.approx(copied + norms, rel=1e-12)


@pytest.mark.parametrize("name", ["llama3-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v2"])
@pytest.mark.parametrize(("tp", "pp", "ep"), [(1, 1, 1), (2, 1, 1), (1, 4, 1), (4, 2, 1), (1, 2, 4)])
def test_shards_add_up_to_the_model(name: str, tp: int, pp: int, ep: int) -> None:
    described = model(name)
    if ep > 1 and not described.experts:
        return
    job = Job(described, recipe_by(seq=2048, batch=64), tp * pp * ep)
    grid = Layout(tp=tp, pp=pp, ep=ep, dp=ep, sequence_parallel=tp > 1).grid()
    held = job.stage_layers(pp)
    total = expert = 0.0
    for stage in range(pp):
        found = stage_parameters(job, grid, stage, held[stage])
        total += float(found.matrix_elems + found.other_elems) * tp
        expert += float(found.expert_elems) * tp * ep
    replicated = parameters(described).total - parameters(described).untrained
    copies = described.vocab * described.hidden if described.tied_embeddings and pp > 1 else 0
    # Norms, biases of row-parallel layers and routers are whole on every tp rank: more than the model, by little.
    assert replicated + copies <= total + expert + 1
    assert total + expert <= (replicated + copies) * (1.0 + 0.03 * (tp > 1)) + 1


@given(st.sampled_from(["llama3-8b", "mixtral-8x7b", "deepseek-v2"]), st.booleans(), st.sampled_from([1, 2]))
def test_recomputation_keeps_less(name: str, flash: bool, micro_batch: int) -> None:
    job = Job(model(name), recipe_by(seq=2048, batch=64, flash_attention=flash), 8)
    kept = [
        float(fullest(job, Layout(dp=8, micro_batch=micro_batch, recompute=mode)).activations_B)
        for mode in ("full", "selective", "none")
    ]
    assert kept == sorted(kept)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]))
def test_more_tensor_or_pipeline_ranks_never_hold_more_parameters(tp: int, pp: int) -> None:
    held = float(fullest(LLAMA, Layout(tp=tp, pp=pp, dp=64 // (tp * pp))).parameters_B)
    if tp < 8 and 2 * tp * pp <= 64:
        assert float(fullest(LLAMA, Layout(tp=2 * tp, pp=pp, dp=32 // (tp * pp))).parameters_B) <= held
    if pp < 8 and 2 * tp * pp <= 64:
        assert float(fullest(LLAMA, Layout(tp=tp, pp=2 * pp, dp=32 // (tp * pp))).parameters_B) <= held


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1"]), st.integers(0, 3))
def test_the_search_uses_the_fullest_stage(pp: int, schedule: str, zero: int) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    layout = Layout(
        pp=pp, dp=64 // pp, schedule="1f1b" if pp == 1 else schedule, vpp=chunks if pp > 1 else 1, zero=zero
    )
    grid = layout.grid()
    every = [float(stage_memory(LLAMA, CLUSTER, grid, stage).total_B) for stage in range(pp)]
    assert float(peak_B(LLAMA, grid)) == max(every)
    assert float(fullest(LLAMA, layout).total_B) == max(every)


def plain_model(billions: float) -> Transformer:
    """A decoder whose matrices hold almost exactly so many parameters: 12 layers x 12 h^2."""
    hidden = 128 * round((billions * 1e9 / 144) ** 0.5 / 128)
    return Transformer(
        name="plain", layers=12, hidden=hidden, vocab=128, max_positions=128, norm="nonparametric",
        tied_embeddings=True,
        attention=Attention(heads=hidden // 128, kv_heads=hidden // 128, head_dim=128),
        mlp=Mlp(ffn=4 * hidden, gated=False),
    )  # fmt: skip


@pytest.mark.parametrize(("zero", "bytes_per_parameter"), [(0, 16.0), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_zero_memory_matches_the_paper(zero: int, bytes_per_parameter: float) -> None:
    """ZeRO (arXiv 1910.02054), figure 1: 7.5B parameters on 64 ranks take 120, 31.4, 16.6 and 1.9 GB."""
    described = plain_model(7.5)
    job = Job(described, recipe_by(seq=128, batch=64, gradient_B=2.0), 64)
    found = fullest(job, Layout(dp=64, zero=zero))
    state_B = float(found.parameters_B + found.gradients_B + found.optimizer_B)
    assert state_B == pytest.approx(bytes_per_parameter * parameters(described).total, rel=1e-9)
    assert state_B / 1e9 == pytest.approx({0: 120, 1: 31.4, 2: 16.6, 3: 1.88}[zero], rel=0.02)


def test_bytes_per_parameter_are_16_18_and_20() -> None:
    assert recipe_by(seq=1, batch=1, gradient_B=2.0).bytes_per_parameter == 16
    assert recipe_by(seq=1, batch=1, gradient_B=4.0).bytes_per_parameter == 18
    assert recipe_by(seq=1, batch=1, gradient_B=6.0).bytes_per_parameter == 20


@pytest.mark.parametrize(("optimizer", "bytes_per_parameter"), [
    ("adamw", 16), ("adamw-no-master", 12), ("adamw-bf16", 8), ("adamw-8bit", 10 + 2 / 64),
    ("adamw-8bit-no-master", 6 + 2 / 64), ("adafactor-no-master", 4 + 4 * (8192 + 1) / 4096**2), ("muon", 12),
])  # fmt: skip
def test_a_half_precision_fine_tune_uses_the_bytes_of_its_optimizer(optimizer: str, bytes_per_parameter: float) -> None:
    """Weights and gradients in two bytes each, and the states of a matrix: what guides to fine-tuning count."""
    found = recipe_by("hf-trainer", seq=1, batch=1, parameter_B=2.0, gradient_B=2.0, working_copy=True)
    assert replace(found, optimizer=optimizer).bytes_per_parameter == bytes_per_parameter


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_cites_the_source_of_its_bytes(name: str) -> None:
    found = OPTIMIZERS[name]
    assert found.source
    assert 0 <= found.matrix_B <= (28 if name.startswith("soap") else 12)
    assert fullest(replace(LLAMA, recipe=LLAMA.recipe.having(optimizer=name)), Layout(dp=64)).optimizer_B >= 0


def test_offload_moves_states_off_the_device() -> None:
    kept, states, weights = (
        fullest(LLAMA, Layout(dp=64, zero=3, offload=offload)) for offload in ("none", "optimizer", "parameters")
    )
    assert float(kept.optimizer_B) > 0
    assert float(states.optimizer_B) == 0
    assert float(weights.parameters_B) == 0
    assert float(kept.total_B) > float(states.total_B) > float(weights.total_B)


@pytest.mark.parametrize(("zero", "stage"), [(0, 1), (0, 3), (1, 2), (2, 1), (3, 2)])
def test_buffers_are_what_passes_through_and_a_twentieth_of_all_in_use(zero: int, stage: int) -> None:
    """What passes, counted by hand: logits in 2 + 4 bytes, or gradients inside a layer (of its stream, and two of the
    feed-forward block); a layer's weight gradients from zero 2 on, two layers' parameters at zero 3."""
    job = replace(LLAMA, recipe=LLAMA.recipe.having(gradient_sync="micro-batch"))
    found = stage_memory(job, CLUSTER, Layout(pp=4, dp=16, zero=zero).grid(), stage)
    layer = 4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336
    head = 4096 * 128256 / 8 if stage == 3 else 0
    # The head keeps the input of its norm and of its product, and logits.
    passing_B = 4096 * (2 * 2.0 * 4096 + 6.0 * 128256) if stage == 3 else 4096 * 2.0 * (4096 + 2 * 14336)
    passing_B += (4.0 * (layer + head) if zero >= 2 else 0.0) + (2 * 2.0 * layer if zero == 3 else 0.0)
    kept_B = sum(float(getattr(found, f"{name}_B")) for name in ("parameters", "gradients", "optimizer", "activations"))
    assert float(found.total_B) == pytest.approx(1.05 * (kept_B + passing_B) + 1.5e9, rel=1e-6)
    assert float(found.buffers_B) == pytest.approx(passing_B + 0.05 * (kept_B + passing_B) + 1.5e9, rel=1e-6)


def test_categories_add_up() -> None:
    found = fullest(LLAMA, Layout(tp=2, pp=2, dp=16))
    parts = found.to_dict()
    total = sum(parts[f"{name}_B"] for name in ("parameters", "gradients", "optimizer", "activations", "buffers"))
    assert parts["total_B"] == pytest.approx(total, rel=1e-12)
    assert parts["fits"] == (parts["total_B"] <= parts["capacity_B"])


def test_earlier_stages_hold_more_micro_batches() -> None:
    grid = Layout(pp=8, dp=8).grid()
    kept = [float(stage_memory(LLAMA, CLUSTER, grid, stage).activations_B) for stage in range(8)]
    assert np.allclose(np.diff(kept[:-1]), kept[1] - kept[0])
    assert kept[0] / kept[-1] == pytest.approx(8.0, rel=1e-9)


@pytest.mark.parametrize("tied", [False, True])
def test_two_copies_double_parameters_and_share_their_states(tied: bool) -> None:
    """DualPipe holds stages s and p - 1 - s: parameters twice, the same optimizer states over all ranks."""
    job = replace(LLAMA, model=replace(LLAMA.model, tied_embeddings=tied))  # type: ignore[type-var]
    plain, both = Layout(pp=4, dp=16, zero=1), Layout(pp=4, dp=16, zero=1, schedule="dualpipe", vpp=2)
    held = [[stage_memory(job, CLUSTER, one.grid(), stage) for stage in range(4)] for one in (plain, both)]
    sums = [
        {name: sum(float(getattr(x, name)) for x in all_) for name in ("parameters_B", "optimizer_B")} for all_ in held
    ]
    # A device that holds both ends needs no second copy of a tied table.
    copied_B = {"parameters_B": 2.0, "optimizer_B": 12.0 / 16}
    extra = {name: copied_B[name] * tied * 128256 * 4096 for name in copied_B}
    assert sums[1]["parameters_B"] == pytest.approx(2 * (sums[0]["parameters_B"] - extra["parameters_B"]), rel=1e-9)
    assert sums[1]["optimizer_B"] == pytest.approx(sums[0]["optimizer_B"] - extra["optimizer_B"], rel=1e-9)


@pytest.mark.parametrize(("schedule", "live"), [("dualpipe", 9 / 2), ("dualpipe-v", 8.5), ("1f1b", 8)])
def test_a_device_with_two_stages_holds_the_micro_batches_of_its_schedule(schedule: str, live: float) -> None:
    """32 equal layers on 8 devices: 4 per stage, 8 where two copies meet, of which a micro-batch passes half."""
    layout = Layout(pp=8, dp=8, schedule=schedule, vpp=1 if schedule == "1f1b" else 2)
    found = stage_memory(LLAMA, CLUSTER, layout.grid(), 0)
    alone = stage_memory(LLAMA, CLUSTER, Layout(dp=8, micro_batch=1, pp=8).grid(), 7)
    layers = 2 if schedule == "dualpipe" else 1
    assert float(found.activations_B) == pytest.approx(live * layers * float(alone.activations_B), rel=1e-9)


@given(st.floats(0.1, 2.0))
def test_a_tight_layout_fits_with_a_risk_above_that_of_a_safe_one(share: float) -> None:
    found = Memory(share * 8e10, 0.0, 0.0, 0.0, 0.0, capacity_B=8e10)
    assert bool(found.tight) == (bool(found.fits) and float(found.out_of_memory_frac) > SAFE_RISK_FRAC)


ADAPTERS = 16 * 64 * (2 * (2048 + 2048) + 2 * (2048 + 512) + 3 * (2048 + 8192))
"""Numbers in adapters of rank 64 beside all matrices of the layers of Llama 3.2 1B."""


WHOLE = parameters(model("llama3.2-1b")).total


@pytest.mark.parametrize(("train", "trained"), [(None, WHOLE), ("lora:r=64", ADAPTERS)])
def test_copies_hold_their_gradients_once_more_in_buckets(train: str | None, trained: int) -> None:
    """DistributedDataParallel, whose programs hold as much when they are captured (tests/capture/test_ranks.py)."""
    words = {"micro_batch": 1, "zero": 0, "stack": "hf-trainer", "train": train, "seq": 512}
    one, eight = (lockstep.memory("llama3.2-1b", "dgx-h100", gpus=n, batch=n, **words).memory for n in (1, 8))
    assert eight.buffers_B - one.buffers_B == pytest.approx((1 + SLACK_FRAC) * 4 * trained)
    sharded = lockstep.memory("llama3.2-1b", "dgx-h100", gpus=8, batch=8, **words | {"zero": 1}).memory
    assert sharded.total_B < eight.total_B


def test_gradients_of_sharded_parameters_add_up_whole_until_they_are_reduced() -> None:
    """The Trainer with FSDP. Captures of four layers in two micro-batches hold two bytes a parameter more too."""

    def found(micro_batches: int, **words: object) -> Memory:
        asked = {"micro_batch": 1, "zero": 3, "stack": "hf-trainer-5", "seq": 256, **words}
        return lockstep.memory("llama3.2-1b", "dgx-h100", gpus=8, batch=8 * micro_batches, **asked).memory

    assert found(2).gradients_B == found(4).gradients_B == 2 * WHOLE
    assert found(1).gradients_B < WHOLE
    assert found(2, gradient_sync="micro-batch").gradients_B == pytest.approx(4 * WHOLE / 8)
    assert found(2, stack="deepspeed").gradients_B < WHOLE
