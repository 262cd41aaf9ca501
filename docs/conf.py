"""Sphinx makes the site of the pages as they are and of an API reference from the docstrings.

    sphinx-build -W -n -c docs . docs/_build

The source folder is the root of the repository: README is the start page, and links lead to the same files as on a
forge. Nothing is downloaded. What Sphinx does not do by itself is in `_site/`.
"""

import gc
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_site"), str(HERE.parent / "src")]

# Trees of pages are many objects and no garbage: by default they are walked again and again.
gc.set_threshold(3_000_000)

project = "Lockstep"
author = "The Lockstep authors"
project_copyright = "The Lockstep authors, Apache-2.0"
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode",
    "api_pages", "mathml", "notebook_pages", "plain_docstrings", "repository_files", "start_page",
]  # fmt: skip
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/_api/**.rst"]
exclude_patterns = [".*", "benchmarks", "build", "docs/_build", "docs/_site", "examples", "src", "tests", "tools"]

html_theme = "furo"
html_title = "Lockstep"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

html_math_renderer = "mathml"

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4

default_role = "code"
add_module_names = False
toc_object_entries = False
python_maximum_signature_line_length = 90
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
ALIASES = (
    "Array", "ArrayLike", "Bandwidth", "Bools", "Counts", "FlopRate", "Floats", "Ints", "Json", "Mask",
    "NDArray", "Number", "Numbers", "Progress", "Quantity", "Size", "Time", "Times", "Truth", "Whole",
)  # fmt: skip
"""Types that signatures name and do not spell out."""
autodoc_type_aliases = {name: name for name in ALIASES}


def setup(app):
    """Blocks of JSON keys are text."""
    app.add_lexer("keys", TextLexer)
