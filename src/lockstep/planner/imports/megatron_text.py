"""Megatron-LM's arguments in a shell script, a command line, or the "arguments" block of its log, as flags.

A log line is `tensor_model_parallel_size ...... 8`, with True, False and None for switches and what was not given. Of a
script, variables that are set in it are replaced (`${TP:-8}` by its default where TP is not set); later flags go first.
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from lockstep.planner.export.arguments import arguments

LOGGED = re.compile(r"^.*?(\w+) \.{3,} ?(.*)$", re.M)
TOKENIZED = re.compile(r"^ > padded vocab \(size: (\d+)\)", re.M)
"""What the tokenizer holds, which logs of older releases do not list among the arguments."""
ASSIGNED = re.compile(r"^\s*(?:export\s+)?(\w+)=(\"[^\"]*\"|'[^']*'|\$\{[^}]*\}|\$\(\([^)]*\)\)|[^\s(;#]*)", re.M)
USED = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
SUM = re.compile(r"\$\(\(([\d\s+*/-]*\d)\s*\)\)")
SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: one // other if other else 0,
}
OTHERWISE = {"fp8": "fp8-format", "fp4": "fp4-format"}
"""Names of a log that its flags do not have."""

Flags = dict[str, object]
"""Flag without dashes to its value, a list of several, or True."""


def megatron_flags(text: str) -> Flags:
    """The flags in a text, those that the parser of Megatron-LM knows."""
    logged = dict(LOGGED.findall(text))
    if (vocab := TOKENIZED.search(text)) is not None:
        logged.setdefault("vocab_size", vocab[1])
    return dict(_from_log(logged)) if "tensor_model_parallel_size" in logged else _from_words(text)


def _from_log(logged: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    names = arguments("megatron").names
    for name, value in logged.items():
        value, flag = value.strip(), OTHERWISE.get(name, name.replace("_", "-"))
        kind = names.get(flag)
        if value in ("None", ""):
            continue
        if value == "False":
            off = [one for one in (f"no-{flag}", f"disable-{flag}") if one in names]
            yield from ((one, True) for one in off[:1])
            if name == "add_bias_linear":
                yield "disable-bias-linear", True
            if name == "overlap_p2p_comm":
                yield "no-overlap-p2p-communication", True
        elif kind == "flag":
            if value == "True":
                yield flag, True
        elif kind is not None or name in ("world_size", "data_parallel_size"):
            several = re.findall(r"[\w.+-]+", value) if value.startswith("[") and flag != "moe-layer-freq" else None
            yield flag, several if several is not None else value


def _from_words(text: str) -> Flags:
    names, found = arguments("megatron").names, dict[str, object]()
    words = _words(text)
    for place, word in enumerate(words):
        flag, joined, given = word.removeprefix("--").partition("=")
        if not word.startswith("--") or flag not in names:
            continue
        if names[flag] == "flag":
            found[flag] = True
            continue
        values = [given] if joined else []
        for other in words[place + 1 :] if not joined else ():
            if other.startswith("--"):
                break
            values.append(other)
        several = str(names[flag]).endswith("+")
        if values:
            found[flag] = values if several else values[0]
    return found


def _replaced(text: str, known: Mapping[str, str]) -> str:
    """A text with the values of its variables, and sums and products of numbers worked out."""
    plain = USED.sub(lambda said: str(known.get(said[1] or said[3], said[2] or "")), text)
    return SUM.sub(_sum, plain)


def _sum(said: re.Match[str]) -> str:
    try:
        return str(_worked_out(ast.parse(said[1].strip(), mode="eval").body))
    except (SyntaxError, ValueError):
        return said[0]


def _worked_out(node: ast.expr) -> int:
    """A whole number from numbers with + - * and /."""
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        return SIGNS[type(node.op)](_worked_out(node.left), _worked_out(node.right))
    return int(ast.literal_eval(node))


def _words(text: str) -> list[str]:
    """The words of a script or a command line, with its variables replaced."""
    text = text.replace("\\\n", " ")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    known: dict[str, str] = {}
    for name, value in ASSIGNED.findall(lines):
        known[name] = _replaced(value.strip("\"'"), known)
    plain = _replaced(lines, known)
    # Quotes around a list of flags would join them; a flag's own value has none that matter but JSON and patterns.
    found: list[str] = []
    for line in plain.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.replace('"', " ").replace("'", " ").split()
        for word in words:
            found += word.split() if " --" in f" {word}" else [word]
    return [word.strip("()") if word.startswith(("--", "(--")) else word.rstrip(")") if "(" not in word else word
            for word in found]  # fmt: skip
