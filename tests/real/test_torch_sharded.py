"""FSDP2 itself is asked what it gathers and reduces in a step, in which groups, on ranks without other ranks;
Lockstep's answer are the collectives of a step's trace.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
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

ROOT = (
    "FSDP2's root keeps the embedding, the last norm and the head until the backward pass; Lockstep gathers all again"
)
GROUPS = (
    "with a number for reshard_after_forward FSDP2 gathers among fewer ranks for the backward pass, as Lockstep cannot"
)
NEVER = "with 1 for reshard_after_forward FSDP2 keeps parameters, which Lockstep says as --no-reshard"
ROWS = "FSDP2 gives every rank whole rows of a tensor and fills up the last; Lockstep divides bytes"
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

    @property
    def words(self) -> dict[str, Any]:
        """Of the recipe."""
        return {"reduce_B": 4.0 if self.wide else 2.0, "reshard": bool(self.reshard), "batch": self.batch}

    def sent(self, root: bool = False) -> list[Any]:
        """What a step sends; `root`: embedding, norm and head are left to the root, whose words are PyTorch's own."""
        sizes, names = (self.copies, self.shard), ("copies", "shard")
        mesh = torch.distributed.init_device_mesh("cpu", sizes, mesh_dim_names=names)
        mesh = mesh if self.copies > 1 else mesh["shard"]
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32 if self.wide else None)
        net = self.shape.model()
        for units in [*([one] for one in net[root:-2]), *([] if root else [[*net[-2:]]])]:
            fully_shard(units, mesh=mesh, mp_policy=policy, reshard_after_forward=self.reshard)
        fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=None if root else self.reshard)
        with Collectives() as found:
            for _ in range(self.microbatches):
                net(self.shape.words()).float().square().mean().backward()
        return found.sent


def by_op(sent: list[Any]) -> Counter[str]:
    """Bytes by collective."""
    found: Counter[str] = Counter()
    for one in sent:
        found[one.op] += one.size_B
    return found


def test_words_that_lockstep_does_not_have(asked: Asker) -> None:
    """Reductions agree all the same."""
    with asked("torch", "bytes of fully_shard with the root's words, and with groups for the backward pass") as answers:
        for seed in share(range(60), 10):
            case, smaller = replace(Case.drawn(seed), reshard=True), seed % 2 == 1
            if smaller:
                case = replace(case, copies=1, reshard=case.shard // 2)
            with ranks_of(case.layout.world):
                sent = case.sent(root=not smaller)
            theirs = by_op(sent)
            ours = priced_B(case.shape, case.layout, "dp copies", **case.words)
            gathered = [one.pop("all-gather") for one in (ours, theirs)]
            several = smaller and case.shard > 2
            if several:
                groups = {one.ranks for one in sent}
                answers.compare(f"{case}: ranks", {tuple(process_groups(case.layout, "shard")[0])}, groups, why=GROUPS)
            answers.compare(f"{case}: gathers", *gathered, why="" if several else NEVER if smaller else ROOT)
            answers.compare(f"{case}: reductions", dict(ours), dict(theirs))


def test_sizes_that_ranks_do_not_divide(asked: Asker) -> None:
    """FSDP2 cuts each tensor by rows."""
    with asked("torch", "bytes of fully_shard where ranks do not divide rows") as answers:
        for seed in share(range(50), 10):
            case = replace(Case.drawn(seed), shard=7, copies=1)
            with ranks_of(case.layout.world):
                theirs = by_op(case.sent())
            answers.compare(
                f"{case}", dict(priced_B(case.shape, case.layout, "dp", **case.words)), dict(theirs), why=ROWS
            )


def test_a_step_of_fully_shard(asked: Asker) -> None:
    """All parameters in units with the same words."""
    with asked("torch", "bytes of all-gathers and reductions of fully_shard, HSDP too, and their ranks") as answers:
        for seed in share(range(100), 10):
            case = Case.drawn(seed)
            with ranks_of(case.layout.world):
                sent = case.sent()
            ours = priced_B(case.shape, case.layout, "dp copies", **case.words)
            answers.compare(f"{case}", dict(ours), dict(by_op(sent)))
            groups = {name: {tuple(process_groups(case.layout, name)[0])} for name in ("shard", "copies")}
            found = {"shard": set(), "copies": set() if case.copies > 1 else groups["copies"]}
            for one in sent:
                found["copies" if one.op == "all-reduce" else "shard"].add(one.ranks)
            answers.compare(f"{case}: ranks", groups, found)
