"""Docstrings are plain text with `code` in backticks: nothing else in them is markup."""

from __future__ import annotations

import re
from typing import Any, get_type_hints, is_typeddict

SPECIAL = re.compile(r"(`[^`\n]*`)|([*|\\]|_(?=\W|$)|`|(?<=\w):(?=\w))")


def escaped(line: str) -> str:
    """A line in which only `code` is markup."""
    return SPECIAL.sub(lambda found: f"{found[1]}\\ " if found[1] else f"\\{found[2]}", line)


def plain(lines: list[str]) -> list[str]:
    """The docstring as reStructuredText: indented blocks as they are, everything else as text."""
    found: list[str] = []
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        before = lines[number - 1] if number else ""
        if indented and not before.startswith("    ") and not (before.strip() == "" and found and found[-1] == ""):
            found.append("")
        if indented and not any(one.startswith("    ") for one in lines[max(0, number - 1) : number]):
            found += ["::", ""]
        found.append(line if indented else escaped(line))
        if indented and number + 1 < len(lines) and lines[number + 1].strip() and not lines[number + 1].startswith(" "):
            found.append("")
    return found


def process(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Replaces the lines in place, as Sphinx asks."""
    lines[:] = [*plain(lines), *keywords(found)]


def keywords(found: Any) -> list[str]:
    """Of a typed dictionary of options: what the command line says of each."""
    hints = get_type_hints(found, include_extras=True) if is_typeddict(found) else {}
    helps = {name: hint.__metadata__[0].help for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    rows = [line for name, said in helps.items() for line in (f"   * - `{name}`", f"     - {escaped(said)}")]
    return ["", ".. list-table::", "   :widths: auto", "", *rows, ""] if rows else []


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.connect("autodoc-process-docstring", process)
