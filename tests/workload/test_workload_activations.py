"""Kept activations: Korthikanti's closed forms exactly, its figures, monotone laws, broadcasting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_strategies import transformers

from lockstep import workload
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import (
    DENSE,
    EXPERTS,
    RECOMPUTE,
    Piece,
    convnet_activation_B,
    head_kept_tensors,
    kept_tensors,
    layer_activation_B,
)
from lockstep.describe.workload.adapter_words import read_adapters

SETTINGS = settings(max_examples=50, derandomize=True, deadline=None)
GPTS = {
    "22B": ("megatron-22b", 4),
    "175B": ("megatron-175b", 1),
    "530B": ("megatron-530b", 1),
    "1T": ("megatron-1t", 1),
}


def paper_piece(micro_batch, tp=8, sequence_parallel=False):
    """The paper's setting: half precision, dropout, unfused attention, 2048 tokens."""
    return Piece(
        micro_batch=micro_batch,
        seq=2048,
        tp=tp,
        sequence_parallel=sequence_parallel,
        dropout=True,
        flash_attention=False,
    )


def sbh_as_h(model, piece):
    return piece.seq * piece.micro_batch * model.hidden, model.attention.heads * piece.seq / model.hidden


@pytest.mark.parametrize("name", GPTS)
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_kept_bytes_match_the_closed_forms_of_korthikanti(name, tp):
    """Equations 1, 2, 4, 6 and the two forms of full recomputation, exactly."""
    model, micro_batch = workload.model(GPTS[name][0]), GPTS[name][1]
    plain, split = paper_piece(micro_batch, tp), paper_piece(micro_batch, tp, True)
    sbh, ratio = sbh_as_h(model, plain)
    assert layer_activation_B(model, plain) == pytest.approx(sbh * (10 + 24 / tp + 5 * ratio / tp), rel=1e-14)
    assert layer_activation_B(model, split) == pytest.approx(sbh / tp * (34 + 5 * ratio), rel=1e-14)
    assert layer_activation_B(model, plain, recompute="selective") == pytest.approx(sbh * (10 + 24 / tp), rel=1e-14)
    assert layer_activation_B(model, split, recompute="selective") == pytest.approx(34 * sbh / tp, rel=1e-14)
    assert layer_activation_B(model, plain, recompute="full") == 2 * sbh
    assert layer_activation_B(model, split, recompute="full") == 2 * sbh / tp


# Figure 7, percent of the tensor-parallel baseline, as transcribed by github.com/calculon-ai/calculon
# (calculon/llm/validation.py): sequence parallel, selective, both, full recomputation.
FIGURE_7 = {
    "22B": (66.84, 49.42, 16.18, 7.64),
    "175B": (62.04, 56.53, 18.49, 8.71),
    "530B": (58.31, 62.04, 20.27, 9.42),
    "1T": (58.31, 62.04, 20.27, 9.42),
}


@pytest.mark.parametrize("name", FIGURE_7)
def test_activation_memory_matches_figure_7_of_korthikanti(name):
    model, micro_batch = workload.model(GPTS[name][0]), GPTS[name][1]
    plain, split = paper_piece(micro_batch), paper_piece(micro_batch, sequence_parallel=True)
    base = layer_activation_B(model, plain)
    cases = ((split, "none"), (plain, "selective"), (split, "selective"), (plain, "full"))
    found = [100 * layer_activation_B(model, piece, recompute=mode) / base for piece, mode in cases]
    assert found == pytest.approx(FIGURE_7[name], abs=0.15)


# Figure 1, GiB of activations on a rank of the first stage, from the same transcription: without and with sequence
# parallelism and selective recomputation. Stages p, chunks v: L/p layers times min(p, m) micro-batches in flight,
# times 1 + (p-1)/(pv) when interleaved (Korthikanti et al. 2022, section 4.3).
FIGURE_1 = {
    "22B": (1, 1, 59.25, 9.5625),
    "175B": (8, 3, 66.84375, 12.3515625),
    "530B": (35, 3, 114.0234375, 23.076171875),
    "1T": (64, 1, 131.25, 26.5625),
}


