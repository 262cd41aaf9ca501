"""The experiments of the lab for a person: the groups with a line each, or one group with its questions."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.converge import Experiments
from lockstep.report.terminal import heading, indented, table


def render(found: Experiments, out: Console) -> None:
    """Prints the groups, or the experiments of the only one."""
    if len(found.groups) == 1:
        _experiments(found, out)
    else:
        _groups(found, out)


def _groups(found: Experiments, out: Console) -> None:
    out.print(Text(f"{len(found.experiments)} experiments in {len(found.groups)} groups", style="bold"))
    heading(out, "Groups")
    rows = [[group.name, str(len(group.experiments)), group.about] for group in found.groups]
    indented(out, table([("", "left"), ("experiments", "right"), ("about", "text")], rows))
    example = found.groups[1]
    heading(out, "Ask")
    asked = [
        [f"lockstep converge {example.name}", "the questions of a group"],
        [f"lockstep converge {example.experiments[0]}", "the law beside a simulation"],
        [f"lockstep converge {example.experiments[0]} --plot a.png", "... and as a picture"],
        ["lockstep converge --json", "every question and setting"],
    ]
    indented(out, table([("", "left"), ("", "text")], asked))


def _experiments(found: Experiments, out: Console) -> None:
    group = found.groups[0]
    out.print(Text(f"{group.name}: {group.about}", style="bold"))
    heading(out, "Experiments", f"settings of each: lockstep converge {group.name} --json")
    indented(out, table([("", "left"), ("question", "text")], [[one.name, one.question] for one in found.experiments]))
