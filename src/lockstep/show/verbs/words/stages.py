"""Layers per pipeline stage in words: `15,16,15,15`, `3,29x2,0`, or `best`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.units import list_parts, parse_integer

if TYPE_CHECKING:
    from lockstep.describe.hardware import Cluster
    from lockstep.price.layout import Job, Layout

BEST, FLAG = "best", "--stages"
MOST_STAGES = 10_000


def read_stages(given: object) -> tuple[int, ...]:
    """The layers of every stage that `given` describes."""
    if isinstance(given, list | tuple):
        return tuple(given)
    if not isinstance(given, str):
        raise BadInput(f"must be counts of layers, e.g. 15,16,15,15, or {BEST}; got {given!r}", FLAG)
    stages: list[int] = []
    for part in list_parts(given, FLAG):
        count, _, word = part.partition("x") if "x" in part else ("1", "", part)
        times = parse_integer(count, FLAG, minimum=1)
        if len(stages) + times > MOST_STAGES:
            raise BadInput(f"more than {MOST_STAGES:,} stages", FLAG)
        stages += [parse_integer(word, FLAG, minimum=0)] * times
    return tuple(stages)


def any_stages(job: Job, words: Mapping[str, object]) -> tuple[int, ...]:
    """Some layers per stage, so that the rest of a layout can be checked before the best ones are looked for."""
    chunks = 1
    for name in ("pp", "vpp"):
        chunks *= parse_integer(str(words.get(name) or 1), f"--{name}", minimum=1)
    if chunks > job.layers:
        raise BadInput(f"{job.layers} layers cannot fill {chunks} stages", FLAG)
    return (job.layers - chunks + 1, *(1 for _ in range(chunks - 1)))


def best_stages(job: Job, cluster: Cluster | None, layout: Layout) -> Layout:
    """The layout with the best layers per stage on `cluster`."""
    from lockstep.price.step import best_split

    if cluster is None:
        raise BadInput("needs a cluster", FLAG)
    return best_split(job, cluster, layout)
