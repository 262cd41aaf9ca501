"""`Reader`: what functions in a Python file return, from assignments, calls and constants; nothing is run.

A call of a class or of a function that the file does not define is `Made`: its name and its arguments. `FREE` stands
for a value that the file alone does not decide.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.decide.planner.imports.text import Unset

MOST_STEPS = 20_000
"""Expressions and statements that are followed."""
MOST_CALLS = 16
"""Functions of a file that call one another."""
MOST = 10**15
FREE = Unset("an expression")
SUMS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}  # fmt: skip
SKIPPED = (ast.Import, ast.ImportFrom, ast.Assert, ast.Pass, ast.FunctionDef, ast.ClassDef)
"""Statements that change no configuration."""
Value = Any


@dataclass(slots=True)
class Made:
    """A call: the name of what is called, and its arguments; those without a name are "0", "1" and so on."""

    name: str
    line: int
    fields: dict[str, tuple[Value, int]] = field(default_factory=dict)
    arguments: frozenset[str] = frozenset()
    """Names of those fields that were given to the call."""

    @property
    def short(self) -> str:
        """The name of the class: of `FullAC.Config` it is FullAC."""
        parts = self.name.split(".")
        return parts[-2] if parts[-1] == "Config" and len(parts) > 1 else parts[-1]

    def section(self, name: str, line: int) -> Made:
        """The section of that name, which is made if there is none."""
        value, _ = self.fields.get(name, (None, line))
        if not isinstance(value, Made):
            value = Made("", line)
            self.fields[name] = (value, line)
        return value


def dotted(node: ast.expr) -> str:
    """A name with its dots; nothing for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class Reader:
    """The functions of a file."""

    def __init__(self, file: str, module: ast.Module) -> None:
        self.file = file
        self.functions = {one.name: one for one in module.body if isinstance(one, ast.FunctionDef)}
        self.modules = dict(_modules(module))
        """By name that is imported, the last part of the module that it is from."""
        self.elsewhere: dict[str, int] = {}
        """Calls for their effect of functions that the file does not define, and their lines."""
        self.steps = self.depth = 0
        self.names: dict[str, Value] = {}
        for one in module.body:
            if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
                self.names[one.targets[0].id] = self.value(one.value, {})

    def refuse(self, why: str, node: ast.AST) -> BadInput:
        """The error at a node."""
        return BadInput(why, f"{self.file}:{getattr(node, 'lineno', 1)}")

    def called(self, function: ast.FunctionDef, given: Mapping[str, Value]) -> Value:
        """What a function returns. Raises BadInput for a branch and for calls that may change what is there."""
        if self.depth >= MOST_CALLS:
            raise self.refuse(f"calls more than {MOST_CALLS} functions of this file within one another", function)
        self.depth += 1
        names = {**self._defaults(function), **given}
        found: Value = FREE
        for statement in function.body:
            if isinstance(statement, ast.Return):
                found = FREE if statement.value is None else self.value(statement.value, names)
                break
            self._statement(statement, names)
        self.depth -= 1
        return found

    def _defaults(self, function: ast.FunctionDef) -> dict[str, Value]:
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args]
        found: dict[str, Value] = {one.arg: FREE for one in [*named, *arguments.kwonlyargs]}
        for one, default in zip(reversed(named), reversed(arguments.defaults), strict=False):
            found[one.arg] = self.value(default, {})
        for one, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            found[one.arg] = FREE if given is None else self.value(given, {})
        return found

    def _statement(self, node: ast.stmt, names: dict[str, Value]) -> None:
        self._step(node)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], self.value(node.value, names), names)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, self.value(node.value, names), names)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = dotted(node.value.func)
            self.value(node.value, names)
            if called not in self.functions:
                self.elsewhere[called or "a call"] = node.lineno
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        elif not isinstance(node, SKIPPED):
            raise self.refuse(
                f"{type(node).__name__.lower()}: only assignments and one return are read of a function", node
            )

    def _assign(self, target: ast.expr, value: Value, names: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
            return
        path = dotted(target).split(".")
        made = names.get(path[0])
        if not isinstance(made, Made):
            raise self.refuse("sets what is not a configuration that is made here", target)
        for name in path[1:-1]:
            made = made.section(name, target.lineno)
        made.fields[path[-1]] = (value, target.lineno)

    def _step(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise self.refuse(f"has more than the {MOST_STEPS:,} steps allowed", node)

    def value(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        """What an expression stands for."""
        self._step(node)
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int | float | str | bool | None) else FREE
        if isinstance(node, ast.Name):
            return names.get(node.id, self.names.get(node.id, FREE))
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(one, names) for one in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self.value(one, names) if one is not None else FREE for one in node.keys]
            return {str(key): self.value(one, names) for key, one in zip(keys, node.values, strict=True)}
        if isinstance(node, ast.Call):
            return self._call(node, names)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, names)
        return self._sum(node, names)

    def _sum(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        """A sum of numbers that the file has."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, names)
            return -value if _is_number(value) else FREE
        if isinstance(node, ast.BinOp) and type(node.op) in SUMS:
            first, second = self.value(node.left, names), self.value(node.right, names)
            if _is_number(first) and _is_number(second) and (second or not isinstance(node.op, ast.Div | ast.FloorDiv)):
                return SUMS[type(node.op)](first, second)
        return FREE

    def _attribute(self, node: ast.Attribute, names: Mapping[str, Value]) -> Value:
        value = self.value(node.value, names)
        if isinstance(value, Made) and node.attr in value.fields:
            return value.fields[node.attr][0]
        return FREE

    def _call(self, node: ast.Call, names: Mapping[str, Value]) -> Value:
        name = dotted(node.func)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise self.refuse("arguments with * or ** are not read", node)
        given = [(str(place), one) for place, one in enumerate(node.args)]
        given += [(str(one.arg), one.value) for one in node.keywords]
        fields = {key: (self.value(one, names), one.lineno) for key, one in given}
        if name in self.functions:
            function = self.functions[name]
            places = [one.arg for one in [*function.args.posonlyargs, *function.args.args]]
            named = {places[int(key)] if key.isdecimal() and int(key) < len(places) else key: value
                     for key, (value, _) in fields.items()}  # fmt: skip
            return self.called(function, named)
        return Made(name, node.lineno, fields, frozenset(fields)) if name else FREE


def _modules(module: ast.Module) -> Iterator[tuple[str, str]]:
    for one in ast.walk(module):
        if isinstance(one, ast.ImportFrom) and one.module:
            for name in one.names:
                yield name.asname or name.name, one.module.rpartition(".")[2]


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST
