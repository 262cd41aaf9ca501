"""Brings README and the documentation up to date with what the commands print today.

    python tools/pages.py                    lists what would change; exit code 1 if anything would
    python tools/pages.py --write            rewrites it
    python tools/pages.py --write docs/use   only pages below this path

Three kinds of text are regenerated: console blocks of one `lockstep` command, by the rules of `tests/test_docs.py`,
pages that are written from data as a whole (`WRITTEN`), and the table of pages by which `lockstep find` knows them. So
are pictures, of which `doc_pictures.py` has the commands: `python tools/pages.py docs/pictures` for them alone, and
figures of exercises: `python tools/pages.py docs/exercises`.
Commands that measure this machine are left alone. A command that ends otherwise than its block shows is listed and left
for a person to look at.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from re import Match
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.learn.lab.findings import Check, Findings

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.append(str(TESTS))

import doc_pictures  # noqa: E402
import page_table  # noqa: E402
from console_blocks import FENCE, PAGES, ROOT, SURROUNDINGS, Session, compared, name_of, printed, session  # noqa: E402


def validation_page() -> str:
    """Predictions against the published tables."""
    from lockstep.check.validation import validate
    from lockstep.check.validation.document import page

    return page(validate())


def case_studies_page() -> str:
    """Predictions of published runs."""
    from lockstep.check.validation.cases.compare import survey
    from lockstep.check.validation.cases.document import page

    return page(survey())


def claims_page() -> str:
    """Items of a textbook chapter, facts of the lab, and errata."""
    from claim_pages import claims_page as page

    return page()


def exercise_page(item: str) -> str:
    """What one exercise asks, what ticks it, and its figures."""
    from claim_pages import exercise_page as page

    return page(item)


def experiments_page(answers: Callable[[str], Findings] | None = None) -> str:
    """Every experiment of the lab with question, settings, findings with their defaults, and source."""
    from lockstep.learn.lab.experiment import GROUPS, find_experiment

    answers, lines = answers or _answer, [EXPERIMENTS_HEAD]
    for group in GROUPS:
        lines += [f"## {group.name}", "", group.about[0].upper() + group.about[1:] + ".", ""]
        for name in group.experiments:
            found = find_experiment(name).to_dict()
            lines += [f"### {name}", "", found["question"], "", SETTINGS_HEAD]
            lines += [row(f"`{one['name']}`", f"`{_shown(one['default'])}`", one["allowed"], one["help"])
                      for one in found["settings"]]  # fmt: skip
            lines += ["", *_findings(answers(name)), f"Source: {found['source']}.", ""]
    return "\n".join(lines)


def _answer(name: str) -> Findings:
    """What an experiment finds with its defaults."""
    import lockstep

    print(f"running {name}", file=sys.stderr)
    return lockstep.converge(name)


def _findings(found: Findings) -> list[str]:
    """The checks of an experiment, laws beside what was found."""
    if not found.checks:
        return []
    return [FINDINGS_HEAD, *(row(*cells(one)) for one in found.checks), ""]


def cells(check: Check) -> tuple[str, str, str, str, str]:
    """A check as a row: what, value of the law, value found, largest difference allowed, for which settings."""
    relation = "" if check.relation == "equals" else f"{check.relation} "
    law, found = (f"{0.0 if abs(value) < ROUNDING_FRAC * check.allowed else value:.4g}"
                  for value in (check.expected, check.got))  # fmt: skip
    refuted = " (refuted)" if check.false_law else ""
    return check.what, relation + law + refuted, found, f"{check.allowed:.2g}", check.holds.words


ROUNDING_FRAC = 1e-3
"""Numbers below this share of what may differ are shown as 0."""
SETTINGS_HEAD = """| setting | default | allowed | meaning |
|---|---|---|---|"""
FINDINGS_HEAD = """| check, with these defaults | law | found | may differ by | holds for |
|---|---|---|---|---|"""
EXPERIMENTS_HEAD = """# Experiments of the lab

