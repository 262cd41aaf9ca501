"""The verb about what a textbook chapter says: `claims`."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import CTRL_C, BadInput, RunFailed, UnknownName
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import parse_time_s
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Engine
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.sheets import CHECK, COLUMN, HANDOUT, SOLUTIONS, TOLERANCE, Answers, Wanted, answered

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.decide import Corrected, Decided, Known
    from lockstep.check.evidence.claims.entry import Entry, Erratum
    from lockstep.check.evidence.grading.grade import Grade
    from lockstep.check.evidence.grading.handout import Handout
    from lockstep.learn.lab.facts import Fact

FACT = re.compile(r"[a-z]+\.[a-z0-9-]{2,}")
"""Ids of facts: a group of the lab, and words."""
LIST, CARD, RUN, ALL, ERRATA, TABLE = "list", "card", "run", "all", "errata", "table"


@dataclass(frozen=True, slots=True, repr=False)
class Claims(Shown):
    """Items of the chapter, facts of the lab and errata that were asked for, with what was found where checks ran."""

    asked: str
    """list, card, run, all, errata or table."""
    entries: "tuple[Decided, ...]" = ()
    facts: "tuple[Known, ...]" = ()
    errata: "tuple[Corrected, ...]" = ()
    stopped: str = ""
    """Why --all ended before it was through."""
    seed: int = 0
    """Of the experiments that ran."""
    took_s: float = field(default=0.0, compare=False)
    """Processor seconds of this process and of those that it started, where all items were run."""

    grade: "Grade | None" = None
    """Of a student's table of an exercise."""
    sheet: "Handout | None" = None
    """The table of an exercise that is handed out."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Items that did not fit into the budget, or were not reached."""
        return tuple(one.entry.id for one in self.entries if one.found is None) if self.asked == ALL else ()

    @property
    def surprises(self) -> tuple[str, ...]:
        """Ids of what did not come out as registered."""
        named = [(one.entry.id, one.as_registered) for one in self.entries]
        named += [(one.fact.id, one.as_registered) for one in self.facts]
        named += [(one.erratum.id, one.as_registered) for one in self.errata]
        return tuple(name for name, right in named if right is False)

    @property
    def ok(self) -> bool:
        """Whether the answer is yes: everything as registered and, of items that were asked for and run, true."""
        if self.grade is not None:
            return self.grade.ok
        if self.surprises or self.stopped not in ("", CTRL_C):
            return False
        return self.asked != RUN or (
            all(one.verdict in ("true", "sound", "answer", "missing") for one in self.entries)
            and all(one.verdict == "true" for one in self.facts)
        )

    def count(self, verdict: str) -> int:
        """Items with that verdict."""
        return sum(one.verdict == verdict for one in self.entries)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "asked left_out stopped took_s") | {
            "claims": [*plain(self.entries), *plain(self.facts)],
            "errata": plain(self.errata),
            **{name: plain(one) for name, one in (("grade", self.grade), ("sheet", self.sheet)) if one is not None},
        }


ERRATA_OPTION = Option("ID", "Item whose errata are listed and run, one of them such as B.14/1, or all.")
SEVERITY = Option("LEVEL", "Severity of the errata: high, medium or small.", default="all")
KIND = Option(
    "KIND", "Kind of items to list: theorem, statement, proof, example, exercise, homework, guide or missing."
)
VERDICT = Option("V", "Verdict of items to list: true, false, conditional, ambiguous, sound, answer or missing.")
ENGINE = Option(
    "E",
    "Where checks run: serial, processes[:N], dask[:N], dask:ADDRESS or dask:scheduler-file:PATH.",
    default="serial",
)
STORE = Option("FILE", "File that keeps what --all found as it comes; what is there is not run again.")
SEED = Option("N", "Random seed of the experiments, 0 when left out; of the table of an exercise the student's number.")
CLAIM = Argument(
    "ID",
    "Items, such as T5, theorem 5, exercise C.6 or section 9.5 of the guide; a fact of the lab or an erratum by its "
    "id. All items are listed when omitted.",
    repeated=True,
)


