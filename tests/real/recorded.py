"""Process groups of drawn sizes with one process, in which real software runs, and what it sends in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NAMES = {
    "all_gather_into_tensor": "all-gather",
    "_allgather_base_": "all-gather",
    "allgather_": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "_reduce_scatter_base_": "reduce-scatter",
    "reduce_scatter_": "reduce-scatter",
    "all_reduce": "all-reduce",
    "all_reduce_": "all-reduce",
    "allreduce_": "all-reduce",
    "allreduce_coalesced_": "all-reduce",
    "all_to_all_single": "all-to-all",
    "alltoall_base_": "all-to-all",
    "alltoall_": "all-to-all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
    "send": "send",
    "recv_": "recv",
    "reduce_": "reduce",
    "permute_tensor": "send",
}
"""Operations of torch, and the collectives that they are."""


@dataclass(frozen=True)
class Sent:
    """A collective: its size as nccl-tests count it, that is of the whole buffer of a gather or scatter."""

    op: str
    ranks: tuple[int, ...]
    size_B: int
    phase: str = ""
    dims: int = 0
    """Of the tensor, where that is known."""


class Collectives(TorchDispatchMode):
    """Records the collectives that pass torch's dispatcher while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sent] = []
        self.phase = "forward"

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = function(*args, **(kwargs or {}))
        space, name = function.namespace, function._opname
        if space in ("c10d", "_c10d_functional", "_c10d_functional_autograd") and name in NAMES:
            largest_B = max(size_B(one) for one in (*args, given))
            self.sent.append(Sent(NAMES[name], _ranks(args), largest_B, self.phase))
        return given


def size_B(tensors: Any) -> int:
    """Bytes of all tensors in what an operation takes or gives."""
    return sum(one.numel() * one.element_size() for one in tree_leaves(tensors) if isinstance(one, torch.Tensor))


def _ranks(args: Any) -> tuple[int, ...]:
    """The ranks of the group among an operation's arguments."""
    for one in args:
        if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type()):
            return tuple(dist.get_process_group_ranks(dist.ProcessGroup.unbox(one)))
        if isinstance(one, str) and one in dist.distributed_c10d._world.pg_names.values():
            return tuple(dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(one)))
    raise AssertionError(f"no group among {args}")


@contextlib.contextmanager
def ranks_of(world: int, rank: int = 0, backend: str = "fake") -> Iterator[None]:
    """A process group of so many ranks, of which this process is `rank`."""
    dist.init_process_group(backend, rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


class Done(dist._Work):
    """A collective that gave at once what it was given."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given

    def wait(self, timeout: Any = None) -> bool:
        """There is nothing to wait for."""
        return True

    def get_future(self) -> Any:
        """What it gives."""
        future: Any = torch.futures.Future()
        future.set_result(self.given)
        return future


class Alike(dist.ProcessGroup):
    """A group in Python, for software that needs what collectives give: all its ranks have what this one has."""

    phase = "forward"
    """Of what is sent now, in any group."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__(rank, ranks)
        self.place, self.ranks = rank, ranks
        self.sent: list[Sent] = []

    def rank(self) -> int:
        """This process's place."""
        return self.place

    def size(self) -> int:
        """How many there are."""
        return self.ranks

    def getBackendName(self) -> str:
        """Its name."""
        return "alike"

    def note(self, op: str, tensors: Any, given: Any) -> Done:
        """Records a collective of so large a buffer."""
        self.sent.append(
            Sent(
                op,
                tuple(dist.get_process_group_ranks(self)),
                size_B(tensors),
                Alike.phase,
                tree_leaves(tensors)[0].dim(),
            )
        )
        return Done(given)

    def allreduce(self, tensors: Any, opts: Any = None) -> Done:
        """Leaves what is there."""
        return self.note("used" if tensors[0].dtype == torch.int32 else "all-reduce", tensors, tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> Done:
        """Of what ranks tell one another: not asked for here."""
        return Done(tensors)

    def barrier(self, opts: Any = None) -> Done:
        """Nobody is late."""
        return Done([])

    def allgather(self, given: Any, tensors: Any, opts: Any = None) -> Done:
        """Copies."""
        for places, one in zip(given, tensors, strict=True):
            for place in places:
                place.copy_(one)
        return self.note("all-gather", given, given)

    def _allgather_base(self, given: Any, tensor: Any, opts: Any = None) -> Done:
        given.view(self.ranks, -1).copy_(tensor.reshape(1, -1).expand(self.ranks, -1))
        return self.note("all-gather", given, [given])

    def _reduce_scatter_base(self, given: Any, tensor: Any, opts: Any = None) -> Done:
        given.view(-1).copy_(tensor.reshape(self.ranks, -1)[self.place])
        return self.note("reduce-scatter", tensor, [given])

    def reduce_scatter(self, given: Any, tensors: Any, opts: Any = None) -> Done:
        """Leaves this rank its part."""
        for place, several in zip(given, tensors, strict=True):
            place.copy_(several[self.place])
        return self.note("reduce-scatter", tensors, given)

    def alltoall_base(self, given: Any, tensor: Any, *_: Any) -> Done:
        """Rows of others are zeros."""
        given.zero_()
        return self.note("all-to-all", tensor, [given])

    all_gather_single, reduce_scatter_single = _allgather_base, _reduce_scatter_base
    all_to_all_single = alltoall_base


dist.Backend.register_backend("alike", lambda _, rank, ranks, __: Alike(rank, ranks), devices=["cpu"])
