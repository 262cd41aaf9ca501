"""`pattern`: which layers are of a kind, as Megatron-LM says it: every Nth, or a list such as ([0]*3+[1]*58)."""

from __future__ import annotations

import re

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.said import Said

TOKEN = re.compile(r"\s*(\[[\d,\s]*\]|\d{1,5}(?!\d)|[-+*()])\s*")
MOST_LETTERS = 20_000


def pattern(said: Said, word: str, layers: int) -> list[bool]:
    """A bool for every layer. Raises BadInput for a text that is no such list, or one of another length."""
    text = str(said[word]).strip("\"'")
    if text.isdecimal() and 0 < len(text) < 6 and int(text):
        return [place % int(text) == 0 for place in range(layers)]
    tokens = TOKEN.findall(text) if len(text) < MOST_LETTERS else []
    if re.sub(r"\s", "", "".join(tokens)) != re.sub(r"\s", "", text):
        raise _wrong(said, word)
    try:
        found = _sum(tokens[::-1], said, word)
    except (IndexError, ValueError) as error:
        raise error if isinstance(error, BadInput) else _wrong(said, word) from None
    if len(found) != layers:
        raise said.refuse(word, f"has {len(found)} elements for {layers} layers")
    return [bool(one) for one in found]


def _wrong(said: Said, word: str) -> BadInput:
    return said.refuse(word, f"must be a number or a list such as ([0]*3+[1]*58), got {str(said[word])[:40]!r}")


def _sum(rest: list[str], said: Said, word: str) -> list[int]:
    """Lists joined by +, without brackets within brackets; takes tokens from the end."""
    if rest[-1] == "(" and rest[0] == ")":
        rest = rest[1:-1]
    found: list[int] = []
    while rest:
        part = [int(one) for one in re.findall(r"\d{1,5}", rest.pop())]
        if rest and rest[-1] == "*":
            rest.pop()
            part *= int(rest.pop())
        found += part
        if len(found) > MOST_LETTERS:
            raise said.refuse(word, f"has more than {MOST_LETTERS} elements")
        if rest and rest.pop() != "+":
            raise ValueError
    return found
