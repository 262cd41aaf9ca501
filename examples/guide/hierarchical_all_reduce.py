"""Sections 3.6 and 8.6, an all-reduce over nodes: scatter the sum inside a node, sum shards between nodes, gather.

The guide sums a whole buffer inside a node, again between nodes, and broadcasts it: the link inside a node carries it
twice, and one rank of a node talks for all. With shards every rank talks to its peers of other nodes, and sends
2 (M - 1) / M of its shard, as with shards inside a node (HSDP). Here two nodes of two ranks: ranks 0 and 1, 2 and 3.

    python examples/guide/hierarchical_all_reduce.py
    torchrun --nproc-per-node 4 examples/guide/hierarchical_all_reduce.py
"""

import torch
import torch.distributed as dist
from processes import all_gather, reduce_scatter, run, same
from torch import Tensor

NODE = 2


def groups() -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """Of this rank: its node, and ranks at its place in every node. All ranks make all groups, in one order."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group(list(range(first, first + NODE))) for first in range(0, ranks, NODE)]
    places = [dist.new_group(list(range(place, ranks, NODE))) for place in range(NODE)]
    return nodes[rank // NODE], places[rank % NODE]


def all_reduce(buffer: Tensor, node: dist.ProcessGroup, place: dist.ProcessGroup) -> tuple[Tensor, int]:
    """The sum over all ranks, and elements that leave the node from this rank in a ring of the nodes."""
    shard = reduce_scatter(buffer, node)
    dist.all_reduce(shard, group=place)
    nodes = dist.get_world_size(place)
    return all_gather(shard, node), 2 * (nodes - 1) * shard.numel() // nodes


def work() -> str:
    """Against the sum of what all ranks have."""
    ranks, length = dist.get_world_size(), 96
    every = torch.rand(ranks, length, dtype=torch.float64)
    total, leave = all_reduce(every[dist.get_rank()], *groups())
    nodes = ranks // NODE
    assert same(total, every.sum(0))
    assert NODE * leave == 2 * (nodes - 1) * length // nodes
    # Rank 0 of a node alone would send as much for its whole node; a flat ring that is ordered by node sends this.
    flat = 2 * (ranks - 1) * length // ranks
    return (
        f"hierarchical all-reduce: {nodes} nodes of {NODE}, each rank sends {leave} of {length} elements to other "
        f"nodes, a node {NODE * leave}; a flat ring in order of nodes {flat}"
    )


if __name__ == "__main__":
    run(work)
