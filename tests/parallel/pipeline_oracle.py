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
    order: list[list[Pass]],
    placement: str,
    chunks: int,
    seconds: Callable[[str, int, int], Any],
    delay: Any = 0,
    cells: list[frozenset[int]] | None = None,
    cell: Callable[[Pass, Pass, int], Any] | None = None,
) -> tuple[Any, Any]:
    """(makespan, longest time of one device from first start to last end). Raises RuntimeError on a deadlock.

    Two passes of a cell start together when both have their inputs, and end together after `cell` seconds.
    """
    stages = len(order)
    place = {(s, c): position(placement, stages, chunks, s, c) for s in range(stages) for c in range(chunks)}
    done: dict[tuple[str, int, int, int], tuple[Any, int]] = {}
    free, first, at = [0] * stages, [None] * stages, [0] * stages
    moved = True
    while moved:
        moved = False
        for s, lane in enumerate(order):
            while at[s] < len(lane):
                together = lane[at[s] : at[s] + 1 + (cells is not None and at[s] in cells[s])]
                inputs = [key for step, i, c in together for key in _inputs(step, i, *place[s, c])]
                if any(key not in done for key in inputs):
                    break
                ready = [end + (delay if device != s else 0) for end, device in map(done.__getitem__, inputs)]
                start = max([free[s], *ready])
                if first[s] is None:
                    first[s] = start
                step, i, c = together[0]
                free[s] = start + (cell(*together, s) if len(together) == 2 and cell else seconds(step, s, c))
                for step, i, c in together:
                    kind = "F" if step == "F" else "W" if step == "W" else "B"
                    done[kind, i, *place[s, c][:2]] = free[s], s
                at[s], moved = at[s] + len(together), True
    if any(at[s] < len(lane) for s, lane in enumerate(order)):
        raise RuntimeError(f"deadlock at {at}")
    return max(free), max(end - start for end, start in zip(free, first, strict=True))


def _inputs(step: str, i: int, route: int, place: int, last: int) -> list[tuple[str, int, int, int]]:
    if step == "F":
        return [("F", i, route, place - 1)] if place else []
    if step == "W":
        return [("B", i, route, place)]
    return [("F", i, route, place)] + ([("B", i, route, place + 1)] if place < last else [])