@pytest.mark.parametrize("name", FIGURE_1)
def test_memory_matches_figure_1_of_korthikanti(name):
    stages, chunks, none_GiB, selective_GiB = FIGURE_1[name]
    model, micro_batch = workload.model(GPTS[name][0]), GPTS[name][1]
    in_flight = model.layers * (1 + (stages - 1) / (stages * chunks) if chunks > 1 else 1)
    plain = layer_activation_B(model, paper_piece(micro_batch))
    split = layer_activation_B(model, paper_piece(micro_batch, sequence_parallel=True), recompute="selective")
    assert plain * in_flight / 2**30 == pytest.approx(none_GiB, rel=1e-6)
    assert split * in_flight / 2**30 == pytest.approx(selective_GiB, rel=1e-6)


pieces = st.builds(
    Piece,
    micro_batch=st.integers(1, 4),
    seq=st.sampled_from([8, 16, 64]),
    tp=st.sampled_from([1, 2, 4]),
    cp=st.sampled_from([1, 2, 4]),
    sequence_parallel=st.booleans(),
    element_B=st.sampled_from([2.0, 4.0]),
    flash_attention=st.booleans(),
    dropout=st.booleans(),
    fused_elementwise=st.booleans(),
    expert_tp=st.sampled_from([None, 1]),
)


@SETTINGS
@given(transformers(), pieces)
def test_kept_tensors_add_up_and_recomputation_only_lowers_the_total(model, piece):
    kind = EXPERTS if model.experts else DENSE
    listed = kept_tensors(model, piece, kind)
    none, selective, full = (layer_activation_B(model, piece, kind, mode) for mode in RECOMPUTE)
    assert none == pytest.approx(sum(tensor.size_B for tensor in listed), rel=1e-12)
    assert 0 < full <= selective < none
    assert full == piece.tokens * model.hidden * piece.element_B / piece.split
    assert len({tensor.name for tensor in listed}) == len(listed)


@SETTINGS
@given(transformers(), pieces)
def test_more_ranks_never_keep_more_activations(model, piece):
    kind = EXPERTS if model.experts else DENSE
    size_B = layer_activation_B(model, piece, kind)
    for degree in ("tp", "cp"):
        wider = replace(piece, **{degree: 2 * getattr(piece, degree)})
        assert layer_activation_B(model, wider, kind) <= size_B
    assert layer_activation_B(model, replace(piece, sequence_parallel=True), kind) <= size_B
    assert layer_activation_B(model, replace(piece, cp=2 * piece.cp), kind) == pytest.approx(size_B / 2)
    assert layer_activation_B(model, replace(piece, micro_batch=3 * piece.micro_batch), kind) == pytest.approx(
        3 * size_B
    )


@SETTINGS
@given(transformers(), pieces)
def test_fused_attention_is_linear_in_the_sequence(model, piece):
    kind = EXPERTS if model.experts else DENSE
    short, long = (replace(piece, flash_attention=True, seq=seq) for seq in (64, 128))
    assert layer_activation_B(model, long, kind) == pytest.approx(2 * layer_activation_B(model, short, kind))


@SETTINGS
@given(transformers(), st.lists(st.tuples(pieces, st.integers(0, 2)), min_size=2, max_size=5))
def test_arrays_price_like_scalars(model, rows):
    kind = EXPERTS if model.experts else DENSE
    first = rows[0][0]
    given_rows = [(replace(first, micro_batch=p.micro_batch, seq=p.seq, tp=p.tp, cp=p.cp,
                           sequence_parallel=p.sequence_parallel), code) for p, code in rows]  # fmt: skip
    columns = ("micro_batch", "seq", "tp", "cp", "sequence_parallel")
    many = replace(first, **{name: np.array([getattr(p, name) for p, _ in given_rows]) for name in columns})
    codes = np.array([code for _, code in given_rows])
    found = layer_activation_B(model, many, kind, codes)
    expected = [layer_activation_B(model, piece, kind, int(code)) for piece, code in given_rows]
    assert list(found) == pytest.approx(expected, rel=1e-14)
    heads = workload.head_activation_B(model, many)
    assert list(heads) == pytest.approx([workload.head_activation_B(model, piece) for piece, _ in given_rows])


