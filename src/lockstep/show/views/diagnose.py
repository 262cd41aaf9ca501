"""`lockstep diagnose`: a measured run beside the predicted one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.show.views.parts.captured_calls import render_calls
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.diagnosis import render_operations
from lockstep.show.views.parts.diagnosis_plot import plot_diagnosis, say
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import left_out, mfu_column, notes
from lockstep.show.views.parts.recalibrated import filled, render_recalibrated
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.answer import Held
    from lockstep.explain.deviations import Candidate
    from lockstep.explain.diagnosis import Diagnosis
    from lockstep.explain.judge import Judged
    from lockstep.explain.path import Step
    from lockstep.explain.read.flight_recorder import Hang
    from lockstep.explain.readings import Explained
    from lockstep.explain.stated import Stated

TIMERS = 10
"""Parts of a program's own timers that are shown."""


def render(answer: Diagnosis, out: Console) -> None:
    """Prints the verdict, what explains it, and what to change."""
    if answer.captured is not None:
        render_calls(answer.captured, out)
    if answer.seen is not None:
        render_operations(answer, answer.seen, out)
    if answer.predicted is not None and answer.judged is not None:
        _verdict(answer.judged, answer.predicted, answer.mismatches, out)
        if answer.path is not None:
            _path(answer.path, answer.judged, out)
        _explanations(answer.judged, answer.predicted, bool(answer.mismatches), out)
    elif answer.seen is None:
        _measured_alone(answer, out)
    _logs(answer, out)
    for one in answer.memory:
        _memory(one, out)
    _links(answer, out)
    if answer.recalibrated is not None:
        render_recalibrated(answer.recalibrated, out)
    if answer.hangs is not None:
        _hangs(answer.hangs, out)
    rest = [one for one in answer.not_known if one not in answer.unclear]
    unknown = [f"{one[0].upper()}{one[1:]}{'' if one.endswith('.') else '.'}" for one in rest]
    small_print(out, "Not known", unknown, len(unknown))


def _verdict(judged: Judged, found: Estimate, mismatches: Sequence[str], out: Console) -> None:
    """One line that answers whether the number is low, then what contradicts it."""
    measured = judged.measured
    low, high = sorted(measured.at(end, found) for end in (found.interval.low, found.interval.high))
    expected = f"{say(measured, measured.predicted(found))}, {say(measured, low)} to {say(measured, high)}"
    level = format_frac(found.interval.level_frac)
    wrong = bool(mismatches or judged.contradictions)
    if mismatches:
        title = "The files are of another run than the one described."
    elif judged.verdict == "as predicted":
        title = f"{measured.said} is as predicted for this layout."
    elif judged.verdict == "impossible":
        title = f"{measured.said} is more than the device can do: it counts something else."
    else:
        title = f"{measured.said} is {judged.verdict} than predicted for this layout."
    good = judged.verdict == "as predicted" and not wrong
    out.print(Text(title, style="bold green" if good else "bold yellow"))
    out.print(
        f"Predicted {expected} in {level} of cases, for {found.job.model.name} on {found.job.devices} x "
        f"{found.cluster.device.name}: {layout_words(found.layout)}."
    )
    left_out(found.job, out)
    if judged.adopted is not None:
        stated = say(measured, judged.adopted.stated)
        out.print(f"{stated} as stated is taken so: {judged.adopted.says}; otherwise nothing predicted is near it.")
    for one in (*mismatches, *(one.says for one in judged.contradictions), *judged.remarks):
        out.print(f"{one[0].upper()}{one[1:]}{'' if one.endswith('.') else '.'}")


def _path(steps: Sequence[Step], judged: Judged, out: Console) -> None:
    """From the other run's number to this one's; what the predictions leave of both is not explained."""
    measured, expected = judged.measured, judged.expected
    heading(out, "From the other run to this one", "as predicted, setting by setting")
    rows = [(one.setting, say(measured, one.before), say(measured, one.after), _apart(one)) for one in steps]
    columns = [("setting", "text"), ("before", "right"), ("after", "right"), ("change", "right")]
    if expected is not None and expected.stated.quantity == measured.quantity and steps:
        stated = expected.stated.value / steps[0].before, measured.value / steps[-1].after
        ends = tuple(("+" if one > 1 else "") + format_frac(one - 1, 2) for one in stated)
        note = f"measured beside predicted: the other run {ends[0]}, this one {ends[1]}"
        indented(out, table(columns, rows))
        indented(out, Text(note, style="dim"))
        return
    indented(out, table(columns, rows))


def _apart(one: Step) -> str:
    change = one.after / one.before - 1
    return ("+" if change > 0 else "") + format_frac(change, 2)


