"""Lists and ranges in place of one value: every combination is a question, all of them go to one engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from inspect import unwrap
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.rows import Answer, Row, Rows, Unread
from lockstep.base.types.plain import Json
from lockstep.show.verbs.words.about import about
from lockstep.show.verbs.words.calling import strict

if TYPE_CHECKING:
    from lockstep.base.engines import Engine, SweepFile

MOST_ROWS = 100_000
Value = tuple[Any, Any]
"""As given, and in SI units."""


@dataclass(frozen=True, slots=True)
class Combinations(Sequence[Json]):
    """Every combination of the values of several options, the last option fastest; each made when it is asked for."""

    lists: Mapping[str, Sequence[Value]]

    def __len__(self) -> int:
        return prod(len(values) for values in self.lists.values())

    @overload
    def __getitem__(self, place: int) -> Json: ...

    @overload
    def __getitem__(self, place: slice) -> list[Json]: ...

    def __getitem__(self, place: int | slice) -> Json | list[Json]:
        """The values as given."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return {name: given for name, (given, _) in self.pairs(place).items()}

    def pairs(self, place: int) -> dict[str, Value]:
        """The values as given and in SI units, by option."""
        found: dict[str, Value] = {}
        for name, values in reversed(list(self.lists.items())):
            place, at = divmod(place, len(values))
            found[name] = values[at]
        return dict(reversed(list(found.items())))

    def group(self, name: str, most: int, place: int) -> tuple[int, int]:
        """The same for places that differ in the option `name` alone, at most `most` of them."""
        below = prod(len(values) for values in list(self.lists.values())[list(self.lists).index(name) + 1 :])
        above, rest = divmod(place, below * len(self.lists[name]))
        at, lower = divmod(rest, below)
        return above * below + lower, at // most


def answer_rows(
    call: Callable[..., Any],
    lists: Mapping[str, Sequence[Value]],
    words: Mapping[str, Any],
    choices: Mapping[str, Mapping[str, Any]],
    *,
    engine: str | Engine | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Rows:
    """Asks the verb `call` for every combination of `lists`, by option, with the same other `words`.

    `choices`: the object behind a name, of models and clusters. A combination that is refused or infeasible is a row
    that says why; the first refusal is raised where no combination has an answer. Ctrl-C ends with the rows known by
    then, or is passed on before the first. Raises BadInput for more than MOST_ROWS combinations.
    """
    from lockstep.base.engines import Asking, Questions, Serial, find_engine, silent

    combinations = Combinations(lists)
    asked = len(combinations)
    if asked > MOST_ROWS:
        raise BadInput(f"{asked:,} combinations; at most {MOST_ROWS:,}, take fewer values", f"--{next(iter(lists))}")
    verb = call.__name__
    same = {name: value for name, value in words.items() if name not in lists and value is not None}
    engine = find_engine(engine)
    kept: list[Unread] | None = [] if store is None and isinstance(engine, Serial) else None
    ask = Ask(call, same, choices, kept)
    shared = about(call).shared
    alike = partial(combinations.group, shared.keyword, shared.most) if shared and shared.keyword in lists else None
    questions = Questions(ask, combinations, {"verb": verb, "words": same}, alike=alike)
    with swept_file(store, verb, dict(words), engine) as file:
        asking = Asking(questions, engine, file, progress or silent)
        answers = dict(asking)
    answers |= {one.place: {"why": one.why} for one in asking.left_out}
    if all("why" in answer for answer in answers.values()):
        refused = next((answers[place]["refused"] for place in sorted(answers) if "refused" in answers[place]), None)
        if refused is not None:
            raise BadInput(*refused)
    rows = tuple(_row(combinations.pairs(place), answers.pop(place), kept or ()) for place in sorted(answers))
    return Rows(verb, tuple(lists), rows, asked, asking.stopped)


@dataclass(frozen=True, slots=True)
class Ask:
    """The question that a verb is asked at every combination, with the same other words."""

    call: Callable[..., Any]
    same: Json
    choices: Mapping[str, Mapping[str, Any]]
    kept: list[Unread] | None = None
    """Where all is answered in this process and written nowhere, answers that need no plain form before it is read."""

    def together(self, points: Sequence[Json]) -> AbstractContextManager[None]:
        """A context in which the answers for these points share work."""
        shared = about(self.call).shared
        values = [point[shared.keyword] for point in points if shared.keyword in point] if shared else []
        return shared.together(values) if shared and len(values) > 1 else nullcontext()

    def __call__(self, point: Json) -> Json:
        """The answer to one combination, in plain form, its place among those kept, or why there is none.

        Passes on a Ctrl-C that cut it short.
        """
        chosen = {name: self.choices[name][value] if name in self.choices else value for name, value in point.items()}
        try:
            found = strict(unwrap(self.call))(**self.same, **chosen)
            if self.kept is not None and hasattr(found, "plain_value"):
                self.kept.append(found)
                return {"kept": len(self.kept) - 1}
            answer = found.to_dict()
        except BadInput as error:
            return {"why": str(error), "refused": [error.message, error.where]}
        except Infeasible as error:
            return {"why": str(error)}
        if answer.get("complete") is False and not answer.get("left_out"):
            raise KeyboardInterrupt
        return {"answer": answer}


def _row(pairs: Mapping[str, Value], found: Json, kept: Sequence[Unread]) -> Row:
    given, point = ({name: pair[one] for name, pair in pairs.items()} for one in (0, 1))
    if "why" in found:
        return Row(given, point, None, found["why"])
    return Row(given, point, Answer(kept[found["kept"]] if "kept" in found else found["answer"]))


@contextmanager
def swept_file(
    store: str | Path | None, verb: str, words: Json, engine: str | Engine | None = None
) -> Iterator[SweepFile | None]:
    """The file `store` of the answers of a verb, with what it is asked written into it; None without one.

    A file may be asked again with more values; its answers stay. With an engine that answers nothing it is only read:
    somebody else may write it meanwhile. Raises BadInput where it has answers of another verb or of other versions, and
    for words that are more than names, numbers and text.
    """
    from lockstep.base.engines import SweepFile
    from lockstep.base.engines.known import Known
    from lockstep.base.engines.questions import plain_words, versions

    if store is None:
        yield None
        return
    given, here = plain_words({name: value for name, value in words.items() if value is not None}), versions()
    with SweepFile(Path(store), writes=not isinstance(engine, Known)) as file:
        about = file.about
        if about.get("verb", verb) != verb:
            raise BadInput(f"{str(store)!r} has answers of {about['verb']}, not of {verb}; choose another", "--store")
        if (said := about.get("versions", here)) != here:
            there = {name: said.get(name, "?") if isinstance(said, dict) else "?" for name in here}
            other = ", ".join(f"{name} {there[name]}, not {here[name]}" for name in here if there[name] != here[name])
            raise BadInput(f"{str(store)!r} was computed with {other}; go on there, or choose another file", "--store")
        file.begin({"verb": verb, "words": given, "versions": here, "began_s": about.get("began_s", time.time())})
        yield file