def test_kept_bytes_of_a_llama_layer_match_a_count_by_hand():
    """Llama 3 8B, 8192 tokens, bf16, fused kernels: 4 h + 2 x 4096 + 2 x 1024 + 3 x 14336 elements, and 32 fp32."""
    piece = Piece(micro_batch=1, seq=8192)
    per_token = 2 * (4 * 4096 + 4096 + 2 * 1024 + 4096 + 3 * 14336) + 4 * 32
    assert layer_activation_B(workload.model("llama3-8b"), piece) == 8192 * per_token


def test_kept_bytes_of_a_mixtral_layer_match_a_count_by_hand():
    """Two rows per token enter the experts, each with three inner tensors; 8 router probabilities."""
    piece = Piece(micro_batch=1, seq=100)
    per_token = 2 * (4 * 4096 + 4096 + 2 * 1024 + 4096 + 2 * (4096 + 3 * 14336)) + 4 * 32 + 4 * 8
    assert layer_activation_B(workload.model("mixtral-8x7b"), piece, EXPERTS) == 100 * per_token


def test_whole_experts_keep_split_rows():
    """With sequence parallelism, expert_tp = 1 runs tokens/tp rows through whole experts: inner bytes are equal."""
    model = workload.model("mixtral-8x7b")
    cut = Piece(micro_batch=1, seq=64, tp=4, sequence_parallel=True)
    whole = replace(cut, expert_tp=1)
    by_name = [{t.name: t.size_B for t in kept_tensors(model, piece, EXPERTS)} for piece in (cut, whole)]
    assert by_name[0]["expert gate"] == by_name[1]["expert gate"]
    assert by_name[0]["expert input"] == 4 * by_name[1]["expert input"]


def test_keys_stop_shrinking_beyond_their_heads():
    model = workload.model("llama3-70b")
    sizes = [{t.name: t.size_B for t in kept_tensors(model, Piece(micro_batch=1, seq=8, tp=tp))} for tp in (8, 16)]
    assert sizes[0]["key"] == sizes[1]["key"]
    assert sizes[0]["query"] == 2 * sizes[1]["query"]


def test_head_keeps_fp32_logits():
    """Korthikanti et al. 2022, section 4.3: 2sbh for the norm, 2sbh for the head's input, 4sbv for the logits."""
    model = workload.model("megatron-175b")
    piece = paper_piece(1, 8, True)
    sbh = 2048 * 12288
    expected = {"final norm input": 2 * sbh / 8, "head input": 2 * sbh / 8, "logits": 4 * 2048 * 51200 / 8}
    assert {tensor.name: tensor.size_B for tensor in head_kept_tensors(model, piece)} == expected
    assert workload.embedding_activation_B(model, piece) == sbh / 8


@pytest.mark.parametrize("adapters", [None, read_adapters("lora:r=8")])
@pytest.mark.parametrize(("micro_batch", "rows"), [(1, 1024), (16, 4096)])
def test_a_tiled_loss_holds_one_tile_of_logits_and_gradients_in_fp32(micro_batch, rows, adapters):
    """TRL 1.16.0, trl/kernels/chunked_logprob.py: at most 4,096 x 32,768 logits in half precision at a time."""
    model = workload.model("llama3-8b")
    piece = Piece(micro_batch=micro_batch, seq=1024, adapters=adapters)
    found = {one.name: float(one.size_B) for one in head_kept_tensors(model, piece, loss="tiled")}
    assert found["logits"] == 2 * rows * 32_768
    # Sums in fp32, and their copies in the format of what they are gradients of.
    assert found["head input gradient"] == (4 + 2) * micro_batch * 1024 * 4096
    # The head is frozen beside adapters.
    assert found.get("head weight gradient", 0) == (0 if adapters else (4 + 2) * 128_256 * 4096)


