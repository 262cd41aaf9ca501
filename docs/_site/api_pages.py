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
from pkgutil import iter_modules
from types import FunctionType, ModuleType, UnionType
from typing import Any

from docutils import nodes
from plain_docstrings import escaped
from sphinx import addnodes

import lockstep
from lockstep.show.verbs import TABLE
from lockstep.show.verbs.words.named import Named
from lockstep.show.verbs.words.option import words_of

DOCUMENTED = (type, FunctionType)
WHOLE = ("run", "explain")
"""Wings that are one package."""
MEANT: dict[str, dict[str, str]] = {}
"""What the arguments of a verb mean, by its path and by their names."""


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


def plainly_typed(function: Any) -> dict[str, str]:
    """What a verb's arguments mean, by name; its annotations then say types alone."""
    function = inspect.unwrap(function)
    said = {one.name: one.declared.help for one in words_of(function) if one.annotation is None}
    for name, annotation in function.__annotations__.items():
        if typing.get_origin(annotation) is typing.Annotated:
            function.__annotations__[name] = annotation.__origin__
    return said


def classes_in(hint: Any) -> Iterator[type]:
    """Classes of the project in a type."""
    if isinstance(hint, type) and issubclass(hint, Named):
        hint = getattr(import_module(hint.__module__), hint.__name__)
    if isinstance(hint, type) and hint.__module__.startswith("lockstep."):
        yield hint
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from classes_in(part)


def mentioned(found: Any) -> Iterator[type]:
    """Classes of the project in the annotations of a function, or of a class's fields, properties and methods."""
    if isinstance(found, type):
        members = [inside(one) for name, one in vars(found).items() if name == "__init__" or not name.startswith("_")]
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
    """Classes and functions that a package offers, by itself or else by its modules."""
    names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
    found = [getattr(room, name) for name in names]
    own = [one for one in found if isinstance(one, DOCUMENTED) and one.__module__.startswith(room.__name__)]
    if own or not hasattr(room, "__path__"):
        return own
    modules = [import_module(f"{room.__name__}.{module.name}") for module in iter_modules(room.__path__)]
    return list(dict.fromkeys(one for module in modules for one in offered(module)))


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
    keys = "   :no-members:\n" if isinstance(found, type) and typing.is_typeddict(found) else ""
    return f".. auto{'class' if isinstance(found, type) else 'function'}:: {path}\n{keys}"


def pages() -> dict[str, str]:
    """Text by name."""
    public = {name: getattr(lockstep, name) for name in lockstep.__all__}
    load_types()
    rooms = {name: one for name, one in public.items() if isinstance(one, ModuleType)}
    verbs = {name: one for name, one in public.items() if name not in rooms}
    found = everything([*verbs.values(), *(one for room in rooms.values() for one in offered(room))])
    written: dict[str, str] = {}
    for name, function in verbs.items():
        MEANT[f"lockstep.{name}"] = plainly_typed(function)
        answers = [path_of(one) for one in results(name) if path_of(one) in found]
        parts = [underlined(found[path].__name__, "-") + "\n" + entry(path, found.pop(path)) for path in answers]
        found.pop(path_of(inspect.unwrap(function)), None)
        written[f"verbs/{name}"] = "\n".join(
            [underlined(f"lockstep.{name}"), entry(f"lockstep.{name}", function), *parts]
        )
    names, offering = sorted(set(map(package_of, found))), {one.__name__ for one in rooms.values()}
    written |= {f"packages/{name}": package_page(name, found, f"lockstep.{name}" in offering) for name in names}
    return {"verbs": verbs_page(), "packages": packages_page(names), **written}


def package_of(path: str) -> str:
    """The package that a class or function is in, by wing and name."""
    wing, name = path.split(".")[1:3]
    return wing if wing in WHOLE else f"{wing}.{name}"


def package_page(name: str, found: dict[str, Any], offers: bool) -> str:
    """What a package offers, where it is public, then the other classes of it that answers hold."""
    inside = {path: one for path, one in found.items() if package_of(path) == name}
    first = (
        [path_of(one) for one in offered(import_module(f"lockstep.{name}")) if path_of(one) in inside] if offers else []
    )
    rest = sorted(path for path in inside if path not in first)
    parts = [underlined(f"lockstep.{name}"), f".. automodule:: lockstep.{name}\n   :no-members:\n"]
    for title, paths in (("Public names", first), ("Parts of answers", rest)):
        if paths:
            parts += [underlined(title, "-"), overview({path: inside[path] for path in paths})]
            parts += [entry(path, inside[path]) for path in paths]
    return "\n".join(parts)


def first_sentence(found: Any) -> str:
    """The first paragraph of a docstring, without what would be markup."""
    return escaped((inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " "))


def overview(listed: dict[str, Any]) -> str:
    """A table of names, each with the first sentence of its docstring."""
    rows = [".. list-table::", "   :widths: auto", ""]
    for path, one in listed.items():
        role = "class" if isinstance(one, type) else "func"
        rows += [f"   * - :py:{role}:`~{path}`", f"     - {first_sentence(one)}"]
    return "\n".join([*rows, ""])


def contents(names: list[str]) -> str:
    """A hidden table of contents."""
    return "\n".join([".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""])


def verbs_page() -> str:
    """The verbs by group, as `lockstep --help` has them."""
    parts = [underlined("Verbs"), "Functions of `lockstep`, each with the class of its answer.\n"]
    for group, members in TABLE.items():
        parts += [underlined(group, "-"), overview({f"lockstep.{name}": getattr(lockstep, name) for name in members})]
    return "\n".join([*parts, contents([f"verbs/{name}" for members in TABLE.values() for name in members])])


def packages_page(names: list[str]) -> str:
    """The packages below the verbs."""
    rows = [".. list-table::", "   :widths: auto", ""]
    for name in names:
        rows += [f"   * - :doc:`packages/{name}`", f"     - {first_sentence(import_module(f'lockstep.{name}'))}"]
    told = "What verbs are made of. Packages with public names are attributes of `lockstep`.\n"
    return "\n".join([underlined("Packages"), told, *rows, "", contents([f"packages/{name}" for name in names])])


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
    """Types of other packages lead nowhere, as no inventory of theirs is downloaded, nor do variables and unions."""
    for reference in list(page.findall(addnodes.pending_xref)):
        module, _, name = reference["reftarget"].rpartition(".")
        no_class = isinstance(getattr(sys.modules.get(module), name, None), typing.TypeVar | UnionType)
        if reference["refdomain"] == "py" and (no_class or not module.startswith("lockstep")):
            reference.replace_self(reference.children)


def short(app: Any, what: str, name: str, found: Any, options: Any, given: str | None, result: str | None) -> Any:
    """Names of types as the sources have them, where Sphinx shows how it stands in for them."""
    return [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (given, result)]


def meant(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Adds to a docstring what the arguments of a verb mean."""
    said = MEANT.get(name, {})
    lines += ["", *(f":param {key}: {escaped(text)}" for key, text in said.items())] if said else []


def setup(app: Any) -> None:
    """Joins Sphinx."""
    app.connect("autodoc-process-docstring", meant)
    app.connect("autodoc-process-signature", short)
    app.connect("doctree-read", leave_as_text)
    app.connect("builder-inited", lambda app: write(Path(app.srcdir, "docs", "_api")))
