"""`python_options`: the configuration that a function in a Python file builds, read from its syntax alone.

    def llama3_8b() -> Trainer.Config:
        return Trainer.Config(training=TrainingConfig(local_batch_size=1), ...)

    training.local_batch_size = 1        calls are sections, keywords their words; a class that counts is a word too

A file is parsed by `ast` and never run. Names are followed within the file, functions of it are called without a
branch, and what needs anything else is an `Unset` value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.decide.planner.imports.syntax import Made, Reader, dotted
from lockstep.decide.planner.imports.text import Text

MOST_PYTHON_B = 256 * 1024
STARTS = re.compile(r"(?:from\s|import\s|def\s|class\s|@|\"\"\"|''')")
BUILDS = re.compile(r"^def \w+\(", re.MULTILINE)
MOST_WORDS = 5_000
MOST_DEEP = 16
CHOSEN = "::"
"""Between a file and the name of one of its functions."""


def is_python(text: str) -> bool:
    """Whether a text is a Python file with functions that build a configuration."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    first = next(lines, "")
    return bool(STARTS.match(first)) and bool(BUILDS.search(text)) and "Config" in text


def python_options(text: str, file: str, chosen: str = "") -> Text:
    """The words of the configuration that a file builds. Raises BadInput where there are several, or a branch."""
    if len(text) > MOST_PYTHON_B:
        raise BadInput(f"is larger than the {MOST_PYTHON_B // 1024} KiB allowed for Python", file)
    try:
        return _read(text, file, chosen)
    except RecursionError:
        raise BadInput("is nested too deep", file) from None


def _read(text: str, file: str, chosen: str) -> Text:
    reader = Reader(file, _parsed(text, file))
    function = _function(reader, file, chosen)
    made = reader.called(function, {})
    if not isinstance(made, Made):
        raise BadInput(f"{function.name} does not return a configuration that can be read", f"{file}:{function.lineno}")
    flat = _Flat(file)
    flat.add("python.function", function.name, function.lineno)
    if not made.name.endswith("Config"):
        flat.add("config", made.name.rpartition(".")[2], made.line)
        made = _of_another(made, flat)
    flat.section(made, "")
    if reader.elsewhere:
        flat.add("calls", list(reader.elsewhere), next(iter(reader.elsewhere.values())))
    spec = made.fields.get("model_spec", (None, 1))[0]
    if isinstance(spec, Made) and (module := reader.modules.get(spec.name)):
        flat.add("module", module, spec.line)
    return Text(file, "python", flat.words, flat.lines, raw=text)


def _of_another(made: Made, flat: _Flat) -> Made:
    """What is set in a configuration of another file; what its function was given are words under `config`."""
    for name in made.arguments:
        flat.value(f"config.{name}", *made.fields[name])
    fields = {name: value for name, value in made.fields.items() if name not in made.arguments}
    return Made(made.name, made.line, fields)


def _parsed(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"not valid Python: {error.msg}", f"{file}:{error.lineno or 1}") from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise BadInput(f"not valid Python: {str(error)[:80] or 'nested too deep'}", file) from None


def _function(reader: Reader, file: str, chosen: str) -> ast.FunctionDef:
    """The function that builds the configuration: the one that is named, or the only one."""
    found = [one for one in reader.functions.values() if _builds(one, reader.functions)]
    if chosen:
        if chosen not in reader.functions:
            raise BadInput(f"has no function {chosen}; it has {_some(reader.functions)}", file)
        return reader.functions[chosen]
    if not found:
        raise BadInput("has no function that returns a configuration", file)
    if len(found) > 1:
        names = {one.name: one for one in found}
        raise BadInput(
            f"has several configurations; name one: {file}{CHOSEN}{found[0].name}. It has {_some(names)}", file
        )
    return found[0]


def _builds(function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether a function returns a configuration: it says so, or it returns one that is made there."""
    if function.returns is not None:
        return "Config" in ast.unparse(function.returns)[:200]
    calls = [one.value for one in function.body if isinstance(one, ast.Return) and isinstance(one.value, ast.Call)]
    names = [dotted(one.func) for one in calls]
    return any(name.endswith("Config") and name not in functions for name in names)


def _some(names: Mapping[str, object]) -> str:
    listed = ", ".join(list(names)[:12])
    return listed + (", ..." if len(names) > 12 else "")


@dataclass(slots=True)
class _Flat:
    """Sections as words joined by dots."""

    file: str
    words: dict[str, object] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, word: str, value: object, line: int) -> None:
        """Adds a word."""
        if len(self.words) >= MOST_WORDS:
            raise BadInput(f"has more than the {MOST_WORDS:,} words allowed", f"{self.file}:{line}")
        self.words[word], self.lines[word] = value, line

    def section(self, made: Made, above: str) -> None:
        """Adds the fields of a call."""
        if above.count(".") > MOST_DEEP:
            raise BadInput(f"has more than the {MOST_DEEP} sections allowed within one another", self.file)
        for name, (value, line) in made.fields.items():
            self.value(f"{above}.{name}" if above else name, value, line)

    def value(self, word: str, value: object, line: int) -> None:
        """Adds what a field holds: a call is a section, and so is each call in a list."""
        if isinstance(value, Made):
            if value.short and not value.short.endswith("Config"):
                self.add(word, value.short, line)
            self.section(value, word)
        elif isinstance(value, list) and any(isinstance(one, Made) for one in value):
            made = [one for one in value if isinstance(one, Made)]
            self.add(word, [one.short for one in made], line)
            for place, one in enumerate(made):
                alone = sum(other.short == one.short for other in made) == 1
                self.section(one, f"{word}.{one.short if alone else place}")
        else:
            self.add(word, value, line)


__all__ = ["CHOSEN", "is_python", "python_options"]
