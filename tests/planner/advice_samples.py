"""Layouts of a dense model and of one with experts that keep every rule, for the tests of advice."""

from itertools import product

import numpy as np

from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_rules, stack

NODES: Cluster = cluster("dgx-a100-80gb:4")
DENSE = Job(model("llama3-8b"), Recipe(seq=4096, batch=64), 32)
EXPERTS = Job(model("mixtral-8x7b"), Recipe(seq=2048, batch=64), 32)


def allowed(job: Job, layout: Layout) -> bool:
    return not any(bool(broken.any()) for broken in broken_rules(layout.grid(), job).values())


def layouts_of(job: Job) -> list[Layout]:
    """Every combination of a few degrees, sharding and schedules that fills the devices and keeps the rules."""
    axes = product(
        (1, 2, 8), (1, 2), (1, 2, 4), (1, 4), (1, 2), (0, 1, 2, 3), (0, 4), ("none", "full"), ("1f1b", "interleaved")
    )
    every = []
    for tp, cp, pp, ep, mb, zero, shard, recompute, schedule in axes:
        layout = Layout(
            tp=tp, cp=cp, pp=pp, ep=ep, dp=max(1, job.devices // (tp * cp * pp)), micro_batch=mb, zero=zero,
            shard=shard, recompute=recompute, schedule=schedule, vpp=2 if schedule == "interleaved" else 1,
            sequence_parallel=tp > 1,
        )  # fmt: skip
        if layout.world == job.devices:
            every.append(layout)
    broken = np.broadcast_arrays(np.zeros(len(every), bool), *broken_rules(stack(every), job).values())
    return [layout for layout, some in zip(every, np.any(broken, axis=0), strict=True) if not some]


DENSE_LAYOUTS = layouts_of(DENSE)
EXPERT_LAYOUTS = layouts_of(EXPERTS)
CASES = [(DENSE, layout) for layout in DENSE_LAYOUTS] + [(EXPERTS, layout) for layout in EXPERT_LAYOUTS]
