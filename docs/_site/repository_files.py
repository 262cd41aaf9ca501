"""Links to files and folders of the repository lead to pages that show them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

SHOWN = "_files"


class LinkToFiles(SphinxTransform):
    """Replaces what MyST makes of such links: downloads of files, and unknown pages where a folder is meant."""

    default_priority = 5

    def apply(self, **options: Any) -> None:
        """Works on one page and notes in its metadata what it links to."""
        page = self.env.docname
        links = [*self.document.findall(addnodes.download_reference), *self.document.findall(addnodes.pending_xref)]
        for link in links:
            path = Path(self.app.srcdir, page).parent.joinpath(link["reftarget"].lstrip("/")).resolve()
            if isinstance(link, addnodes.download_reference) or path.is_dir():
                name = path.relative_to(self.app.srcdir).as_posix()
                self.env.metadata[page].setdefault("files", []).append(name)
                uri = self.app.builder.get_relative_uri(page, f"{SHOWN}/{name}")
                link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for everything that is linked."""
    for name in sorted({name for found in app.env.metadata.values() for name in found.get("files", [])}):
        path = Path(app.srcdir, name)
        text = "\n".join(sorted(one.name for one in path.iterdir())) if path.is_dir() else path.read_text("utf-8")
        try:
            language = get_lexer_for_filename(name).aliases[0]
        except ClassNotFound:
            language = "text"
        body = f"<h1>{name}</h1>\n{app.builder.highlighter.highlight_block(text, language, force=True)}"
        yield f"{SHOWN}/{name}", {"title": name, "body": body}, "page.html"


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.add_transform(LinkToFiles)
    app.connect("html-collect-pages", pages)
