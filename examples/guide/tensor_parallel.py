"""Sections 9.1 and 9.7, a layer split by columns and one split by rows, with the gradients of both.

The guide's listing adds the bias on rank 0 alone after the sum, so that other ranks have none (before the sum on all
ranks it would enter P times), and leaves out the sum of the inputs' gradients where a layer is split by columns.
Both faults are made here, too, and seen.

    python examples/guide/tensor_parallel.py
    torchrun --nproc-per-node 4 examples/guide/tensor_parallel.py
"""

from typing import Any

import torch
import torch.distributed as dist
from processes import my_part, paired, run, same
from torch import Tensor

TOKENS, WIDTH, INNER = 5, 8, 16
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "bias on rank 0": {"bias": "first"},
    "bias before the sum": {"bias": "before"},
    "no sum of gradients": {"summed": False},
}


def total(part: Tensor) -> Tensor:
    """The sum over ranks."""
    part = part.clone()
    dist.all_reduce(part)
    return part


enter = paired(torch.clone, total)
"""Inputs as they are; their gradients are summed over ranks."""
leave = paired(total, torch.clone)
"""The sum over ranks; its gradient is that of every part."""


def layers(x: Tensor, up: Tensor, down: Tensor, added: Tensor, *, summed: bool = True, bias: str = "after") -> Tensor:
    """Two layers with this rank's columns of `up` and rows of `down`; `summed` and `bias` make the faults."""
    part = torch.relu((enter(x) if summed else x) @ up) @ down
    output = leave(part + added if bias == "before" else part)
    return output + added if bias == "after" or (bias == "first" and dist.get_rank() == 0) else output


def work() -> str:
    """Against both layers in one piece."""
    x, up, down, bias = (torch.rand(*size, dtype=torch.float64) - 0.5 for size in (
        (TOKENS, WIDTH), (WIDTH, INNER), (INNER, WIDTH), (WIDTH,)))  # fmt: skip
    x.requires_grad_()
    output = torch.relu(x @ up) @ down + bias
    (right,) = torch.autograd.grad(output.square().sum(), x)
    wrong = {}
    for name, fault in FAULTS.items():
        found = layers(x, my_part(up, 1), my_part(down), bias, **fault)
        (slope,) = torch.autograd.grad(found.square().sum(), x)
        differ = torch.tensor([not same(found, output), not same(slope, right)]).int()
        dist.all_reduce(differ)
        wrong[name] = tuple(differ.tolist())
    ranks = dist.get_world_size()
    assert wrong["none"] == (0, 0)
    assert (wrong["bias on rank 0"][0], wrong["bias before the sum"][0]) == (ranks - 1, ranks)
    assert wrong["no sum of gradients"] == (0, ranks)
    said = ", ".join(f"{name} {outputs} and {slopes}" for name, (outputs, slopes) in wrong.items())
    return f"tensor parallelism: ranks of {ranks} with wrong outputs and wrong gradients of inputs, by fault: {said}"


if __name__ == "__main__":
    run(work)
