"""Which tensors of hidden width a layer keeps between its blocks, by where its norms are, and what reads them.

The layer's input is kept whatever comes; it is what the first norm reads or, with norms behind the blocks, attention.
"""

from __future__ import annotations

from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.kind import LayerKind
from lockstep.describe.workload.operation import Tensor

INPUTS = {
    "pre": ("attention input", "norm 2 input", "mlp input"),
    "post": ("norm 1 input", "mlp input", "norm 2 input"),
    "output": ("attention output norm input", "mlp input", "mlp output norm input"),
    "sandwich": (
        "attention input",
        "attention output norm input",
        "norm 2 input",
        "mlp input",
        "mlp output norm input",
    ),
}
NORMED = {
    "pre": ("attention input", "cross attention input", "mlp input"),
    "post": ("mlp input",),
    "output": (),
    "sandwich": ("attention input", "mlp input"),
}
"""Which of them are outputs of a norm, that products alone read."""


def kept_by_norms(model: Transformer, kind: LayerKind) -> tuple[Tensor, ...]:
    """What waits for norms and residual sums."""
    summed = "attention out" if model.norm_placement == "pre" and kind.attends else ""
    return tuple(
        Tensor(name, model.hidden, "gathered", held="input")
        if name == "mlp input" or name.startswith(("attention input", "cross"))
        else Tensor(name, model.hidden, "sequence", summed if name == "norm 2 input" else "")
        for name in _names(model, kind)
        if name not in NORMED[model.norm_placement]
    )


def read_by_products(model: Transformer, kind: LayerKind, block: str) -> tuple[Tensor, ...]:
    """What products with which a block begins read; nothing where it waits anyway."""
    names = _names(model, kind)
    name = f"{block} input" if f"{block} input" in names else names[0] if model.parallel_block else ""
    normed = name in names and name in NORMED[model.norm_placement]
    return (Tensor(name, model.hidden, "gathered", "norm", "input", for_weights=True),) if normed else ()


def _names(model: Transformer, kind: LayerKind) -> tuple[str, ...]:
    if model.parallel_block:
        return ("attention input", "mlp input")[: model.parallel_norms]
    if not kind.whole:
        return ("attention input" if kind.block == "none" else "mlp input",)
    crossing = ("norm 3 input", "cross attention input") if kind.crosses else ()
    return (*INPUTS[model.norm_placement], *crossing)
