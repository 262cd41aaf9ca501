"""Tensor parallelism: the cut layer is the dense layer, with gradients; bytes as the formula, price as simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isfunction
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, expander, get, pricer
from lockstep.simulate.parallel import tensor
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.piece import total_s
from lockstep.simulate.parallel.tensor import (
    Layer,
    Shape,
    attention,
    block,
    column,
    mlp,
    row,
    run,
    traffic,
    vocabulary_loss,
)
from lockstep.simulate.parallel.tensor.layer import Exchange
from lockstep.simulate.parallel.tensor.shape import flops
from lockstep.simulate.play import simulate
from lockstep.simulate.program import expand

Array = Any
EXAMPLES = settings(max_examples=25, derandomize=True, deadline=None)
B, S, H, HEADS, F, V = 2, 4, 8, 4, 16, 12
T = B * S
LINK = PlainLink(3e-6, 300e9)
TARGET = np.random.default_rng(5).integers(0, V, T)


def group(ranks: Any, link: PlainLink = LINK) -> Levels:
    return ((ranks, link.latency_s, link.bandwidth_Bps, 0.0),)


def exchanges_s(layer: Layer, link: PlainLink) -> float:
    """The exchanges of a layer one after another, 16 bit, in a ring: written once more, from the list of its parts."""
    found = (part for part in layer.parts if isinstance(part, Exchange))
    return sum(float(get(one.op, "ring").price_time_s(layer.ranks, 2.0 * one.elems, link)) for one in found)


# The dense layers, written once more without any rank.
def dense_attention(x: Array, w: Mapping[str, Array], causal: bool = True) -> Array:
    rows = []
    for sample in x.reshape(B, S, H):
        q, k, v = (sample @ w["qkv"][:, i * H : (i + 1) * H] for i in range(3))
        heads = []
        for i in range(HEADS):
            cut = slice(i * H // HEADS, (i + 1) * H // HEADS)
            score = q[:, cut] @ k[:, cut].T / np.sqrt(H // HEADS)
            if causal:
                score[np.triu_indices(S, 1)] = -np.inf
            weight = np.exp(score)
            heads.append(weight / weight.sum(axis=1, keepdims=True) @ v[:, cut])
        rows.append(np.concatenate(heads, axis=1))
    return np.concatenate(rows) @ w["attention_out"]


def dense_mlp(x: Array, w: Mapping[str, Array]) -> Array:
    wide = x @ w["mlp_in"]
    return (0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))) @ w["mlp_out"]


def dense_norm(x: Array) -> Array:
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def dense_block(x: Array, w: Mapping[str, Array]) -> Array:
    r = x + dense_attention(dense_norm(x), w)
    return r + dense_mlp(dense_norm(r), w)


def dense_loss(x: Array, w: Mapping[str, Array]) -> Array:
    logits = x @ w["vocabulary"]
    return np.array([np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(T), TARGET])])


SHAPES = {
    "w": (H, F), "v": (F, H), "qkv": (H, 3 * H), "attention_out": (H, H), "mlp_in": (H, F), "mlp_out": (F, H),
    "vocabulary": (H, V),
}  # fmt: skip
Maker = Callable[[int, bool], Layer]
LAYERS: dict[str, tuple[Maker, Callable[[Array, Mapping[str, Array]], Array], tuple[int, ...]]] = {
    "column then row": (
        lambda k, sp: (
            column("x", "w", "y", tokens=T, inputs=H, outputs=F, ranks=k, sequence_parallel=sp)
            + row("y", "v", "z", tokens=T, inputs=F, outputs=H, ranks=k, sequence_parallel=sp)
        ),
        lambda x, w: x @ w["w"] @ w["v"],
        (T, H),
    ),
    "mlp": (
        lambda k, sp: mlp("x", "z", tokens=T, hidden=H, ffn=F, ranks=k, sequence_parallel=sp),
        dense_mlp,
        (T, H),
    ),
    "attention": (
        lambda k, sp: attention("x", "z", batch=B, seq=S, hidden=H, heads=HEADS, ranks=k, sequence_parallel=sp),
        dense_attention,
        (T, H),
    ),
    "full attention": (
        lambda k, sp: attention(
            "x", "z", batch=B, seq=S, hidden=H, heads=HEADS, ranks=k, causal=False, sequence_parallel=sp
        ),
        lambda x, w: dense_attention(x, w, causal=False),
        (T, H),
    ),
    "block": (
        lambda k, sp: block(batch=B, seq=S, hidden=H, heads=HEADS, ffn=F, ranks=k, sequence_parallel=sp),
        dense_block,
        (T, H),
    ),
    "vocabulary loss": (
        lambda k, sp: vocabulary_loss(tokens=T, hidden=H, vocab=V, ranks=k),
        dense_loss,
        (1,),
    ),
}


def test_every_tensor_parallel_layer_is_tested_against_the_dense_one() -> None:
    """A function of the package that makes a layer is used by one of LAYERS, directly or inside another."""
    functions = {name: one for name, one in vars(tensor).items() if isfunction(one)}
    makers = {name for name, one in functions.items() if get_type_hints(one).get("return") is Layer}
    assert makers == {"attention", "block", "column", "mlp", "residual", "row", "vocabulary_loss"}


def inputs(layer: Layer, shape: tuple[int, ...]) -> tuple[dict[str, Array], Array, Array]:
    generator = np.random.default_rng(7)
    weights = {name: generator.normal(0, 0.5, SHAPES[name]) for name in layer.splits}
    return weights, generator.normal(size=(T, H)), generator.normal(size=shape)


def slope(function: Callable[[], float], array: Array, step: float = 1e-5) -> Array:
    """Central differences of `function` with respect to every entry of `array`."""
    result = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        values = []
        for sign in (1, -1):
            array[index] = kept + sign * step
            values.append(function())
        array[index] = kept
        result[index] = (values[0] - values[1]) / (2 * step)
    return result


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_sharded_layer_equals_the_dense_layer(name: str, ranks: int, sequence_parallel: bool) -> None:
    make, dense, shape = LAYERS[name]
    layer = make(ranks, sequence_parallel)
    weights, x, gradient = inputs(layer, shape)
    found = run(layer, weights, x, gradient, extra={"target": TARGET})
    assert found[layer.output] == pytest.approx(dense(x, weights), rel=1e-10, abs=1e-12)
    if ranks == 1:
        # One rank against finite differences; the other ranks against one rank below.
        def value() -> float:
            return float((dense(x, weights) * gradient).sum())

        for key, array in (*weights.items(), ("x", x)):
            assert found[f"d {key}"] == pytest.approx(slope(value, array), rel=1e-5, abs=1e-7), key
    else:
        one = run(make(1, False), weights, x, gradient, extra={"target": TARGET})
        for key in found:
            assert found[key] == pytest.approx(one[key], rel=1e-10, abs=1e-12), key


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bytes_of_a_layer_match_its_program(ranks: int, sequence_parallel: bool) -> None:
    """8 (k - 1)/k b s h elements leave every rank, in the bytes and seconds that the training step prices."""
    layer = block(batch=B, seq=S, hidden=H, heads=HEADS, ffn=F, ranks=ranks, sequence_parallel=sequence_parallel)
    inside = expand(
        layer.program(1e12), lambda op, name, group, size_B: get(op, name).program(len(group), size_B, LINK, 2.0)
    )
    expected = 8 * (ranks - 1) * T * H // ranks
    assert inside.sent_B().tolist() == [2.0 * expected] * ranks
    assert inside.sent_elems().tolist() == [expected] * ranks
    moved = traffic.flows(group(ranks), 2.0 * T * H, sequence_parallel)
    assert 2 * traffic.sent_B(moved, ranks) == pytest.approx(2.0 * expected)
    assert exchanges_s(layer, LINK) == pytest.approx(2 * float(total_s(moved)), rel=1e-12)
    assert float(inside.columns["flops"].sum()) == pytest.approx(ranks * layer.flops_per_rank)
    assert layer.flops_per_rank == pytest.approx((6 * T * (4 * H * H + 2 * H * F) + 12 * T * S * H) / ranks)


@EXAMPLES
@given(
    st.sampled_from(list(LAYERS)), st.sampled_from([1, 2, 4]), st.booleans(), st.floats(0, 1e-4), st.floats(1e8, 1e12)
)
def test_the_price_equals_the_simulation(
    name: str, ranks: int, sequence_parallel: bool, latency_s: float, rate: float
) -> None:
    layer = LAYERS[name][0](ranks, sequence_parallel)
    link = PlainLink(latency_s, rate)
    priced = layer.flops_per_rank / 1e9 + exchanges_s(layer, link)
    program = layer.program(1e9)
    assert simulate(program, price=pricer(link)).makespan_s == pytest.approx(priced, rel=1e-12)
    assert simulate(expand(program, expander(link)), link).makespan_s == pytest.approx(priced, rel=1e-12)


def test_bytes_and_time_ratio_match_golden_values() -> None:
    """GPT-3's layer, b = 1, s = 2048, k = 8, 16 bit: 352.3 MB per rank; 0.13166 of the computing time on NVLink 3."""
    moved = traffic.flows(group(8, PlainLink(0.0, 300e9)), 2.0 * 2048 * 12288, False)
    assert 2 * traffic.sent_B(moved, 8) == pytest.approx(352.3e6, rel=1e-4)
    products = flops(Shape(1, 2048, 12288, 96, 4 * 12288).layer(8).parts, core=False)
    assert 2 * float(total_s(moved)) / (products / 312e12) == pytest.approx(0.13166, abs=5e-6)
    # (k - 1) / (9 h) elements per FLOP, whatever batch and sequence.
    for batch, seq in ((1, 128), (4, 4096)):
        elems = 2 * traffic.sent_B(traffic.flows(group(4), 1.0 * batch * seq * 512, False), 4)
        ratio = elems / flops(Shape(batch, seq, 512, 8, 2048).layer(4).parts, core=False)
        assert ratio == pytest.approx(3 / (9 * 512))


