"""What a check's text `by` means: a check of the lab, arithmetic on given numbers, or a decider with its arguments.

lab EXPERIMENT: CHECK            the value found by that check of the experiment, with its default settings
= 2 * 7 / 8 * 100                arithmetic on numbers
FILE.FUNCTION key=value ...      a decider of this folder
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.check.evidence.claims.deciders import KEPT, NATURES
from lockstep.check.evidence.claims.entry import Check, Found

if TYPE_CHECKING:
    from lockstep.learn.lab import Findings

FILES = (
    "network", "pipelines", "tensors", "scaling", "checkpoints", "steps", "rounds", "layouts", "runs", "listings",
    "kept_runs",
)  # fmt: skip
CURVES = ("series", "paths", "plans")
"""Files of the folder `curves`, from which figures draw and no check decides."""
LAB = "lab "
ARITHMETIC = "= "
_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg,
}  # fmt: skip
_OF_MATH = ("sqrt", "log", "log2", "ceil", "floor", "exp")
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max} | {
    name: getattr(math, name) for name in _OF_MATH
}


def nature_of(check: Check) -> str:
    """How the number comes about: simulated, solved, counted, priced or arithmetic."""
    by = check.by
    if check.nature:
        return check.nature
    if by.startswith(LAB):
        return "simulated"
    if by.startswith(ARITHMETIC):
        return "arithmetic"
    name = by.split()[0]
    function(name)
    return NATURES[name]


def kept_by(by: str) -> str:
    """The runs that the decider of a text reads and shares with others; nothing where it has its own."""
    name = by.split()[0]
    if not by.startswith(ARITHMETIC):
        function(name)
    return KEPT.get(name, "")


def function(name: str) -> Callable[..., object]:
    """The decider of that name, or what a figure draws from. Raises BadInput."""
    file, _, wanted = name.partition(".")
    folder = __package__ if file in FILES else __package__.replace("deciders", "curves") if file in CURVES else ""
    if not folder or not hasattr(module := import_module(f"{folder}.{file}"), wanted):
        raise BadInput(f"no decider {name!r}", "by")
    found: Callable[..., object] = getattr(module, wanted)
    return found


def lab_name(by: str) -> tuple[str, str]:
    """Experiment and check of a text `lab EXPERIMENT: CHECK`."""
    experiment, _, what = by.removeprefix(LAB).partition(": ")
    return experiment, what


def found_in(findings: Findings, what: str) -> Found:
    """The value of the check of that name, the error of its simulation, and whether all of its experiment is lawful.

    A run that breaks one of its laws decides nothing. What the lab tolerates between a law and a run is not allowed
    here: the digits of the right value say how near it must be. Not a number where the experiment leaves the check out,
    as its draws do not meet the check's condition.
    """
    for check in findings.checks:
        if check.what == what:
            return Found(float(check.got), check.random_error, "" if findings.agrees else findings.verdict)
    return Found(math.nan, doubt="left out at this seed")


def called(by: str, seed: int = 0) -> object:
    """What the function that a text names returns, for the arguments there; `seed` if it draws random numbers."""
    name, *given = by.split()
    chosen = function(name)
    arguments = {key: _value(text) for key, _, text in (word.partition("=") for word in given)}
    if "seed" in inspect.signature(chosen).parameters:
        arguments["seed"] = seed
    return chosen(**arguments)


def decide(by: str, seed: int = 0) -> Found:
    """What arithmetic or a decider finds."""
    if by.startswith(ARITHMETIC):
        return Found(arithmetic(by.removeprefix(ARITHMETIC)))
    found = called(by, seed)
    if isinstance(found, np.ndarray):
        from lockstep.learn.lab.findings import credible_errors
        from lockstep.learn.lab.statistics import mean_and_error

        mean, error = mean_and_error(found)
        return Found(mean, credible_errors(found.size) * error)
    return Found(float(found))  # type: ignore[arg-type]


def _value(text: str) -> object:
    """An argument as it stands in a check: a number, several with commas, yes or no, or a word."""
    if text in ("yes", "no"):
        return text == "yes"
    for kind in (int, float, _several):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _several(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(","))


def arithmetic(text: str) -> float:
    """The value of an expression of numbers, + - * / **, and a few functions. Raises BadInput."""
    return float(_worth(ast.parse(text, mode="eval").body))


def _worth(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_worth(left), _worth(right))
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_worth(operand))
        case ast.Call(ast.Name(name), args, []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_worth, args))
        case ast.Name("pi"):
            return math.pi
    raise BadInput(f"no arithmetic: {ast.unparse(node)}", "by")
