"""The table of the documentation's pages by which `lockstep find` knows them, made from the pages themselves."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from console_blocks import FENCE, PAGES, name_of
from lockstep.show.verbs.leads.index import PAGES as TABLE

LEFT_OUT = ("docs/decisions/", "docs/index.md")
"""Pages for people who change Lockstep, and contents."""
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def sentence(text: str) -> str:
    """The first sentence of a page's first paragraph, without marks."""
    prose = [one for one in FENCE.sub("", text).split("\n\n")[1:] if re.match(r"[A-Z`>*\[]", one.strip())]
    plain = " ".join(LINK.sub(r"\1", prose[0] if prose else "").replace("`", "").replace("*", "").strip("> ").split())
    first = re.split(r"(?<=[.?!]) ", plain, maxsplit=1)[0]
    return f"{first[:-1]}." if first.endswith(":") else first


def row(page: Path) -> dict[str, str]:
    """Name, title, first sentence and headings."""
    text = page.read_text("utf-8")
    titles = [LINK.sub(r"\1", one).replace("`", "") for one in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)]
    return {"page": name_of(page), "title": titles[0], "says": sentence(text), "headings": "; ".join(titles[1:])}


def text() -> str:
    """The whole table."""
    pages = [page for page in PAGES if not name_of(page).startswith(LEFT_OUT)]
    made = io.StringIO()
    writer = csv.DictWriter(made, ("page", "title", "says", "headings"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(row, pages))
    return made.getvalue()


def write() -> None:
    """Writes it where the package has it."""
    TABLE.write_text(text(), "utf-8")
