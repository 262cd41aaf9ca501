"""What a case study in YAML may say, and `read_study(path)`, which makes a `Study` of it.

    title: BLOOM 176B
    model: bloom-176b                  # catalog name
    cluster: jean-zay-a100
    devices: 384
    recipe: {dtype: bf16, flash_attention: false}
    layout: {tp: 4, pp: 12, dp: 8, micro_batch: 2, zero: 1, recompute: full}
    stretches:
      - {name: ramp, seq: 2048, batch: 2048, ramp: {start: 192, by: 16}, tokens: 20B}
      - {name: full batch, seq: 2048, batch: 2048, tokens: 346B}
    published:
      - {quantity: step_time_s, value: 105, source: "BigScience chronicles, tr11-176B-ml"}
    source: where layout, batch and devices are printed
    unknown: [what is not published]
    assumed: [what was assumed instead]

`habits: {paired_sends: false}` and `ways: {experts: grouped}` are of its software, where they are not its stack's
(`describe/stacks/habits.py`, `describe/stacks/ways.toml`).
`masked_language_head: true` gives an encoder the head with which it is pre-trained, priced on every token.
`layout: unknown` leaves the layout to the planner, a word of it that is `unknown` leaves that one. `devices`, `recipe`
and words of `layout` may be given for one stretch, and one that is a benchmark beside the run is `apart`. A published
duration says whether `downtime` is in it. `pace: STUDY` names a run of the same software on the same devices: what that
one measured says how fast the kernels are, so that this one tests the rest. Those that ship with Lockstep are
`studies/*.yaml`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from lockstep.base.documents import Locate, read_yaml, validated
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.settings import LARGEST, SMALLEST
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_count
from lockstep.check.validation.cases.study import DURATIONS, QUANTITIES, Published, Ramp, Stretch, Study
from lockstep.describe.stacks import DEFAULT, Habits, Options, usual_ways
from lockstep.describe.workload import Model, with_masked_language_head
from lockstep.describe.workload import model as find_model
from lockstep.price.layout import Layout, Recipe
from lockstep.price.layout.layout import MOST

UNKNOWN = "unknown"
OFTEN_UNKNOWN = ("vpp", "micro_batch", "zero", "recompute", "sequence_parallel", "schedule")
"""Words of a layout that the planner can choose one by one."""

Tokens = Annotated[float, BeforeValidator(parse_count), Field(gt=0, le=LARGEST)]
Whole = Annotated[int, Field(gt=0, le=MOST)]
SUFFIXES = (".yaml", ".yml")
STRICT = ConfigDict(extra="forbid", strict=True)


def _words_of(*records: type[Any], leave: Sequence[str] = ()) -> Any:
    """A mapping of fields of dataclasses, none of which is required; those of OFTEN_UNKNOWN may be `unknown`."""
    fields: Json = {}
    for name, hint in [hint for record in records for hint in get_type_hints(record).items()]:
        if name not in leave:
            said = list[get_args(hint)[0]] if get_origin(hint) is tuple else hint  # type: ignore[misc]
            fields[name] = (said | Literal["unknown"] if name in OFTEN_UNKNOWN else said, None)
    return create_model(records[0].__name__, __config__=STRICT, **fields)


if TYPE_CHECKING:
    RecipeWords: TypeAlias = BaseModel
    LayoutWords: TypeAlias = BaseModel
    HabitWords: TypeAlias = BaseModel
    WayWords: TypeAlias = BaseModel
else:
    RecipeWords = _words_of(Recipe, Options, leave=("seq", "batch", "notes"))
    LayoutWords = _words_of(Layout, leave=("order",))
    HabitWords = _words_of(Habits)
    WayWords = create_model("Ways", __config__=STRICT, **dict.fromkeys(usual_ways(), (str, None)))


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _mapping_or_unknown(value: object) -> object:
    """The layout of a study; anything else would make pydantic explain both alternatives."""
    if value != UNKNOWN and not isinstance(value, dict):
        raise BadInput(f"expected layout options or {UNKNOWN}, got {value!r}")
    return value


class RampEntry(Strict):
    """A growing batch."""

    start: Whole
    by: Whole


class StretchEntry(Strict):
    """A stretch; exactly one of `tokens` and `steps`, or neither where the length is not published."""

    name: Annotated[str, Field(min_length=1)] = "run"
    seq: Whole = 1
    batch: Whole
    tokens: Tokens | None = None
    steps: Whole | None = None
    ramp: RampEntry | None = None
    apart: bool = False
    devices: Whole | None = None
    recipe: RecipeWords = RecipeWords()
    layout: LayoutWords = LayoutWords()


class PublishedEntry(Strict):
    """A published number."""

    quantity: Literal[QUANTITIES]  # type: ignore[valid-type]
    value: Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
    source: str
    stretch: str | None = None
    downtime: bool = False
    why: str = ""


class StudyEntry(Strict):
    """A whole file."""

    title: str
    model: str
    masked_language_head: bool = False
    cluster: str
    devices: Whole | None = None
    recipe: RecipeWords = RecipeWords()
    habits: HabitWords = HabitWords()
    ways: WayWords = WayWords()
    layout: Annotated[LayoutWords | Literal["unknown"], BeforeValidator(_mapping_or_unknown)]
    stretches: Annotated[list[StretchEntry], Field(min_length=1)]
    published: list[PublishedEntry] = []
    source: str
    pace: str = ""
    unknown: list[str] = []
    assumed: list[str] = []


def read_study(path: str | Path) -> Study:
    """The study in a YAML file. Raises BadInput at "file:line"."""
    data, locate = read_yaml(path)
    given = validated(StudyEntry, data, locate)
    stretches = tuple(_stretch(given, index, locate) for index in range(len(given.stretches)))
    names = [stretch.name for stretch in stretches]
    if len(set(names)) != len(names):
        raise BadInput("two stretches have the same name", locate("stretches"))
    return Study(
        name=Path(path).stem,
        title=given.title,
        model=_model(given),
        cluster=given.cluster,
        stretches=stretches,
        published=tuple(_published(row, names, locate("published", i)) for i, row in enumerate(given.published)),
        source=given.source,
        pace=given.pace,
        unknown=tuple(given.unknown),
        assumed=tuple(given.assumed),
    )


def _model(given: StudyEntry) -> Model:
    """The model that is trained: the catalog's encoders have no head."""
    found = find_model(given.model)
    return with_masked_language_head(found) if given.masked_language_head else found