def test_the_tile_of_a_loss_is_as_wide_whatever_the_vocabulary():
    """TRL 1.16.0, chunked_logprob.py: `torch.empty((min(N, 4096), chunk_size))`, chunk_size 32,768."""
    found = [
        float(next(one.size_B for one in head_kept_tensors(model, Piece(micro_batch=1, seq=512), loss="tiled")
                   if one.name == "logits"))
        for model in (replace(workload.model("llama3-8b"), vocab=vocab) for vocab in (1000, 128_256))
    ]  # fmt: skip
    assert found == [512 * 32_768 * 2] * 2


def test_resnet_scales_with_images():
    model = workload.model("resnet50")
    one = convnet_activation_B(model, 1)
    assert list(convnet_activation_B(model, np.array([1, 32]))) == [one, 32 * one]
    assert convnet_activation_B(replace(model, image=448), 1) == pytest.approx(4 * one, rel=0.001)


def test_kept_bytes_of_deepseek_v3_match_its_report() -> None:
    """Sections 3.2.3 and 3.3.3, one layer with experts, bytes per token: norms, up-projections and SwiGLU run again,
    inputs of linear layers wait in fp8 with a scale of four bytes per 128, the attention's output in E5M6."""
    model, fp8, e5m6 = workload.model("deepseek-v3"), 1 + 4 / 128, 1.5 + 4 / 128
    piece = Piece(
        micro_batch=1, seq=4096, cached_B=fp8, cached_inner_B=fp8, cached_attention_B=e5m6,
        recompute_modules=("layernorm", "mla_up_proj", "moe_act"),
    )  # fmt: skip
    streams = 2 * 7168 * 2  # the layer's input and what attention has added to it, bf16
    latents = (1536 + 512 + 64) * 2
    attention = 128 * 128 * e5m6 + 128 * 4  # output, log-sum-exp
    router = 256 * 4
    experts = 8 * (7168 + 2 * 2048) * fp8 + 2 * 2048 * fp8  # dispatched tokens, gate and up; shared gate and up
    by_hand = streams + latents + attention + router + experts
    assert layer_activation_B(model, piece, EXPERTS, "selective") == pytest.approx(4096 * by_hand, rel=1e-12)
    made = 2 * 7168 + 1536 + 512 + 8 * 2048 + 2048  # outputs of norms and of SwiGLU
    heads = 128 * (2 * 192 + 128) * 2  # queries, keys, values
    assert layer_activation_B(model, piece, EXPERTS, "none") == pytest.approx(
        4096 * (by_hand + made * fp8 + heads), rel=1e-12
    )


@pytest.mark.parametrize("name", ["llama3-8b", "gpt3-175b", "bert-large", "mixtral-8x7b", "deepseek-v2"])
def test_recomputing_any_module_of_a_model_saves_memory(name: str) -> None:
    model = workload.model(name)
    has = {
        "core_attn": True,
        "layernorm": True,
        "mla_up_proj": bool(model.attention.latent),
        "mlp": not model.experts,
        "moe": bool(model.experts),
        "shared_experts": bool(model.experts and model.experts.shared_ffn),
        "moe_act": bool(model.experts),
        "context": True,
        "out_proj": model.norm_placement == "pre",
    }
    none = layer_activation_B(model, Piece(micro_batch=1, seq=512), EXPERTS if model.experts else DENSE, "none")
    saved: dict[str, float] = {}
    named = [module for module in workload.MODULES if module not in ("op", "mlp_act")]
    for module in named:
        piece = Piece(micro_batch=1, seq=512, recompute_modules=(module,))
        saved[module] = none - layer_activation_B(model, piece, EXPERTS if model.experts else DENSE, "selective")
        assert (saved[module] > 0) == has[module]
    together = Piece(micro_batch=1, seq=512, recompute_modules=tuple(named))
    kept = layer_activation_B(model, together, EXPERTS if model.experts else DENSE, "selective")
    apart = sum(size_B for module, size_B in saved.items() if module not in ("shared_experts", "moe_act"))
    assert none - kept == pytest.approx(apart, rel=1e-12)
    assert kept > layer_activation_B(model, together, EXPERTS if model.experts else DENSE, "full")


