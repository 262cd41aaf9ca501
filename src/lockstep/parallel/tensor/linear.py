"""Linear layers cut in two ways, y = x W, in Megatron's words.

    column   W = [W_1 .. W_k] by columns: y is cut by columns.     forward nothing,        backward all-reduce of d x
    row      W = [W_1; ..; W_k] by rows, x cut by columns.         forward all-reduce of y, backward nothing
With sequence parallelism the ends are cut by rows: all-gather before a column layer, reduce-scatter after a row layer,
and the other one of the two in the backward pass: the same bytes, k times less memory in between.

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3; V. Korthikanti et al., "Reducing activation recomputation in
large transformer models", MLSys 2023, section 4.2.
"""

from __future__ import annotations

from lockstep.parallel.tensor.layer import Exchange, Layer, Local, Part, Split, State, check_divides


def column(
    x: str, w: str, y: str, *, tokens: int, inputs: int, outputs: int, ranks: int, sequence_parallel: bool = False,
    blocks: int = 1,
) -> Layer:  # fmt: skip
    """y = x w with w cut by columns; `x`, `w`, `y` are names. `blocks`: see `Split`."""
    check_divides(ranks, outputs=outputs // blocks, **({"tokens": tokens} if sequence_parallel else {}))
    whole = f"{x} of all" if sequence_parallel else x
    flops = 2.0 * tokens * inputs * outputs / ranks

    def forward(state: State, rank: int) -> None:
        state[y] = state[whole] @ state[w]

    def backward(state: State, rank: int) -> None:
        state[f"d {w}"] = state[whole].T @ state[f"d {y}"]
        state[f"d {x}"] = state[f"d {y}"] @ state[w].T

    elems = tokens * inputs
    gather: tuple[Part, ...] = (Exchange("all-gather", x, whole, elems),) if sequence_parallel else ()
    reduce = Exchange("reduce-scatter" if sequence_parallel else "all-reduce", f"d {x}", f"d {x}", elems)
    return Layer(
        ranks,
        (*gather, Local(f"{y} = {x} {w}", forward, flops)),
        (Local(f"d {w}, d {x}", backward, 2 * flops), reduce),
        {w: Split(1, blocks)},
        x,
        y,
        sequence_parallel,
    )


def row(
    x: str, w: str, y: str, *, tokens: int, inputs: int, outputs: int, ranks: int, sequence_parallel: bool = False
) -> Layer:
    """y = x w with w cut by rows, x by columns; `x`, `w`, `y` are names."""
    check_divides(ranks, inputs=inputs, **({"tokens": tokens} if sequence_parallel else {}))
    arriving = f"d {y} of all" if sequence_parallel else f"d {y}"
    flops = 2.0 * tokens * inputs * outputs / ranks

    def forward(state: State, rank: int) -> None:
        state[y] = state[x] @ state[w]

    def backward(state: State, rank: int) -> None:
        state[f"d {w}"] = state[x].T @ state[arriving]
        state[f"d {x}"] = state[arriving] @ state[w].T

    elems = tokens * outputs
    reduce = Exchange("reduce-scatter" if sequence_parallel else "all-reduce", y, y, elems)
    gather: tuple[Part, ...] = (Exchange("all-gather", f"d {y}", arriving, elems),) if sequence_parallel else ()
    return Layer(
        ranks,
        (Local(f"{y} = {x} {w}", forward, flops), reduce),
        (*gather, Local(f"d {w}, d {x}", backward, 2 * flops)),
        {w: Split(0)},
        x,
        y,
        sequence_parallel,
    )


def pointwise(layer: Layer, forward: Local, backward: Local, output: str) -> Layer:
    """`layer` followed by a computation that needs no other rank."""
    return Layer(
        layer.ranks, (*layer.forward, forward), (backward, *layer.backward), layer.splits, layer.input, output,
        layer.sequence_parallel,
    )  # fmt: skip
