"""What each collective means, from the data of all ranks: the yardstick for `#wrong`, built-in and own alike.

Data is a pattern that every rank can write for every other one: element e of rank r is (7 e + 3 r) mod 17 - 8, so sums
are whole numbers and exact in float32 in any order. Sizes are as in nccl-tests (`lockstep.simulate.collectives`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import UnknownName

if TYPE_CHECKING:
    from torch import Tensor

OPS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "scatter", "gather", "send-recv",
)  # fmt: skip
REDUCING = ("all-reduce", "reduce-scatter", "reduce")
DIVIDED = ("all-gather", "reduce-scatter", "all-to-all", "scatter", "gather")
"""Whose buffer is cut into one share per rank, so that its elements must be a multiple of the ranks."""


def pattern(number: int, elems: int, device: str) -> Tensor:
    """`data` of one rank."""
    import torch

    return ((7 * torch.arange(elems, device=device) + 3 * number) % 17 - 8).to(torch.float32)


def wrong_elements(op: str, result: Tensor, number: int, ranks: int, elems: int) -> int:
    """Elements of `result` that are not what the definition of `op` gives rank `number`.

    `result` is the buffer that holds it: the whole one, the own share, or nothing where the rank gets none.
    """
    expected = _expected(op, number, ranks, elems, str(result.device))
    return 0 if expected is None else int((result[: len(expected)] != expected).sum())


def _expected(op: str, number: int, ranks: int, elems: int, device: str) -> Tensor | None:
    import torch

    share = slice(number * (elems // ranks), (number + 1) * (elems // ranks))
    match op:
        case "all-reduce" | "reduce":
            return _total(ranks, elems, device) if op == "all-reduce" or number == 0 else None
        case "reduce-scatter":
            return _total(ranks, elems, device)[share]
        case "broadcast":
            return pattern(0, elems, device)
        case "scatter":
            return pattern(0, elems, device)[share]
        case "all-to-all":
            return torch.cat([pattern(other, elems, device)[share] for other in range(ranks)])
        case "all-gather" | "gather":
            own = elems // ranks
            parts = [pattern(other, elems, device)[other * own : (other + 1) * own] for other in range(ranks)]
            return torch.cat(parts) if op == "all-gather" or number == 0 else None
        case "send-recv":
            return pattern((number - 1) % ranks, elems, device)
    raise UnknownName("collective", op, OPS)


def _total(ranks: int, elems: int, device: str) -> Tensor:
    total = pattern(0, elems, device)
    for other in range(1, ranks):
        total += pattern(other, elems, device)
    return total