def _explanations(judged: Judged, found: Estimate, elsewhere: bool, out: Console) -> None:
    """What would explain the number; of files of another run only what that run would give."""
    if judged.readings and not elsewhere:
        impossible = judged.verdict == "impossible"
        heading(out, "Readings that make it possible" if impossible else "Readings by which it would be as predicted")
        _readings(judged.readings, judged.measured, out)
        if impossible:
            out.print(_so_read(replace(judged.measured, value=judged.readings[0].true), found))
    likely = [one for one in judged.candidates if not elsewhere or one.name == "another-model"]
    if likely:
        heading(out, "Single deviations that would explain it", "likeliest first; each alone")
        _candidates(likely, judged.measured, out)
    if elsewhere:
        return
    if judged.conditions:
        small_print(out, "What would have to be true", judged.conditions, len(judged.conditions))
    if judged.expected is not None:
        wanted = judged.expected
        note = "within what is predicted for this layout" if wanted.as_predicted else "each alone"
        heading(out, f"What would give the expected {wanted.stated.said}", note)
        if wanted.readings:
            _readings(wanted.readings, wanted.stated, out)
        if wanted.candidates:
            _candidates(wanted.candidates, wanted.stated, out)
        if not wanted.readings and not wanted.candidates and not wanted.as_predicted:
            indented(out, Text("nothing known here does so alone"))
    if judged.changes:
        _changes(judged.changes, judged.measured, out)


def _so_read(one: Stated, found: Estimate) -> str:
    """What the likeliest reading of an impossible number says of the run."""
    step_s, whole = one.step_time_s(found), found.interval
    place = "as" if whole.low <= step_s <= whole.high else "slower than" if step_s > whole.high else "faster than"
    mfu_frac = found.mfu_frac * found.step_time_s / step_s
    read = f"{format_frac(mfu_frac)} {found.utilisation.name}"
    return f"Read by the first of these, it is {read}, {place} predicted for this layout."


def _readings(readings: Sequence[Explained], like: Stated, out: Console) -> None:
    rows = [(one.says, say(like, one.stated), say(like, one.true)) for one in readings]
    indented(out, table([("reading", "text"), ("stated", "right"), ("would be", "right")], rows))


def _candidates(candidates: Sequence[Candidate], like: Stated, out: Console) -> None:
    rows = [(("= " if one.equal else "") + one.says, say(like, one.value), one.why) for one in candidates]
    indented(out, table([("deviation", "text"), ("gives", "right"), ("because", "text")], rows))
    if any(one.equal for one in candidates):
        indented(out, Text("= explains it as well as the first", style="dim"))


def _changes(changes: Sequence[Candidate], like: Stated, out: Console) -> None:
    note, used = mfu_column([one.estimate.utilisation for one in changes])
    heading(out, "Change first", notes("as predicted; these fit in memory", note))
    rows = [(one.says, say(like, one.value), mfu, filled(one.estimate)) for one, mfu in zip(changes, used, strict=True)]
    columns = [("change", "left"), (_column(like), "right"), ("MFU", "right"), ("memory", "right")]
    indented(out, table(columns, rows))


def _column(like: Stated) -> str:
    names = {"step_time_s": "step", "tokens_per_s": "tokens/s", "mfu_frac": "MFU"}
    return names.get(like.quantity, "per device")


def _measured_alone(answer: Diagnosis, out: Console) -> None:
    """What files say where nothing was predicted."""
    if answer.logs and answer.measured_s is not None:
        out.print(Text(f"{format_time(answer.measured_s)} per step as logged.", style="bold"))
    elif answer.hangs:
        out.print(Text("A collective did not end on all of its ranks.", style="bold yellow"))
    elif answer.hangs is not None:
        out.print(Text("Every collective ended on all ranks that were given.", style="bold green"))
    elif answer.memory:
        out.print(Text(f"{format_size(answer.memory[0].peak_B)} allocated at the peak.", style="bold"))
    elif answer.links:
        most_Bps = max(one.busbw_Bps for one in answer.links)
        out.print(Text(f"{format_bandwidth(most_Bps)} of bus bandwidth at most.", style="bold"))
    if answer.predicted is None and (answer.logs or answer.memory):
        out.print("Give --model and -c, with the layout as for estimate, to hold it against the prediction.")


