"""Groups of ranks without other ranks: their collectives are recorded and done at once, with the shapes they give.

A collective that is waited for by its caller runs in the stream of the moment; one that runs on by itself has the
group's own stream, which begins behind what was in the stream of the moment, and whose end is waited for.

Source: pytorch v2.13.0, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (`asyncOp` and streams of collectives).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_iter

from lockstep.describe.captured import READ, WAIT
from lockstep.run.capture.streams import Order, Stream

_OWN = """
all-reduce 0 0: allreduce allreduce_coalesced
broadcast 0 0: broadcast
reduce 0 0: reduce
all-gather 1 0: allgather _allgather_base allgather_coalesced allgather_into_tensor_coalesced all_gather_single
    all_gather_single_coalesced
reduce-scatter 1 0: reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced reduce_scatter_single
    reduce_scatter_single_coalesced
all-to-all 1 0: alltoall alltoall_base all_to_all_single
gather 1 0: gather
scatter 1 0: scatter
send 0 0: send
recv 0 0: recv recv_anysource
"""
"""Collectives, which of their arguments they read and write, and the methods of a process group that are these."""
_FUNCTIONAL = """
all-reduce: all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_
all-gather: all_gather_into_tensor all_gather_into_tensor_out all_gather_into_tensor_coalesced
reduce-scatter: reduce_scatter_tensor reduce_scatter_tensor_out reduce_scatter_tensor_coalesced
all-to-all: all_to_all_single shard_dim_alltoall
broadcast: broadcast broadcast_
"""
"""Collectives, and the operations of PyTorch that are these."""


def _table(text: str) -> dict[str, str]:
    """What is left of the colon, by each name right of it."""
    lines = (line.partition(": ") for line in text.replace("\n    ", " ").strip().splitlines())
    return {name: said for said, _, names in lines for name in names.split()}


FUNCTIONAL = _table(_FUNCTIONAL)
SPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")

Note = Callable[..., None]


class Later(torch.futures.Future[Any]):
    """What a collective gives, and what is made of it, which is done beside the stream of the moment."""

    stream: ClassVar[Stream | None] = None

    def __init__(self, event: int, given: Any) -> None:
        super().__init__()
        self.event = event
        self.set_result(given)

    def wait(self) -> Any:
        """What is given, for which the stream of the moment waits."""
        if self.event:
            Order.note(WAIT, Order.current.number, self.event)
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> Later:
        """What `callback` makes of it."""
        own = Later.stream = Later.stream or Stream()
        with own:
            if self.event:
                Order.note(WAIT, own.number, self.event)
            made = callback(self)
        return Later(Order.recorded(own.number), made)


class Done(dist.Work):
    """A collective that was begun: whoever waits for it does so in the stream of the moment."""

    def __init__(self, event: int, result: Any) -> None:
        super().__init__()
        self.event, self.given = event, result

    def wait(self, timeout: Any = None) -> bool:
        """The stream of the moment waits for the collective."""
        if self.event:
            Order.note(WAIT, Order.current.number, self.event)
        return True

    def block_current_stream(self) -> None:
        """The same."""
        self.wait()

    synchronize = block_current_stream

    def is_completed(self) -> bool:
        """It is."""
        return True

    is_success = is_completed

    def result(self) -> Any:
        """What it gives."""
        return self.given

    def get_future(self) -> Later:
        """What it gives, later."""
        return Later(self.event, self.given)


class CapturedGroup(dist.ProcessGroup):
    """A group of which this process is one rank, and whose others do the same at the same time."""

    note: Note = staticmethod(lambda *args, **words: None)
    ranks: ClassVar[dict[str, tuple[int, ...]]] = {}
    """The ranks of every group that had a collective, by name."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__(rank, ranks)  # type: ignore[call-arg]
        self._rank, self._ranks, self.asked = rank, ranks, "nccl"
        self.stream, self.called = Stream(), ""

    def rank(self) -> int:
        """This process's place in the group."""
        return self._rank

    def size(self) -> int:
        """How many there are."""
        return self._ranks

    @property
    def pg_name(self) -> str:
        """The group's name in this program, also while it is ended."""
        self.called = str(dist.distributed_c10d._world.pg_names.get(self, self.called))
        return self.called

    group_name = pg_name  # type: ignore[assignment]

    def getBackendName(self) -> str:
        """As a program expects of a GPU's."""
        return "nccl"

    def barrier(self, opts: Any = None) -> Done:
        """The host waits for all ranks."""
        Order.note(READ, Order.current.number, 0)
        return Done(0, None)

    def begun(self, op: str, reads: list[Any], gives: list[Any], waited: bool) -> Done:
        """Records a collective, and the event at its end where its caller does not wait for it."""
        self.ranks.setdefault(self.group_name, self.members())
        if waited:
            self.note(op, reads, gives, self.group_name, Order.current.number)
            return Done(0, gives or reads)
        Order.note(WAIT, self.stream.number, Order.recorded(Order.current.number))
        self.note(op, reads, gives, self.group_name, self.stream.number)
        return Done(Order.recorded(self.stream.number), gives or reads)

    def members(self) -> tuple[int, ...]:
        """The ranks of the group among all."""
        return tuple(dist.get_process_group_ranks(self))

    def _start_coalescing(self, device: Any) -> None:
        pass

    def _end_coalescing(self, device: Any) -> Done:
        return Done(Order.recorded(self.stream.number), None)


def _method(op: str, reads: int, gives: int) -> Callable[..., Done]:
    def method(self: CapturedGroup, *args: Any, **words: Any) -> Done:
        given = [*args, *words.values()]
        asks = [one for one in given if hasattr(one, "asyncOp")]
        waited = bool(asks) and not asks[0].asyncOp
        return self.begun(op, _tensors(given[reads]), [] if reads == gives else _tensors(given[gives]), waited)

    return method


def _tensors(one: Any) -> list[torch.Tensor]:
    return [each for each in tree_iter(one) if isinstance(each, torch.Tensor)]


for _name, _said in _table(_OWN).items():
    _op, _reads, _gives = _said.split()
    setattr(CapturedGroup, _name, _method(_op, int(_reads), int(_gives)))


class Functional:
    """Collectives that are operations of PyTorch, which a tensor's first use waits for."""

    def __init__(self) -> None:
        self.ends: dict[Any, int] = {}

    def __call__(self, function: Any, args: tuple[Any, ...], given: Any) -> bool:
        """Records such an operation; False for others."""
        name = function._opname
        if function.namespace not in SPACES or (name != "wait_tensor" and name not in FUNCTIONAL):
            return False
        if name == "wait_tensor":
            event = self.ends.pop(args[0].untyped_storage()._cdata, 0)
            if event:
                Order.note(WAIT, Order.current.number, event)
            return True
        group = next(one for one in (_group(each) for each in reversed(args)) if one is not None)
        end = group.begun(FUNCTIONAL[name], _tensors(args), _tensors(given), waited=False).event
        self.ends |= {one.untyped_storage()._cdata: end for one in _tensors(given)}
        return True


def _group(one: Any) -> CapturedGroup | None:
    if not isinstance(one, str):
        return None
    found = dist.distributed_c10d._resolve_process_group(one)  # type: ignore[arg-type]
    return found if isinstance(found, CapturedGroup) else None
