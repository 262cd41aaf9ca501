"""`lockstep ui`: the page in a browser, until Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from lockstep.base.errors import install_line
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.output import given, show

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.show.verbs.ui import Served


def render(found: Served, out: Console) -> None:
    """Prints where the page is."""
    out.print(Text(f"The page is at {found.address}", style="bold", no_wrap=True, overflow="ignore"), soft_wrap=True)
    out.print("Only this machine can open it, with this address. Ctrl-C ends it.")


def ask(as_json: bool, **words: Any) -> None:
    """Serves the page until Ctrl-C."""
    from lockstep.show.verbs.ui import ui

    served = ui(**given(words))
    show(served, as_json, render)
    sys.stdout.flush()
    served.wait()


COMMAND = Command(
    examples=(
        "lockstep ui",
        "lockstep ui llama3-8b -c dgx-h100:4",
        "lockstep ui step.capture",
        "lockstep ui --port 8000 --no-open",
    ),
    more=f"Needs the extra ui: {escape(install_line('ui'))}. What is asked or dropped there stays on this machine.",
    render=render,
    without=("html",),
    lists=False,
    ask=ask,
)
