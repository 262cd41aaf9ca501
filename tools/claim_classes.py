"""Two classes of mutants that no right check can notice, told by a rule and not one by one.

repeats        an integer from ten on that only says how many: turns of a loop that does not count them, points of
               a grid, random numbers that are drawn, entries of an array, steps or trials of a run. A check that
               is right for N of them is right for N + 1, as it is for every seed.
coincidences   < that becomes <=, or > that becomes >=, or back, where floats are compared that were never equal
               while the checks ran: nothing that ran was different.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mutants import Mutant

LEAST = 10
"""From which number on one more is a small change."""
GRIDS = {"linspace": 2, "geomspace": 2, "logspace": 2}
"""Functions that make a grid -> place of the number of points."""
DRAWS = {"standard_normal", "random", "permutation", "ones", "zeros", "empty"}
"""Functions whose arguments are a number or a shape of what is drawn or made."""
COUNTS = {
    "steps", "most_steps", "trials", "repetitions", "draws", "runs", "rounds", "epochs", "pairs", "vectors", "terms",
    "size", "num",
}  # fmt: skip
"""Words of calls and parameters that say how many."""
SWAPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
HELD = {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge}
_seen: list[bool] = []


def repeats(tree: ast.Module) -> list[ast.Constant]:
    """The integers that only say how many, and those of constants that are used for nothing else."""
    parts = list(_counting(tree))
    names = {id(one) for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)}
    found = [part for part in parts if isinstance(part, ast.Constant)]
    loaded = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    for target, value in _constants(tree):
        uses = [id(one) for one in loaded if one.id == target]
        if uses and names.issuperset(uses):
            found.append(value)
    return [one for one in found if type(one.value) is int and one.value >= LEAST]


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Names at the top of a file with the number that each is given, also several in one line."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets[0], node.value
            pairs = [(targets, value)]
            if isinstance(targets, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(targets.elts, value.elts, strict=True))
            for name, number in pairs:
                if isinstance(name, ast.Name) and isinstance(number, ast.Constant):
                    yield name.id, number


def _counting(tree: ast.Module) -> Iterator[ast.expr]:
    """Expressions that are a number of repetitions: a number or a name, or those of a tuple."""
    for node in ast.walk(tree):
        match node:
            case ast.For(target=ast.Name(id="_"), iter=over) | ast.comprehension(target=ast.Name(id="_"), iter=over):
                if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "range":
                    yield from _plain(over.args)
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in GRIDS:
                yield from _plain(args[GRIDS[name] :])
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in DRAWS:
                yield from _plain(args)
            case ast.Call(func=ast.Attribute(attr="full"), args=[number, *_]):  # of equal steps
                yield from _plain([number])
            case ast.Call(func=ast.Attribute(attr="arange"), args=[number]):  # of steps or terms
                yield from _plain([number])
            case ast.Call(func=ast.Name(id="streams"), args=[_, number]):
                yield from _plain([number])
            case ast.Call(func=ast.Name(id="spectrum"), args=[_, number, _]):  # of curvatures
                yield from _plain([number])
            case ast.Call(func=ast.Attribute(attr="of"), args=[_, shape, _]):  # of noise
                yield from _plain([shape])
            case ast.Assign(targets=[ast.Name(id="shape")], value=shape):
                yield from _plain([shape])
            case ast.keyword(arg=name, value=value) if name in COUNTS:
                yield from _plain([value])
            case ast.FunctionDef(args=given):
                named = zip(given.args[::-1], given.defaults[::-1], strict=False)
                yield from _plain([value for one, value in named if one.arg in COUNTS])


def _plain(parts: list[ast.expr]) -> Iterator[ast.expr]:
    """Numbers and names, also those of tuples and products; nothing else that is computed."""
    for part in parts:
        if isinstance(part, ast.Tuple):
            yield from _plain(part.elts)
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            yield from _plain([part.left, part.right])
        elif isinstance(part, ast.Constant | ast.Name):
            yield part


def watching(mutant: Mutant) -> Mutant | None:
    """The mutant that only notes whether its floats are ever equal; None where it changes no such comparison."""
    before, after = (getattr(ast.parse(text).body[0], "value", None) for text in (mutant.before, mutant.after))
    if not (isinstance(before, ast.Compare) and isinstance(after, ast.Compare) and len(before.ops) == len(after.ops)):
        return None
    ops = list(zip(before.ops, after.ops, strict=True))
    places = [at for at, (old, new) in enumerate(ops) if type(old) is not type(new)]
    known = all(type(op).__name__ in HELD for op in before.ops)
    if not known or len(places) != 1 or SWAPPED.get(type(ops[places[0]][0])) is not type(ops[places[0]][1]):
        return None
    values = ", ".join(map(ast.unparse, [before.left, *before.comparators]))
    names = [type(op).__name__ for op in before.ops]
    return replace(mutant, after=f"__import__('claim_classes').compared(({values}), {names}, {places[0]})")


def compared(values: tuple[Any, ...], names: list[str], place: int) -> Any:
    """What the comparison gives; notes whether the two values at that place are floats and nowhere equal."""
    first, second = np.asarray(values[place]), np.asarray(values[place + 1])
    _seen.append("f" in (first.dtype.kind, second.dtype.kind) and not (first == second).any())
    found: Any = True
    for at, name in enumerate(names):
        found = HELD[name](values[at], values[at + 1])
        if at < len(names) - 1 and not found:
            break
    return found


def never_equal() -> bool:
    """Whether comparisons were noted, and none of equal values or without a float."""
    return bool(_seen) and all(_seen)
