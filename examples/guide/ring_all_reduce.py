"""Section 3.3, a ring all-reduce: 2 (P - 1) messages of a chunk each, sent and received at once.

The guide's listing exchanges chunks by a call that PyTorch does not have, adds to a part of a tuple, which raises an
error after it has changed the data, and needs chunks of one length. Here a rank posts a send and a receive together,
chunks are views that are added to in place, and their lengths may differ.

    python examples/guide/ring_all_reduce.py
    torchrun --nproc-per-node 3 examples/guide/ring_all_reduce.py
"""

import torch
import torch.distributed as dist
from processes import exchange, run, same
from torch import Tensor


def ring_all_reduce(buffer: Tensor) -> int:
    """Sums the buffer over ranks in place; elements that this rank sent."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = buffer.tensor_split(ranks)
    sent = 0
    for step in range(2 * (ranks - 1)):
        # Sums go round first: after P - 1 steps rank r has chunk r + 1 of all ranks. Then the sums themselves go round.
        given, taken = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        came = exchange(given, (rank + 1) % ranks, taken, (rank - 1) % ranks)
        sent += given.numel()
        if step < ranks - 1:
            taken.add_(came)
        else:
            taken.copy_(came)
    return sent


def adding_to_a_tuple() -> tuple[bool, float]:
    """Whether `chunks[0] += x` fails for a tuple of views, and what is in the buffer after it has failed."""
    buffer = torch.zeros(4)
    chunks = buffer.tensor_split(2)
    try:
        chunks[0] += 1  # type: ignore[index]
    except TypeError:
        return True, float(buffer[0])
    return False, float(buffer[0])


def work() -> str:
    """Buffers whose length the ranks do not divide, against the sum of what all ranks have."""
    ranks, length = dist.get_world_size(), 1003
    every = torch.rand(ranks, length, dtype=torch.float64)
    mine = every[dist.get_rank()].clone()
    sent = ring_all_reduce(mine)
    assert same(mine, every.sum(0))
    assert abs(sent - 2 * (ranks - 1) / ranks * length) < 2
    assert adding_to_a_tuple() == (True, 1.0)
    return (
        f"ring all-reduce: {ranks} ranks sent {sent} of {length} elements each in {2 * (ranks - 1)} messages; "
        "as printed it fails, with the data already changed"
    )


if __name__ == "__main__":
    run(work)
