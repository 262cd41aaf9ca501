"""Formulas as MathML, which browsers draw by themselves: nothing is loaded from elsewhere, and a page reads offline."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

NAME = "mathml"


def written(text: str, inline: bool) -> str:
    """LaTeX as MathML; of several lines an environment that aligns them."""
    if not inline:
        kind = pick_math_environment(text)
        text = text if "align" not in kind else f"\\begin{{{kind}}}{text}\\end{{{kind}}}"
    return str(tex2mathml(text, as_block=not inline))


def visit_inline(translator: Any, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(written(node.astext(), True))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """A formula of its own."""
    translator.body.append(written(node.astext(), False))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """The renderer `mathml`."""
    app.add_html_math_renderer(NAME, (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
