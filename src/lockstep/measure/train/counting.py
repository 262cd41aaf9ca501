"""Counts what torch itself gives to its collectives: a mode that sees every operation on its way to the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.measure.train.wire import Wire

# torch's operation -> (collective, which argument is the whole buffer)
COUNTED = {
    "c10d._allgather_base_.default": ("all-gather", 0),
    "c10d._reduce_scatter_base_.default": ("reduce-scatter", 1),
}


class Counting(TorchDispatchMode):
    """Counts gathers and scatters as if each were Lockstep's ring."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wire = wire

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if str(func) in COUNTED:
            op, place = COUNTED[str(func)]
            self.wire.count_ring(op, args[place])
        return func(*args, **(kwargs or {}))
