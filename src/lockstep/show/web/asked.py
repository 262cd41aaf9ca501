"""`Asked`: the words of one request and the answers to them, which later requests find again.

An address may hold anything, so what it may ask is narrow: keywords of the screen's verb, without those that name files
or folders, and one value each. A model or cluster is a name of the catalog, a file that was dropped on the page, or
what `lockstep ui` itself was started with.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import signature, unwrap
from pathlib import Path
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.show.verbs.capture import SUFFIX
from lockstep.show.verbs.words.calling import several
from lockstep.show.verbs.words.changes import is_change
from lockstep.show.verbs.words.option import Declared, Switch
from lockstep.show.verbs.words.replayed import replayable
from lockstep.show.views.parts.completing import clusters, stacks
from lockstep.show.views.parts.options import verb_function
from lockstep.show.web.typed import refuse_other
from lockstep.show.web.uploads import Uploads

KEPT = 64
"""Answers that are kept."""
KEPT_STEPS = 8
"""Captured steps, which are larger."""
TRACE = re.compile(r"trace:([^,;]+)")
"""A law that is read from a file."""
MODELS = ("model", "a", "b")
"""Keywords in whose place a dropped file may stand."""
PLACES = (*MODELS, "cluster", "against", "stack")
"""Keywords whose values may be files."""
CASE = "case:"
LONGEST = 400
"""Letters of a value."""
FIELDS = {"a": "model"}
"""Fields that stand for another keyword."""
WORD = re.compile(r"(?:at\.)?\w+", re.ASCII)
YES, NO = ("yes", "true", "on"), ("no", "false", "off")


class Superseded(BaseException):
    """Nobody waits for the answer any more."""


class Kept:
    """The last answers, by what was asked."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self._found: OrderedDict[object, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object, make: Callable[[], Any]) -> Any:
        """What is kept under `key`, or what `make` makes. Two that ask at once may both make it."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self.most:
                self._found.popitem(last=False)
        return made


@dataclass(frozen=True, slots=True)
class Server:
    """What all requests share."""

    uploads: Uploads = field(default_factory=Uploads)
    kept: Kept = field(default_factory=Kept)
    steps: Kept = field(default_factory=partial(Kept, KEPT_STEPS))
    given: Mapping[str, object] = field(default_factory=dict)
    """Model and cluster that the page was started with, by the text that stands for them in an address."""
    first: Mapping[str, str] = field(default_factory=dict)
    """These texts, by keyword."""
    sweeps: Path = Path()
    """The folder whose sweeps are shown."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    words: Mapping[str, str]
    server: Server
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits any more."""

    def ask(self, verb: str, words: Mapping[str, str] | None = None) -> Any:
        """The answer of a verb to these words. Raises what it raises, and Superseded."""
        said = allowed(verb, self.words if words is None else words)
        return self.kept((verb, *sorted(said.items())), lambda: self.call(verb_function(verb), verb, said))

    def kept(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` makes, once."""
        self.check()
        return self.server.kept.get(key, make)

    def kept_step(self, key: object, make: Callable[[], Any]) -> Any:
        """The same of a captured step."""
        self.check()
        return self.server.steps.get(key, make)

    def check(self, *_: int) -> None:
        """Ends the work when nobody waits for it; verbs call it as their `progress`."""
        if self.stop.is_set():
            raise Superseded

    def call(
        self, function: Callable[..., Any], verb: str, said: Mapping[str, str], more: Mapping[str, object] | None = None
    ) -> Any:
        """What a function returns that takes the words of a verb, and `more` that no address holds."""
        words = {name: self.value(verb, name, value) for name, value in said.items()} | dict(more or {})
        for name, one in signature(function).parameters.items():
            if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty and name not in words:
                raise BadInput("must be given", name)
        for name in several(unwrap(function), (), words):
            raise BadInput("takes one value here; lists and ranges are for the command line", name)
        if "progress" in function.__annotations__:
            words["progress"] = self.check
        return function(**words)

    def value(self, verb: str, name: str, value: str) -> Any:
        """A word as the verb takes it. Raises BadInput for what would open a file."""
        where = name.upper() if name == "model" else f"--{name.replace('_', '-')}"
        if len(value) > LONGEST:
            raise BadInput(f"is longer than {LONGEST} letters", where)
        refuse_other(name, value, where)
        if isinstance(_declared(verb)[name], Switch):
            if value.lower() not in (*YES, *NO):
                raise BadInput(f"must be yes or no, got {value!r}", where)
            return value.lower() in YES
        if name in MODELS and value.endswith(SUFFIX):
            raise BadInput("is a captured step, which the screens Layout, Timeline and Diagnose show", where)
        if value in self.server.given:
            return self.server.given[value]
        if name in MODELS and (dropped := self.server.uploads.get(value)) is not None:
            return dropped
        if any(os.path.lexists(one) and not _in_catalog(one) for one in _opened(name, value)):
            said = "names a file; drop it on the page, or start lockstep ui with it"
            raise BadInput(f"{value[:60]!r} {said}", where)
        return value


def _opened(name: str, value: str) -> Iterator[str]:
    """What of a value a verb would open where there is a file of that name."""
    for part in value.split() if is_change(value) else [f"{name}={value}"]:
        word, _, said = part.partition("=")
        if word in PLACES and not (word == "stack" and said in stacks()):
            said = said.removeprefix(CASE)
            # The count of nodes behind a cluster is not a name.
            yield from filter(None, (said, *(one.partition(":")[0] for one in re.split("[,@]", said))))
        yield from TRACE.findall(said)


def _in_catalog(name: str) -> bool:
    """Whether a verb takes a name for one of the catalog, whatever files there are."""
    from lockstep.describe.workload.catalog import known_name

    return known_name(name) is not None or name in clusters()


def field_of(error: BadInput) -> str:
    """The keyword that an error is about, or "" where it is about a place in a file or a value."""
    name = (error.where or "").removeprefix("--").replace("-", "_").lower()
    return FIELDS.get(name, name) if WORD.fullmatch(name) else ""


def _declared(verb: str) -> dict[str, Declared]:
    return replayable(verb_function(verb))


def allowed(verb: str, words: Mapping[str, str]) -> dict[str, str]:
    """The words that the verb takes, without empty ones; those of other screens are left out."""
    return {name: value for name, value in words.items() if value and name in _declared(verb)}


def shell_words(verb: str, words: Mapping[str, str], names: Mapping[str, str]) -> Json:
    """The words as a command says them; `names` are those of dropped files."""
    return {name: _said(_declared(verb)[name], names.get(value, value)) for name, value in allowed(verb, words).items()}


def _said(declared: Declared, value: str) -> object:
    """A value as a command or a call says it."""
    if isinstance(declared, Switch):
        return value.lower() in YES
    if declared.repeated:
        return [value]
    return int(value) if value.isascii() and value.isdigit() else value
