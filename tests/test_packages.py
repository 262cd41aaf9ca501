"""What is built and installed: the wheel and the sdist in empty environments, and every line that says how to install.

The environments see the packages of this one through a `.pth` file, which does not make them see an editable Lockstep:
so nothing is downloaded.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import hatchling
import pytest

import lockstep
from lockstep.base.errors import DISTRIBUTION, install_line

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*"), *(ROOT / "examples").rglob("*")]
WRITTEN = (".md", ".py", ".ipynb", ".yaml", ".toml", ".sh", ".json", ".js", ".html")
OF_OTHERS = {"pre-commit", "tensorboard", "numpy"}
"""Packages of others that a page may tell people to install."""
INSTALLS = re.compile(r"(?:\bpipx? install|\buv (?:add|tool install)|\buvx) ([^`\n]*)")
OURS = re.compile(rf"{DISTRIBUTION}(?:\[([a-z,]+)\])?(?:==[\d.]+)?")
PATH = re.compile(r"[./][^\[]*(?:\[([a-z,]+)\])?")


def text_of(file: Path) -> str:
    """What a file says; of a notebook the sources of its cells."""
    text = file.read_text("utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]) if file.suffix == ".ipynb" else text


def wrong(line: str) -> list[str]:
    """The packages of an install line that are neither ours by its own name, nor a path, nor known ones of others."""
    command = re.split(r"&&|;", line)[0]
    asked = [word for word in shlex.split(command) if not word.startswith("-")]
    return [word for word in asked if re.split(r"[=<>\[]", word)[0] not in OF_OTHERS and not is_ours(word)]


def is_ours(word: str) -> bool:
    found = OURS.fullmatch(word) or PATH.fullmatch(word)
    return found is not None and set((found[1] or "all").split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_check_of_install_lines_detects_other_packages() -> None:
    good = (
        ".",
        "'.[ui]'",
        "-q . && .venv/bin/lockstep plan",
        "'lockstep-training[ui,plot]'",
        "'/lockstep[sweep]' numpy==2",
    )
    assert [wrong(line) for line in good] == [[]] * 5
    for bad in ("lockstep", "'lockstep[ui]'", "'lockstep-training[gui]'", "'.[gui]'", "requests"):
        assert wrong(f"-e . {bad}") == shlex.split(bad)


def test_every_install_line_of_the_pages_names_our_distribution_or_a_checkout() -> None:
    pages = [page for page in PAGES if page.suffix in WRITTEN and "_build" not in page.parts]
    lines = [(page, line) for page in pages for line in INSTALLS.findall(text_of(page))]
    assert len(lines) > 10
    assert [(page.name, line) for page, line in lines if wrong(line)] == []


def test_every_install_hint_comes_from_one_function_and_names_an_extra() -> None:
    texts = {path: text_of(path) for path in SOURCE.rglob("*") if path.suffix in WRITTEN}
    assert [path.name for path, text in texts.items() if INSTALLS.search(text)] == ["errors.py"]
    place = {"install_line": 0, "not_installed": 1}
    calls = [
        (node.func.id, node.args) for text in texts.values() if any(name in text for name in place)
        for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]  # fmt: skip
    extras = [arguments[place[name]] for name, arguments in calls if name in place]
    named = {extra.value for extra in extras if isinstance(extra, ast.Constant)}
    assert named == set(PROJECT["optional-dependencies"]) - {"all", "docs", "dev"}
    for extra in named:
        assert [wrong(line) for line in re.findall(r"pip install ('[^']*')", install_line(extra))] == [[], []]


def test_the_project_has_the_name_and_version_of_the_code() -> None:
    assert (PROJECT["name"], PROJECT["version"]) == (DISTRIBUTION, lockstep.__version__)
    assert list(PROJECT["scripts"]) == ["lockstep"]


def said(*command: str | Path, folder: Path) -> str:
    """What a command prints, run where only its own environment is on the path. It must succeed."""
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), env=around, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    # Started by hand, because `hatchling` need not be in the folder of packages that a bare process finds.
    code = f"import sys; sys.path.append({str(packages()[-1])!r}); from hatchling.cli import hatchling; hatchling()"
    said(sys.executable, "-c", code, "build", "-d", folder, folder=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def packages() -> list[Path]:
    """Where the packages of this environment are, the builder's last."""
    return [Path(sysconfig.get_path("purelib")), Path(hatchling.__file__).parents[1]]


def environment(folder: Path) -> Path:
    """The packages of a new environment in which Lockstep is not installed."""
    venv.create(folder)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text("".join(f"{path}\n" for path in packages()))
    return site


def install(folder: Path, *what: str | Path) -> str:
    """Installs into an environment, from nowhere but this machine; what pip prints."""
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "--disable-pip-version-check")
    return said(*pip, "install", "--no-index", "--no-build-isolation", "--no-compile", *what, folder=folder)


def files(folder: Path) -> dict[str, bytes]:
    """Name -> content of all files, compiled ones left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def names_below(top: str, names: list[str]) -> Iterator[str]:
    return (name.removeprefix(top) for name in names if name.startswith(top) and not name.endswith("/"))


def test_wheel_and_sdist_hold_every_file_of_the_package(built: tuple[Path, Path]) -> None:
    expected = set(files(SOURCE / "lockstep"))
    assert {Path(name).suffix for name in expected} >= {".py", ".pyi", ".toml", ".csv", ".js", ".html", ".css"}
    with zipfile.ZipFile(built[0]) as wheel:
        assert set(names_below("lockstep/", wheel.namelist())) == expected
    with tarfile.open(built[1]) as sdist:
        top = f"{DISTRIBUTION.replace('-', '_')}-{lockstep.__version__}/"
        names = [member.name for member in sdist.getmembers() if member.isfile()]
        assert set(names_below(f"{top}src/lockstep/", names)) == expected
        assert {"README.md", "LICENSE", "NOTICE", "pyproject.toml"} <= set(names_below(top, names))


def test_the_first_command_of_the_readme_runs_from_the_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    site = environment(tmp_path)
    install(tmp_path, built[0])
    assert files(site / "lockstep") == files(SOURCE / "lockstep")
    block = re.search(r"^```sh\n(.*?)\n```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block
    program, *words = shlex.split(block[1].split("&&")[-1])
    assert program == ".venv/bin/lockstep"
    assert said(tmp_path / "bin/lockstep", *words, folder=tmp_path).startswith(f"{words[1]} on ")


def test_an_extra_can_be_added_to_an_installed_checkout(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The hint of an error is true before anything is published: pip keeps the Lockstep that it finds installed."""
    site = environment(tmp_path)
    install(tmp_path, built[1])
    assert files(site / "lockstep") == files(SOURCE / "lockstep")
    (requirement,) = shlex.split(install_line("ui").partition(",")[0].removeprefix("pip install"))
    assert f"Requirement already satisfied: {requirement} in ./{site.relative_to(tmp_path)}" in install(
        tmp_path, requirement
    )
    assert said(tmp_path / "bin/lockstep", "--version", folder=tmp_path) == f"lockstep {lockstep.__version__}\n"