def _stretch(given: StudyEntry, index: int, locate: Locate) -> Stretch:
    """One stretch, with what it does not say taken from the whole study."""
    entry, where = given.stretches[index], locate("stretches", index)
    devices = entry.devices or given.devices
    if devices is None:
        raise BadInput("devices: must be set for the run or for each stretch", where)
    if entry.tokens is not None and entry.steps is not None:
        raise BadInput("give either tokens or steps, not both", where)
    words: Json = {}
    if not isinstance(given.layout, str):
        words = given.layout.model_dump(exclude_unset=True) | entry.layout.model_dump(exclude_unset=True)
    chosen = tuple(word for word, value in words.items() if value == UNKNOWN)
    known = {word: _frozen(value) for word, value in words.items() if value != UNKNOWN}
    said: Json = {"stack": DEFAULT, "seq": entry.seq, "batch": entry.batch}
    for part in (given.habits, given.ways, given.recipe, entry.recipe):
        said |= {word: _frozen(value) for word, value in part.model_dump(exclude_unset=True).items()}
    try:
        recipe = Recipe.by(said.pop("stack"), **said)
        Layout(**known)
    except BadInput as error:
        raise BadInput(error.message, where) from None
    steps_tokens = None if entry.steps is None else float(entry.steps * recipe.batch_tokens)
    ramp = None if entry.ramp is None else Ramp(entry.ramp.start, entry.ramp.by)
    return Stretch(entry.name, recipe, devices, known, chosen, entry.tokens or steps_tokens, ramp, entry.apart)


def _frozen(value: object) -> Any:
    """A list of words as the records hold it."""
    return tuple(value) if isinstance(value, list) else value


def _published(row: PublishedEntry, stretches: list[str], where: str) -> Published:
    """A published number, of the last stretch where it does not say which."""
    whole = row.quantity in DURATIONS
    if row.downtime and not whole:
        raise BadInput(f"downtime applies only to {' and '.join(DURATIONS)}", where)
    stretch = "" if whole else (row.stretch if row.stretch is not None else stretches[-1])
    if not whole and stretch not in stretches:
        raise UnknownName("stretch", stretch, stretches, where)
    return Published(row.quantity, row.value, row.source, stretch, row.downtime, row.why)


@cache
def names() -> tuple[str, ...]:
    """Names of the studies, in alphabetical order."""
    folder = resources.files(__package__).joinpath("studies")
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def study(name_or_path: str) -> Study:
    """A study of the shelf, or of a YAML file. Raises UnknownName or BadInput."""
    if name_or_path in names():
        with resources.as_file(resources.files(__package__).joinpath(f"studies/{name_or_path}.yaml")) as path:
            return read_study(path)
    if name_or_path.lower().endswith(SUFFIXES) or os.path.isfile(name_or_path):
        return read_study(name_or_path)
    raise UnknownName("case", name_or_path, names(), "CASE")
