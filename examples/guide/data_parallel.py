"""Section 7.1, data parallelism with buckets whose sums run while the backward pass goes on.

The guide's listing picks a GPU by the global rank, which fails on the second node (LOCAL_RANK counts inside a node),
expects the rank as an argument, which torchrun does not pass, and gives bucket_cap_mb in bytes, which counts MiB.
Here buckets are our own, beside PyTorch's DistributedDataParallel; both have the gradients of the whole batch.

    python examples/guide/data_parallel.py
    torchrun --nproc-per-node 4 examples/guide/data_parallel.py
"""

from copy import deepcopy

import torch
import torch.distributed as dist
from processes import my_part, run, same
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, BATCH = 6, 16, 24


class Buckets:
    """Sums gradients over ranks as soon as those of a bucket are there, and averages them at the end."""

    def __init__(self, model: nn.Module, bucket_B: int) -> None:
        self.bucket_B, self.waiting, self.works, self.ready, self.begun_after = bucket_B, [], [], 0, []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.add)

    def add(self, parameter: nn.Parameter) -> None:
        """Called by the backward pass, from the last layer to the first."""
        self.ready += 1
        self.waiting.append(parameter)
        if sum(one.grad.nbytes for one in self.waiting) >= self.bucket_B:
            self.send()

    def send(self) -> None:
        """Begins the sum of a bucket and goes on."""
        flat = torch.cat([one.grad.flatten() for one in self.waiting])
        self.works.append((dist.all_reduce(flat, async_op=True), flat, self.waiting))
        self.begun_after.append(self.ready)
        self.waiting = []

    def finish(self) -> None:
        """Sends what is left, waits for all sums, and gives parameters their mean gradients."""
        if self.waiting:
            self.send()
        for work, flat, parameters in self.works:
            work.wait()
            means = (flat / dist.get_world_size()).split([one.numel() for one in parameters])
            for one, mean in zip(parameters, means, strict=True):
                one.grad = mean.view_as(one)


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Of the mean squared output."""
    model(x).square().mean().backward()
    return [one.grad for one in model.parameters()]


def work() -> str:
    """Against the gradients of all samples on one rank."""
    serial = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS))).double()
    x = torch.rand(BATCH, WIDTH, dtype=torch.float64)
    bucketed, wrapped = deepcopy(serial), DistributedDataParallel(deepcopy(serial), bucket_cap_mb=1)
    right = gradients(serial, x)
    buckets = Buckets(bucketed, bucket_B=4000)
    gradients(bucketed, my_part(x))
    buckets.finish()
    gradients(wrapped, my_part(x))
    for model in (bucketed, wrapped):
        assert all(same(one.grad, other) for one, other in zip(model.parameters(), right, strict=True))
    early = sum(count < 2 * LAYERS for count in buckets.begun_after)
    assert early >= 2, "no sum began before the backward pass was over"
    return f"data parallelism: {early} of {len(buckets.begun_after)} sums began before the backward pass was over"


if __name__ == "__main__":
    run(work)
