"""Section 11.2 and example E12, ranks of three axes of parallelism, in an order that is said.

rank = data * (T P) + pipeline * T + tensor in the guide: tensor ranks are neighbours, then stages, then replicas.
Megatron, and `--rank` of this library, put replicas before stages: rank = pipeline * (T D) + data * T + tensor. Numbers
of ranks mean nothing without it: rank 77 of 8 x 4 x 4 is in the pipeline 69, 77, 85, 93 by the first order and in 13,
45, 77, 109 by the second. Every rank has to make every group, also those that it is not in, in the same order.

    python examples/guide/ranks_of_axes.py
    torchrun --nproc-per-node 4 examples/guide/ranks_of_axes.py
"""

from itertools import product

import torch
import torch.distributed as dist
from processes import run

GUIDE, MEGATRON = ("tensor", "pipeline", "data"), ("tensor", "data", "pipeline")
"""From neighbours outwards."""


def groups(sizes: dict[str, int], order: tuple[str, ...], axis: str) -> list[list[int]]:
    """All groups of an axis, each of ranks that differ in that axis alone."""
    strides, stride = {}, 1
    for name in order:
        strides[name] = stride
        stride *= sizes[name]
    others = [name for name in order if name != axis]
    firsts = [
        sum(place * strides[name] for place, name in zip(places, others, strict=True))
        for places in product(*(range(sizes[name]) for name in others))
    ]
    return [[first + place * strides[axis] for place in range(sizes[axis])] for first in sorted(firsts)]


def of_rank(rank: int, sizes: dict[str, int], order: tuple[str, ...], axis: str) -> list[int]:
    """The group of a rank."""
    return next(group for group in groups(sizes, order, axis) if rank in group)


def work() -> str:
    """Groups of four ranks, which sum their ranks; and those of rank 77, which two orders place differently."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for order in (GUIDE, MEGATRON):
        sizes = {"tensor": 1, "pipeline": 2, "data": ranks // 2}
        for axis in order:
            every = groups(sizes, order, axis)
            assert sorted(one for group in every for one in group) == list(range(ranks))
            made = [dist.new_group(group) for group in every]
            mine = next(place for place, group in enumerate(every) if rank in group)
            total = torch.tensor(rank)
            dist.all_reduce(total, group=made[mine])
            assert int(total) == sum(every[mine])
    sizes = {"tensor": 8, "pipeline": 4, "data": 4}
    assert [len(groups(sizes, GUIDE, axis)) for axis in GUIDE] == [16, 32, 32]
    assert of_rank(77, sizes, GUIDE, "tensor") == list(range(72, 80))
    assert of_rank(77, sizes, GUIDE, "pipeline") == of_rank(77, sizes, MEGATRON, "data") == [69, 77, 85, 93]
    assert of_rank(77, sizes, GUIDE, "data") == of_rank(77, sizes, MEGATRON, "pipeline") == [13, 45, 77, 109]
    return (
        f"ranks of axes: {ranks} ranks are in one group of each axis; the pipeline of rank 77 of 8 x 4 x 4 is "
        f"{of_rank(77, sizes, GUIDE, 'pipeline')} in the guide's order, {of_rank(77, sizes, MEGATRON, 'pipeline')} in "
        "Megatron's"
    )


if __name__ == "__main__":
    run(work)
