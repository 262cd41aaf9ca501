"""`lockstep rollout`: what the generation of a reinforcement-learning step takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.configuration import Configuration
    from lockstep.decide.planner.rl_search import Choice
    from lockstep.decide.planner.rl_step import RlStep
    from lockstep.decide.planner.rollout import Rollout

_PHASES = [("", "left"), ("time", "right"), ("memory", "right"), ("", "text")]
_CHOICES = [("generate", "right"), ("train", "right"), ("engine tp", "right"), ("step", "right")]
_CHOICES += [("generation", "right"), ("training", "right"), ("", "left")]
SHOWN = 8
_PAIRS = [("", "left"), ("", "text")]


def render(found: Rollout, out: Console) -> None:
    """Prints the phase."""
    out.print(Text(_title(found), style="bold"))
    out.print(f"Expected: {(found.step or found).interval.said_s}.")
    engine, device = found.engine, found.engine.cluster.device
    degrees = ("tp", "pp", "dp", "ep")
    layout = " ".join(f"{name}{getattr(engine, name)}" for name in degrees if getattr(engine, name) > 1) or "one device"
    many = f"{found.engines} engine{'s' * (found.engines > 1)}"
    out.print(f"{engine.model.name} in {many} of {layout} on {found.devices} x {device.name}")
    if found.step is not None:
        heading(out, "Step", "on each device, phase by phase")
        indented(out, table(_PHASES, _phases(found.step)))
    if found.choices:
        heading(out, "Choices", "the fastest step that fits first")
        indented(out, table(_CHOICES, (_choice(one) for one in found.choices[:SHOWN])))
    stale = found.step is not None and found.step.staleness > 0
    heading(out, "Time", f"{'of the answers of one step alone, ' * stale}of the engine that ends last")
    rows: list[list[str | Text]] = [
        [part, format_time(seconds), format_frac(seconds / found.time_s), bar(seconds / found.time_s)]
        for part, seconds in sorted(found.breakdown_s.items(), key=lambda one: -one[1])
    ]
    indented(out, table([("", "left"), ("time", "right"), ("share", "right"), ("", "left")], rows))
    heading(out, "Answers")
    indented(out, table(_PAIRS, _answers(found)))
    heading(out, "Memory", "of one device")
    indented(out, table([("", "left"), ("", "right")], _memory(found)))
    if found.configuration is not None:
        _configuration(found.configuration, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _configuration(written: Configuration, out: Console) -> None:
    """The files themselves, or where they were written."""
    if written.folder is not None:
        heading(out, "Configuration", f"for {written.version}")
        indented(out, Text(f"written to {', '.join(f'{written.folder}/{name}' for name in written.files)}"))
        return
    heading(out, "Configuration", f"for {written.version}; --export DIR writes it")
    for name, text in written.files.items():
        out.file.write(f"  {name}\n" + "".join(f"    {line}\n" for line in text.splitlines()))


def _choice(one: Choice) -> list[str | Text]:
    """A split and an engine."""
    how = "in turn" if one.colocated else str(one.training)
    told = "" if one.fits else "does not fit"
    times = (format_time(seconds) for seconds in (one.step_time_s, one.generate_s, one.train_s))
    return [str(one.generating), how, str(one.tp), *times, Text(told, style="red")]


def _fits(found: Rollout) -> bool:
    return found.step is None or found.step.fits


def _phases(step: RlStep) -> list[list[str | Text]]:
    """Seconds and memory of each phase, what the step waits for, and updates."""
    rows: list[list[str | Text]] = []
    for phase in step.phases:
        held = f"{format_size(phase.device_B)} of {format_size(phase.capacity_B)}"
        rows.append([phase.name, format_time(phase.time_s), Text(held, style="" if phase.fits else "red"), ""])
    rows[1][3] = f"{step.updates} update{'s' * (step.updates > 1)}"
    if step.offload_s:
        rows.append(["states to the host and back", format_time(step.offload_s), "", ""])
    if step.staleness:
        rows[0][3] = f"beside training, at most {step.staleness} step{'s' * (step.staleness > 1)} old"
    return rows


def _title(found: Rollout) -> str:
    if found.step is not None:
        step = found.step
        how = (
            "in turn on all devices" if step.colocated else f"on {found.devices} and {step.trainer.cluster.num_devices}"
        )
        told = f"A step takes {format_time(step.step_time_s)}, generation and training {how}; mostly {step.bound_by}"
        return told if step.fits else f"{told}; it does not fit"
    rate = f"{format_count(found.tokens_per_s)} tokens/s, {format_count(found.tokens_per_s / found.devices)} per device"
    return f"Generating {found.answers:,} answers takes {format_time(found.time_s)}: {rate}; mostly {found.bound_by}"


def _answers(found: Rollout) -> list[tuple[str, str]]:
    """Lengths, what is in flight, the tail."""
    lengths = found.lengths
    longest = f"{found.longest:,} ({format_count(lengths.expected_longest(found.answers))} expected)"
    tail = f"{format_time(found.tail_s)}, {format_frac(found.tail_s / found.time_s)} of the time"
    return [
        ("tokens", f"{format_count(found.tokens)}; {format_count(lengths.mean)} an answer, the longest {longest}"),
        ("from token to token", format_time(found.token_s)),
        ("in flight", f"{found.most_in_flight:,} at most; {found.preempted:,} preemptions"),
        (f"last {format_frac(found.tail_frac)} of answers", tail),
        ("engines wait for the last", format_frac(found.idle_frac)),
    ]


def _memory(found: Rollout) -> list[tuple[str, str]]:
    """What a device holds, and what fits in its pool."""
    pool, engine = found.pool, found.engine
    left_B = engine.cluster.device.memory_B - pool.capacity_B
    held = f"holds {found.held:,} answers of the mean length in an engine"
    return [
        ("weights", format_size(pool.weights_B)),
        ("working memory", format_size(pool.working_B)),
        ("keys and values", f"{format_size(pool.pool_B)}, {held}"),
        ("outside the engine", format_size(left_B)),
    ]


def plot_rollout(found: Rollout) -> Figure:
    """Answers in flight and tokens per second over time."""
    times = [0.0, *(one.time_s for one in found.moments)]

    def flying(axes: Axes) -> None:
        axes.stairs([one.in_flight for one in found.moments], times, fill=True, color=PALETTE[0], alpha=0.7)
        axes.axvline(found.time_s - found.tail_s, color=PALETTE[3], linestyle="--", linewidth=1)
        axes.text(found.time_s - found.tail_s, axes.get_ylim()[1] * 0.92, " tail", fontsize=8, color=PALETTE[3])
        axes.set(xlabel="time, s", ylabel="answers in flight", xlim=(0.0, found.time_s))

    def rate(axes: Axes) -> None:
        axes.stairs([one.tokens_per_s for one in found.moments], times, color=PALETTE[1], linewidth=1.5)
        axes.set(xlabel="time, s", ylabel="tokens of answers per second", xlim=(0.0, found.time_s), ylim=(0.0, None))

    return make_figure(_title(found), flying, rate, size=(11.0, 3.6))


COMMAND = Command(
    examples=(
        "lockstep rollout qwen2.5-7b -c dgx-h100 --prompts 128 --group 8 --prompt-tokens 256 "
        "--response lognormal:mean=1k,cv=1 --max-response 8k",
        "lockstep rollout qwen3-32b -c dgx-h100:8 --prompts 64 --group 16 --prompt-tokens 512 --response 4k "
        "--rollout-tp 2,4,8 --weights-dtype fp8",
        "lockstep rollout qwen2.5-7b -c dgx-h100:2 --prompts 64 --group 16 --prompt-tokens 512 --response 2k "
        "--trainer zero=3 --train-batch 256 --split 8 --staleness 1",
        "lockstep rollout qwen3-32b -c dgx-h100:8 --prompts 128 --group 8 --prompt-tokens 512 --response 4k "
        "--trainer plan --search --staleness 1 --for verl --export run",
    ),
    render=render,
    picture=plot_rollout,
    ok=_fits,
    figures=("step.step_time_s", "time_s", "tokens_per_s", "tail_s", "idle_frac", "token_s"),
)
