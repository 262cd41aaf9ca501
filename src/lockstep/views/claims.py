"""`lockstep claims`: what the field says about convergence, held or refuted by an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.lab import GROUPS
from lockstep.verbs.claims import EVERY, Claims, Decided
from lockstep.views.parts.command import Command
from lockstep.views.parts.findings_table import checks_table
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console


MOST = 6
STYLES = {"holds": "green", "false": "red", "undecided": "bold red"}
NAMES = {"false": "refuted"}
"""Verdicts that a person reads under another name than programs."""


def render(found: Claims, out: Console) -> None:
    """Prints the verdict, then the parts or the evidence."""
    out.print(Text(_said(found), style="bold"))
    if found.asked in (None, EVERY):
        _parts(found, out)
        return
    for one in found.decided[:MOST]:
        _claim(one, out)
    if len(found.decided) > MOST:
        out.print(f"\n{len(found.decided) - MOST} more with --json")


def _said(found: Claims) -> str:
    if len(found.decided) == 1:
        verdict = found.decided[0].verdict
        return f"The claim {verdict if verdict == 'holds' else f'is {NAMES.get(verdict, verdict)}'}"
    undecided = found.count("undecided")
    more = f", {undecided} undecided" if undecided else ""
    return f"{found.count('holds')} of {len(found.decided)} claims hold{more}"


def _parts(found: Claims, out: Console) -> None:
    """A row per group of experiments."""
    heading(out, "By part of the lab", "each claim: docs/reference/claims.md, or --json")
    rows = []
    for group in GROUPS:
        here = [one for one in found.decided if one.claim.experiment in group.experiments]
        if here:
            counts = [str(sum(one.verdict == name for one in here)) for name in STYLES]
            rows.append([group.name, *counts, group.about])
    columns = [("", "left"), *((NAMES.get(name, name), "right") for name in STYLES), ("about", "text")]
    indented(out, table(columns, rows))
    bad = [one for one in found.decided if not one.as_known]
    for one in bad[:MOST]:
        _claim(one, out)
    if found.asked is None:
        first = found.decided[0].claim.ids[0]
        out.print(f"\nlockstep claims {first} decides one claim; lockstep claims {EVERY} runs every experiment.")


def _claim(one: Decided, out: Console) -> None:
    """A statement with the checks that decide it."""
    out.print()
    out.print(
        Text.assemble((NAMES.get(one.verdict, one.verdict), STYLES[one.verdict]), ": ", (one.claim.statement, "bold"))
    )
    out.print(Text(f"{' '.join(one.claim.ids)}; lockstep converge {one.claim.experiment}", style="dim"))
    if one.evidence:
        indented(out, checks_table(one.evidence[:MOST]))


COMMAND = Command(
    examples=(
        "lockstep claims",
        "lockstep claims A.5",
        "lockstep claims --json",
    ),
    more="The exit code is 1 when a requested claim is false.",
    render=render,
    doing="experiments",
    ok=lambda answer: answer.ok,
    lists=False,
)
