"""README is the start page: it gets the table of contents, and a copy of it is what a folder opens at, index.html."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CONTENTS = {
    "": "docs/index gallery",
    "Learn": """learn/memory learn/step-time learn/collectives learn/pipelines learn/choosing learn/convergence
        learn/batch-size learn/compression learn/precision learn/optimizers learn/campaigns learn/measuring
        learn/shaped-links learn/training learn/exercises""",
    "Exercises": " ".join(f"exercises/c{number}" for number in range(1, 21)),
    "Notebooks": """notebooks/plan-a-run notebooks/where-convergence-breaks notebooks/measure-and-fit
        notebooks/five-exercises notebooks/your-own-code notebooks/a-step-of-reinforcement-learning""",
    "Use": """use/commands use/plan use/ui use/other-software use/guide use/fine-tune use/reinforcement use/fine-tunes
        use/capture use/own-model use/own-hardware use/own-software use/add-your-own use/lists
        use/engines use/which-cluster use/programs use/simulate use/campaign use/checkpoint
        use/cases use/converge use/claims use/sweeps use/measure use/diagnose use/watch use/rig use/train use/runs
        use/python""",
    "Reference": """reference/glossary reference/api reference/formulas reference/json reference/experiments
        reference/configurations reference/claims reference/real-software reference/surprises""",
    "Validation": "trust validation case-studies validation-rig errata",
    "Project": "decisions/index /CONTRIBUTING /CHANGELOG /SECURITY",
}
"""Pages by heading, below docs unless they start with a slash. Sphinx warns of a page that is missing."""


def toctree(pages: list[str], *options: str) -> str:
    """The directive for a part of the contents."""
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *pages, "```", ""])


def contents() -> str:
    """The table of contents as directives."""
    parts = []
    for caption, pages in CONTENTS.items():
        names = [page[1:] if page.startswith("/") else f"docs/{page.removeprefix('docs/')}" for page in pages.split()]
        parts.append(toctree(names, *([f":caption: {caption}"] if caption else [])))
    return "\n".join(parts)


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Appends what a forge does not need: the contents of the site, and of the decisions."""
    if page == app.config.root_doc:
        source[0] += contents()
    elif page == "docs/decisions/index":
        source[0] += toctree(sorted(path.stem for path in Path(app.srcdir, "docs/decisions").glob("0*.md")))
    elif page == "docs/reference/api":
        source[0] += "\n- {doc}`/docs/_api/verbs`\n- {doc}`/docs/_api/packages`\n"
        source[0] += toctree(["/docs/_api/verbs", "/docs/_api/packages"])


def copy_start(app: Any, error: Exception | None) -> None:
    """A folder opens at its index.html."""
    if error is None and app.builder.format == "html":
        shutil.copy(Path(app.outdir, f"{app.config.root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", copy_start)