@strict
def claims(
    *claim: Annotated[str, CLAIM],
    run: Annotated[bool, Switch("Run what decides the item; without it nothing runs.")] = False,
    all: Annotated[bool, Switch("Run what decides every item, the cheapest first.")] = False,
    within: Annotated[Time | None, Option("TIME", "Longest time for --all; items that do not fit are named.")] = None,
    errata: Annotated[str | None, ERRATA_OPTION] = None,
    severity: Annotated[str | None, SEVERITY] = None,
    kind: Annotated[str | None, KIND] = None,
    verdict: Annotated[str | None, VERDICT] = None,
    search: Annotated[str | None, Option("TEXT", "Words that the listed items contain.")] = None,
    check: Annotated[Answers | None, CHECK] = None,
    column: Annotated[Sequence[str], COLUMN] = (),
    tolerance: Annotated[Quantity | None, TOLERANCE] = None,
    handout: Annotated[str | Path | None, HANDOUT] = None,
    solutions: Annotated[bool, Switch(SOLUTIONS, panel="Tables of exercises")] = False,
    seed: Annotated[Quantity | None, SEED] = None,
    engine: Annotated[str | Engine | None, ENGINE] = None,
    store: Annotated[str | Path | None, STORE] = None,
    progress: Callable[[int, int], None] | None = None,
) -> Claims:
    """What a textbook chapter on distributed training says, whether it is so, and what decides it.

    Without an id the items are listed; with ids their cards are shown, and `run` runs their checks. `all` runs
    every item, the cheapest first, as long as `within` allows, and goes on from what the file `store` has. `errata`
    is the id of an item or of an erratum. `check` grades a student's table of an exercise, a file or its rows;
    `handout` writes the sheet, and `solutions` fills it in. There `seed` is the number of a student with parameters
    of their own, elsewhere 0 when left out. The answer does not depend on `engine`. `progress(experiments and
    deciders done, of)`. Raises BadInput, UnknownName, RunFailed.
    """
    from lockstep.base.engines import find_engine, silent
    from lockstep.check.evidence.claims import decide, running
    from lockstep.check.evidence.claims.shelf import entries
    from lockstep.show.verbs.words.many import swept_file

    words = " ".join(claim).split()
    runs = run or all or errata is not None
    student = None if seed is None else whole(seed, "--seed", minimum=0)
    wanted = Wanted(check, column, tolerance, handout, solutions, student)
    if wanted.any or (words and student is not None and not runs):
        return _table(words, wanted, runs)
    _check(bool(words), run, all, within, errata, severity, (kind, verdict, search), seed, engine, runs)
    if store is not None and not all:
        raise BadInput("keeps what --all finds and has no effect without it", "--store")
    place, report, begun_s, number = find_engine(engine), progress or silent, running.spent_s(), student or 0
    if errata is not None:
        return Claims(ERRATA, errata=running.correct(_errata_of(errata, severity), number, place, report))
    if all:
        limit_s = float("inf") if within is None else parse_time_s(within, "--within")
        with swept_file(store, "claims", {"all": True, "seed": number}, engine) as file:
            found, stopped = running.run(entries(), number, limit_s, place, report, file)
        return Claims(ALL, found, stopped=stopped, took_s=running.spent_s() - begun_s)
    if not words:
        return Claims(LIST, tuple(decide.Decided(one) for one in _listed(kind, verdict, search)))
    return _asked(words, run, number, place, report)


def _table(words: list[str], wanted: Wanted, runs: bool) -> Claims:
    """The table of an exercise, handed out or graded."""
    from lockstep.check.evidence.claims.entry import Entry
    from lockstep.check.evidence.grading.grade import Grade
    from lockstep.check.evidence.grading.sheets import SHEETS

    found = [*dict.fromkeys(_found(words))]
    if not wanted.any and not any(isinstance(one, Entry) and one.id in SHEETS for one in found):
        raise BadInput("nothing runs here; add --run, --all or --errata", "--seed")
    wanted.refuse(found, runs)
    (entry,) = found
    if not isinstance(entry, Entry):
        raise BadInput(f"{entry.id} is no exercise", "ID")
    answer = answered(wanted, entry)
    return Claims(TABLE, grade=answer) if isinstance(answer, Grade) else Claims(TABLE, sheet=answer)


