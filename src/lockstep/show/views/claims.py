"""`lockstep claims`: what a textbook chapter says, whether it is so, and the numbers that decide it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from typer import Exit

from lockstep.base.errors import BadInput, Infeasible
from lockstep.check.evidence.claims.entry import PARTS
from lockstep.show.verbs.claims import ALL, CARD, ERRATA, LIST, RUN, TABLE, Claims
from lockstep.show.verbs.words.option import Option
from lockstep.show.views.parts.claims_grade import render_table
from lockstep.show.views.parts.claims_plot import has_picture, plot_claim
from lockstep.show.views.parts.claims_stream import STYLES, Stream, headline
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.options import PLOT, flags
from lockstep.show.views.parts.output import draw, given, picture_path, show
from lockstep.show.views.parts.page import WANTED
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.check.evidence.claims.decide import Corrected, Decided, Known

FIGURE = flags(figure=Option("NAME", "Draw this figure of an exercise alone; its card names them."))
MOST = 12
FIRST = ("true", "false", "conditional", "ambiguous", "sound", "undecided")
"""Verdicts that are counted in the headline."""


def render(found: Claims, out: Console) -> None:
    """Prints the list, cards, errata, or the table of an exercise."""
    if found.asked == TABLE:
        render_table(found, out)
        return
    if found.asked in (LIST, ALL):
        _list(found, out)
        return
    if found.asked == ERRATA or found.errata:
        _errata(found.errata, out, ran=found.asked != CARD)
    for place, entry in enumerate(found.entries):
        if place or found.errata:
            out.print()
        _card(entry, out)
    for place, fact in enumerate(found.facts):
        if place or found.errata or found.entries:
            out.print()
        _fact(fact, out)


def _list(found: Claims, out: Console) -> None:
    out.print(Text(_counts(found), style="bold"))
    rows: list[list[str | Text]] = []
    for one in found.entries:
        entry = one.entry
        shown = "not run" if one.entry.id in found.left_out else one.verdict
        other = Text(entry.second.verdict, STYLES[entry.second.verdict]) if entry.second else ""
        rows.append([entry.id, entry.title, Text(shown, STYLES.get(shown, "dim")), other, f"{one.seconds:.1f} s"])
    columns = [("", "left"), ("item", "text"), ("verdict", "left"), ("proof", "left"), ("takes", "right")]
    heading(out, "Items", "lockstep claims T5 shows one, --run decides it")
    indented(out, table(columns, rows))
    _end(found, out)


def _counts(found: Claims) -> str:
    counts = ", ".join(f"{found.count(name)} {name}" for name in FIRST if found.count(name))
    items = f"{len(found.entries)} item{'s' * (len(found.entries) != 1)}"
    return f"{items}: {counts}" if counts else items


def _summary(found: Claims, out: Console) -> None:
    """What is left to say where every item was printed as it was decided."""
    out.print(Text(f"\n{_counts(found)}", style="bold"))
    out.print(f"{found.took_s:.1f} s of processor time")
    _end(found, out)


def _end(found: Claims, out: Console) -> None:
    """What was left out, and what did not come out as registered."""
    if found.left_out:
        why = f"Stopped ({found.stopped}) before" if found.stopped else "Left out by --within:"
        out.print(f"\n{why} {', '.join(found.left_out)}")
    if found.surprises:
        out.print(Text(f"\nNot as registered: {', '.join(found.surprises)}", style="bold red"))


def _card(one: Decided, out: Console) -> None:
    """An item: what it says, the verdict and why, the true form, the numbers."""
    from lockstep.check.evidence.claims.shelf import errata_of
    from lockstep.check.evidence.grading.sheets import SHEETS

    entry = one.entry
    out.print(headline(one))
    if entry.kind == "exercise":
        lines = [("asks", entry.says), ("answer", entry.because), ("law", entry.true_form)]
    else:
        said, other = PARTS.get(entry.kind, ("says", "")) if entry.second else ("says", "")
        lines = [(said, entry.says), (other, entry.second.says if entry.second else "")]
        lines += [("because", entry.because), ("in truth", entry.true_form), ("shown by", entry.argument)]
    lines += [
        (f"{'if' if not entry.readings else 'as'} {place}", f"{case.when}: {case.verdict}")
        for place, case in enumerate(entry.cases, 1)
    ]
    program = entry.program and f"python {entry.program}"
    lines += [("source", entry.source), ("command", entry.command), ("program", program), ("see", " ".join(entry.see))]
    errata = errata_of(entry.id)
    if errata:
        lines.append(("errata", f"{len(errata)}: lockstep claims --errata {entry.id}"))
    if one.found is None and entry.every_check():
        lines.append(("decide", f"lockstep claims {entry.id} --run  ({one.seconds:.1f} s)"))
    if entry.id in SHEETS:
        lines.append(("table", f"lockstep claims {entry.id} --seed 7"))
    if has_picture(entry):
        lines.append(("picture", f"lockstep claims {entry.id} --plot {entry.id.replace('.', '').lower()}.svg"))
    out.print()
    indented(out, table([("", "left"), ("", "text")], [[Text(name, "dim"), said] for name, said in lines if said]))
    _deliverables(one, out)
    _numbers(one, out)


def _deliverables(one: Decided, out: Console) -> None:
    """What an exercise asks for, with what ticks each: a picture, a number of the card, or both."""
    asked = one.deliverables()
    if not asked:
        return
    heading(out, "Deliverables", f"--figure NAME --plot FILE draws one  ({one.drawing_s:.1f} s for all)")
    rows: list[list[str | Text]] = []
    for each in asked:
        tick = Text("no", "bold red") if each["ok"] is False else Text("done", "green")
        by = [each["figure"] and f"figure {each['figure']}", each["value"] and f"number: {each['value']}"]
        rows.append([tick, each["asks"], "\n".join(filter(None, by))])
    indented(out, table([("", "left"), ("asked for", "text"), ("shown by", "text")], rows))


def _numbers(one: Decided, out: Console) -> None:
    """The checks: claimed and right values, and what was found where they ran."""
    evidence = one.evidence()
    if not evidence:
        return
    ran = one.found is not None
    heading(out, "Numbers", "" if ran else "typed, not run")
    rows = []
    for check in evidence:
        stated = check["part"] == "true form" and check["agrees"]
        row = [check["check"], "-" if stated else check["claimed"], check["right"]]
        if ran and check["got"] is None:
            rows.append([*row, "-", "-", Text("left out at this seed", "bold red")])
        elif ran:
            rows.append([*row, f"{check['got']:.6g}", f"{check['allowed']:.1g}", _outcome(check, stated)])
        else:
            rows.append([*row[:2], check["at"], row[2], check["nature"]])
    last = [("found", "right"), ("allowed", "right"), ("", "left")] if ran else [("", "left")]
    place = [] if ran else [("lines", "left")]
    first = [("", "text"), ("claimed", "right"), *place, ("right", "right")]
    indented(out, table([*first, *last], rows))
    for check in evidence:
        if check["follows"]:
            out.print(Text(f"  {check['claimed']} ({check['at']}): {check['follows']}", "dim"))
    for doubt in dict.fromkeys(check["doubt"] for check in evidence if check["doubt"]):
        out.print(f"\n  Its experiment broke one of its laws: {doubt}")


def _outcome(check: Json, stated: bool) -> Text:
    """What the run says of the claimed value, or of the true form."""
    if not check["ok"]:
        return Text("unexpected", "bold red")
    if stated:
        return Text("found", "green")
    return Text("agrees", "green") if check["agrees"] else Text("contradicted", "red")


def _fact(one: Known, out: Console) -> None:
    out.print(Text.assemble((f"{one.fact.id} ", "bold"), (f"is {one.verdict}", STYLES[one.verdict])))
    out.print()
    lines = [("says", one.fact.statement), ("command", f"lockstep converge {one.fact.experiment}")]
    indented(out, table([("", "left"), ("", "text")], [[Text(name, "dim"), said] for name, said in lines]))
    if one.evidence:
        from lockstep.show.views.parts.findings_table import checks_table

        indented(out, checks_table(one.evidence[:MOST]))


def _errata(found: tuple[Corrected, ...], out: Console, *, ran: bool) -> None:
    """Printed and right, with the printed and the found number of what was computed; of one erratum also how."""
    known = [one for one in found if one.as_registered is not None]
    bad = [one for one in known if not one.as_registered]
    more = f", {len(known)} recomputed" * ran + f", {len(bad)} not as registered" * bool(bad)
    out.print(Text(f"{len(found)} {'erratum' if len(found) == 1 else 'errata'}{more}", style="bold"))
    if found:
        _printed_and_right(found, out, ran=ran)
    if len(found) == 1 and found[0].erratum.check is not None:
        (one,) = found
        out.print(f"\n  Decided by {one.to_dict()['decider']}")
        if not ran:
            out.print(f"  lockstep claims {one.erratum.id} --run")
    for why in dict.fromkeys(one.erratum.why for one in found if one.erratum.why):
        named = ", ".join(one.erratum.id for one in found if one.erratum.why == why)
        out.print(Text(f"\nNot computed: {named} ({why})", style="dim"))


def _printed_and_right(found: tuple[Corrected, ...], out: Console, *, ran: bool) -> None:
    rows = []
    for one in found:
        row = [one.erratum.id, one.erratum.severity, one.erratum.at, one.erratum.printed, one.erratum.right]
        if ran:
            plain = one.to_dict()
            row += [plain["claimed"] or "-", "-" if plain["got"] is None else f"{plain['got']:.5g}"]
        rows.append(row)
    last = [("claimed", "right"), ("found", "right")] if ran else []
    indented(
        out, table([("", "left"), ("", "left"), ("lines", "left"), ("printed", "text"), ("right", "text"), *last], rows)
    )


def ask(
    as_json: bool, plot: str | None = None, claim: list[str] | None = None, figure: str | None = None, **words: object
) -> None:
    """Answers the question, draws the item if asked, and says on stderr what came out otherwise than registered."""
    from lockstep.learn.lab import each_run_once
    from lockstep.show.verbs.claims import claims

    picture_path(plot)
    if plot and not claim:
        raise BadInput("needs the id of an item to draw", "--plot")
    if figure and not plot:
        raise BadInput("chooses what --plot draws and has no effect without it", "--figure")
    if words.get("all") and WANTED.get() is None:
        _ask_all(as_json, claims(*(claim or ()), **given(words), progress=(stream := Stream(as_json))), stream)
        return
    with each_run_once() if claim else nullcontext():
        with progress("checks") as report:
            found = claims(*(claim or ()), **given(words), progress=report)
        if claim:
            draw(plot, partial(plot_claim, found, figure or ""))
    _say_surprises(found)
    show(found, as_json, render, ok=found.ok)


def _ask_all(as_json: bool, found: Claims, stream: Stream) -> None:
    """Ends the answer whose items were printed as they came."""
    _say_surprises(found)
    if not as_json:
        show(found, False, _summary, ok=found.ok)
        return
    stream.end(found)
    if not found.ok:
        raise Exit(Infeasible.exit_code)


def _say_surprises(found: Claims) -> None:
    if found.asked in (RUN, ALL, ERRATA) and found.surprises:
        print(f"no: the run did not find what is registered of {', '.join(found.surprises)}", file=sys.stderr)


COMMAND = Command(
    also={**FIGURE, **PLOT},
    examples=(
        "lockstep claims",
        "lockstep claims T5",
        "lockstep claims T4 C.3 --run",
        "lockstep claims --all --within 60s --engine processes:4",
        "lockstep claims --errata B.13 --severity high",
        "lockstep claims B.14 --plot b14.svg",
        "lockstep claims C.4 --seed 7 --handout sheet.md",
        "lockstep claims C.4 --seed 7 --check mine.csv",
        "lockstep claims C.5 --figure memory-by-schedule --plot memory.svg",
    ),
    more="The exit code is 1 when an item that was run is not true, when a run does not find what is registered, or "
    "when a student's table is wrong.",
    render=render,
    doing="checks",
    ok=lambda answer: answer.ok,
    lists=False,
    ask=ask,
)
"""`CARD` answers with 0, as nothing was decided."""
__all__ = ["CARD", "COMMAND", "STYLES", "render"]
