"""Runs the code cells of MyST notebooks while the site is built, and shows what they answer.

    ```{code-cell} ipython3
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64)
    plan
    ```

A page is a notebook that Jupyter opens too (with jupytext). Its cells share their names and a folder of their own, and
run in the order of the page in this process: no kernel is started and nothing is installed beside Sphinx. The value of
a last expression is shown as a notebook would show it. A cell that fails, fails the build; one tagged `raises` must.
"""

from __future__ import annotations

import ast
import contextlib
import io
import tempfile
import traceback
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

from lockstep.show.views.parts.html import fragment, svg

NAMES = "notebook"


class CodeCell(SphinxDirective):
    """A cell: its code, then what it prints and answers."""

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar = {"tags": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Runs the cell once; called when the page is read."""
        code = "\n".join(self.content)
        shown: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        printed, value = self._answer(code, "raises" in self.options.get("tags", ""))
        if printed:
            shown.append(nodes.literal_block(printed, printed, language="none", classes=["printed"]))
        return shown if value is None else [*shown, displayed(value)]

    def _answer(self, code: str, raises: bool) -> tuple[str, Any]:
        """What a cell prints, and the value of its last expression."""
        page = self.env.current_document
        if NAMES not in page:
            page[NAMES] = ({"__name__": "__main__"}, tempfile.TemporaryDirectory())
        names, folder = page[NAMES]
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.chdir(folder.name):
                value = evaluated(code, names)
        except Exception as error:
            if not raises:
                raise self.error(f"a cell fails:\n{code}\n{traceback.format_exc()}") from error
            return f"{out.getvalue()}{type(error).__name__}: {error}", None
        if raises:
            raise self.error(f"a cell should fail and does not:\n{code}")
        return out.getvalue().rstrip("\n"), value


def evaluated(code: str, names: dict[str, Any]) -> Any:
    """Runs code; the value of a last expression, None without one or where a semicolon ends it."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return None if code.rstrip().endswith(";") else value


def displayed(value: Any) -> nodes.Node:
    """A value as a notebook shows it: a figure, the HTML of an answer, else its text."""
    if isinstance(value, Figure):
        return nodes.raw("", fragment(svg(value)), format="html")
    if hasattr(value, "_repr_mimebundle_"):
        return nodes.raw("", value._repr_mimebundle_()["text/html"], format="html")
    text = value if isinstance(value, str) else repr(value)
    return nodes.literal_block(text, text, language="none", classes=["printed"])


def setup(app: Any) -> dict[str, bool]:
    """Joins Sphinx. Cells change the working folder, so that pages are read one after another."""
    app.add_directive("code-cell", CodeCell)
    return {"parallel_read_safe": False}
