"""Section 11.4, a layer of experts that live on ranks: choose, send tokens, compute, send back, weigh.

The guide's listing has neither the all-to-all nor a capacity, its volume is that of one expert a token, and its
auxiliary loss is said to go to 0, where the least value is top-k. Here tokens beyond the capacity are dropped, as they
are in one process, and each of the k copies of a token is a message of its own.

    python examples/guide/experts.py
    torchrun --nproc-per-node 4 examples/guide/experts.py
"""

import torch
import torch.distributed as dist
from processes import all_gather, my_part, run, same
from torch import Tensor

EXPERTS, TOP, WIDTH, TOKENS, CAPACITY = 8, 2, 6, 24, 10
"""Experts in all, experts a token, width, tokens and most copies that one expert takes from one rank."""


def routed(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(expert, token, weight) of the copies that are within capacity, by expert, and the auxiliary loss."""
    odds = torch.softmax(x @ router, dim=-1)
    weights, experts = odds.topk(TOP, dim=-1)
    share = torch.bincount(experts.flatten(), minlength=EXPERTS) / len(x)
    order = experts.flatten().argsort(stable=True)
    expert, token, weight = experts.flatten()[order], order // TOP, weights.flatten()[order]
    place = torch.arange(len(order)) - torch.searchsorted(expert, expert)
    kept = place < CAPACITY
    return expert[kept], token[kept], weight[kept], EXPERTS * (share * odds.mean(0)).sum()


def send(rows: Tensor, gives: Tensor, takes: Tensor) -> Tensor:
    """Rows to every rank and from every rank, as many as said."""
    came = rows.new_empty(int(takes.sum()), *rows.shape[1:])
    dist.all_to_all_single(came, rows.contiguous(), takes.tolist(), gives.tolist())
    return came


def layer(x: Tensor, router: Tensor, own: Tensor) -> tuple[Tensor, int]:
    """The output of this rank's tokens, and copies that it sent; `own`: the experts that live on this rank."""
    ranks = dist.get_world_size()
    expert, token, weight, _ = routed(x, router)
    gives = torch.bincount(expert // (EXPERTS // ranks), minlength=ranks)
    takes = all_gather(gives).view(ranks, ranks)[:, dist.get_rank()]
    came, of = send(x[token], gives, takes), send(expert, gives, takes)
    done = torch.stack([torch.tanh(row @ own[one % len(own)]) for row, one in zip(came, of, strict=True)])
    back = send(done, takes, gives) * weight[:, None]
    return torch.zeros_like(x).index_add_(0, token, back), len(token) - int(gives[dist.get_rank()])


def work() -> str:
    """Against one process that has all experts, rank by rank, as capacities are of a rank."""
    ranks = dist.get_world_size()
    x, router = (torch.rand(*size, dtype=torch.float64) for size in ((ranks * TOKENS, WIDTH), (WIDTH, EXPERTS)))
    every = torch.rand(EXPERTS, WIDTH, WIDTH, dtype=torch.float64)
    mine = my_part(x)
    found, sent = layer(mine, router, my_part(every))
    expert, token, weight, _ = routed(mine, router)
    right = torch.zeros_like(mine)
    for one, row, share in zip(expert, token, weight, strict=True):
        right[row] += share * torch.tanh(mine[row] @ every[one])
    assert same(found, right)
    dropped = TOP * TOKENS - len(token)
    assert 0 < dropped < TOP * TOKENS
    assert same(routed(mine, torch.zeros_like(router))[3], torch.tensor(float(TOP)).double())
    return (
        f"experts: {sent} of {TOP * TOKENS} copies of {TOKENS} tokens left the rank, {dropped} were dropped; the "
        f"auxiliary loss of an even router is {TOP}"
    )


if __name__ == "__main__":
    run(work)
