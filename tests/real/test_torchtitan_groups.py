"""torchtitan's ParallelDims is asked for the process groups of every rank: of each of its meshes, for layouts as they
are exported to it, under two of its ways to name the meshes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest.mock import patch

from agreement import Asker
from drawn_layouts import LEVELS, Groups, compare_places, name_of
from pipelines_of_torch import group_of

from lockstep.price.layout import Layout, process_groups

KINDS = {"tp": "tp", "cp": "cp", "pp": "pp", "batch": "dp", "loss": "data", "fsdp": "shard", "ep": "ep",
         "efsdp": "expert_shard", "dp_replicate": "replicas"}  # fmt: skip
"""Lockstep's kind of group, by torchtitan's mesh."""
RANKS, PLACES = "ranks of the groups of ParallelDims", "levels of a cluster that groups of ParallelDims lie over"
BACKENDS = ("partial_dtensor", "spmd_types")


def layouts() -> Iterator[tuple[Layout, int]]:
    """Layouts that torchtitan has, each with its number of copies."""
    chance = random.Random(59)
    for _ in range(60):
        copies, tp, cp, pp = (chance.choice((1, 2, 3)) for _ in range(4))
        shards = chance.choice((1, 2, 4))
        uncut = shards * cp * tp
        ep = chance.choice([ranks for ranks in range(1, uncut + 1) if uncut % ranks == 0])
        dp = copies * shards
        if 2 <= dp * tp * cp * pp <= 72:
            yield Layout(tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, etp=1, shard=shards * cp, zero=3), copies


def groups_of(layout: Layout, copies: int, backend: str) -> dict[str, Groups]:
    """Every rank's groups by Lockstep's kind, each once, in order of the first rank."""
    import torch
    from torchtitan.distributed import parallel_dims

    found: dict[str, set[tuple[int, ...]]] = {}
    for rank in range(layout.world):
        with group_of(layout.world, rank), patch.object(parallel_dims, "device_type", "cpu"):
            dims = parallel_dims.ParallelDims(
                dp_replicate=copies, dp_shard=layout.dp // copies, cp=layout.cp, tp=layout.tp, pp=layout.pp,
                ep=layout.ep, world_size=layout.world, spmd_backend=backend,
            )  # fmt: skip
            for name, mesh in dims.get_all_one_dimensional_meshes().items():
                if name in KINDS:
                    ranks = torch.distributed.get_process_group_ranks(mesh.get_group())
                    found.setdefault(KINDS[name], set()).add(tuple(sorted(ranks)))
    return {kind: sorted(map(list, groups)) for kind, groups in found.items()}


def test_groups_are_those_of_torchtitan(asked: Asker) -> None:
    with asked("torchtitan", RANKS) as answers, asked("torchtitan", PLACES) as places:
        for number, (layout, copies) in enumerate(layouts()):
            groups = groups_of(layout, copies, BACKENDS[number % 2])
            for kind, theirs in groups.items():
                if kind not in LEVELS:
                    answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
            compare_places(places, layout, groups)
