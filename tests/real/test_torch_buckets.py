"""DistributedDataParallel's own reducer (C++) is asked which buckets it sums, in which order, before and after it has
rebuilt them; Lockstep's answer is the reducer that programs get when they are captured, and the buckets of `overlap`.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
import torch.distributed as dist
from agreement import Asker
from recorded import Alike, ranks_of
from torch.nn.parallel import DistributedDataParallel

from effort import share
from lockstep.run.capture.libraries.data_parallel import CapturedDataParallel
from lockstep.simulate.parallel.data.layers import Layers

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 4
"""After which even a static graph's buckets are rebuilt."""
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


class Net(torch.nn.Module):
    """Parameters whose gradients are ready in a drawn order, some of them not used."""

    def __init__(self, parameters: list[Any], order: list[int], device: str = "cpu") -> None:
        super().__init__()
        made = (torch.nn.Parameter(torch.ones(elems, dtype=dtype, device=device)) for elems, dtype in parameters)
        self.own, self.order = torch.nn.ParameterList(made), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number that all used parameters decide."""
        for at in self.order:
            x = x + self.own[at].float().mean() * x
        return x.sum()


def drawn(seed: int) -> tuple[list[Any], list[int], dict[str, Any]]:
    """Parameters, the order in which they are used, and words for the wrapper."""
    random = Random(seed)
    words: dict[str, Any] = {}
    how = seed % 4
    if how == 1:
        words["bucket_cap_mb"] = random.choice([0.01, 0.05, 1, 2])
    if how == 2:
        words["bucket_cap_mb_list"] = [random.choice([0.01, 0.05, 0.2]) for _ in range(random.randint(1, 3))]
    for word in ("find_unused_parameters", "gradient_as_bucket_view", "static_graph"):
        if random.random() < 0.3:
            words[word] = True
    large = how == 0 or words.get("bucket_cap_mb", 0) >= 1
    formats = FORMATS[: random.choice([1, 1, 2, 3])]
    parameters = [
        (random.randint(1, 1 << random.choice([3, 14, 19 if large else 14])), random.choice(formats))
        for _ in range(random.randint(1, 24))
    ]
    order = random.sample(range(len(parameters)), len(parameters))
    if words.get("find_unused_parameters") and random.random() < 0.7:
        order = order[: random.randint(1, len(order))]
        words["skip_all_reduce_unused_params"] = random.random() < 0.3 and not words.get("static_graph")
    return parameters, order, words


def summed(wrapper: Any, seed: int, group: Alike) -> tuple[Any, Any]:
    """(bytes of the first step's buckets, what the last of several steps sums, in order) by a wrapper."""
    parameters, order, words = drawn(seed)
    net, steps = wrapper(Net(parameters, order), process_group=group, **words), []
    for _ in range(STEPS):
        group.sent.clear()
        net(torch.ones(2)).backward()
        steps.append([(one.op, one.ranks, one.size_B) for one in group.sent])
        net.zero_grad()
    first = [one[2] for one in steps[0] if one[0] == "all-reduce"]
    several = len({dtype for _, dtype in parameters}) > 1
    # Buckets of several formats that are not full come in the order of a hash.
    return (sorted(first), sorted(steps[-1])) if several else (first, steps[-1])


def test_buckets_of_a_reducer(asked: Asker) -> None:
    """Sizes, order, groups and formats."""
    with asked("torch", "buckets that DistributedDataParallel sums, in order, first and later") as answers:
        for ranks in (2, 3, 8):
            with ranks_of(16, backend="alike"):
                group = dist.new_group(sorted([0, *Random(ranks).sample(range(1, 16), ranks - 1)]))
                for seed in share(range(80), 4, begin=ranks):
                    ours, theirs = (summed(one, seed, group) for one in (CapturedDataParallel, DistributedDataParallel))
                    answers.compare(f"seed {seed}: {drawn(seed)[2]}", ours, theirs)


def test_buckets_of_overlap(asked: Asker) -> None:
    """The rule by which `overlap` cuts layers, where the size is written out, as it is asked for there."""
    with asked("torch", "buckets of equal rule: bucket_cap_mb written out") as answers, ranks_of(4, backend="alike"):
        group = dist.group.WORLD
        for seed in share(range(60), 4):
            random = Random(seed)
            layers = [random.randint(1, 6000) for _ in range(random.randint(1, 30))]
            cap = random.choice([0.002, 0.01, 0.02])
            net = Net([(elems, torch.float32) for elems in layers], list(range(len(layers))))
            wrapped = DistributedDataParallel(net, process_group=group, bucket_cap_mb=cap)
            for _ in range(2):
                group.sent.clear()
                wrapped(torch.ones(2)).backward()
            theirs = [one.size_B for one in group.sent]
            sizes_B = tuple(4.0 * elems for elems in layers)
            known = Layers((1.0,) * len(layers), sizes_B)
            ours = known.in_buckets(known.buckets(int(cap * (1 << 20))))[1]
            answers.compare(f"seed {seed}", [int(one) for one in ours], theirs)
