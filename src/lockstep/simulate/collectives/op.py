"""What each collective needs at least, and what it does with what arrives. n ranks; S bytes as in nccl-tests.

    wire_B       broadcast, reduce: S; scatter, gather, all-gather, reduce-scatter, all-to-all: (n - 1)/n S;
                 all-reduce: 2 (n - 1)/n S, and S where the switch reduces, as a rank's every element must reach
                 the others and theirs it
    bus_factor   2 (n - 1)/n for all-reduce; (n - 1)/n where a rank keeps its own share; 1 otherwise

Source: as in `bounds`; github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.simulate.collectives.shares import Split


def _others(ranks: Number) -> Number:
    """Share of the buffer that belongs to other ranks."""
    return (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Op:
    """One collective. Everything broadcasts."""

    wire_B: Callable[[Number, Number, Split], Number] = lambda ranks, size_B, split: size_B + 0.0 * np.asarray(ranks)
    """(n, S, split) -> bytes that some rank must send or receive, whatever the algorithm."""
    bus_factor: Callable[[Number], Number] = lambda ranks: _others(ranks) * 0.0 + 1.0
    """n -> busbw / algbw in nccl-tests."""
    adds: bool = False
    """Whether its messages may each be added to something."""
    reduces: bool = False
    """Whether every rank's buffer ends in one sum, of which (n - 1) S bytes are reduced by n ranks."""
    in_switch_B: Callable[[Number, Number, Split], Number] | None = None
    """`wire_B` where the switch between the ranks reduces; None where that does not help."""
    most_steps: float = np.inf
    """Latencies that are enough however many ranks there are."""
    built_in: bool = True
    """Whether torch has it too."""
    first: str = ""
    """Its algorithms in the order of the listing, where ties go to the first; others follow by name."""

    @property
    def switched_B(self) -> Callable[[Number, Number, Split], Number]:
        """(n, S, split) -> bytes that some rank must send or receive where the switch may reduce."""
        return self.in_switch_B or self.wire_B


def _exchanged_B(ranks: Number, size_B: Number, split: Split) -> Number:
    return size_B * _others(ranks)


def _rooted_B(ranks: Number, size_B: Number, split: Split) -> Number:
    """The root keeps its own share, and it may be the largest one."""
    return size_B - split.largest_B(size_B, ranks)


def _whole_B(ranks: Number, size_B: Number, split: Split) -> Number:
    return np.where(ranks > 1, size_B, 0.0)


OPS: Mapping[str, Op] = {
    "all-to-all": Op(_exchanged_B, _others, first="direct bruck hierarchical pairwise"),
    "scatter": Op(_rooted_B, _others, first="binomial linear"),
    "all-gather": Op(_exchanged_B, _others, first="ring recursive-doubling direct bruck in-switch"),
    "reduce-scatter": Op(
        _exchanged_B, _others, adds=True, reduces=True, first="ring recursive-halving direct bruck in-switch"
    ),
    "all-reduce": Op(
        lambda ranks, size_B, split: 2.0 * size_B * _others(ranks),
        lambda ranks: 2.0 * _others(ranks),
        adds=True,
        reduces=True,
        in_switch_B=_whole_B,
        first="ring rabenseifner double-binary-tree recursive-doubling tree pipelined-tree bidirectional-ring "
        "hierarchical torus-2d direct naive full-exchange in-switch",
    ),
    "broadcast": Op(_whole_B, first="linear binomial scatter-all-gather"),
    "reduce": Op(_whole_B, adds=True, reduces=True, first="linear binomial reduce-scatter-gather"),
    "gather": Op(_rooted_B, _others, first="binomial linear"),
    # A worker sends its whole buffer.
    "parameter-server": Op(adds=True, first="synchronous asynchronous replicated"),
    # One round needs a whole buffer per neighbour.
    "gossip": Op(
        lambda ranks, size_B, split: size_B * np.minimum(2.0, np.asarray(ranks) - 1.0),
        adds=True,
        most_steps=2.0,
        built_in=False,
        first="ring",
    ),
}
"""In the order in which they are listed."""


def op_of(name: str) -> Op:
    """The collective, or for what is none, such as a message between two ranks, one that needs its bytes only."""
    return OPS.get(name, Op())
