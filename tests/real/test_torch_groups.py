"""torch's DeviceMesh is asked for the process groups of every rank: of single dimensions, of sub-meshes, of dimensions
that are flattened together, and of those that fully_shard divides a module over (HSDP).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agreement import Asker
from drawn_layouts import Groups, compare_places, drawn, name_of
from pipelines_of_torch import group_of

from effort import share
from lockstep.price.layout import Layout, process_groups

torch = pytest.importorskip("torch.distributed")
DENSE, EXPERTS = ("tp", "cp", "dp", "pp"), {"etp": "etp", "ep": "ep", "edp": "expert_data"}
RANKS, PLACES = "ranks of the groups of device meshes", "levels of a cluster that groups of device meshes lie over"
LAYOUTS = drawn(72, shards=True)


def meshed(layout: Layout, experts: bool = False) -> Any:
    """The grid of the dense layers or of the experts as a mesh, whose dimensions torch has outermost first."""
    from torch.distributed.device_mesh import init_device_mesh

    degrees = [(axis, int(ranks)) for axis, ranks in reversed(layout.grid().degrees(experts))]
    return init_device_mesh(
        "cpu", tuple(ranks for _, ranks in degrees), mesh_dim_names=tuple(axis for axis, _ in degrees)
    )


def ranks_of(mesh: Any, name: str) -> list[int]:
    """The ranks of this process's group along a dimension."""
    found: list[int] = torch.get_process_group_ranks(mesh.get_group(name))
    return found


def data_mesh(mesh: Any) -> Any:
    """The dimensions of data and context parallelism, flattened to one, as they stand in the mesh."""
    return mesh[tuple(name for name in mesh.mesh_dim_names if name in ("dp", "cp"))]._flatten("data")


def of_rank(layout: Layout) -> Iterator[tuple[str, list[int]]]:
    """(Lockstep's name of a kind of group, this rank's ranks)."""
    dense, experts = meshed(layout), meshed(layout, experts=True)
    data = data_mesh(dense)
    for axis in DENSE:
        yield axis, ranks_of(dense, axis)
        yield axis, ranks_of(dense[axis], axis)
    for axis, kind in EXPERTS.items():
        yield kind, ranks_of(experts, axis)
    yield "data", ranks_of(data, "data")
    parts = layout.dp * layout.cp // layout.shard
    yield "shard", ranks_of(data._unflatten(0, (parts, layout.shard), ("replicas", "shard")), "shard")


def groups_of(layout: Layout) -> dict[str, Groups]:
    """Every rank's groups by kind, each once, in order of the first rank."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for rank in range(layout.world):
        with group_of(layout.world, rank):
            for kind, ranks in of_rank(layout):
                found.setdefault(kind, set()).add(tuple(sorted(ranks)))
    return {kind: sorted(map(list, groups)) for kind, groups in found.items()}


def test_groups_are_those_of_device_meshes(asked: Asker) -> None:
    with asked("torch", RANKS) as answers, asked("torch", PLACES) as places:
        for layout in share(LAYOUTS, 12):
            groups = groups_of(layout)
            for kind, theirs in groups.items():
                answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
            compare_places(places, layout, groups)


def test_modules_are_sharded_over_the_groups_of_fully_shard(asked: Asker) -> None:
    """HSDP takes a mesh of two dimensions, the replicas outside."""
    with asked("torch", "ranks that share a module under HSDP") as answers:
        for layout in share(LAYOUTS, 6):
            for rank in (0, layout.world // 3, layout.world - 1):
                with group_of(layout.world, rank):
                    parts, theirs = sharded_over(layout)
                ours = next(ranks for ranks in process_groups(layout, "shard") if rank in ranks)
                answers.compare(f"{name_of(layout)}, rank {rank}", (layout.shard, ours), (parts, theirs))


def sharded_over(layout: Layout) -> tuple[int, list[int]]:
    """How many parts a parameter has, and the ranks that this process shares it with."""
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    copies = layout.dp * layout.cp // layout.shard
    mesh = data_mesh(meshed(layout))._unflatten(0, (copies, layout.shard), ("replicas", "shard"))
    module = fully_shard(nn.Linear(1, layout.shard, bias=False), mesh=mesh)
    group = module._get_fsdp_state()._fsdp_param_group.mesh_info.shard_process_group
    return layout.shard // module.weight.to_local().numel(), torch.get_process_group_ranks(group)
