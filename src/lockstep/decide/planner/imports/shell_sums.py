"""`worked_out`: a sum of whole numbers as a shell works it out, bounded in length, depth and size."""

from __future__ import annotations

import re

from lockstep.base.documents import MAX_DEPTH
from lockstep.base.errors import BadInput

MOST_LETTERS = 2_000
MOST = 10**18
TOKEN = re.compile(r"\s*(\d+|\*\*|[-+*/%()])\s*")
BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "**": 3}


def worked_out(text: str) -> int | None:
    """The value of numbers with + - * / % ** and brackets; None for anything else.

    Raises BadInput for a sum that is too long, nested too deep, or larger than a shell can hold.
    """
    if len(text) > MOST_LETTERS:
        raise BadInput(f"a sum is longer than the {MOST_LETTERS} letters allowed")
    tokens = TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text) or not tokens:
        return None
    depth = deepest = 0
    for one in tokens:
        depth += (one == "(") - (one == ")")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise BadInput(f"a sum is nested deeper than the {MAX_DEPTH} levels allowed")
    rest = tokens[::-1]
    try:
        value = _sum(rest, 0)
    except BadInput:
        raise
    except (IndexError, ZeroDivisionError, ValueError):
        return None
    return None if rest else value


def _sum(rest: list[str], binds: int) -> int:
    """The value of what binds more than `binds`; takes it from `rest`, whose last token is the next one."""
    sign = 1
    while rest[-1] in "+-":
        sign = -sign if rest.pop() == "-" else sign
    token = rest.pop()
    if token == "(":
        value = _sum(rest, 0)
        if rest.pop() != ")":
            raise ValueError
    else:
        value = int(token)
    value *= sign
    while rest and BINDS.get(rest[-1], 0) > binds:
        sign_of = rest.pop()
        value = _applied(sign_of, value, _sum(rest, BINDS[sign_of]))
    return value


def _applied(sign: str, one: int, other: int) -> int:
    """One operation; division rounds towards zero, as in C."""
    if sign == "**":
        if not 0 <= other <= 60 or abs(one) > 10**6:
            raise BadInput("a power in a sum is larger than allowed")
        value = int(one**other)
    elif sign in "/%":
        quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        value = quotient if sign == "/" else one - quotient * other
    else:
        value = one + other if sign == "+" else one - other if sign == "-" else one * other
    if abs(value) > MOST:
        raise BadInput("a sum is larger than a shell can hold")
    return value
