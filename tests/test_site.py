"""The documentation site builds without a warning: links, headings, pictures, contents, and every type of the API."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lockstep

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Reads and resolves all pages and writes none, which takes a quarter as long as HTML."""
    pytest.importorskip("furo", reason="needs the docs extra")
    words = f"-m sphinx -q -W -n --keep-going -b dummy -c docs -d {tmp_path / 'read'} . {tmp_path / 'site'}".split()
    found = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    pages = {
        page.name.removesuffix(".doctree")
        for folder in ("verbs", "packages")
        for page in (tmp_path / "read/docs/_api" / folder).iterdir()
    }
    public = {name: getattr(lockstep, name) for name in lockstep.__all__}
    names = {
        one.__name__.removeprefix("lockstep.") if isinstance(one, ModuleType) else name for name, one in public.items()
    }
    assert names <= pages


FORMULA = re.compile(r"(?<![\\$`])\$([^$`\s][^$`]*)\$")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"")


def test_formulas_are_drawn_without_loading_anything(tmp_path: Path) -> None:
    """Every line of the pages with a formula, as the site writes it: browsers draw MathML by themselves."""
    pytest.importorskip("myst_parser", reason="needs the docs extra")
    lines = [
        line
        for page in sorted((ROOT / "docs" / "notebooks").glob("*.md"))
        for line in page.read_text("utf-8").splitlines()
        if FORMULA.search(line)
    ]
    count = sum(len(FORMULA.findall(line)) for line in lines)
    assert count > 5
    (tmp_path / "index.md").write_text("# Formulas\n\n" + "\n\n".join(lines), "utf-8")
    site = str(ROOT / "docs" / "_site")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {site!r})\nextensions = ['myst_parser', 'mathml']\n"
        "html_math_renderer = 'mathml'\nmyst_enable_extensions = ['dollarmath']\n"
    )
    words = f"-m sphinx -q -b html {tmp_path} {tmp_path / 'site'}".split()
    found = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert "mathml" not in found.stderr.lower()
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert page.count("<math ") == count
    assert [one for one in LOADED.findall(page) if one.startswith(("http", "//"))] == []
    assert 'html_math_renderer = "mathml"' in (ROOT / "docs" / "conf.py").read_text("utf-8")


def test_a_place_in_a_file_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docstrings say `file:line` where something is wrong, which reStructuredText takes for an address."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    core = pytest.importorskip("docutils.core", reason="needs the docs extra")
    from plain_docstrings import escaped

    text = core.publish_string(escaped('BadInput "file:line: message" at a:b'), writer="html5").decode("utf-8")
    assert "file:line: message" in text
    assert "a:b" in text
    assert "href" not in text.partition("<body")[2]
