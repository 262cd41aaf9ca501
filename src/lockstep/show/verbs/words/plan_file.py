"""A plan as a file: `plan -o plan.yaml` writes it, and any verb about a run reads it as MODEL.

    schema: 1
    kind: plan
    lockstep: 0.1.0                    version that made it
    model: llama3-70b                  as MODEL takes it; a path is relative to this file
    cluster: dgx-h100:64               as --cluster takes it
    for: megatron                      only where the plan was made for some software
    question: {batch: 512, ...}        every other word of the question, by keyword
    layout: {tp: 8, ...}               the layout chosen, by keyword
    predicted: {step_time_s: ...}      what the plan said, for the reader

Words that are given with the file go before its own. Where they change the number of devices or another degree, `dp`
follows again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.documents.files import YAML_ENDINGS, write_text
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.show.verbs.words.run_file import RunFile, run_given

if TYPE_CHECKING:
    from lockstep.base.documents import Locate
    from lockstep.decide.planner.result import Plan
    from lockstep.price.layout import Layout

KIND = "plan"
KEYS = ("kind", "lockstep", "model", "cluster", "for", "question", "layout", "predicted")
DEGREES = ("tp", "pp", "cp", "gpus", "cluster")
"""Words that dp follows."""
SAID = ("tp", "pp", "dp", "micro_batch", "zero")
"""Words of a layout that a file says whatever they are."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a file says."""

    words: Json
    """Of the question, `model` and `cluster` among them, by keyword."""
    layout: Json
    software: str | None
    locate: Locate

    def answering(self, given: Json, own: Mapping[str, object], chooses: bool) -> Json:
        """The keywords of a function that takes `own`, with `given` before those of the file."""
        said = {name: value for name, value in given.items() if value is not None and name != "model"}
        layout = {} if chooses or "layout" in said else self._layout(said)
        words = {name: value for name, value in {**self.words, **layout}.items() if name in own}
        if "batch_tokens" in said:
            words.pop("batch", None)
        if self.software is not None:
            words |= self._software(own)
        return {**given, **words, **said}

    def _layout(self, said: Json) -> Json:
        return kept_layout(self.layout, {name for name in said if said[name] != self.words.get(name)})

    def _software(self, own: Mapping[str, object]) -> Json:
        from lockstep.decide.planner.software import software

        found: Json = {"software": self.software} if "software" in own else {}
        return {**found, "to": software(str(self.software)).target} if "to" in own else found

    @contextmanager
    def located(self, given: Json) -> Iterator[None]:
        """Says where in the file a word stands that an error is about."""
        try:
            yield
        except BadInput as error:
            name = (error.where or "").removeprefix("--").replace("-", "_")
            part = "layout" if name in self.layout else "question" if name in self.words else None
            if part is None or given.get(name) is not None:
                raise
            path = (name,) if name in ("model", "cluster") else (part, name)
            raise BadInput(error.message, self.locate(*path)) from error


def kept_layout(layout: Json, changed: set[str]) -> Json:
    """Options of a layout without those that follow from the `changed` ones."""
    follows = {"dp"} if changed & {*DEGREES} else set[str]()
    placed = {"stages", "mtp_stage"} if changed & {"pp", "vpp"} else set[str]()
    return {name: value for name, value in layout.items() if name not in follows | placed}


def read_plan(path: str | Path) -> PlanFile | None:
    """The plan in a YAML file; None where the file describes something else. Raises BadInput at the line."""
    from lockstep.base.documents import read_yaml
    from lockstep.show.verbs.words.shared import LAYOUT_WORDS, QuestionWords

    data, locate = read_yaml(path, repeats=True)
    if data.get("kind") != KIND:
        return None
    _known(data, KEYS, locate)
    question, layout = (_mapping(data, name, locate) for name in ("question", "layout"))
    _known(question, tuple(QuestionWords.__annotations__), locate, "question")
    _known(layout, LAYOUT_WORDS, locate, "layout")
    words = {name: _beside(path, _text(data, name, locate)) for name in ("model", "cluster")} | question
    return PlanFile(words, layout, data.get("for"), locate)


def _known(data: Mapping[str, Any], allowed: tuple[str, ...], locate: Locate, *inside: str) -> None:
    for name in data:
        if name not in allowed:
            raise UnknownName("key of a plan", name, allowed, locate(*inside, name))


def _mapping(data: Json, name: str, locate: Locate) -> Json:
    found = data.get(name)
    if not isinstance(found, dict):
        raise BadInput(f"{name} must be a mapping of words to values", locate(name))
    return found


def _text(data: Json, name: str, locate: Locate) -> str:
    found = data.get(name)
    if not isinstance(found, str) or not found:
        raise BadInput(f"{name} must be a name or a path", locate(name))
    return found


def _beside(plan: str | Path, name: str) -> str:
    """A path as seen from here, a name as it is."""
    path = Path(plan).parent / name
    return str(path) if os.path.isfile(path) else name


def write_plan(path: Path, plan: Plan, words: Json) -> None:
    """Writes `plan`, the answer to `words`. Raises BadInput where model or cluster have no name that a file can say."""
    from lockstep import __version__
    from lockstep.show.verbs.words.question import read_cluster
    from lockstep.show.verbs.words.shared import QuestionWords

    job = plan.job
    asked = {
        name: value for name, value in words.items() if value is not None and name in QuestionWords.__annotations__
    }
    asked.pop("batch_tokens", None)
    asked.pop("way", None)  # The software that is written has it.
    asked |= {"batch": job.recipe.batch, "stack": job.recipe.software.said}
    if not job.images:
        asked["seq"] = job.recipe.seq
    if job.devices != read_cluster(words["cluster"], words.get("gpus")).num_devices:
        asked["gpus"] = job.devices
    document: Json = {
        "schema": 1,
        "kind": KIND,
        "lockstep": __version__,
        "model": _name(words["model"], "MODEL", path),
        "cluster": _name(words["cluster"], "--cluster", path),
        **({} if plan.software is None else {"for": plan.software.name}),
        "question": asked,
        "layout": layout_options(plan.best.layout),
        "predicted": {
            "step_time_s": plan.best.step_time_s,
            "memory_B": float(plan.best.memory.total_B),
            "mfu_frac": plan.best.mfu_frac,
        },
    }
    write_text(path, f"# {' '.join(plan.verdict().split())}\n" + "".join(_lines(document)), "--out")


def layout_options(layout: Layout) -> Json:
    """The degrees, and what differs from the default."""
    from lockstep.price.layout import Layout

    plainest = Layout().to_dict()
    return {name: value for name, value in layout.to_dict().items() if name in SAID or value != plainest[name]}


def _name(given: object, where: str, path: Path) -> str:
    if not isinstance(given, str | Path):
        raise BadInput("a file names what it is about; give a name of the catalog or a path", where)
    return os.path.relpath(given, path.parent) if os.path.isfile(given) else str(given)


def _lines(document: Json) -> Iterator[str]:
    """YAML whose values are JSON, which is YAML."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield f"{name}:\n"
            yield from (f"  {key}: {json.dumps(plain(one))}\n" for key, one in value.items())
        else:
            yield f"{name}: {json.dumps(value)}\n"


def plan_given(model: object, accepted: Collection[str] = ()) -> PlanFile | RunFile | None:
    """The plan, or the run of other software, in the file that MODEL names; None where it names something else.

    Unknown words of other software that are `accepted` are left out.
    """
    if isinstance(model, str | Path) and str(model).lower().endswith(YAML_ENDINGS) and os.path.isfile(model):
        plan = read_plan(model)
        if plan is not None:
            return plan
    return run_given(model, accepted)