def _logs(answer: Diagnosis, out: Console) -> None:
    from lockstep.explain.stated import QUANTITIES, said

    for log in answer.logs:
        if not log.steps:
            continue
        heading(out, f"Log of {log.program}", f"medians of {log.steps:,} printed steps after warming up")
        rows = [(said(name, value), "") for name in QUANTITIES if (value := log.steady(name)) is not None]
        rows += [(f"{value:,.0f} tokens/s per device", "") for value in [log.steady("tokens_per_s_per_gpu")] if value]
        rows += [(f"{format_size(value)} allocated", "") for value in [log.steady("memory_B")] if value]
        for row in rows:
            indented(out, Text(row[0]))
        if log.counts:
            indented(out, Text(f"it counts {log.counts}", style="dim"))
        parts = sorted(log.parts_s.items(), key=lambda part: -part[1])[:TIMERS]
        if parts:
            longest = parts[0][1]
            shown = [(name, format_time(seconds), bar(seconds / longest)) for name, seconds in parts]
            indented(out, table([("its own timers", "left"), ("time", "right"), ("", "left")], shown))


def _memory(one: Held, out: Console) -> None:
    note = "at the peak of the snapshot"
    predicted = one.predicted_by_category_B
    if one.predicted_peak_B is not None:
        note += f"; predicted {format_size(one.predicted_peak_B)} on the fullest stage"
    heading(out, f"Memory: {format_size(one.peak_B)}", note)
    names = [*one.by_category_B, *(name for name in predicted or {} if name not in one.by_category_B)]
    rows: list[tuple[str | Text, ...]] = []
    for name in names:
        size_B = one.by_category_B.get(name)
        row = [name, "-" if size_B is None else format_size(size_B)]
        if predicted is not None:
            row.append(format_size(predicted[name]) if name in predicted else "-")
        rows.append((*row, bar((size_B or 0.0) / one.peak_B)))
    columns = [("category", "left"), ("measured", "right")]
    columns += [("predicted", "right")] if predicted is not None else []
    indented(out, table([*columns, ("", "left")], rows))


def _links(answer: Diagnosis, out: Console) -> None:
    if not answer.links:
        return
    files = len({one.file for one in answer.links})
    within = f" of {answer.links[0].file}" if files == 1 else ""
    heading(out, f"Links{within}", "rate of one link that large messages reach")
    rows = [
        (
            one.collective
            if files == 1
            else one.file
            if files == len(answer.links)
            else f"{one.file}: {one.collective}",
            one.level or "-",
            *("-" if rate is None else format_bandwidth(rate) for rate in (one.measured_Bps, one.assumed_Bps)),
            format_bandwidth(one.busbw_Bps),
        )
        for one in answer.links
    ]
    columns = [("times of", "left"), ("level", "left"), ("measured", "right"), ("cluster has", "right")]
    indented(out, table([*columns, ("bus bandwidth", "right")], rows))
    for note in dict.fromkeys(one.note for one in answer.links if one.note):
        out.print(f"{note[0].upper()}{note[1:]}.")


def _hangs(hangs: Sequence[Hang], out: Console) -> None:
    if not hangs:
        return
    heading(out, "Collectives that did not end", "the first of every group")
    for one in hangs:
        sizes = " ".join("x".join(str(side) for side in size) for size in one.sizes[:2])
        out.print(Text(f"  {one.op} {sizes}, number {one.number} of group {one.group or '0'}"))
        for title, ranks in (
            ("never came", one.missing), ("called something else", one.mismatched), ("wait", one.waiting),
            ("no dump", one.unseen),
        ):  # fmt: skip
            if ranks:
                out.print(Text(f"    {title}: rank{'s' if len(ranks) > 1 else ''} {_ranks(ranks)}"))
        if one.frame:
            out.print(Text(f"    called from {one.frame}", style="dim"))


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:16])
    return shown if len(ranks) <= 16 else f"{shown} and {len(ranks) - 16} more"


COMMAND = Command(
    examples=(
        "lockstep diagnose --model llama2-70b -c dgx-h100:16 --tp 8 --pp 8 --sequence-parallel --recompute full "
        "--batch 512 --zero 1 --tflops 296.5 --against 420.5",
        "lockstep diagnose train.log --model llama3-8b -c dgx-h100:1 --zero 3 --batch 64",
        "lockstep diagnose traces/ --model llama3-8b -c dgx-h100:1 --zero 3 --batch 64",
        "lockstep diagnose run.json.gz --capture step.capture",
        "lockstep diagnose --case examples/steps-16.yaml -o mine.yaml --replan",
        "lockstep diagnose rank0.json.gz rank1.json.gz --plot parts.svg",
        "lockstep diagnose memory.pickle",
        "lockstep diagnose dumps/",
    ),
    more="The exit code is 1 when --fail-above is exceeded.",
    render=render,
    picture=plot_diagnosis,
    doing="diagnosing",
    ok=lambda answer: bool(answer.ok),
    lists=False,
)
