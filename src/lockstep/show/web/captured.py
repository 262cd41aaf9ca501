"""A captured step on the page: a file that was dropped, or that `lockstep ui` was started with, in place of a model.

A screen that `taking_captures` makes shows it too. Its words are the cluster, the number of steps, and `at.NAME`, the
value of each argument that was varied; its verb is `memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import format_flops, format_frac, format_money, format_size, format_time, parse_integer
from lockstep.show.verbs.capture import CapturedMemory, is_capture, own_machine, step_of
from lockstep.show.views import capture as view
from lockstep.show.views.compare import part_words
from lockstep.show.web.answers import answer_of, verb_of, write_timeline
from lockstep.show.web.parts import figure, memory_bar
from lockstep.show.web.screen import QUESTION, Field, Screen
from lockstep.show.web.sections import sections
from lockstep.simulate.program import write_trace

if TYPE_CHECKING:
    from lockstep.describe.varied import CaptureFile
    from lockstep.show.web.asked import Asked, Server
    from lockstep.simulate.program import Timeline

VERB = "memory"
AT = "at."
"""Before the name of an argument that was varied, in an address."""
MOST_OPERATIONS = 300_000
"""Of a step of more, the earliest are drawn."""
LEAST_FRAC = 5e-4
"""Parts of less of the step are left out."""
COLOURS = {
    "compute.matmul": "compute",
    "compute.attention": "attention",
    "compute.stream": "stream",
    "recompute": "ep_comm",
    "optimizer": "update",
    "other_comm.": "dp_comm",
    "idle.host": "idle",
}


def file_of(asked: Asked) -> CaptureFile | None:
    """The capture that stands for the model, if one does. Raises BadInput for one that is gone, and for a path."""
    word = asked.words.get("model", "")
    if not is_capture(word):
        return None
    if word in asked.server.given:
        found: CaptureFile = asked.server.given[word]  # type: ignore[assignment]
        return found
    return asked.server.uploads.capture(word)


def captured(asked: Asked, file: CaptureFile) -> CapturedMemory:
    """The step that an address asks for. Raises BadInput, and Superseded."""
    at = _values(asked, file)
    cluster, steps = (asked.words.get(name, "") for name in ("cluster", "steps"))
    machine = asked.value(VERB, "cluster", cluster) if cluster else None

    def make() -> CapturedMemory:
        try:
            return step_of(file, machine, at, steps or None)
        except BadInput as error:
            named = error.where == "--at" and len(at) == 1
            raise BadInput(error.message, f"{AT}{next(iter(at))}" if named else error.where) from None

    found: CapturedMemory = asked.kept_step((asked.words["model"], cluster, steps, *at.items()), make)
    return found


def _values(asked: Asked, file: CaptureFile) -> dict[str, int]:
    """Values of arguments that were varied. Raises BadInput at their fields."""
    said = {name: asked.words.get(f"{AT}{name}", "") for name in file.values}
    return {name: parse_integer(value, f"{AT}{name}") for name, value in said.items() if value}


def words(asked: Asked, file: CaptureFile) -> Json:
    """The question as the command has it."""
    model = asked.words["model"]
    said: Json = {
        "model": asked.server.uploads.names.get(model, model),
        "cluster": asked.words.get("cluster"),
        "at": _values(asked, file),
        "steps": asked.words.get("steps"),
    }
    return {name: value for name, value in said.items() if value}


def fields(asked: Asked) -> tuple[Field, ...] | None:
    """The controls for a capture; None where a model is asked about."""
    try:
        file = file_of(asked)
    except BadInput:
        return None
    if file is None:
        return None
    model, cluster, *_ = QUESTION
    varied = (Field(f"{AT}{name}", name, example=str(some[-1])) for name, some in file.values.items())
    machine = own_machine(file.at())
    own = replace(cluster, example=f"{machine.name}:{machine.num_nodes}")
    return (model, own, *varied, Field("steps", "Steps of the run", example="10k"))


def first_address(server: Server) -> tuple[str, Json] | None:
    """The screen and words that a page begins with that was started with a capture."""
    return ("layout", dict(server.first)) if is_capture(server.first.get("model", "")) else None


def taking_captures(plain: Screen, data: Callable[[CapturedMemory], Json]) -> Screen:
    """The screen, which draws `data` of a captured step where one stands for the model."""

    def words_of(asked: Asked) -> Mapping[str, object]:
        file = file_of(asked)
        return words(asked, file) if file else asked.words if plain.words is None else plain.words(asked)

    def answer(asked: Asked) -> object:
        file = file_of(asked)
        return captured(asked, file) if file else answer_of(plain, asked)[0]

    def write(found: object, path: Path) -> None:
        if isinstance(found, CapturedMemory):
            write_trace(played(found), path)
        else:
            (plain.trace or write_timeline)(found, path)

    return replace(
        plain,
        asks=lambda asked: VERB if file_of(asked) else verb_of(plain, asked),
        words=words_of,
        answer=answer,
        data=lambda found, asked: data(found) if isinstance(found, CapturedMemory) else plain.data(found, asked),
        later=lambda found, _: later(found) if isinstance(found, CapturedMemory) else {},
        trace=write,
        fields_of=fields,
    )


def titled(found: CapturedMemory) -> Json:
    """What is above every screen: the step, whether it fits, and its numbers."""
    held, has = format_size(float(found.memory.total_B)), format_size(found.memory.capacity_B)
    said = f"It {'fits' if found.fits else 'does not fit'}: {held} of {has}"
    return {"captured": True, "title": view.title(found), "headline": said, "figures": figures(found)}


def figures(found: CapturedMemory) -> list[Json]:
    """Memory, time and what makes it."""
    time, used = found.time, format_frac(float(found.memory.used_frac))
    allocated = f"{used} of the device; PyTorch allocates {format_size(found.allocated_B)}"
    shown = [figure("Memory", format_size(float(found.memory.total_B)), allocated)]
    if time is None:
        return [*shown, figure("Step", "no time", found.untimed)]
    rate = format_flops(found.captured.flops / time.step_time_s)
    shown += [
        figure("Step", format_time(time.step_time_s), "" if found.interval is None else found.interval.said_s),
        figure("Rate", rate, "in products and attention"),
        figure("Host", format_time(time.host_s), f"for {time.kernels:,} kernels"),
    ]
    if time.communication_s:
        exposed = format_time(time.exposed_communication_s)
        shown.append(figure("Collectives", format_time(time.communication_s), f"{exposed} with no kernel beside them"))
    if found.run is not None:
        steps, cost = found.run["steps"], found.run["cost_usd"]
        shown.append(figure("Time", format_time(found.run["time_s"]), f"for {steps:,} steps, without interruptions"))
        shown += [] if cost is None else [figure("Cost of the run", format_money(cost), "at the catalog's price")]
    return shown


def layout_data(found: CapturedMemory) -> Json:
    """Where the step goes, what fills the memory, and what the program asked."""
    total = "" if found.time is None else format_time(found.time.step_time_s)
    blocks = [one for one in sections(view.details, found) if one.get("title") != view.FILLS]
    return {
        **titled(found),
        "fits": found.fits,
        "total": total,
        "parts": _parts(found),
        # How often estimates that are so full ran out of memory says nothing of a capture.
        "memory": memory_bar(found.memory) | {"tight": ""},
        "fullest": view.fullest(found),
        "blocks": blocks,
    }


def _parts(found: CapturedMemory) -> list[Json]:
    """Exposed parts of the step, largest first."""
    start, rows = 0.0, list[Json]()
    for name, seconds in sorted(found.parts_s.items(), key=lambda part: -part[1]):
        share = seconds / sum(found.parts_s.values())
        if share < LEAST_FRAC:
            continue
        row = {"kind": COLOURS[name], "label": part_words(name), "text": format_time(seconds), "share": share}
        rows.append({**row, "percent": format_frac(share, 2), "start": start, "hidden": "", "hidden_share": 0.0})
        start += share
    return rows


def later(found: CapturedMemory) -> Json:
    """How far each argument that was varied may go: many steps are derived for it."""
    return {"largest": view.largest(found) if found.largest else ""}


def timeline_data(found: CapturedMemory) -> Json:
    """The host, the streams and the collectives of the step."""
    if found.time is None:
        return {**titled(found), "note": "Calls without a time have no place on a line; Layout shows their memory."}
    operations = f"{len(played(found).program):,} operations"
    return {**titled(found), "operations": operations, "form": view.timeline(found, MOST_OPERATIONS)}


def played(found: CapturedMemory) -> Timeline:
    """The timeline of the step. Raises BadInput where it has no time."""
    if found.time is None:
        raise BadInput(f"no time: {found.untimed}", "model")
    return found.played[0]
