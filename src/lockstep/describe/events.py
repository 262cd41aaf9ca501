"""Events of a captured step by where they stand among others, so that what repeats says the same of its own.

Of an event that somebody waits for, a wait says which it is among those that are recorded and not yet waited for: the
first, as buckets of gradients wait, or the last, as what was moved away comes back, counted from the nearer end.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.describe.captured import RECORD, Operation

Place = tuple[str, int]
WAITED, LEFT = "waited for", "left"
"""Of a recorded event: whether anybody waits for it."""
FIRST, LAST, AGAIN, BEFORE, ALL = "from the first", "from the last", "again", "before the step", "all"
"""Of a wait: for which event, for one that was waited for already, for one from before, for all of a stream."""


def places(operations: Sequence[Operation]) -> list[Place]:
    """What every row says of its event; nothing where it has none."""
    marked = _waited(operations)
    found, open_events, known = list[Place](), list[int](), dict[int, int]()
    for at, one in enumerate(operations):
        if one.name == RECORD:
            known[one.event] = at
            open_events += [at] * (at in marked)
            found.append((WAITED if at in marked else LEFT, 0))
        elif not one.is_order:
            found.append(("", 0))
        elif one.event not in known:
            found.append((BEFORE if one.event else ALL, 0))
        else:
            found.append(_place(open_events, known[one.event], at))
    return found


def _waited(operations: Sequence[Operation]) -> set[int]:
    """Rows of events for which others wait."""
    known, found = dict[int, int](), set[int]()
    for at, one in enumerate(operations):
        if one.name == RECORD:
            known[one.event] = at
        elif one.event in known:
            found.add(known[one.event])
    return found


def _place(open_events: list[int], event: int, at: int) -> Place:
    """Which of the open events it is, which is open no more."""
    if event not in open_events:
        return AGAIN, at - event
    first = open_events.index(event)
    last = len(open_events) - 1 - first
    open_events.remove(event)
    return (FIRST, first) if first <= last else (LAST, last)


class Numbers:
    """Events by number again, row after row."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.at = 0

    def __call__(self, place: Place) -> int:
        """The number of the event of the next row: that of the row that recorded it, from 1; 0 without one."""
        how, number = place
        self.at += 1
        if how in (WAITED, LEFT):
            self.open += [self.at] * (how == WAITED)
            return self.at
        if how in (FIRST, LAST):
            return self.open.pop(number if how == FIRST else -1 - number)
        return {AGAIN: self.at - number, BEFORE: -1}.get(how, 0)
