"""`lockstep capture`: a step of a program, and whether it fits on a device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from lockstep.base.errors import install_line
from lockstep.base.units import format_count, format_flops, format_money, format_size, format_time
from lockstep.price.kernels.captured import WITHIN
from lockstep.price.layout.captured import WITHIN as MEMORY_WITHIN
from lockstep.show.views.memory import categories, plot_rank
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.output import draw, given, picture_path, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.terminal import heading, indented, interactive, paragraph, small_print, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.show.verbs.capture import CapturedMemory

FILLS = "What fills the memory"
PLACES = 12
"""Places that asked for values which are listed."""


def render(found: CapturedMemory, out: Console) -> None:
    """Prints whether the step fits, what fills the memory, and what the program was told; on a page its timeline."""
    verdict(found, out)
    details(found, out)


def details(found: CapturedMemory, out: Console) -> None:
    """Prints what fills the memory, and what the program was told; on a page its timeline."""
    step, program = found.captured, found.captured.program
    rate = "" if found.time is None else f", {format_flops(step.flops / found.time.step_time_s)}"
    calls = ", ".join(f"{number:,} {phase}" for phase, number in step.by_phase.items())
    paragraph(
        out,
        f"{format_count(program['parameters'])} parameters, {format_count(program['trained_parameters'])} of them "
        f"trained; {format_count(step.flops)} FLOPs a step in products and attention{rate}; calls: {calls}.",
    )
    if found.time is not None:
        interactive(out, "timeline", partial(timeline, found))
    heading(out, FILLS, fullest(found))
    categories(found.memory, out)
    _values(found, out)
    said = [f"the step between two updates of the first optimizer, on torch {program['torch']}: {found.path}"]
    if found.time is not None:
        said += [
            f"of eager kernels, none of them fitted to captured steps: 35 measured on one H100 are off by {WITHIN}"
        ]
    said += [
        "of what PyTorch allocates: the peaks of 35 steps measured on one H100 are off by "
        f"{MEMORY_WITHIN}; the rest is assumed",
        "buffers are also the workspaces of cuBLAS, 5 % of slack in the allocator and 1.5 GB of context",
    ]
    said += _followed(found)
    if program["card"]["name"] != found.cluster.device.name:
        said += [f"captured for {program['card']['name']}: attention's kernel is the one that card chooses"]
    small_print(out, "Assumptions", [*said, *program["notes"]], len(said) + len(program["notes"]))


def verdict(found: CapturedMemory, out: Console) -> None:
    """Prints whether the step fits, and how long it takes."""
    memory = found.memory
    out.print(Text(title(found), style="bold green" if found.fits else "bold red"))
    total, capacity = format_size(float(memory.total_B)), format_size(memory.capacity_B)
    say = "It fits" if found.fits else "It does not fit"
    paragraph(out, f"{say}: {total} of {capacity}, of which PyTorch allocates {format_size(found.allocated_B)}.")
    paragraph(out, _time(found))
    if found.run is not None:
        cost = "" if found.run["cost_usd"] is None else f", {format_money(found.run['cost_usd'])}"
        steps = f"{found.run['steps']:,} steps take {format_time(found.run['time_s'])}"
        paragraph(out, f"{steps} without interruptions{cost}.")
    if found.largest:
        paragraph(out, largest(found))


def timeline(found: CapturedMemory, most: int | None = None) -> Json:
    """The step as a page draws it: as many of its first operations, or as there is room for in a file."""
    from lockstep.show.views.page.held import captured_form
    from lockstep.show.views.page.timeline import MOST_IN_FILE, timeline_form

    line, begins_s = found.played
    # A file has no room for every tensor.
    held = [captured_form(found.captured, begins_s, line.makespan_s)] if most else []
    capacity_B = found.memory.capacity_B
    return timeline_form(line, stands_for=[1], capacity_B=capacity_B, most=most or MOST_IN_FILE, held=held)


def title(found: CapturedMemory) -> str:
    """The command, the device, and which rank it is."""
    program, ranks = found.captured.program, found.captured.ranks
    of = f", rank {program['rank']} of {ranks:,}" if ranks > 1 else ""
    return f"{found.name} on one {found.cluster.device.name}{of}"


def fullest(found: CapturedMemory) -> str:
    """The call during which most bytes are held."""
    one = found.captured.peak_operation
    return f"at its fullest moment, {one.name.removeprefix('aten.')} ({one.phase})"


def _time(found: CapturedMemory) -> str:
    """How long a step takes, and where it goes."""
    time = found.time
    if time is None:
        return f"No time: {found.untimed}."
    parts = f"products {format_time(time.products_s)}, attention {format_time(time.attention_s)}"
    host = f"the host launches {time.kernels:,} kernels in {format_time(time.host_s)}"
    talk = ""
    if time.communication_s:
        exposed = format_time(time.exposed_communication_s)
        talk = f"; collectives {format_time(time.communication_s)}, {exposed} of them with no kernel beside them"
    others = format_time(time.other_s)
    between = "" if found.interval is None else f", {found.interval.said_s}"
    return f"{format_time(time.step_time_s)} per step{between}: {parts}, other kernels {others}{talk}; {host}."


def _followed(found: CapturedMemory) -> list[str]:
    """Values that were not captured, and those from which their step follows."""
    known = {} if found.varied is None else found.varied.values
    return [
        f"the step with {name}={value} follows from captures with {', '.join(map(str, known[name]))}"
        for name, value in found.chosen.items()
        if value not in known[name]
    ]


def largest(found: CapturedMemory) -> str:
    """How far each argument that was varied may go on the device."""
    parts = [f"{name} {'none' if most is None else f'{most:,}'}" for name, most in found.largest.items()]
    return f"Largest value that fits, all else unchanged: {', '.join(parts)}."


def _values(found: CapturedMemory, out: Console) -> None:
    """What the program asked for that does not exist."""
    asked = found.captured.program["values"]
    if not asked:
        return
    times = sum(one["times"] for one in asked)
    heading(out, f"The program asked {times:,} value{'s' if times > 1 else ''}", "the answers can change what it does")
    rows = [(one["place"], one["kind"], one["answer"], f"{one['times']:,}") for one in asked[:PLACES]]
    indented(out, table([("place", "left"), ("kind", "left"), ("told", "right"), ("times", "right")], rows))
    if len(asked) > PLACES:
        paragraph(out, f"{len(asked) - PLACES} places more with --json.", style="dim", indent=2)


def plot_capture(found: CapturedMemory) -> Figure:
    """What tensors hold while the step runs; what fills the device where it has no time."""
    if found.time is None:
        return plot_rank(found.memory)
    from lockstep.show.views.parts.captured import plot_step

    total, capacity = format_size(float(found.memory.total_B)), format_size(found.memory.capacity_B)
    title = f"{found.name} on one {found.cluster.device.name}: {format_time(found.time.step_time_s)} per step"
    return plot_step(found.captured, *found.played, f"{title}, {total} of {capacity}")


def ask(as_json: bool, plot: str | None = None, program: list[str] | None = None, **words: object) -> None:
    """The script and its arguments are positional."""
    from lockstep.show.verbs.capture import capture

    picture_path(plot)
    with progress("training until a step is known") as report:
        found = capture(*(program or ()), progress=report, **given(words))
    draw(plot, partial(plot_capture, found))
    show(found, as_json, render, ok=found.fits)


COMMAND = Command(
    examples=(
        "lockstep capture train.py -c rtx-4090:1",
        "lockstep capture train.py -c h100-sxm:1 -o big.capture -- --batch 4 --lr 1e-4",
        "lockstep capture pretrain.py -c dgx-h100:4 --ranks 32 --plot step.png",
        "lockstep capture train.py -c rtx-4090:1 --vary batch=2,3,4 -- --batch {batch}",
        "lockstep memory step.capture -c l40s:1 --at batch=16",
    ),
    more=f"Needs torch: {escape(install_line('measure'))}. The exit code is 1 when the step does not fit.",
    render=render,
    picture=plot_capture,
    lists=False,
    ask=ask,
)
