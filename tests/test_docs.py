"""The documentation is true: every example in it runs and prints what it says, every link leads somewhere."""

import doctest
import re
import shlex
from pathlib import Path
from typing import cast

import pytest
from click import Group
from typer.main import get_command

import page_table
from console_blocks import PAGES, ROOT, Session, blocks, compared, name_of, printed, session
from lockstep.run.train import METHODS
from lockstep.show.cli.app import build
from lockstep.simulate.collectives.registry import REGISTRY as ALGORITHMS
from lockstep.simulate.parallel.pipeline import REGISTRY as SCHEDULES


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_python_examples_print_the_documented_output(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lockstep.train(" in page.read_text("utf-8"):
        pytest.importorskip("torch", reason="needs torch")
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_links_have_targets(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_formulas_are_those_of_the_code() -> None:
    """Files named on the page exist, and no algorithm and no schedule is missing from it."""
    page = (ROOT / "docs/reference/formulas.md").read_text("utf-8")
    folder = ROOT / "src/lockstep"
    for line in page.splitlines():
        beside = folder
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", line):
            found = folder / name if (folder / name).exists() else beside / name
            assert found.exists() or name == "src/lockstep/", name
            beside = found.parent
    words = {word for cell in re.findall(r"(?<=\| )[^|]+(?= \|)", page) for word in re.split(r"[;,] ", cell)}
    assert {algorithm.name for algorithm in ALGORITHMS.own.values()} <= words
    assert set(SCHEDULES.own) - {"dualpipe-v"} <= words


def test_every_training_method_is_on_its_page() -> None:
    page = (ROOT / "docs/use/train.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in METHODS.own)


def _anchors(page: Path) -> set[str]:
    """Names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_link_anchors_exist(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert heading in _anchors(page.parent / target if target else page), f"{target}#{heading}"


BLOCKS = list(blocks())
SESSIONS = [
    pytest.param(found, id=f"{page}: {found.command}")
    for page, language, body in BLOCKS
    if (found := session(language, body)) is not None and found.command != "validate"
]
"""`validate` is held beside its page, as both predict every published row (tests/validation/test_tables.py)."""


@pytest.mark.parametrize("asked", SESSIONS)
def test_the_pages_show_what_the_command_prints(asked: Session) -> None:
    """At 110 columns, spaces at line ends dropped; `python tools/pages.py --write` brings the pages up to date."""
    assert compared(asked, printed(asked)) == compared(asked, asked.output)


FILES = [
    pytest.param(body, id=f"{page}: {body.splitlines()[0].removeprefix('# ')}")
    for page, language, body in BLOCKS
    if language in ("yaml", "json", "toml") and body.startswith("# examples/")
]


@pytest.mark.parametrize("body", FILES)
def test_the_files_on_the_pages_are_those_of_the_repository(body: str) -> None:
    name = body.splitlines()[0].removeprefix("# ")
    assert (ROOT / name).read_text("utf-8") == body


LOCKSTEP = cast(Group, get_command(build()))
COMMANDS = [
    pytest.param(line.removeprefix("$ "), id=f"{page}: {line.removeprefix('$ ')}")
    for page, language, body in BLOCKS
    if language in ("console", "sh")
    for line in body.replace("\\\n", " ").splitlines()
    if line.removeprefix("$ ").startswith("lockstep ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_the_pages_have_flags_that_exist(command: str) -> None:
    _, verb, *words = shlex.split(command, comments=True)
    flags = {flag for one in LOCKSTEP.commands[verb].params for flag in (*one.opts, *one.secondary_opts)}
    own = words[: words.index("--")] if "--" in words else words
    given = {word.partition("=")[0] for word in own if re.match(r"--?[a-z]", word)}
    assert given <= {*flags, "--help"}


def test_find_knows_the_pages_as_they_are() -> None:
    """`python tools/pages.py --write` brings its table up to date."""
    assert page_table.TABLE.read_text("utf-8") == page_table.text()
