"""Recurrent mixers: chunked products do what the recurrence says in the FLOPs that are counted; laws of layers."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.describe.hardware import device
from lockstep.describe.workload import (
    Attention,
    DeltaNet,
    Experts,
    LayerKind,
    Mamba,
    Mamba2,
    Mlp,
    Piece,
    Transformer,
    layer_activation_B,
    layer_forward_flops,
    layer_weights,
)
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout, Recipe

SCAN = Mamba2(heads=4, head_dim=8, state=16, groups=2, chunk=16)
NET = DeltaNet(heads=4, key_heads=2, key_dim=8, value_dim=16)
WORD = LayerKind(mixer="recurrent")


def hybrid(mixer, **changed):
    """Two layers, of which the first is recurrent."""
    fields = {
        "name": "hybrid", "layers": 2, "hidden": 64, "vocab": 100, "max_positions": 4096,
        "attention": Attention(heads=4, kv_heads=2, head_dim=16), "mlp": Mlp(ffn=128), "recurrent": mixer,
        "pattern": ("recurrent", "global"),
    }  # fmt: skip
    return Transformer(**{**fields, **changed})


class Counting:
    """Matrix products that count their FLOPs."""

    def __init__(self):
        self.flops = 0.0

    def __call__(self, a, b):
        self.flops += 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b


def test_mamba2_in_chunks_is_the_recurrence_in_the_flops_counted():
    rng, q, tokens = np.random.default_rng(0), SCAN.chunk, 2 * SCAN.chunk
    x = rng.normal(size=(SCAN.heads, tokens, SCAN.head_dim))
    b, c = rng.normal(size=(2, SCAN.groups, tokens, SCAN.state))
    decay = rng.uniform(0.5, 1.0, size=(SCAN.heads, tokens))
    times, found, expected = Counting(), np.zeros_like(x), np.zeros_like(x)
    for begin in range(0, tokens, q):
        part = slice(begin, begin + q)
        scores = [times(c[group, part], b[group, part].T) for group in range(SCAN.groups)]
        if not begin:
            states = np.zeros((SCAN.heads, SCAN.state, SCAN.head_dim))
        for head in range(SCAN.heads):
            group = head * SCAN.groups // SCAN.heads
            sums = np.cumsum(np.log(decay[head, part]))
            masked = scores[group] * np.tril(np.exp(sums[:, None] - sums[None, :]))
            given = times(c[group, part] * np.exp(sums)[:, None], states[head])
            found[head, part] = times(masked, x[head, part]) + given
            left = times((b[group, part] * np.exp(sums[-1] - sums)[:, None]).T, x[head, part])
            states[head] = states[head] * np.exp(sums[-1]) + left
    for head in range(SCAN.heads):
        group, state = head * SCAN.groups // SCAN.heads, np.zeros((SCAN.state, SCAN.head_dim))
        for at in range(tokens):
            state = decay[head, at] * state + np.outer(b[group, at], x[head, at])
            expected[head, at] = c[group, at] @ state
    np.testing.assert_allclose(found, expected)
    convolution = 2 * SCAN.conv * (SCAN.inner + SCAN.shared)
    assert SCAN.core_flops(tokens, "full") == pytest.approx(times.flops / tokens + convolution)
    halved = q * (SCAN.state * SCAN.groups + SCAN.inner)
    assert SCAN.core_flops(tokens, "full") - SCAN.core_flops(tokens, "causal") == halved


def test_delta_net_in_chunks_is_the_recurrence_in_the_flops_counted():
    rng, size = np.random.default_rng(1), 64
    tokens = 2 * size
    q, k = rng.normal(size=(2, NET.heads, tokens, NET.key_dim)) / 3.0
    v = rng.normal(size=(NET.heads, tokens, NET.value_dim))
    decay, strength = rng.uniform(0.9, 1.0, (NET.heads, tokens)), rng.uniform(0.1, 0.9, (NET.heads, tokens))
    times, found, expected = Counting(), np.zeros_like(v), np.zeros_like(v)
    for head in range(NET.heads):
        state = np.zeros((NET.key_dim, NET.value_dim))
        for begin in range(0, tokens, size):
            part = slice(begin, begin + size)
            keys, values, b = k[head, part], v[head, part], strength[head, part][:, None]
            sums = np.cumsum(np.log(decay[head, part]))
            between = np.tril(np.exp(sums[:, None] - sums[None, :]))
            inverse = np.linalg.inv(np.eye(size) + np.tril(b * times(keys, keys.T) * between, -1))
            times.flops += size**3 / 3
            wide, new = times(inverse, b * keys * np.exp(sums)[:, None]), times(inverse, b * values)
            new = new - times(wide, state)
            given = times(q[head, part] * np.exp(sums)[:, None], state)
            found[head, part] = given + times(times(q[head, part], keys.T) * between, new)
            state = state * np.exp(sums[-1]) + times((keys * np.exp(sums[-1] - sums)[:, None]).T, new)
        state = np.zeros((NET.key_dim, NET.value_dim))
        for at in range(tokens):
            key = k[head, at]
            state = decay[head, at] * (state - strength[head, at] * np.outer(key, key @ state))
            state = state + strength[head, at] * np.outer(key, v[head, at])
            expected[head, at] = q[head, at] @ state
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    convolution = 2 * NET.conv * (NET.inner + NET.shared)
    assert NET.core_flops(tokens, "full") == pytest.approx(times.flops / tokens + convolution)


MIXERS = [SCAN, NET, Mamba(inner=128, state=16, rank=4)]


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: type(mixer).__name__)
@pytest.mark.parametrize("sp", [False, True])
def test_a_layer_of_two_blocks_is_two_layers_of_one(mixer, sp):
    model = hybrid(mixer)
    parts = [LayerKind("none", 0, "recurrent"), LayerKind("dense", 0, "none")]
    split = replace(model, layers=2, pattern=("recurrent/none", "none/dense"))
    piece = Piece(micro_batch=2, seq=256, tp=2, sequence_parallel=sp)
    assert sorted(w.elems for w in layer_weights(model, WORD)) == sorted(
        weight.elems for kind in parts for weight in layer_weights(split, kind)
    )
    for mode in ("none", "selective"):
        each = sum(layer_activation_B(split, piece, kind, mode) for kind in parts)
        assert layer_activation_B(model, piece, WORD, mode) == pytest.approx(each)
    flops = sum(layer_forward_flops(split, 256, kind).total for kind in parts)
    assert layer_forward_flops(model, 256, WORD).total == pytest.approx(flops)
    shard = Shard(model, Layout(tp=2).grid(), Recipe(seq=256, batch=2), Clock(device("h100-sxm"), "bf16"))
    works = [layer_work(shard, kind) for kind in (WORD, *parts)]
    for way in ("forward", "backward"):
        whole, *both = (getattr(work, way).device_s for work in works)
        assert float(whole) == pytest.approx(float(sum(both)))


@pytest.mark.parametrize("mixer", MIXERS[:2], ids=lambda mixer: type(mixer).__name__)
def test_recurrent_kernels_run_the_counted_flops(mixer):
    """All but the short convolution, which is bound by memory."""
    model = hybrid(mixer)
    shard = Shard(model, Layout().grid(), Recipe(seq=2048, batch=1), Clock(device("h100-sxm"), "bf16"))
    convolution = 2 * mixer.conv * (mixer.inner + mixer.shared)
    expected = 2048 * (layer_forward_flops(model, 2048, WORD).total - convolution)
    assert float(layer_work(shard, WORD).forward.flops) == pytest.approx(expected)


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: type(mixer).__name__)
def test_kept_bytes_of_a_recurrent_layer_grow_with_tokens_alone(mixer):
    model = hybrid(mixer, mlp=None, experts=Experts(experts=4, top_k=2, ffn=32))
    kind = LayerKind("experts", 0, "recurrent")
    short, long = (Piece(micro_batch=1, seq=seq) for seq in (128, 4096))
    assert layer_activation_B(model, long, kind) == pytest.approx(32 * layer_activation_B(model, short, kind))
    assert layer_activation_B(model, long, kind, "full") == 2 * 4096 * model.hidden
    cut = layer_activation_B(model, replace(long, tp=2), kind)
    assert layer_activation_B(model, long, kind) / 2 < cut < layer_activation_B(model, long, kind)