def test_prices_broadcast() -> None:
    size_B = 4096.0 * np.array([4096, 8192])
    several = total_s(traffic.flows(group(np.array([[2], [8]])), size_B, False))
    assert several.shape == (2, 2)
    assert several[1, 0] == pytest.approx(total_s(traffic.flows(group(8), size_B[0], False)))


def test_every_algorithm_computes_the_same_layer() -> None:
    layer = LAYERS["mlp"][0](4, False)
    weights, x, gradient = inputs(layer, (T, H))
    ring, other = (run(layer, weights, x, gradient, algorithm=a) for a in ("ring", "rabenseifner"))
    for key in ring:
        assert ring[key] == pytest.approx(other[key], rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlp("x", "y", tokens=T, hidden=H, ffn=F, ranks=3),
        lambda: attention("x", "y", batch=B, seq=S, hidden=H, heads=HEADS, ranks=8),
        lambda: attention("x", "y", batch=B, seq=S, hidden=9, heads=4, ranks=2),
        lambda: mlp("x", "y", tokens=7, hidden=H, ffn=F, ranks=2, sequence_parallel=True),
        lambda: vocabulary_loss(tokens=T, hidden=H, vocab=13, ranks=2),
        lambda: mlp("x", "y", tokens=T, hidden=H, ffn=F, ranks=0),
        lambda: run(mlp("x", "y", tokens=T, hidden=H, ffn=F, ranks=2), {}, np.zeros((T, H)), np.zeros((T, H))),
        lambda: mlp("x", "y", tokens=T, hidden=H, ffn=F, ranks=2).program(0.0),
    ],
)
def test_bad_input_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(BadInput):
        make()
