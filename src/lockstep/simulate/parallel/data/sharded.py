"""Fully sharded data parallelism (FSDP, ZeRO-3): parameters gathered before use, gradients scattered after.

Per unit i: all-gather, forward; in the backward pass all-gather again, backward, reduce-scatter. One communication
stream; at most `prefetch` units are gathered beyond the one in use:

    forward   gathered_i = max(gathered_{i-1}, forward_{i-1-prefetch}) + g_i
              forward_i  = max(forward_{i-1}, gathered_i) + f_i
    backward  the same in reverse order with b_i; a unit's reduce-scatter comes before the next gather still to issue

prefetch = 0 overlaps no gather of the forward pass; the first gather and the last reduce-scatter are always exposed.
Held parameters: prefetch + 1 units at most. `keep=True` keeps gathered parameters from forward to backward (ZeRO-2,
SHARD_GRAD_OP): no second gather, all units held.

Source: Y. Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel", VLDB 16(12), 2023, sections
3.3.1 to 3.3.3 (overlap, backward prefetch, rate limiter); S. Rajbhandari et al., "ZeRO", SC 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.group import Traffic
from lockstep.simulate.parallel.lanes import COMM, COMPUTE, Op, program_of
from lockstep.simulate.parallel.overlapped import Overlapped
from lockstep.simulate.parallel.script import Script
from lockstep.simulate.program import Program


@dataclass(frozen=True, slots=True)
class Units:
    """Per unit, forward order: seconds of both passes and bytes of its parameters (gradients: the same bytes)."""

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    parameter_B: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.forward_s or len({len(self.forward_s), len(self.backward_s), len(self.parameter_B)}) > 1:
            raise BadInput(
                f"{len(self.forward_s)} forward times, {len(self.backward_s)} backward times and "
                f"{len(self.parameter_B)} sizes: one of each per unit", "units",
            )  # fmt: skip
        for name in self.__slots__:
            if not (np.isfinite(getattr(self, name)).all() and min(getattr(self, name)) >= 0):
                raise BadInput(f"{name} must be finite and not negative", "units")


def price(
    units: Units, traffic: Traffic, *, prefetch: int = 1, keep: bool = False, efficiency: float = 1.0
) -> Overlapped:
    """One step. The link's latency and rate may be arrays when efficiency = 1."""
    ops = operations(units, traffic, prefetch=prefetch, keep=keep)
    compute_s = sum(units.forward_s) + sum(units.backward_s)
    comm_s = sum(op.seconds for op in ops if op.lane == COMM)
    # The first gather and the last reduce-scatter have nothing to hide behind.
    edges_s = ops[0].seconds + ops[-1].seconds
    return Overlapped.of(ops, efficiency, np.maximum(comm_s, compute_s + edges_s))


def operations(units: Units, traffic: Traffic, *, prefetch: int = 1, keep: bool = False) -> list[Op]:
    """All gathers, passes and reduce-scatters in the order in which they are issued."""
    if prefetch < 0:
        raise BadInput(f"prefetch must be at least 0 units, got {prefetch}", "prefetch")
    script, number = Script(), len(units.forward_s)
    forward = _pass(script, units, traffic, range(number), "F", prefetch, (), gather=True, free=not keep)
    _pass(script, units, traffic, range(number - 1, -1, -1), "B", prefetch, forward, gather=not keep, free=True)
    return script.ops


def _pass(
    script: Script, units: Units, traffic: Traffic, order: Sequence[int], name: str, prefetch: int,
    begin: tuple[int, ...], *, gather: bool, free: bool,
) -> tuple[int, ...]:  # fmt: skip
    """Adds one pass over `order`; returns its last computation. `begin`: what its first gather waits for."""
    seconds = units.forward_s if name == "F" else units.backward_s
    gathered: list[tuple[int, ...]] = []
    computed: list[tuple[int, ...]] = []

    def moved(op: str, label: str, size_B: float, held_B: float = 0.0) -> Op:
        return Op(COMM, traffic.time_s(op, size_B), op=op, size_B=size_B, label=label, held_B=held_B)

    for place, i in enumerate(order):
        while gather and len(gathered) <= min(place + prefetch, len(order) - 1):
            unit, held = order[len(gathered)], len(gathered) - 1 - prefetch
            unit_B = units.parameter_B[unit]
            op = moved("all-gather", f"gather{unit}", unit_B, unit_B)
            gathered.append(script.add(op, computed[held] if held >= 0 else begin))
        held_B = -units.parameter_B[i] if free else 0.0
        work = Op(COMPUTE, seconds[i], label=f"{name}{i}", held_B=held_B)
        computed.append(script.add(work, gathered[place] if gather else begin))
        if name == "B":
            script.add(moved("reduce-scatter", f"scatter{i}", units.parameter_B[i]), computed[-1])
    return computed[-1]


def program(
    units: Units, traffic: Traffic, *, prefetch: int = 1, keep: bool = False, efficiency: float = 1.0,
    ranks: int | None = None,
) -> Program:  # fmt: skip
    """The step on `ranks` devices (default: all of the group), with the memory of gathered parameters."""
    ops = operations(units, traffic, prefetch=prefetch, keep=keep)
    return program_of(ops, ranks or traffic.ranks, traffic.algorithm, efficiency)


def peak_gathered_B(units: Units, prefetch: int = 1, keep: bool = False) -> Number:
    """Most bytes of gathered parameters at once: prefetch + 1 neighbouring units, or all of them when kept.

    An upper bound that is reached when gathers run ahead of computing.
    """
    if keep:
        return sum(units.parameter_B)
    width = min(prefetch + 1, len(units.parameter_B))
    return max(sum(units.parameter_B[i : i + width]) for i in range(len(units.parameter_B) - width + 1))