def _check(
    named: bool, run: bool, every: bool, within: Time | None, errata: str | None, severity: str | None,
    filters: tuple[str | None, ...], seed: Quantity | None, engine: object, runs: bool,
) -> None:  # fmt: skip
    """Refuses options that would have no effect or that contradict one another."""
    if run and not named:
        raise BadInput("needs the id of an item; use --all for every one", "--run")
    if sum((named, every, errata is not None)) > 1:
        raise BadInput("items, --all and --errata are three questions; ask one of them", "ID" if named else "--all")
    if within is not None and not every:
        raise BadInput("limits --all and has no effect without it", "--within")
    if severity is not None and errata is None:
        raise BadInput("selects errata and has no effect without --errata", "--severity")
    if severity not in (None, "high", "medium", "small"):
        raise BadInput(f"must be high, medium or small, got {severity!r}", "--severity")
    if any(one is not None for one in filters) and (named or runs):
        raise BadInput("--kind, --verdict and --search select items of the list; leave them out here", "--kind")
    for given, flag in ((seed, "--seed"), (engine, "--engine")):
        if given is not None and not runs:
            raise BadInput("nothing runs here; add --run, --all or --errata", flag)


def _listed(kind: str | None, verdict: str | None, search: str | None) -> "tuple[Entry, ...]":
    from lockstep.check.evidence.claims.entry import KINDS, VERDICTS
    from lockstep.check.evidence.claims.shelf import entries
    from lockstep.check.evidence.claims.shelf import search as find

    for given, allowed, flag in ((kind, tuple(KINDS), "--kind"), (verdict, VERDICTS, "--verdict")):
        if given is not None and given not in allowed:
            raise UnknownName(flag.removeprefix("--"), given, allowed, flag)
    if search is not None and not search.strip():
        raise BadInput("give words that an item contains", "--search")
    found = entries() if search is None else find(search)
    if not found:
        raise BadInput(f"no item contains {str(search)[:60]!r}; fewer words find more", "--search")
    return tuple(one for one in found if kind in (None, one.kind) and verdict in (None, one.verdict))


def _errata_of(item: str, severity: str | None) -> "tuple[Erratum, ...]":
    from lockstep.check.evidence.claims.shelf import errata, find_entries

    if item == ALL:
        found = errata()
    elif not (found := _erratum(item)):
        items = {entry.id for entry in find_entries(item)}
        found = tuple(one for one in errata() if one.of in items)
    return tuple(one for one in found if severity in (None, one.severity))


def _erratum(name: str) -> "tuple[Erratum, ...]":
    """The erratum of that id, if there is one."""
    from lockstep.check.evidence.claims.shelf import errata

    return tuple(one for one in errata() if one.id.casefold() == name.casefold())


def _asked(words: list[str], run: bool, seed: int, engine: Engine, progress: Callable[[int, int], None]) -> Claims:
    """The items, facts of the lab and errata that the words name, each once."""
    from lockstep.check.evidence.claims import decide, running
    from lockstep.check.evidence.claims.entry import Entry, Erratum
    from lockstep.learn.lab import each_run_once
    from lockstep.learn.lab.facts import Fact

    found = dict.fromkeys(_found(words))
    entries = tuple(one for one in found if isinstance(one, Entry))
    facts = tuple(one for one in found if isinstance(one, Fact))
    errata = tuple(one for one in found if isinstance(one, Erratum))
    if not run:
        known = tuple(map(decide.Known, facts))
        return Claims(CARD, tuple(map(decide.Decided, entries)), known, tuple(map(decide.Corrected, errata)))
    with each_run_once():
        decided, stopped = running.run(entries, seed, engine=engine, progress=progress)
        if stopped:
            raise RunFailed(stopped)
        corrected = running.correct(errata, seed, engine, progress)
        return Claims(RUN, decided, tuple(decide.know(fact, seed) for fact in facts), corrected, seed=seed)


def _found(words: list[str]) -> "tuple[Entry | Fact | Erratum, ...]":
    """What each name among the words means; a name may be several words, such as `theorem 5`, and takes the most."""
    for count in range(len(words), 0, -1):
        try:
            found = _find(" ".join(words[:count]))
        except UnknownName:
            continue
        return (*found, *_found(words[count:]))
    return _find(" ".join(words)) if words else ()


def _find(name: str) -> "tuple[Entry, ...] | tuple[Fact] | tuple[Erratum, ...]":
    """Items, a fact of the lab or an erratum, by one name. Raises UnknownName."""
    from lockstep.check.evidence.claims.shelf import find_entries
    from lockstep.learn.lab.facts import find_fact

    if found := _erratum(name):
        return found
    return (find_fact(name),) if FACT.fullmatch(name) else find_entries(name)
