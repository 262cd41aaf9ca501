"""DeepSpeed's gates choose experts for drawn tokens and drop; Lockstep keeps of the same choices what it keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from agreement import Asker
from deepspeed.moe import sharded_moe
from drawn_experts import Drawn, layers

from lockstep.simulate.parallel.expert import Routing, balance_loss, capacity, kept

ANY = "of the tokens of a full expert DeepSpeed keeps any, as it takes the largest of equal numbers, Lockstep the first"
BY_TOKEN = (
    "with drop_policy position DeepSpeed serves tokens in order whatever their rank of choice, GShard first choices"
)
SOFTWARE = "deepspeed"


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    """DeepSpeed compiles its small functions, which takes a minute here and answers the same."""
    with torch.compiler.set_stance("force_eager"):
        yield


def scores(drawn: Drawn) -> torch.Tensor:
    """Logits by which DeepSpeed chooses what Lockstep's routing chose, in its order."""
    found = np.full((drawn.tokens, drawn.experts), -9.0, dtype=np.float32)
    best_first = np.broadcast_to(-np.arange(drawn.top_k) / 2.0, (drawn.tokens, drawn.top_k))
    np.put_along_axis(found, drawn.routing().choice, best_first, axis=1)
    return torch.tensor(found + np.random.default_rng(drawn.seed).uniform(0, 0.4, found.shape).astype(np.float32))


def ours(drawn: Drawn) -> list[int]:
    """What stays: numbers of a token times the experts, and an expert."""
    limit = capacity(drawn.tokens, drawn.top_k, drawn.experts, drawn.factor or 1.0)
    return np.flatnonzero(drawn.map(kept(drawn.routing(), limit))).tolist()


def theirs(mask: torch.Tensor) -> list[int]:
    """The same of a gate's mask [tokens, experts, places]."""
    return mask.any(dim=2).flatten().nonzero().flatten().tolist()  # type: ignore[no-any-return]


def rows(stays: list[int], drawn: Drawn) -> list[int]:
    """Of every expert."""
    return np.bincount(np.array(stays, dtype=int) % drawn.experts, minlength=drawn.experts).tolist()


def test_capacity_is_that_of_deepspeed(asked: Asker) -> None:
    cases = itertools.product((1, 7, 60, 100, 333, 4096), (1, 2, 6), (4, 8, 10, 60), (0.5, 1.0, 1.1, 1.15, 1.25, 1.7))
    with asked(SOFTWARE, "capacity of an expert") as answers:
        for tokens, top_k, number, factor in cases:
            gates, least = torch.empty(tokens, number), torch.tensor(0)
            found = int(sharded_moe._capacity(gates, torch.tensor(factor * top_k), least))
            mine = capacity(tokens, top_k, number, factor)
            answers.compare(f"{tokens} {top_k} {number} {factor}", mine, found)


def test_tokens_in_order_stay_with_their_only_expert(asked: Asker) -> None:
    with asked(SOFTWARE, "which tokens stay, one expert each") as answers:
        for drawn in layers(80, seed=1, top_k=1):
            found = theirs(sharded_moe.top1gating(scores(drawn), drawn.factor, 0, use_rts=False)[2])
            mine, same = ours(drawn), rows(ours(drawn), drawn) == rows(found, drawn)
            answers.compare(drawn.name, mine, found, why=ANY if same and mine != found else "")


def test_second_choices_come_after_all_first_ones(asked: Asker) -> None:
    with asked(SOFTWARE, "which tokens stay, two experts each") as answers:
        for drawn in layers(80, seed=2, top_k=2):
            found = sharded_moe.top2gating(scores(drawn), drawn.factor, 0, top2_2nd_expert_sampling=False)[2]
            answers.compare(drawn.name, ours(drawn), theirs(found))


def test_as_many_stay_at_every_expert(asked: Asker) -> None:
    """Which ones is another question: by their weight, or by token."""
    with asked(SOFTWARE, "rows of every expert after dropping") as answers:
        for drawn, policy in itertools.product(layers(60, seed=3), ("probs", "position")):
            if capacity(drawn.tokens, drawn.top_k, drawn.experts, drawn.factor or 1.0) < drawn.tokens:
                found = sharded_moe.topkgating(scores(drawn), drawn.top_k, drawn.factor, 0, drop_policy=policy)[2]
                mine, wanted = (rows(one, drawn) for one in (ours(drawn), theirs(found)))
                answers.compare(f"{policy} {drawn.name}", mine, wanted)


def test_tokens_are_served_in_order(asked: Asker) -> None:
    with asked(SOFTWARE, "which tokens stay, several experts each, in order of tokens") as answers:
        for drawn in layers(60, seed=5):
            found = theirs(
                sharded_moe.topkgating(scores(drawn), drawn.top_k, drawn.factor, 0, drop_policy="position")[2]
            )
            mine = ours(drawn)
            same = rows(mine, drawn) == rows(found, drawn)
            answers.compare(drawn.name, mine, found, why=BY_TOKEN if same and mine != found else "")


def test_the_balancing_loss_is_that_of_deepspeed(asked: Asker) -> None:
    with asked(SOFTWARE, "loss that balances experts") as answers:
        for drawn in layers(60, seed=4):
            loss = sharded_moe.topkgating(scores(drawn), drawn.top_k, 1.0, 0, drop_tokens=True)[0]
            gates = torch.softmax(scores(drawn), dim=1)
            routing: Routing = replace(drawn.routing(), probability=gates.mean(dim=0).numpy())
            answers.compare(drawn.name, balance_loss(routing), float(loss), within=1e-5)
