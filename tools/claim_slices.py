"""The code of an experiment that a named check reads: a backward slice from the values of that check.

An experiment computes much that no check of the claims reads: pictures, tables, laws printed next to them, sentences,
limits of settings, checks of its own that no item names. The rule for what belongs to a check, by flow of data:

    seeds     the calls of `Check(...)` that made the named check when the experiment ran, found with their callers
              in the file; in them the arguments that are read: got, standard_error and runs
    back      a name that is read: every statement that binds or changes it; a function that is called: what it
              returns; a parameter of a function on the way to the check: the argument of the caller
    around    the conditions and loops that such a statement stands in, and what leaves such a loop
    inputs    defaults and limits of settings are what the experiment is asked, as the arguments are that the text of a
              check gives to a decider: neither belongs
    draws     which random numbers are drawn (`SEEDS`) does not belong, nor how many (`claim_classes.repeats`): a right
              check accepts every seed, and one number more
    guards    `strict=`, `raise` and reports of progress change no value, so they do not belong; nor does what a name is
              given that is only ever the `tolerance` of a check, which the checks of claims do not read

Names are followed without regard to the order of statements or to parts of containers, so that a slice has too much.
`drastic` changes an expression beyond all measure, to ask whether a number depends on it at all.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from claim_classes import repeats
from lockstep.learn.lab.experiment import Experiment
from lockstep.learn.lab.findings import Check

READ = ("got", "standard_error", "runs")
ORDER = ("what", "expected", "got", "standard_error", "tolerance", "false_law", "relation", "runs")
GUARDS = ("strict", "more")
"""Words of calls that change no value: of `zip`, and of `watched`, which reports progress."""
SEEDS = ("default_rng", "SeedSequence", "streams")
"""Functions that are given seeds."""
Place = tuple[int, int, int, int]
"""First line and column, last line and column, as Python keeps them for every instruction."""
Step = tuple[str, Place]
"""Name of a function, and the expression in it that was being evaluated."""
Ways = Mapping[str, set[tuple[Step, ...]]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def place_of(node: ast.AST) -> Place:
    """Where a node stands."""
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _step(frame: FrameType) -> Step:
    first, last, column, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return frame.f_code.co_name, (first or 0, column or 0, last or 0, end or 0)


def made_at(experiment: Experiment, file: Path) -> Ways:
    """Of each check the ways on which it was made: the call of `Check` first, then its callers in the file."""
    ways = defaultdict[str, set[tuple[Step, ...]]](set)
    real = Check.__init__

    def made(self: Check, *given: Any, **named: Any) -> None:
        real(self, *given, **named)
        frame, steps = sys._getframe(1), []
        while frame is not None:
            if Path(frame.f_code.co_filename) == file:
                steps.append(_step(frame))
            frame = frame.f_back  # type: ignore[assignment]
        ways[self.what].add(tuple(steps))

    Check.__init__ = made  # type: ignore[method-assign]
    try:
        experiment.answer({})
    finally:
        Check.__init__ = real  # type: ignore[method-assign]
    return ways


@dataclass(slots=True)
class Slice:
    """What one file's named checks read; `places` are the parts of the source that belong to them."""

    tree: ast.Module
    places: set[Place] = field(default_factory=set)
    callers: dict[str, set[tuple[str, Place]]] = field(default_factory=lambda: defaultdict(set))
    parent: dict[ast.AST, ast.AST] = field(default_factory=dict)
    seen: set[tuple[object, ...]] = field(default_factory=set)
    bound: dict[tuple[ast.AST, str], list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    guards: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parent[child] = node
        self.guards = [place_of(one) for one in self.parent if isinstance(one, ast.keyword) and one.arg in GUARDS]
        calls = [one for one in self.parent if isinstance(one, ast.Call)]
        self.guards += [place_of(seed) for one in calls if _last_name(one) in SEEDS for seed in one.args]
        self.guards += [place_of(one) for one in repeats(self.tree)]
        for node in ast.walk(self.tree):
            for name in _binds(node):
                self.bound[self.scope(node), name].append(node)
        self.guards += self._allowances(calls)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.For | ast.comprehension):
                self._alias(node)

    def _allowances(self, calls: list[ast.Call]) -> list[Place]:
        """Statements that give a value to a name of a function that is only ever the tolerance of a check."""
        checks = [dict(zip(ORDER, one.args, strict=False)) | {word.arg: word.value for word in one.keywords}
                  for one in calls if _called(one) == "Check"]  # fmt: skip
        allowed = {one.get("tolerance") for one in checks}
        uses = defaultdict[tuple[ast.AST, str], list[ast.Name]](list)
        for one in self.parent:
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                uses[self.scope(one), one.id].append(one)
        only = [key for key, names in uses.items() if isinstance(key[0], Function) and allowed.issuperset(names)]
        return [place_of(node) for key in only for node in self.bound[key] if isinstance(node, ast.Assign)]

    def _alias(self, loop: ast.For | ast.comprehension) -> None:
        """What changes one of several changes all of them."""
        scope = self.scope(loop)
        for one in _base(loop.target):
            changes = [
                node for node in self.bound[scope, one] if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)
            ]
            for name in {name.id for name in ast.walk(loop.iter) if isinstance(name, ast.Name)}:
                self.bound[scope, name] += changes

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or file in which a node stands."""
        while (node := self.parent.get(node, self.tree)) is not self.tree:
            if isinstance(node, Function | ast.ClassDef):
                return node
        return node

    def covers(self, place: Place) -> bool:
        """Whether that part of the source belongs to a check."""
        return _within(place, self.places) and not _within(place, self.guards)

    def called(self, way: tuple[Step, ...]) -> None:
        """Notes who called whom on the way to a check; of all ways before the first is followed."""
        for inner, outer in pairwise(way):
            self.callers[inner[0]].add(outer)

    def follow(self, way: tuple[Step, ...]) -> None:
        """Adds what a check reads that was made on that way."""
        for node in self._at(way[0][1]):
            named = dict(zip(ORDER, node.args, strict=False)) | {one.arg: one.value for one in node.keywords if one.arg}
            for word in READ:
                if word in named:
                    self.mark(named[word])

    def _at(self, place: Place) -> Iterator[ast.Call]:
        yield from (one for one in self.parent if isinstance(one, ast.Call) and place_of(one) == place)

    def mark(self, node: ast.AST) -> None:
        """A part of the source, all that is read in it, and what it stands in."""
        if (node,) in self.seen:
            return
        self.seen.add((node,))
        self.places.add(place_of(node))
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                self.need(self.scope(one), one.id)
            elif isinstance(one, ast.Attribute):
                self.member(one.attr)
        self.around(node)

    def around(self, node: ast.AST) -> None:
        """Conditions and loops that a node stands in, up to its function."""
        while (above := self.parent.get(node)) is not None and not isinstance(above, Function | ast.ClassDef):
            match above:
                case ast.If(test=test) | ast.IfExp(test=test) if node is not test:
                    self.mark(test)
                case ast.While(test=test) if node is not test:
                    self.mark(test)
                    self.leaves(above)
                case ast.For(target=target, iter=over) if node not in (target, over):
                    self.mark(target)
                    self.mark(over)
                    self.leaves(above)
                case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                    for part in above.generators:
                        self.mark(part.target)
                        self.mark(part.iter)
                        for test in part.ifs:
                            self.mark(test)
            node = above

    def leaves(self, loop: ast.For | ast.While) -> None:
        """What ends a loop or a turn of it."""
        for one in ast.walk(loop):
            if isinstance(one, ast.Break | ast.Continue):
                self.mark(one)

    def need(self, scope: ast.AST, name: str) -> None:
        """Whatever gives a name its value, in that scope or one around it."""
        while True:
            if isinstance(scope, Function) and name in _parameters(scope):
                return self.parameter(scope, name)
            if (scope, name) in self.bound or scope is self.tree:
                break
            scope = self.scope(scope)
        if (scope, name, 0) in self.seen:
            return None
        self.seen.add((scope, name, 0))
        for node in self.bound[scope, name]:
            self.defined(node)
        return None

    def defined(self, node: ast.AST) -> None:
        """A statement that binds or changes a name."""
        if isinstance(node, Function):
            self.returned(node)
        elif isinstance(node, ast.For | ast.comprehension):
            self.mark(node.target)
            self.mark(node.iter)
            if isinstance(node, ast.For):
                self.around(node)
        elif isinstance(node, ast.With):
            for item in node.items:
                self.mark(item.context_expr)
            self.around(node)
        elif not isinstance(node, ast.ClassDef):
            self.mark(node)

    def returned(self, function: Function) -> None:
        """What a function gives back."""
        if (function,) in self.seen:
            return
        self.seen.add((function,))
        for one in ast.walk(function):
            gives = isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) and one.value is not None
            if gives and self.scope(one) is function:
                self.mark(one)

    def parameter(self, function: Function, name: str) -> None:
        """The default of a parameter, and the arguments of the callers on the way to a check."""
        if (function, name, 1) in self.seen:
            return
        self.seen.add((function, name, 1))
        given = function.args
        places = [*given.posonlyargs, *given.args]
        defaults = dict(zip([one.arg for one in places][::-1], given.defaults[::-1], strict=False))
        defaults |= {one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
        if name in defaults:
            self.mark(defaults[name])
        for _, place in self.callers.get(function.name, ()):
            for call in self._calls(function.name, place):
                self.mark_argument(call, [one.arg for one in places], name)

    def _calls(self, name: str, place: Place) -> list[ast.Call]:
        """Calls of a function where its caller stood; anywhere in the file where it was made there and used later."""
        every = [one for one in self.parent if isinstance(one, ast.Call) and _called(one) == name]
        here = [one for one in every if _within(place_of(one), [place])]
        return here or every

    def mark_argument(self, call: ast.Call, names: list[str], name: str) -> None:
        """The argument of a call that a parameter takes; all where they are not told apart."""
        named = {one.arg: one.value for one in call.keywords}
        if name in named:
            self.mark(named[name])
        elif any(isinstance(one, ast.Starred) for one in call.args) or None in named or name not in names:
            for one in [*call.args, *call.keywords]:
                self.mark(one)
        elif names.index(name) < len(call.args):
            self.mark(call.args[names.index(name)])

    def member(self, name: str) -> None:
        """Methods and fields of that name of classes of this file."""
        if (name, 2) in self.seen:
            return
        self.seen.add((name, 2))
        for (scope, bound), nodes in list(self.bound.items()):
            if bound != name or not isinstance(scope, ast.ClassDef):
                continue
            for node in nodes:
                if isinstance(node, Function):
                    self.returned(node)
                elif isinstance(node, ast.AnnAssign) and node.value is not None and _called(node.value) != "setting":
                    self.mark(node.value)


def _within(place: Place, others: Iterable[Place]) -> bool:
    return any(one[:2] <= place[:2] and place[2:] <= one[2:] for one in others)


def _called(call: ast.AST) -> str:
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""


def _last_name(call: ast.Call) -> str:
    """Of `np.random.default_rng(...)` the last."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else _called(call)


