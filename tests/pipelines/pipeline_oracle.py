"""An independent replay of pipeline orders, written from the definition: no program, no engine.

Each device runs its list in order; a pass starts when its device is free and its inputs are there. Repeats over devices
until nothing moves. Times may be Fractions, so equality can be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Pass = tuple[str, int, int]


def position(placement: str, stages: int, chunks: int, device: int, chunk: int) -> tuple[int, int, int]:
    """(route, place on it, last place) of a chunk of a device."""
    if placement == "looped":
        return 0, chunk * stages + device, stages * chunks - 1
    if placement == "vee":
        return 0, device if chunk == 0 else 2 * stages - 1 - device, 2 * stages - 1
    return chunk, device if chunk == 0 else stages - 1 - device, stages - 1


def replay(
    order: list[list[Pass]], placement: str, chunks: int, seconds: Callable[[str, int, int], Any], delay: Any = 0
) -> tuple[Any, Any]:
    """(makespan, longest time of one device from first start to last end). Raises RuntimeError on a deadlock."""
    stages = len(order)
    place = {(s, c): position(placement, stages, chunks, s, c) for s in range(stages) for c in range(chunks)}
    done: dict[tuple[str, int, int, int], tuple[Any, int]] = {}
    free, first, at = [0] * stages, [None] * stages, [0] * stages
    moved = True
    while moved:
        moved = False
        for s, lane in enumerate(order):
            while at[s] < len(lane):
                step, i, c = lane[at[s]]
                inputs = _inputs(step, i, *place[s, c])
                if any(key not in done for key in inputs):
                    break
                ready = [end + (delay if device != s else 0) for end, device in map(done.__getitem__, inputs)]
                start = max([free[s], *ready])
                if first[s] is None:
                    first[s] = start
                free[s] = start + seconds(step, s, c)
                done["F" if step == "F" else "W" if step == "W" else "B", i, *place[s, c][:2]] = free[s], s
                at[s], moved = at[s] + 1, True
    if any(at[s] < len(lane) for s, lane in enumerate(order)):
        raise RuntimeError(f"deadlock at {at}")
    return max(free), max(end - start for end, start in zip(free, first, strict=True))


def _inputs(step: str, i: int, route: int, place: int, last: int) -> list[tuple[str, int, int, int]]:
    if step == "F":
        return [("F", i, route, place - 1)] if place else []
    if step == "W":
        return [("B", i, route, place)]
    return [("F", i, route, place)] + ([("B", i, route, place + 1)] if place < last else [])
