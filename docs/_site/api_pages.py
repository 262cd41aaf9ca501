"""Writes the API reference below docs/_api: a page for each verb, and one for each package with what answers hold.

Starts at the public names of `lockstep` and follows types: every class that an argument, a result or a field has is
documented once, so that each name in a signature leads somewhere.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from docutils import nodes
from sphinx import addnodes

import typer

import lockstep
from lockstep.cli.app import build
from plain_docstrings import escaped

DOCUMENTED = (type, FunctionType)


def underlined(text: str, line: str = "=") -> str:
    """A heading."""
    return f"{text}\n{line * len(text)}\n"


def path_of(found: Any) -> str:
    """Where a class or function is defined."""
    return f"{found.__module__}.{found.__qualname__}"


def load_types() -> None:
    """Does the imports that modules have for type checkers only, so that every annotation can be followed."""
    done: set[str] = set()
    while names := [name for name in sys.modules if name.split(".")[0] == "lockstep" and name not in done]:
        done.update(names)
        for module in map(sys.modules.__getitem__, names):
            source = Path(str(module.__file__)).read_text("utf-8")
            for node in ast.parse(source).body if "if TYPE_CHECKING" in source else ():
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                    exec(compile(ast.Module(node.body, []), str(module.__file__), "exec"), vars(module))


def classes_in(hint: Any) -> Iterator[type]:
    """Classes of the project in a type."""
    if isinstance(hint, type) and hint.__module__.startswith("lockstep."):
        yield hint
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from classes_in(part)


def mentioned(found: Any) -> Iterator[type]:
    """Classes of the project in the annotations of a function, or of a class's fields, properties and methods."""
    if isinstance(found, type):
        members = [inside(one) for name, one in vars(found).items() if not name.startswith("_")]
        for function in members:
            yield from mentioned(function) if isinstance(function, FunctionType) else ()
    for hint in typing.get_type_hints(inspect.unwrap(found)).values():
        yield from classes_in(hint)


def inside(member: Any) -> Any:
    """The function of a property or method."""
    return next((getattr(member, name) for name in ("fget", "func", "__func__") if hasattr(member, name)), member)


def results(verb: str) -> list[type]:
    """Classes of what a verb returns."""
    return list(classes_in(typing.get_type_hints(getattr(lockstep, verb))["return"]))


def offered(room: ModuleType) -> list[Any]:
    """Classes and functions that a package offers."""
    names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
    found = [getattr(room, name) for name in names]
    return [one for one in found if isinstance(one, DOCUMENTED) and one.__module__.startswith(room.__name__)]


def everything(first: list[Any]) -> dict[str, Any]:
    """What is documented, by path: the first ones and the classes that they lead to."""
    found: dict[str, Any] = {}
    waiting = [inspect.unwrap(one) for one in first]
    while waiting:
        one = waiting.pop()
        if path_of(one) not in found:
            found[path_of(one)] = one
            waiting += mentioned(one)
    return found


def entry(path: str, found: Any) -> str:
    """The directive that documents a class or function."""
    return f".. auto{'class' if isinstance(found, type) else 'function'}:: {path}\n"


def pages() -> dict[str, str]:
    """Text by name."""
    load_types()
    rooms = {name: getattr(lockstep, name) for name in lockstep.PACKAGES}
    verbs = {name: getattr(lockstep, name) for name in lockstep.VERBS}
    found = everything([*verbs.values(), *(one for room in rooms.values() for one in offered(room))])
    written: dict[str, str] = {}
    for name, function in verbs.items():
        answers = [path_of(one) for one in results(name) if path_of(one) in found]
        parts = [underlined(found[path].__name__, "-") + "\n" + entry(path, found.pop(path)) for path in answers]
        found.pop(path_of(inspect.unwrap(function)), None)
        written[f"verbs/{name}"] = "\n".join([underlined(name), entry(f"lockstep.{name}", function), *parts])
    for name in sorted({path.split(".")[1] for path in found}):
        written[f"packages/{name}"] = package_page(name, rooms.get(name), found)
    return {"index": index(), "packages": packages(written), **written}


def package_page(name: str, room: ModuleType | None, found: dict[str, Any]) -> str:
    """What a package offers, then the other classes of it that answers hold."""
    module = room or import_module(f"lockstep.{name}")
    inside = {path: one for path, one in found.items() if path.split(".")[1] == name}
    first = [path_of(one) for one in offered(module) if path_of(one) in inside] if room else []
    rest = sorted(path for path in inside if path not in first)
    parts = [underlined(f"lockstep.{name}"), f".. automodule:: lockstep.{name}\n   :no-members:\n"]
    for title, paths in (("Public names", first), ("Parts of answers", rest)):
        if paths:
            parts += [underlined(title, "-"), overview({path: inside[path] for path in paths})]
            parts += [entry(path, inside[path]) for path in paths]
    return "\n".join(parts)


def overview(listed: dict[str, Any]) -> str:
    """A table of names, each with the first sentence of its docstring."""
    rows = [".. list-table::", "   :widths: auto", ""]
    for path, one in listed.items():
        role = "class" if isinstance(one, type) else "func"
        first = (inspect.getdoc(one) or "").split("\n\n")[0].replace("\n", " ")
        rows += [f"   * - :py:{role}:`~{path}`", f"     - {escaped(first)}"]
    return "\n".join([*rows, ""])


def toctree(names: list[str], *options: str) -> str:
    """A list of pages."""
    return "\n".join([".. toctree::", *(f"   :{option}" for option in options), "", *(f"   {one}" for one in names), ""])


def index() -> str:
    """The verbs by group, as `lockstep --help` has them."""
    parts = [underlined("Python API"), ".. automodule:: lockstep\n   :no-members:\n"]
    groups: dict[str, list[str]] = {}
    for name, command in typer.main.get_command(build()).commands.items():
        groups.setdefault(command.rich_help_panel, []).append(f"verbs/{name}")
    for group, members in groups.items():
        parts += [underlined(group, "-"), toctree(members)]
    return "\n".join([*parts, underlined("Packages", "-"), toctree(["packages"])])


def packages(written: dict[str, str]) -> str:
    """The list of packages."""
    names = [name for name in written if name.startswith("packages/")]
    return "\n".join([underlined("Packages"), toctree(names)])


def write(folder: Path) -> None:
    """Writes what changed and removes what is gone."""
    written = {folder / f"{name}.rst": text for name, text in pages().items()}
    for old in set(folder.rglob("*.rst")) - set(written):
        old.unlink()
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def leave_as_text(app: Any, page: nodes.document) -> None:
    """Types of other packages lead nowhere, as no inventory of theirs is downloaded."""
    for reference in list(page.findall(addnodes.pending_xref)):
        if reference["refdomain"] == "py" and not reference["reftarget"].startswith("lockstep."):
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.connect("doctree-read", leave_as_text)
    app.connect("builder-inited", lambda app: write(Path(app.srcdir, "docs", "_api")))