def _parameters(function: Function) -> set[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None}


def _base(node: ast.AST) -> Iterator[str]:
    """Names that an assignment to a target binds or changes."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Subscript(value=value) | ast.Attribute(value=value) | ast.Starred(value=value):
            yield from _base(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _base(part)


def _binds(node: ast.AST) -> Iterator[str]:
    """Names whose value a node gives or changes."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _base(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            yield from _base(target)
        case ast.For(target=target) | ast.comprehension(target=target):
            yield from _base(target)
        case ast.With(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _base(item.optional_vars)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value))):
            yield from _base(value)
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args)) if name != "progress":
            for one in args:
                yield from _base(one)


def slice_of(file: Path, ways: Ways, checks: Iterable[str]) -> Slice:
    """What the checks of these names read. Raises KeyError for one that was not made."""
    found = Slice(ast.parse(file.read_text()))
    chosen = [way for name in checks for way in dict(ways)[name]]
    for take in (found.called, found.follow):
        for way in chosen:
            take(way)
    return found


def drastic(before: str) -> list[str]:
    """What may stand in the place of an expression or statement so that all that depends on it changes."""
    statement = ast.parse(before).body[0]
    if isinstance(statement, ast.AugAssign):
        value = f"(1000 * ({ast.unparse(statement.value)}) + 1)"
        return ["pass", ast.unparse(statement).replace(ast.unparse(statement.value), value)]
    match statement.value if isinstance(statement, ast.Expr) else statement:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return ["True", "False"]
        case ast.Name() | ast.Attribute():
            return [f"(lambda *given, **named: {times} * {before}(*given, **named))" for times in (0, 1000)]
        case ast.Call():
            return ["pass", f"(not ({before}))"]
    return [f"(({before}) {change})" for change in ("* 0", "* 1000", "+ 1", "* -1")]
