"""`Operation`: one thing that a layer computes, whatever software runs it, and `Width`, numbers in a row of it.

does       product        rows times a weight matrix
           core, scan     what mixes rows of a sequence: attention, or the scan of a recurrent mixer
           any other      kernels between these, by the name of what prices them
rows       tokens         those of a micro-batch on the rank
           stream         the same where sequence parallelism splits them
           experts        rows that come to the experts of the rank
"""

from __future__ import annotations

from typing import Literal

from lockstep.base.records import dataclass
from lockstep.describe.workload.weight import Cut, Weight

Rows = Literal["tokens", "stream", "experts"]
Spread = Literal["sequence", "gathered", "tp", "kv", "scores", "rows", "inner", "experts", "layer"]
"""How a layout cuts a tensor that waits for the backward pass (`piece.py`)."""
Part = Literal["stream", "mixer", "crossing", "dense", "router", "experts", "shared"]
"""Where in a layer an operation stands; `crossing` is attention over an encoder's output."""

SPREADS: dict[Cut, Spread] = {"tensor": "tp", "kv": "kv", "none": "sequence"}
"""Of tokens, by how a layout cuts a row."""


@dataclass(frozen=True, slots=True)
class Width:
    """So many `numbers` in a row, which a layout cuts as it cuts a weight."""

    numbers: float
    cut: Cut = "none"
    kv_heads: int = 1
    """For cut "kv": the most ways in which it can be cut."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What the backward pass of an operation reads, in a row of `numbers`: it waits unless what made it runs again."""

    name: str
    numbers: float
    spread: Spread
    made: str = ""
    """The operation that makes it, whose modules of recomputation throw it away."""
    held: Literal["element", "input", "inner"] = "element"
    """As any activation, as linear layers keep what they read, or as an expert's activation function does."""
    for_weights: bool = False
    """Read for a weight's gradient alone."""
    stays: tuple[str, ...] = ()
    """Modules that make it again for nothing: it stands for what they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a layer."""

    name: str
    does: str
    part: Part
    rows: Rows = "tokens"
    widths: tuple[Width, ...] = ()
    """Numbers in a row of what it makes, or of what it works on."""
    inner: Width | None = None
    """Numbers in a row that a product reads."""
    weight: Weight | None = None
    """Of a product."""
    beside: str = ""
    """Products with the same word here read the same: software that joins their matrices makes them in one kernel."""
    modules: tuple[str, ...] = ()
    """Modules of selective recomputation that run it again (`piece.py`)."""
    reads: tuple[Tensor, ...] = ()
    """What of the layer waits for its backward pass; tensors of one name are one."""
    edge: Literal["", "first", "last"] = ""
    """Of products: whether tensor-parallel ranks gather what it reads, or add up what it gives."""

    def spread(self, width: Width) -> Spread:
        """How a layout cuts a tensor of so many numbers in a row of it."""
        if self.rows == "experts":
            return "inner" if width.cut == "expert" else "rows"
        return SPREADS[width.cut]
