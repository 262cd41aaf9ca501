"""Citations for a bibliography: BibTeX entries, nothing around them."""

from __future__ import annotations

from rich.console import Console

from lockstep.verbs.cite import References


def render(found: References, out: Console) -> None:
    """Prints the entries, never wrapped."""
    out.file.write("\n\n".join(one.bibtex.strip() for one in found.citations) + "\n")
