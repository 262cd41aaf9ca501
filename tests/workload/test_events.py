"""Events of a step by where they stand: numbers come back, and what repeats says the same of its own."""

import random

import pytest

from lockstep.describe.captured import READ, RECORD, WAIT, Operation
from lockstep.describe.events import Numbers, places
from lockstep.describe.growing import Growth, Many


def row(name: str, event: int = 0) -> Operation:
    return Operation(name, "forward", "", 0, 0, event=event)


def waits_for(rows: list[Operation]) -> list[object]:
    """Of every wait the row that recorded what it waits for; what is not in the step by its kind."""
    recorded = {-1: "before", 0: "all"}
    found: list[object] = []
    for at, one in enumerate(rows):
        if one.name == RECORD:
            recorded[one.event] = at
        elif one.is_order:
            found.append(recorded.get(one.event, "before"))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_wait_is_for_the_same_event_again(seed: int) -> None:
    draw = random.Random(seed)
    rows = [row(draw.choice((RECORD, WAIT, READ, "mm")), draw.randrange(6)) for _ in range(60)]
    rows = [row(RECORD, one.event + 1) if one.name == RECORD else one for one in rows]
    number = Numbers()
    again = [row(one.name, number(place)) for one, place in zip(rows, places(rows), strict=True)]
    assert waits_for(again) == waits_for(rows)


@pytest.mark.parametrize("last_first", [False, True])
def test_buckets_and_what_comes_back_repeat(last_first: bool) -> None:
    """All are waited for at the end, in the order of their events or against it."""

    def step(layers: int) -> Many:
        order = reversed(range(1, layers + 1)) if last_first else range(1, layers + 1)
        rows = [one for layer in range(1, layers + 1) for one in (row("mm"), row(RECORD, layer))]
        rows += [one for layer in order for one in (row(WAIT, layer), row("add"))]
        return Many(zip((one.name for one in rows), places(rows), strict=True))

    assert Growth((3, 4), 20, counts=True).at_target([step(3), step(4)]) == step(20)
