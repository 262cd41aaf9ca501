"""Memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot`): the peak, and what was held at it by category.

    allocated(e) = allocated at the dump - net of all events after e
Events are `alloc` and `free_completed` of the device with most of them; what was there before recording is what the
dump holds less the net of all events. Categories come from the frames of the call that allocated a block:

    optimizer     inside the step of an optimizer
    gradients     inside the backward pass, and alive when it ends
    activations   outside of both, and alive when a backward pass begins
    buffers       the rest: freed inside the pass that allocated it
    before recording, no frames     as it says

Source: pytorch/pytorch, torch/csrc/cuda/memory_snapshot.cpp; the PyTorch memory visualiser counts the same events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_size
from lockstep.explain.read import MEMORY, Kind, register
from lockstep.explain.read.file import Head
from lockstep.explain.read.pickles import is_pickle, read_plain

OPTIMIZER, BACKWARD, FORWARD, NOWHERE = "optimizer", "backward", "forward", ""
"""The pass in which a block was allocated; NOWHERE without frames."""
STEPS = ("step", "_step", "_single_tensor", "_multi_tensor", "_fused")
"""Beginnings of functions of an optimizer."""
ENGINE = ("autograd::Engine", "_engine_run_backward", "Engine::evaluate_function", "Engine::thread_main")
JOINED = re.compile(r"(.*)\(\d+\): (.*)")
"""File and name of a frame, as PyTorch writes them in snapshots that it makes of a profile."""
BEFORE, UNKNOWN = "before recording", "no frames"
CATEGORIES = ("optimizer", "gradients", "activations", "buffers", BEFORE, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Device memory of one rank over the recorded time, in bytes."""

    device: int
    peak_B: float
    """Most that was allocated at once."""
    by_category_B: Mapping[str, float]
    """At the peak; adds up to it."""
    before_recording_B: float
    at_dump_B: float
    reserved_B: float
    """Of all segments at the dump: what the allocator holds from the device."""
    events: int
    out_of_memory: int = 0
    """Events of an allocation that failed."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(slots=True)
class _Block:
    """A block while it lives: its size, its pass, the number of that pass, and when it was freed."""

    size_B: int
    phase: str
    number: int
    freed: int | None = None
    """Number of the pass during which it was freed."""


def read(path: File) -> Snapshot:
    """What a snapshot says. Raises BadInput."""
    data = read_plain(path)
    if not isinstance(data, dict) or "device_traces" not in data:
        raise BadInput("is a pickle, and neither a memory snapshot nor a flight recorder dump of PyTorch", str(path))
    try:
        return snapshot(data, str(path))
    except BadInput:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__} {error}".strip()[:120]
        raise BadInput(f"is not a memory snapshot of PyTorch: {reason}", str(path)) from None


def snapshot(data: Any, where: str) -> Snapshot:
    """The same of the value in a file. Raises BadInput where no events were recorded."""
    traces = data["device_traces"]
    device = max(range(len(traces)), key=lambda one: len(traces[one]), default=0)
    events: Sequence[Mapping[str, Any]] = traces[device] if traces else ()
    if not events:
        raise BadInput("holds no events; record with torch.cuda.memory._record_memory_history()", where)
    segments = [one for one in data["segments"] if one.get("device", device) == device]
    at_dump_B = sum(map(_allocated_B, segments))
    before_B = at_dump_B - _net_B(events)
    if before_B < 0:
        raise BadInput(f"frees {format_size(-before_B)} more than it holds; is it cut off?", where)
    peak_B, peak_at = _peak(events, before_B)
    held = _held(events, peak_at)
    known_B = sum(held.values())
    return Snapshot(
        device=device,
        peak_B=float(peak_B),
        by_category_B={name: float(size) for name, size in {**held, BEFORE: peak_B - known_B}.items() if size},
        before_recording_B=float(before_B),
        at_dump_B=float(at_dump_B),
        reserved_B=float(sum(int(one["total_size"]) for one in segments)),
        events=len(events),
        out_of_memory=sum(one["action"] == "oom" for one in events),
    )


def _allocated_B(segment: Json) -> int:
    """Of a segment at the dump; what PyTorch makes of a profile (`_profile_to_snapshot`) has it in blocks alone."""
    if (said := segment.get("allocated_size")) is not None:
        return int(said)
    return sum(int(one["size"]) for one in segment["blocks"] if one["state"] == "active_allocated")


def _change_B(event: Mapping[str, Any]) -> int:
    """Bytes that an event adds to what is allocated."""
    action = event["action"]
    size_B = int(event["size"]) if action in ("alloc", "free_completed") else 0
    if size_B < 0:
        raise ValueError(f"an event of {size_B} bytes")
    return size_B if action == "alloc" else -size_B


def _net_B(events: Sequence[Mapping[str, Any]]) -> int:
    return sum(_change_B(event) for event in events)


def _peak(events: Sequence[Mapping[str, Any]], before_B: int) -> tuple[int, int]:
    """The most that is allocated, and the number of events after which it is."""
    most_B = now_B = before_B
    most_at = 0
    for number, event in enumerate(events, 1):
        now_B += _change_B(event)
        if now_B > most_B:
            most_B, most_at = now_B, number
    return most_B, most_at


def _held(events: Sequence[Mapping[str, Any]], peak_at: int) -> dict[str, int]:
    """Bytes by category of blocks that were recorded and live at the peak."""
    live: dict[int, _Block] = {}
    at_peak: list[_Block] = []
    for number, (event, phase, passes) in enumerate(_passes(events)):
        if number == peak_at:
            at_peak = list(live.values())
        action, address = event["action"], int(event.get("addr", 0))
        if action == "alloc":
            live[address] = _Block(int(event["size"]), phase, passes)
        elif action == "free_completed" and (block := live.pop(address, None)) is not None:
            block.freed = passes
    if peak_at == len(events):
        at_peak = list(live.values())
    found = dict.fromkeys(CATEGORIES, 0)
    for block in at_peak:
        found[_category(block)] += block.size_B
    return found


def _passes(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str, int]]:
    """Every event with its pass and the number of passes begun by then; a free belongs to the pass it falls into."""
    phase, number = NOWHERE, 0
    for event in events:
        if event["action"] == "alloc":
            found = _phase(event.get("frames") or ())
            if found not in (NOWHERE, phase):
                number += 1
                phase = found
            yield event, found, number
        else:
            yield event, phase, number


def _phase(frames: Sequence[Mapping[str, Any]]) -> str:
    """The pass that a call belongs to, the innermost that any of its frames names."""
    named = False
    for frame, caller in pairwise((*frames, {})):
        name, file = str(frame.get("name", "")), str(frame.get("filename", ""))
        if file == "none" and (joined := JOINED.match(name)):
            file, name = joined.groups()
        named = True
        if any(word in name for word in ENGINE) or (name == "backward" and file.endswith(".py")):
            return BACKWARD
        if name.startswith(STEPS) and ("optim" in file or "profile_hook_step" in str(caller.get("name", ""))):
            return OPTIMIZER
    return FORWARD if named else NOWHERE


def _category(block: _Block) -> str:
    kept = block.freed is None or block.freed > block.number
    if block.phase == OPTIMIZER:
        return "optimizer" if kept else "buffers"
    if block.phase == NOWHERE:
        return UNKNOWN
    if not kept:
        return "buffers"
    return "gradients" if block.phase == BACKWARD else "activations"


def _recognise(begun: Head) -> bool:
    return is_pickle(begun)


KIND = register(Kind("memory-snapshot", "a memory snapshot of PyTorch", MEMORY, _recognise, read, 8))
