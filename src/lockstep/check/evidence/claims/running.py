"""Runs what decides entries and errata on an engine: the cheapest entries first, as long as a budget of seconds allows.

Parts that know nothing of one another are asked apart: an experiment of the lab, of which many checks are read, and a
decider with its arguments. What several entries need runs once. A file keeps what was found as it comes, and an entry
is told as soon as it is decided: to `decided` of the progress, where it has that.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from lockstep.base.engines import Asking, Engine, Questions, Serial, SweepFile, silent
from lockstep.base.errors import RunFailed
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.check.evidence.claims.decide import Bench, Corrected, Decided, part_of, seconds
from lockstep.check.evidence.claims.entry import Check, Entry, Erratum, Found

Numbers = dict[str, Found]
"""What was found, by the text of the check."""


def run(
    chosen: Iterable[Entry], seed: int = 0, within_s: float = float("inf"), engine: Engine | None = None,
    progress: Progress = silent, file: SweepFile | None = None,
) -> tuple[tuple[Decided, ...], str]:  # fmt: skip
    """(entries in their order, why it ended early or nothing); those that did not fit come back without findings."""
    entries = tuple(chosen)
    told, tell = set[str](), getattr(progress, "decided", None)

    def heard(numbers: Numbers) -> None:
        """Tells the entries that are decided now."""
        if tell is None:
            return
        for entry in entries:
            if entry.id not in told and (now := _decided(entry, numbers)).found is not None:
                told.add(entry.id)
                tell(now)

    checks = [entry.every_check() for entry in entries]
    numbers, stopped = find(checks, seed, within_s, engine or Serial(), progress, file, heard)
    return tuple(_decided(entry, numbers) for entry in entries), stopped


def _decided(entry: Entry, numbers: Numbers) -> Decided:
    """An entry with what was found; without, if one of its numbers is missing."""
    checks = entry.every_check()
    known = all(check.by in numbers for check in checks)
    return Decided(entry, {check: numbers[check.by] for check in checks} if known else None)


def correct(
    chosen: Iterable[Erratum], seed: int = 0, engine: Engine | None = None, progress: Progress = silent
) -> tuple[Corrected, ...]:
    """Runs what can be run of errata. Raises RunFailed where the engine did not find all."""
    given = tuple(chosen)
    checks = [(one.check,) for one in given if one.check is not None]
    numbers, stopped = find(checks, seed, float("inf"), engine or Serial(), progress)
    if stopped:
        raise RunFailed(stopped)
    return tuple(Corrected(one, numbers[one.check.by] if one.check is not None else None) for one in given)


def find(
    groups: Sequence[Sequence[Check]],
    seed: int,
    within_s: float,
    engine: Engine,
    progress: Progress,
    file: SweepFile | None = None,
    heard: Callable[[Numbers], None] = lambda numbers: None,
) -> tuple[Numbers, str]:
    """(what was found, why it ended early or nothing); the checks of a group fit into the budget together or not.

    `heard` is called with all that was found whenever more was; what `file` has is not run.
    """
    texts: dict[str, list[Check]] = {}
    for check in dict.fromkeys(check for group in groups for check in group):
        texts.setdefault(part_of(check.by), []).append(check)
    parts = [list(dict.fromkeys(check.by for check in checks)) for checks in texts.values()]
    place = {name: number for number, name in enumerate(texts)}
    needed = [{place[part_of(check.by)] for check in group} for group in groups]
    costs_s = [seconds(checks) for checks in texts.values()]
    about: Json = {"function": "claims", "seed": seed}
    questions = Questions(partial(find_part, seed), parts, about, name=lambda part: part_of(part[0]))
    order = partial(_in_budget, needed, costs_s, within_s)
    asking, numbers = Asking(questions, engine, file=file, progress=progress, order=order), Numbers()
    for number, found in asking:
        numbers |= {by: Found(*one) for by, one in zip(parts[number], found, strict=True)}
        heard(numbers)
    lost = "; ".join(f"{one.name} {one.why}" for one in asking.left_out)
    return numbers, lost or asking.stopped


def find_part(seed: int, part: Sequence[str]) -> list[tuple[float, float, str]]:
    """(value, error, doubt) of each check text of one part, as plain data."""
    bench = Bench(seed)
    return [(found.value, found.error, found.doubt) for found in map(bench.find, part)]


def _in_budget(
    needed: Sequence[set[int]], costs_s: Sequence[float], within_s: float, places: Sequence[int]
) -> Iterator[int]:
    """The given places of parts, group by group, the cheapest group first; none of a group that no longer fits."""
    asked = set(range(len(costs_s))).difference(places)
    begun_s, waiting = time.monotonic(), [group for group in needed if group - asked]
    while waiting:
        new = min((group - asked for group in waiting), key=lambda group: sum(costs_s[one] for one in group))
        cost_s = sum(costs_s[one] for one in new)
        if new and time.monotonic() - begun_s + cost_s > within_s:
            return
        yield from sorted(new)
        asked |= new
        waiting = [group for group in waiting if group - asked]


def spent_s() -> float:
    """Processor seconds so far of this process, and of those it started that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
