"""README is the start page of the site: it gets the table of contents, and a copy as index.html."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CONTENTS = {
    "Learn": [
        "learn/memory", "learn/step-time", "learn/collectives", "learn/pipelines", "learn/choosing",
        "learn/convergence", "learn/batch-size", "learn/compression", "learn/precision", "learn/optimizers",
        "learn/campaigns", "learn/measuring", "learn/shaped-links", "learn/training",
    ],
    "Use": [
        "use/plan", "use/guide", "use/own-model", "use/own-hardware", "use/lists", "use/programs", "use/simulate", "use/campaign",
        "use/checkpoint", "use/cases", "use/converge", "use/sweeps", "use/measure", "use/rig", "use/train", "use/runs",
        "use/python",
    ],
    "Reference": [
        "_api/index", "reference/formulas", "reference/json", "reference/claims", "reference/system-claims",
    ],
    "Validation": ["trust", "validation", "case-studies", "validation-rig", "errata"],
    "Project": ["decisions", "/CONTRIBUTING", "/CHANGELOG", "/SECURITY"],
}  # fmt: skip


def contents() -> str:
    """The table of contents as directives; a page that is missing from it fails the build."""
    parts = ["```{toctree}\n:hidden:\n\ndocs/index\n```"]
    for caption, pages in CONTENTS.items():
        names = "\n".join(page[1:] if page.startswith("/") else f"docs/{page}" for page in pages)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```")
    return "\n\n".join(parts)


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Appends the contents to README alone."""
    if page == app.config.root_doc:
        source[0] += "\n\n" + contents() + "\n"


def copy_start(app: Any, error: Exception | None) -> None:
    """A folder opens at its index.html."""
    if error is None and app.builder.format == "html":
        shutil.copy(Path(app.outdir, f"{app.config.root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", copy_start)
