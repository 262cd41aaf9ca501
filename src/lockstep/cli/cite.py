"""`lockstep cite`: the papers and sources behind an answer."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER_IF_ANY, LAYOUT, MODEL_IF_ANY, RECIPE, switch, takes
from lockstep.cli.output import EXAMPLES, show

BIBTEX = {"bibtex": switch("--bibtex", "Print BibTeX entries.", False)}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep cite\n\nlockstep cite llama3-8b -c dgx-h100:4 --batch 256 --bibtex")(cite)


@takes(MODEL_IF_ANY, CLUSTER_IF_ANY, BATCH, LAYOUT, RECIPE, BIBTEX)
def cite(as_json: bool, bibtex: bool, sequence_parallel: bool, **words: Any) -> None:
    """Print the papers and sources that an answer rests on.

    Without a MODEL, print all that Lockstep knows.
    """
    from lockstep import api

    answer = api.cite(sequence_parallel=sequence_parallel or None, **words)
    show(answer, as_json, "bibtex" if bibtex else "cite")
