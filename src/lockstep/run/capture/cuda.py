"""What `torch.cuda` says of the card that is not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from lockstep.describe.hardware.card import Card
from lockstep.run.capture import streams

SEEN = streams.SEEN
PROCESSORS = 132
"""Of an H100, for every card: the catalog does not know them."""
SILENT = """init _lazy_init _lazy_call empty_cache set_device manual_seed manual_seed_all ipc_collect
    reset_peak_memory_stats reset_max_memory_allocated set_rng_state set_rng_state_all set_sync_debug_mode
    set_per_process_memory_fraction reset_accumulated_memory_stats reset_accumulated_host_memory_stats
    _record_memory_history _dump_snapshot reset_max_memory_cached reset_peak_host_memory_stats"""
"""What `torch.cuda` does without an answer."""
GRAPHS = ("CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables")

ORDER = ("current_stream", "default_stream", "set_stream", "stream", "synchronize")
"""What it does with streams."""


@cache
def index() -> int:
    """The card's number in its node, as a launcher says it."""
    return int(os.environ.get("LOCAL_RANK", 0))


def answer(card: Card, allocated: Callable[[], int], peak: Callable[[], int]) -> None:
    """What `torch.cuda` says."""
    properties = SimpleNamespace(
        name=card.name, total_memory=card.memory_B, major=card.capability[0], minor=card.capability[1],
        multi_processor_count=PROCESSORS, is_integrated=False, warp_size=32, gcnArchName="",
    )  # fmt: skip
    says: dict[str, Any] = {
        "is_available": True, "is_initialized": True,
        "device_count": int(os.environ.get("LOCAL_WORLD_SIZE", 1)), "current_device": index(),
        "get_device_name": card.name, "get_device_capability": card.capability, "get_device_properties": properties,
        "is_bf16_supported": card.capability >= (8, 0), "_is_in_bad_fork": False,
        "get_arch_list": ["sm_80", "sm_90"], "utilization": 0, "get_rng_state_all": [],
        "initial_seed": 0, "device_memory_used": 0, "temperature": 0, "power_draw": 0, "clock_rate": 0,
        "memory_usage": 0, "get_sync_debug_mode": 0, "host_memory_stats": {}, "memory_snapshot": [], "_snapshot": {},
        "memory_summary": "no bytes are there", "list_gpu_processes": "none", "cudart": _Runtime(),
        **dict.fromkeys(SILENT.split()),
    }  # fmt: skip
    cuda = torch.cuda
    for name, answer in says.items():
        _put(name, lambda *args, answer=answer, **words: answer)
    for name in ("memory_allocated", "memory_reserved", "memory_cached"):
        _put(name, lambda *args, **words: allocated())
    for name in ("max_memory_allocated", "max_memory_reserved", "max_memory_cached"):
        _put(name, lambda *args, **words: peak())
    _put("memory_stats", lambda *args, **words: Statistics(allocated(), peak()))
    _put("memory_stats_as_nested_dict", lambda *args, **words: {})
    cuda.is_current_stream_capturing = _captures
    cuda.mem_get_info = lambda *args: (card.memory_B - allocated(), card.memory_B)
    cuda.get_rng_state = lambda *args: torch.zeros(16, dtype=torch.uint8)
    for name in ("Stream", "Event", *ORDER):
        setattr(cuda, name, getattr(streams, name))
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, lambda *args, **words: 0)
    torch._C._cuda_getDevice = index
    for name in ("_exchange_device", "_maybe_exchange_device"):
        setattr(cuda, name, lambda device: index())
    drawn: Any = SimpleNamespace(set_state=lambda state: None, get_state=cuda.get_rng_state, initial_seed=lambda: 0)
    cuda.default_generators = (drawn,) * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    torch.version.cuda = "13.0"
    torch.cuda.nccl.version = lambda: (2, 28, 0)
    torch.distributed.is_nccl_available = lambda: True
    torch.Generator = Generator  # type: ignore[misc]
    for name in GRAPHS:
        setattr(cuda, name, Graph)
    _accelerator()


def _put(name: str, answer: Callable[..., Any]) -> None:
    """Answers by one of the names that `torch.cuda` and its module of memory share."""
    setattr(torch.cuda, name, answer)
    if hasattr(torch.cuda.memory, name):
        setattr(torch.cuda.memory, name, answer)


class Statistics(dict[str, int]):
    """Numbers of an allocator: bytes, now and at most, and no others."""

    def __init__(self, now_B: int, most_B: int) -> None:
        kinds = [f"{what}_bytes.all" for what in ("active", "allocated", "requested", "reserved")]
        super().__init__(
            {f"{one}.{when}": size for one in kinds for when, size in (("current", now_B), ("peak", most_B))}
        )

    def __missing__(self, name: str) -> int:
        return 0


class _Runtime:
    """The library of CUDA, which does nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args, **words: 0


class _Generators(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_Generators):
    """What random numbers come from, also on the card."""

    drops = False

    def __new__(cls, device: Any = "cpu") -> Generator:
        """One of the processor; what is drawn by one of the card has no values."""
        made = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        made.drops = torch.device(device).type != "cpu"
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """As the program asked for it."""
        return torch.device(SEEN, index()) if self.drops else torch.device("cpu")


class Replayed(Exception):
    """Kernels run without calls of the program."""


class Graph:
    """Stands for all that makes one, also where a program names its type."""

    def __init__(self, *args: Any, **words: Any) -> None:
        raise Replayed("CUDA graphs run kernels again without calls that can be seen: run the program without them")


def _captures() -> bool:
    """Never; SyncBatchNorm alone is told so, which then leaves no ranks out that have no data."""
    return sys._getframe(1).f_code.co_filename.endswith("nn/modules/_functions.py")


def _accelerator() -> None:
    """The same by the names that are not of one maker."""
    torch.Stream, torch.Event = streams.Stream, streams.Event  # type: ignore[assignment, misc]
    torch._C._get_accelerator = lambda *args: torch.device(SEEN)
    said = {"is_available": True, "current_accelerator": torch.device(SEEN), "current_device_index": index()}
    for name, one in said.items():
        setattr(torch.accelerator, name, lambda *args, one=one, **words: one)
    for name in ("device_count", *ORDER):
        setattr(torch.accelerator, name, getattr(torch.cuda, name))
