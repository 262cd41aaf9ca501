"""What a user says of traces that these do not say themselves: ranks, steps, and what groups are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_integer

if TYPE_CHECKING:
    from lockstep.explain.seen import Seen
    from lockstep.explain.trace import RankTrace
    from lockstep.price.layout import Layout

KINDS = ("dp", "tp", "pp", "cp", "ep", "other")
MOST_STEPS = 100_000


def read_operations(
    traces: Sequence[RankTrace], layout: Layout | None, steps: str | None, ranks: str | None, group: str | None
) -> Seen | None:
    """Traces on one clock with their parts, as the user's words say; None without traces. Raises BadInput."""
    from lockstep.explain.roles import refuse_inference
    from lockstep.explain.seen import see

    for one in traces:
        refuse_inference(one)
    if not traces:
        for name, value in {"steps": steps, "ranks": ranks, "group": group}.items():
            if value is not None:
                raise BadInput("has no effect without traces", f"--{name}")
        return None
    kinds = {name: kind for kind, name in _pairs(group, "--group").items()}
    for kind in kinds.values():
        if kind not in KINDS:
            raise UnknownName("kind of process group", kind, KINDS, "--group")
    return see(_ranked(traces, ranks), layout, kinds or None, _steps(steps))


def ranked_files(ranks: str | None) -> list[Path]:
    """The files that `--ranks` names, which need not be given twice. Raises BadInput."""
    return [Path(name) for name in _pairs(ranks, "--ranks").values()]


def _pairs(text: str | None, where: str) -> dict[str, str]:
    """`a=b,c=d`. Raises BadInput."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, joined, value = (one.strip() for one in part.partition("="))
        if not joined or not key or not value:
            raise BadInput(f"expected NAME=VALUE, got {part!r}", where)
        found[key] = value
    return found


def _ranked(traces: Sequence[RankTrace], ranks: str | None) -> list[RankTrace]:
    """Traces with the ranks that the user gives for some of their files."""
    given = {Path(name).resolve(): rank for rank, name in _pairs(ranks, "--ranks").items()}
    named = []
    for one in traces:
        rank = given.pop(Path(one.path).resolve(), None)
        named.append(one if rank is None else replace(one, rank=parse_integer(rank, "--ranks", minimum=0)))
    for path in given:
        raise BadInput(f"{path.name} is not among the traces given", "--ranks")
    return named


def _steps(text: str | None) -> list[int] | None:
    """`3-5` or `3,4,5`. Raises BadInput."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        first, last = (parse_integer(one, "--steps", minimum=0) for one in (low, high or low))
        if last < first or last - first > MOST_STEPS:
            raise BadInput(f"expected the first and the last step, e.g. 3-5, got {part!r}", "--steps")
        found += range(first, last + 1)
    return found
