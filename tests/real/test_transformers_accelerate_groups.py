"""Accelerate's ParallelismConfig is asked for the process groups of every rank: of its mesh, and of the dimensions that
it flattens for the data, for FSDP and for the loss. Where there is no transformers, it has no tensor parallelism.
"""

from __future__ import annotations

import itertools

from agreement import Asker
from drawn_layouts import LEVELS, Groups, compare_places, name_of
from pipelines_of_torch import group_of

from lockstep.price.layout import Layout, process_groups

KINDS = {"tp": "tp", "cp": "cp", "dp": "dp", "dp_cp": "data", "dp_shard_cp": "shard", "dp_replicate": "replicas"}
"""Lockstep's kind of group, by Accelerate's dimension."""
SIZES = [
    (copies, shards, cp, tp)
    for copies, shards, cp, tp in itertools.product((1, 2, 3), (1, 2, 4), (1, 2, 3), (1, 2, 3))
    if copies * shards * cp * tp in range(4, 33) and not (shards == 1 and copies > 1)
]
RANKS, PLACES = "ranks of the groups of a parallelism config", "levels of a cluster that its groups lie over"


def groups_of(copies: int, shards: int, cp: int, tp: int) -> dict[str, Groups]:
    """Every rank's groups by Lockstep's kind, each once, in order of the first rank."""
    import torch
    from accelerate import ParallelismConfig

    config = ParallelismConfig(dp_replicate_size=copies, dp_shard_size=shards, cp_size=cp, tp_size=tp)
    found: dict[str, set[tuple[int, ...]]] = {}
    for rank in range(config.total_size):
        with group_of(config.total_size, rank):
            mesh = config.build_device_mesh("cpu")
            made = {*mesh.mesh_dim_names, *(name for name, on in joined(config).items() if on)}
            for name in made.intersection(KINDS):
                ranks = torch.distributed.get_process_group_ranks(mesh[name].get_group())
                found.setdefault(KINDS[name], set()).add(tuple(sorted(ranks)))
    return {kind: sorted(map(list, groups)) for kind, groups in found.items()}


def joined(config: object) -> dict[str, object]:
    """The flattened dimensions, and the names of what each is made of."""
    return {name: getattr(config, f"{name}_dim_names") for name in ("dp", "dp_shard_cp", "dp_cp")}


def test_groups_are_those_of_accelerate(asked: Asker) -> None:
    with asked("accelerate", RANKS) as answers, asked("accelerate", PLACES) as places:
        for copies, shards, cp, tp in SIZES:
            layout = Layout(dp=copies * shards, cp=cp, tp=tp, shard=shards * cp, zero=3)
            groups = groups_of(copies, shards, cp, tp)
            for kind, theirs in groups.items():
                if kind not in LEVELS:
                    answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
            compare_places(places, layout, groups)
