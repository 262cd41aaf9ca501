"""Layers per pipeline stage in words: `15,16,15,15`, `3,29x2,m,0` with the prediction modules at m, or `best`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.errors import BadInput
from lockstep.types.plain import Json
from lockstep.units import list_parts, parse_integer

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.layout import Job, Layout

BEST, FLAG = "best", "--stages"
MOST_STAGES = 10_000


def read_stages(given: object) -> Json:
    """The fields of `Layout` that `given` describes; `stages` is `best` where they are to be found."""
    if given is None or given == BEST:
        return {"stages": given}
    if not isinstance(given, str):
        return {"stages": tuple(given)} if isinstance(given, list | tuple) else _wrong(given)
    stages: list[int] = []
    modules = -1
    for part in list_parts(given, FLAG):
        count, cross, word = part.partition("x") if "x" in part else ("1", "", part)
        times = parse_integer(count, FLAG, minimum=1)
        if len(stages) + times > MOST_STAGES:
            raise BadInput(f"more than {MOST_STAGES:,} stages", FLAG)
        if word.endswith("m"):
            if modules >= 0 or times > 1:
                raise BadInput("the multi-token-prediction modules stand in one stage", FLAG)
            modules, word = len(stages), word.removesuffix("m") or "0"
        stages += [parse_integer(word, FLAG, minimum=0)] * times
    return {"stages": tuple(stages), "mtp_stage": modules}


def _wrong(given: object) -> Json:
    raise BadInput(f"must be counts of layers, e.g. 15,16,15,15, or {BEST}; got {given!r}", FLAG)


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
    from lockstep.step import best_split

    if cluster is None:
        raise BadInput("needs a cluster", FLAG)
    return best_split(job, cluster, layout)
