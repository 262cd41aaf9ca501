"""torch.distributed: every group is one without other ranks, and objects that ranks exchange are this one's own.

Source: pytorch v2.13.0, torch/distributed/distributed_c10d.py (_new_process_group_helper), device_mesh.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor, _dispatch, _op_schema

from lockstep.run.capture.cuda import SEEN, index
from lockstep.run.capture.groups import CapturedGroup
from lockstep.run.capture.libraries.after import After
from lockstep.run.capture.real import really

BACKEND = "captured"
STAGES = "torch.distributed.pipelining.stage"


class RanksNotSaid(Exception):
    """A program of several ranks, of unknown number."""


def prepare(notes: list[str]) -> None:
    """Groups without other ranks, whatever backend a program asks for."""
    dist.Backend.register_backend(BACKEND, _made, devices=["cpu", "cuda"])
    _replace("init_process_group", _begun(distributed_c10d.init_process_group))
    _replace("new_group", _on_our_backend(distributed_c10d.new_group))
    _replace("get_backend", _backend)
    _replace("_get_pg_default_device", lambda group=None: torch.device(SEEN))
    _replace("init_device_mesh", really(device_mesh.init_device_mesh))
    torch.multiprocessing.spawn = _spawned  # type: ignore[assignment]
    _objects()
    # Stages of a traced model are moved to the card, but for those that have no bytes.
    sys.meta_path.insert(0, After(STAGES, lambda found: vars(found).update(FakeTensor=())))
    vars(_op_schema)["_rebuild_tensor_from_dtensor_meta"] = _shape_of
    vars(_dispatch)["run_dtensor_rng_op"] = lambda begin, end, draw, *args, **words: draw(*args, **words)
    for kind, part in ((DTensor, "_local_tensor"), (AsyncCollectiveTensor, "elem")):
        kind.device = property(_device_of(part))  # type: ignore[assignment]
    for name in ("__init__", "__getitem__", "_flatten", "_unflatten"):
        if hasattr(device_mesh.DeviceMesh, name):
            setattr(device_mesh.DeviceMesh, name, really(getattr(device_mesh.DeviceMesh, name)))


def _made(store: Any, rank: int, ranks: int, timeout: Any) -> CapturedGroup:
    return CapturedGroup(rank, ranks)


def _shape_of(spec: Any) -> torch.Tensor:
    """A tensor of many ranks where only its shape is asked for: on no device, as some rules draw numbers there."""
    known = spec.tensor_meta
    return torch.empty_strided(known.shape, known.stride, dtype=known.dtype, device="meta")


def _device_of(part: str) -> Callable[[Any], Any]:
    """The device of a tensor of many ranks is that of its part on this one, as the program sees it."""
    return lambda one: getattr(one, part).device if hasattr(one, part) else torch.Tensor.device.__get__(one)


def _replace(name: str, made: Any) -> None:
    """Puts a function in the place of PyTorch's own, in every module that has it."""
    old = getattr(distributed_c10d, name, None) or getattr(device_mesh, name)
    for module in filter(None, list(sys.modules.values())):  # None is one whose import is forbidden.
        if vars(module).get(name) is old:
            setattr(module, name, made)


def _said(words: dict[str, Any], name: str) -> Any:
    """A number in a call, or as a launcher says it; -1 is none."""
    found = words.get(name.lower(), -1)
    return os.environ.get(name) if found == -1 else found


def _begun(old: Callable[..., Any]) -> Callable[..., Any]:
    def begin(*args: Any, **words: Any) -> None:
        rank, ranks = (_said(words, name) for name in ("RANK", "WORLD_SIZE"))
        if rank is None or ranks is None:
            raise RanksNotSaid("the program trains on several ranks: say of how many it is one, as in --ranks 8")
        old(BACKEND, store=dist.HashStore(), rank=int(rank), world_size=int(ranks))
        _default().asked = (*args, words.get("backend"))[0] or _default().asked

    return begin


def _default() -> CapturedGroup:
    found: Any = distributed_c10d._get_default_group()
    return found  # type: ignore[no-any-return]


def _backend(group: Any = None) -> dist.Backend:
    """The backend that a program asked for: its own code, and PyTorch's, sends what that one is able to."""
    return dist.Backend(getattr(group or _default(), "asked", "nccl"))


def _spawned(function: Callable[..., Any], args: tuple[Any, ...] = (), *others: Any, **words: Any) -> None:
    """What a program starts once for every card runs once, in this process, for the one that is captured."""
    function(index(), *args)


def _on_our_backend(old: Callable[..., Any]) -> Callable[..., Any]:
    def new(ranks: Any = None, timeout: Any = None, *args: Any, **words: Any) -> Any:
        kept = {name: words[name] for name in ("use_local_synchronization", "group_desc") if name in words}
        made = old(ranks, timeout, BACKEND, **kept)
        if isinstance(made, CapturedGroup):
            made.asked = (*args, words.get("backend"))[0] or _default().asked
        return made

    return new


def _objects() -> None:
    """Every rank has the object that this one has."""

    def gathered(object_list: list[Any], obj: Any, *args: Any, **words: Any) -> None:
        object_list[:] = [obj] * len(object_list)

    def gathered_at(obj: Any, object_gather_list: list[Any] | None = None, *args: Any, **words: Any) -> None:
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def scattered(
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        *args: Any,
        **words: Any,
    ) -> None:
        if scatter_object_input_list:
            scatter_object_output_list[0] = scatter_object_input_list[0]

    _replace("all_gather_object", gathered)
    _replace("gather_object", gathered_at)
    _replace("broadcast_object_list", lambda *args, **words: None)
    _replace("scatter_object_list", scattered)
