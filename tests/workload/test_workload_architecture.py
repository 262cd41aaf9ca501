"""Descriptions check themselves: every rule, with a message that says what to try."""

from dataclasses import replace

import pytest

from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.workload import Attention, ConvNet, Experts, LatentAttention, Mlp

LLAMA = workload.model("llama3-8b")
HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128}
LATENT = LatentAttention(kv_rank=8, nope_dim=4, rope_dim=2, value_dim=4)

# (what is tried, what the message must say)
REFUSED = [
    (lambda: replace(LLAMA, layers=0), "layers must be from 1"),
    (lambda: replace(LLAMA, layers=-3), "layers must be from 1"),
    (lambda: replace(LLAMA, hidden=10**30), "hidden must be from 1 to 1,000,000"),
    (lambda: replace(LLAMA, hidden=4096.0), "hidden must be a whole number"),
    (lambda: replace(LLAMA, vocab=True), "vocab must be a whole number"),
    (lambda: replace(LLAMA, vocab="many"), "vocab must be a whole number"),
    (lambda: replace(LLAMA, norm="rms"), "did you mean rmsnorm"),
    (lambda: replace(LLAMA, positions="rope"), "try one of: rotary"),
    (lambda: replace(LLAMA, tied_embeddings=1), "true or false"),
    (lambda: replace(LLAMA, mlp=None), "32 layers have no experts"),
    (lambda: replace(LLAMA, mlm_head=True), "belongs to an encoder"),
    (lambda: replace(LLAMA, parallel_block=True, norm_placement="post"), "needs norm_placement pre"),
    (lambda: replace(LLAMA, parallel_norms=3), "parallel_norms must be from 1 to 2"),
    (lambda: replace(LLAMA, experts=Experts(experts=8, top_k=2, ffn=8, first_dense=32)), "none of the 32 layers"),
    (lambda: Attention(**{**HEADS, "kv_heads": 7}), "kv_heads=7 does not divide 32 heads; try 2 or 4 or 8"),
    (lambda: Attention(**HEADS, qk_norm="yes"), "qk_norm"),
    (lambda: Attention(**HEADS, window=0), "window must be from 1"),
    (lambda: Attention(heads=4, kv_heads=4, head_dim=7, latent=LATENT), "nope_dim \\+ rope_dim = 6; use 6"),
    (lambda: Attention(heads=4, kv_heads=2, head_dim=6, latent=LATENT), "set kv_heads to 4"),
    (lambda: LatentAttention(kv_rank=0, nope_dim=4, rope_dim=2, value_dim=4), "kv_rank must be from 1"),
    (lambda: Mlp(ffn=8, activation="tanh"), "unknown activation"),
    (lambda: Experts(experts=4, top_k=5, ffn=8), "top_k=5 is more than the 4 experts"),
    (lambda: Experts(experts=4, top_k=1, ffn=8, shared_gate=True), "needs shared experts"),
    (lambda: Experts(experts=4, top_k=1, ffn=8, dense_layers=(-1,)), "dense_layers must be from 0"),
    (lambda: ConvNet(name="x", blocks=()), "1 to 8 stages"),
    (lambda: ConvNet(name="x", blocks=(3, 0)), "blocks must be from 1"),
    (lambda: ConvNet(name="x", blocks=(3,), bottleneck="no"), "true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_invalid_architectures_are_refused_with_a_reason(make, message):
    with pytest.raises(BadInput, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "name", "largest"),
    [
        (lambda value: replace(LLAMA, layers=value), "layers", 10_000),
        (lambda value: replace(LLAMA, hidden=value), "hidden", 1_000_000),
        (lambda value: replace(LLAMA, vocab=value), "vocab", 100_000_000),
        (lambda value: Attention(**{**HEADS, "heads": value, "kv_heads": 1}), "heads", 100_000),
        (lambda value: Attention(**{**HEADS, "heads": 100_000, "kv_heads": value}), "kv_heads", 100_000),
        (lambda value: Attention(**{**HEADS, "head_dim": value}), "head_dim", 100_000),
        (lambda value: Mlp(ffn=value), "ffn", 10_000_000),
        (lambda value: Experts(experts=value, top_k=1, ffn=8), "experts", 100_000),
        (lambda value: Experts(experts=100_000, top_k=value, ffn=8), "top_k", 100_000),
        (lambda value: replace(LLAMA, max_positions=value), "max_positions", 1_000_000_000),
    ],
)
def test_every_size_is_allowed_up_to_its_maximum(make, name, largest):
    assert getattr(make(largest), name) == largest
    with pytest.raises(BadInput, match=f"{name} must be from 1 to {largest:,}, got {largest + 1}"):
        make(largest + 1)


def test_largest_sizes_still_count_without_overflow():
    largest = replace(
        LLAMA,
        layers=10_000,
        hidden=1_000_000,
        vocab=100_000_000,
        attention=Attention(heads=100_000, kv_heads=100_000, head_dim=100_000),
        mlp=Mlp(ffn=10_000_000),
    )
    counted = workload.parameters(largest)
    assert counted.total == 2 * 10**14 + 10**6 + 10**4 * (4 * 10**16 + 3 * 10**13 + 2 * 10**6)


def test_attention_windows_apply_to_the_right_layers():
    gemma = workload.model("gemma2-9b")
    assert gemma.windows[:4] == (4096, None, 4096, None)
    assert workload.model("gemma3-1b").windows[:7] == (512, 512, 512, 512, 512, None, 512)
    assert workload.model("mistral-7b").windows == (4096,) * 32
    assert LLAMA.windows == (None,) * 32
    late = Attention(**HEADS, window=16, first_local=2)
    assert [late.window_of(layer) for layer in range(4)] == [None, None, 16, 16]


def test_to_dict_gives_plain_values():
    import json

    from lockstep.describe.workload.architecture import to_dict

    for name in workload.names():
        assert json.loads(json.dumps(to_dict(workload.model(name))))["name"] == name