@pytest.mark.parametrize("placement", ["pre", "post", "output", "sandwich"])
def test_only_inputs_of_linear_layers_are_kept_in_the_narrow_format(placement: str) -> None:
    """And only those that a norm made can be made again from its input."""
    normed = {"pre": ("attention input", "mlp input"), "post": ("mlp input",), "output": ()}
    model = replace(workload.model("llama3-8b"), norm_placement=placement)
    piece = Piece(micro_batch=1, seq=16, element_B=2.0, cached_B=1.0, recompute_modules=("layernorm",))
    stream = [one for one in kept_tensors(model, piece) if one.spread in ("sequence", "gathered")]
    names = {one.name for one in stream}
    assert {"layer input", "mlp input"} <= names
    assert ("attention input" in names) == (placement in ("pre", "sandwich"))
    for one in stream:
        linear = one.name in ("attention input", "mlp input")
        assert one.size_B == 16 * 4096 * (1.0 if linear else 2.0), one.name
        again = one.name in normed.get(placement, ("attention input", "mlp input"))
        kept = RECOMPUTE.index("full" if one.name == "layer input" else "none" if again else "selective")
        assert one.kept_up_to == kept, one.name


def test_the_default_piece_is_a_whole_sequence_on_one_rank() -> None:
    plain = Piece(micro_batch=2, seq=16)
    assert plain == Piece(micro_batch=2, seq=16, tp=1, cp=1, sequence_parallel=False, expert_tp=None, dropout=False)
    assert (plain.tokens, plain.split, plain.expert_ways, plain.rows_per_token) == (32, 1, 1, 1.0)
    spreads = ("sequence", "gathered", "tp", "kv", "scores", "rows", "inner")
    assert {spread: plain.share(spread, 8) for spread in spreads} == {
        "sequence": 1, "gathered": 1, "tp": 1, "kv": 1, "scores": 16, "rows": 1, "inner": 1,
    }  # fmt: skip


def test_experts_keep_their_outputs_where_routing_weights_are_applied_separately() -> None:
    """One row of hidden width per token and choice, in half precision."""
    model = workload.model("mixtral-8x7b")
    fused, apart = (
        Piece(micro_batch=1, seq=512, saves={"permutation": find_way("permutation", name).saves})
        for name in ("fused", "apart")
    )
    outputs = {tensor.name: tensor.size_B for tensor in kept_tensors(model, apart, EXPERTS)}
    assert outputs["rows to experts and back: what experts give"] == 512 * 2 * 4096 * 2
    assert not outputs.keys() <= {tensor.name for tensor in kept_tensors(model, fused, EXPERTS)}


def test_recomputation_by_operation_keeps_every_second_product() -> None:
    """Llama 3 8B, bytes per token by hand: the layer's input, query, value, attention output, gate and down."""
    model = workload.model("llama3-8b")
    piece = Piece(micro_batch=1, seq=1, recompute_modules=("op",))
    by_hand = 2 * (4096 + 4096 + 1024 + 4096 + 14336 + 4096) + 32 * 4  # and fp32 log-sum-exps of 32 heads
    assert layer_activation_B(model, piece, DENSE, "selective") == pytest.approx(by_hand, rel=1e-12)


def test_a_chunked_loss_keeps_gradients_instead_of_logits() -> None:
    model = workload.model("llama3-8b")
    piece = Piece(micro_batch=4, seq=8192)
    whole, chunked = (
        {tensor.name: float(tensor.size_B) for tensor in head_kept_tensors(model, piece, 6.0, loss)}
        for loss in ("fused", "chunked")
    )
    assert chunked["logits"] == pytest.approx(whole["logits"] * 4096 / 128256)
    assert chunked["head weight gradient"] == 128256 * 4096 * 2
    assert chunked["head input gradient"] == 4 * 8192 * 4096 * 2
    assert set(chunked) - set(whole) == {"head weight gradient", "head input gradient"}
