"""Section 9.6, sequence parallelism: between split layers a rank has its part of the tokens and nothing of the others.

A gather before the split layers and a reduce-scatter after them send what the all-reduce of their outputs would. The
norm then runs on tokens / P instead of all tokens, which is what divides the activations.

    python examples/guide/sequence_parallel.py
    torchrun --nproc-per-node 4 examples/guide/sequence_parallel.py
"""

import torch
import torch.distributed as dist
from processes import all_gather, my_part, paired, reduce_scatter, run, same
from torch import Tensor
from torch.nn import functional

TOKENS, WIDTH, INNER = 12, 8, 16


gather = paired(all_gather, reduce_scatter)
"""Tokens of all ranks; their gradients are summed and scattered."""
scatter = paired(reduce_scatter, all_gather)
"""This rank's tokens of the sum over ranks; their gradients are gathered."""


def block(tokens: Tensor, up: Tensor, down: Tensor, bias: Tensor) -> Tensor:
    """Norm, two split layers, bias and the way around them, of this rank's tokens."""
    whole = gather(functional.layer_norm(tokens, (WIDTH,)))
    return tokens + scatter(torch.relu(whole @ up) @ down) + bias


def work() -> str:
    """Against the block in one piece, its output and the gradient of its inputs."""
    x, up, down, bias = (torch.rand(*size, dtype=torch.float64) - 0.5 for size in (
        (TOKENS, WIDTH), (WIDTH, INNER), (INNER, WIDTH), (WIDTH,)))  # fmt: skip
    x.requires_grad_()
    output = x + torch.relu(functional.layer_norm(x, (WIDTH,)) @ up) @ down + bias
    (right,) = torch.autograd.grad(output.square().sum(), x)
    mine = my_part(x.detach()).clone().requires_grad_()
    found = block(mine, my_part(up, 1), my_part(down), bias)
    (slope,) = torch.autograd.grad(found.square().sum(), mine)
    assert same(found, my_part(output))
    assert same(slope, my_part(right))
    ranks, size = dist.get_world_size(), TOKENS * WIDTH
    assert found.numel() == size // ranks
    return (
        f"sequence parallelism: a rank of {ranks} keeps {found.numel()} of {size} elements between split layers; a "
        f"gather and a scatter send {2 * (ranks - 1) * size // ranks} together, an all-reduce as much"
    )


if __name__ == "__main__":
    run(work)
