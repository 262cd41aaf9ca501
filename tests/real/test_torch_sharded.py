"""FSDP2 itself is asked what it gathers and reduces in a step, in which groups, on ranks without other ranks;
Lockstep's answer are the collectives of a step's trace.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from llama_of_ranks import Shape, priced_B
from recorded import Collectives, ranks_of
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from effort import share
from lockstep.price.layout import Layout, process_groups

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True)
class Case:
    """A sharded decoder."""

    shape: Shape
    copies: int
    shard: int
    microbatches: int
    reshard: bool | int | None
    wide: bool
    """Whether gradients are reduced in fp32."""

    @classmethod
    def drawn(cls, seed: int) -> Case:
        """One of them."""
        random = Random(seed)
        shard = random.choice([2, 4, 8])
        shape = Shape.drawn(random, shard)
        reshard: list[bool | int | None] = [True, True, False]
        copies, micro = random.choice([1, 1, 2, 4]), random.choice([1, 1, 2, 3])
        return cls(shape, copies, shard, micro, random.choice(reshard), random.random() < 0.5)

    @property
    def layout(self) -> Layout:
        """The same as Lockstep has it."""
        return Layout(
            dp=self.copies * self.shard,
            shard=self.shard if self.copies > 1 else 0,
            zero=3 if self.reshard else 2,
            micro_batch=self.shape.sequences,
        )

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.shape.sequences * self.microbatches * self.copies * self.shard

    def sent(self) -> list[Any]:
        """What a step sends."""
        sizes, names = (self.copies, self.shard), ("copies", "shard")
        mesh = torch.distributed.init_device_mesh("cpu", sizes, mesh_dim_names=names)
        mesh = mesh if self.copies > 1 else mesh["shard"]
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32 if self.wide else None)
        net = self.shape.model()
        for units in (*([one] for one in net[:-2]), [*net[-2:]]):
            fully_shard(units, mesh=mesh, mp_policy=policy, reshard_after_forward=self.reshard)
        fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=self.reshard)
        with Collectives() as found:
            for _ in range(self.microbatches):
                net(self.shape.words()).float().square().mean().backward()
        return found.sent


def test_a_step_of_fully_shard(asked: Asker) -> None:
    """All parameters in units with the same words."""
    with asked("torch", "bytes of all-gathers and reductions of fully_shard, HSDP too, and their ranks") as answers:
        for seed in share(range(100), 10):
            case = Case.drawn(seed)
            with ranks_of(case.layout.world):
                sent = case.sent()
            theirs: Counter[str] = Counter()
            for one in sent:
                theirs[one.op] += one.size_B
            words = {"reduce_B": 4.0 if case.wide else 2.0, "reshard": bool(case.reshard), "batch": case.batch}
            ours = priced_B(case.shape, case.layout, "dp copies", **words)
            answers.compare(f"{case}", dict(ours), dict(theirs))
            groups = {name: {tuple(process_groups(case.layout, name)[0])} for name in ("shard", "copies")}
            found = {"shard": set(), "copies": set() if case.copies > 1 else groups["copies"]}
            for one in sent:
                found["copies" if one.op == "all-reduce" else "shard"].add(one.ranks)
            answers.compare(f"{case}: ranks", groups, found)