Each is run by `lockstep converge NAME`, and `--set SETTING=VALUE` changes a setting; `--plot FILE` draws it. Their
claims are in [claims](claims.md), how to read an answer in [the convergence lab](../use/converge.md).
"""


def row(*texts: str) -> str:
    """A row of a table; a bar in a cell would end it."""
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |"


def _shown(value: object) -> str:
    """A value as `--set` reads it: no brackets around several."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def fine_tunes_page() -> str:
    """Common fine-tunes on common machines."""
    from fine_tunes import page

    return page()


def configurations_page() -> str:
    """What becomes of every word of other software's configurations."""
    from configuration_page import page

    return page()


def findings_page() -> str:
    """Surprises of other software."""
    from findings_page import page

    return page()


WRITTEN: dict[str, Callable[[], str]] = {
    "docs/use/fine-tunes.md": fine_tunes_page,
    "docs/validation.md": validation_page,
    "docs/case-studies.md": case_studies_page,
    "docs/reference/claims.md": claims_page,
    "docs/reference/experiments.md": experiments_page,
    "docs/reference/configurations.md": configurations_page,
    "docs/reference/surprises.md": findings_page,
    **{f"docs/exercises/c{number}.md": partial(exercise_page, f"C.{number}") for number in range(1, 21)},
}
"""Pages that a function writes as a whole."""


class Changes:
    """What would change, and what could not be regenerated."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.failed: list[str] = []

    def block(self, page: Path, found: Match[str]) -> str:
        """The block with today's output; unchanged where it agrees or is not a session."""
        asked = session(found[1], found[2])
        if asked is None:
            return found[0]
        try:
            text = printed(asked)
        except AssertionError as wrong:
            self.failed.append(f"{name_of(page)}: {wrong}")
            return found[0]
        if compared(asked, text) == compared(asked, asked.output):
            return found[0]
        self.changed.append(f"{name_of(page)}: lockstep {asked.command}")
        return f"```console\n$ lockstep {asked.command}\n{_wrapped(asked, text)}\n```"

    def page(self, page: Path) -> str:
        """The whole text of a page as it should be."""
        text = page.read_text("utf-8")
        write = WRITTEN.get(name_of(page))
        if write is None:
            return FENCE.sub(lambda found: self.block(page, found), text)
        written = write().strip() + "\n"
        if written.strip() == text.strip():
            return text
        self.changed.append(f"{name_of(page)}: the whole page")
        return written


def _wrapped(asked: Session, text: str) -> str:
    """A refusal is one long line, which a page breaks at its width."""
    if asked.refused is None:
        return text
    message, _, table = text.partition("\n")
    wrapped = textwrap.fill(message, int(SURROUNDINGS["COLUMNS"]), break_long_words=False, break_on_hyphens=False)
    return f"{wrapped}\n{table}" if table else wrapped


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    parser.add_argument("paths", nargs="*", type=Path, help="pages or folders (default: all)")
    given = parser.parse_args()
    below = [path.resolve() for path in given.paths] or [ROOT]
    chosen = [page for page in PAGES if any(page.is_relative_to(path) for path in below)]
    drawing = any(doc_pictures.FOLDER.is_relative_to(path) for path in below)
    if not chosen and not drawing:
        parser.error("no page is below these paths")
    found = Changes()
    for page in chosen:
        text = found.page(page)
        if given.write and text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
    if drawing:
        doc_pictures.pictures(found.changed, given.write)
    if any(doc_pictures.FIGURES.is_relative_to(path) for path in below):
        doc_pictures.figures(found.changed, given.write)
    if not given.paths and page_table.text() != page_table.TABLE.read_text("utf-8"):
        found.changed.append(f"{name_of(page_table.TABLE)}: the pages as lockstep find knows them")
        if given.write:
            page_table.write()
    verb = "changed" if given.write else "would change"
    for line in (*(f"{verb}: {one}" for one in found.changed), *(f"left as it is: {one}" for one in found.failed)):
        print(line)
    sys.exit(1 if found.failed or (found.changed and not given.write) else 0)


if __name__ == "__main__":
    main()
