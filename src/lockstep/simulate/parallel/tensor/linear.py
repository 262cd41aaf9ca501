"""Linear layers cut in two ways, y = x W, in Megatron's words.

    column   W = [W_1 .. W_k] by columns: y is cut by columns.     forward nothing,        backward all-reduce of d x
    row      W = [W_1; ..; W_k] by rows, x cut by columns.         forward all-reduce of y, backward nothing
With sequence parallelism the ends are cut by rows: all-gather before a column layer, reduce-scatter after a row layer,
and the other one of the two in the backward pass: the same bytes, k times less memory in between.

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3; V. Korthikanti et al., "Reducing activation recomputation in
large transformer models", MLSys 2023, section 4.2.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.simulate.parallel.tensor.layer import Exchange, Layer, Local, Part, Split, State, check_divides


def column(
    x: str, w: str, y: str, *, tokens: int, inputs: int, outputs: int, ranks: int, sequence_parallel: bool = False,
    blocks: int = 1,
) -> Layer:  # fmt: skip
    """y = x w with w cut by columns; `x`, `w`, `y` are names. `blocks`: see `Split`."""
    check_divides(ranks, outputs=outputs // blocks, **({"tokens": tokens} if sequence_parallel else {}))
    whole = f"{x} of all" if sequence_parallel else x
    forward, backward = _products(x, w, y, whole, f"d {y}", 2.0 * tokens * inputs * outputs / ranks)
    gather, reduce = _exchanges(x, whole, f"d {x}", tokens * inputs, sequence_parallel)
    return Layer(ranks, (*gather, forward), (backward, reduce), {w: Split(1, blocks)}, x, y, sequence_parallel)


def row(
    x: str, w: str, y: str, *, tokens: int, inputs: int, outputs: int, ranks: int, sequence_parallel: bool = False
) -> Layer:
    """y = x w with w cut by rows, x by columns; `x`, `w`, `y` are names."""
    check_divides(ranks, inputs=inputs, **({"tokens": tokens} if sequence_parallel else {}))
    whole = f"d {y} of all" if sequence_parallel else f"d {y}"
    forward, backward = _products(x, w, y, x, whole, 2.0 * tokens * inputs * outputs / ranks)
    gather, reduce = _exchanges(f"d {y}", whole, y, tokens * outputs, sequence_parallel)
    return Layer(ranks, (forward, reduce), (*gather, backward), {w: Split(0)}, x, y, sequence_parallel)


def _products(x: str, w: str, y: str, value: str, gradient: str, flops: float) -> tuple[Local, Local]:
    """y = x w and its gradients; `value` and `gradient` are what the rank has of x and of the gradient of y."""

    def forward(state: State, rank: int) -> None:
        state[y] = state[value] @ state[w]

    def backward(state: State, rank: int) -> None:
        state[f"d {w}"] = state[value].T @ state[gradient]
        state[f"d {x}"] = state[gradient] @ state[w].T

    return Local(f"{y} = {x} {w}", forward, flops), Local(f"d {w}, d {x}", backward, 2 * flops)


def _exchanges(
    part: str, whole: str, summed: str, elems: int, sequence_parallel: bool
) -> tuple[tuple[Part, ...], Exchange]:
    """The gather of `part` into `whole`, if rows are split, and the reduction of `summed`."""
    if not sequence_parallel:
        return (), Exchange("all-reduce", summed, summed, elems)
    return (Exchange("all-gather", part, whole, elems),), Exchange("reduce-scatter", summed, summed, elems)


def pointwise(layer: Layer, forward: Local, backward: Local, output: str) -> Layer:
    """`layer` followed by a computation that needs no other rank."""
    return replace(layer, forward=(*layer.forward, forward), backward=(backward, *layer.backward), output=output)
