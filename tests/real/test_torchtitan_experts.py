"""torchtitan's router and token dispatchers bring drawn tokens to experts; Lockstep answers for the same layers.

The mesh of the all-to-all has no other ranks behind it: what an exchange would bring is handed to the dispatcher.
torchtitan drops nothing and pads nothing there: rows lie one after another, expert by expert.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from agreement import Asker
from drawn_experts import TOKEN_B, Drawn, layers

from lockstep.simulate.parallel.expert import Routing
from lockstep.simulate.parallel.expert.load import routing_load
from lockstep.simulate.parallel.expert.spread import Choices, expected_units

# Kernels of an exchange that nobody asks about here need a compiler that torch for processors is without.
sys.modules.setdefault("torchtitan.distributed.minimal_async_ep", MagicMock())
from torchtitan.distributed import utils  # noqa: E402
from torchtitan.models.common.linear import Linear  # noqa: E402
from torchtitan.models.common.moe import GroupedExperts, MoE, RoutedExperts, TokenChoiceTopKRouter  # noqa: E402
from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher, LocalTokenDispatcher  # noqa: E402

SOFTWARE = "torchtitan"
HIDDEN = 16
BEST_TWO = "torchtitan takes groups by their two best experts, Lockstep by their best k / M as DeepSeek-V3 says"


class Mesh:
    """The size of an expert-parallel mesh."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size

    def get_group(self) -> None:
        return None


class Handed(AllToAllTokenDispatcher):
    """A rank whose exchanges bring what all ranks said."""

    counts: torch.Tensor
    """Rows that each rank has for each expert [ranks, experts]."""
    rank: int

    def _token_count_exchange(self, counts: torch.Tensor, pg: Any, ep_size: int) -> torch.Tensor:
        return self.counts.view(ep_size, ep_size, -1)[:, self.rank]

    def _dispatch_token_exchange(self, rows: torch.Tensor, pg: Any, received: list[int], sent: list[int]) -> Any:
        return torch.zeros(sum(received), rows.shape[1])


def router(drawn: Drawn, **fields: Any) -> TokenChoiceTopKRouter:
    """torchtitan's, whose scores are drawn."""
    gate = Linear.Config(in_features=HIDDEN, out_features=drawn.experts, bias=False)
    made = TokenChoiceTopKRouter.Config(num_experts=drawn.experts, gate=gate, top_k=drawn.top_k, **fields).build()
    torch.nn.init.normal_(made.gate.weight)
    return made


def test_every_expert_gets_the_rows_that_chose_it(asked: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends of experts' rows in grouped products of the whole layer, by the choices of its router."""
    ends: list[torch.Tensor] = []

    def product(self: GroupedExperts, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        ends.append(offs)
        return torch.zeros(A.shape[0], B_t.shape[2], dtype=A.dtype)

    torch.manual_seed(1)
    monkeypatch.setattr(utils, "_spmd_backend", "full_dtensor")
    monkeypatch.setattr(GroupedExperts, "_grouped_mm", product)
    with asked(SOFTWARE, "rows of every expert in grouped products") as answers:
        for drawn in layers(60, seed=1):
            inner = GroupedExperts.Config(dim=HIDDEN, hidden_dim=8, num_experts=drawn.experts)
            local = LocalTokenDispatcher.Config(num_experts=drawn.experts, top_k=drawn.top_k)
            routed = RoutedExperts.Config(inner_experts=inner, token_dispatcher=local)
            gate = Linear.Config(in_features=HIDDEN, out_features=drawn.experts, bias=False)
            chooses = TokenChoiceTopKRouter.Config(num_experts=drawn.experts, gate=gate, top_k=drawn.top_k)
            layer = MoE.Config(num_experts=drawn.experts, routed_experts=routed, router=chooses).build()
            torch.nn.init.normal_(layer.router.gate.weight)
            tokens = torch.randn(1, drawn.tokens, HIDDEN)
            chosen = layer.router(tokens)[1][0].numpy()
            layer(tokens)
            load = Routing(drawn.experts, chosen, np.full(drawn.experts, 1 / drawn.experts)).load
            answers.compare(drawn.name, np.cumsum(load).tolist(), ends[-1].tolist())


def test_a_layer_sends_what_the_dispatcher_sends(asked: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "_spmd_backend", "full_dtensor")
    with asked(SOFTWARE, "bytes from rank to rank, and rows of a rank") as answers:
        for drawn in layers(80, seed=2):
            drawn = replace(drawn, factor=None)
            found, choices = drawn.layer(), torch.tensor(drawn.routing().choice).chunk(drawn.ranks)
            counts = torch.stack([torch.bincount(one.flatten(), minlength=drawn.experts) for one in choices])
            sent, rows = [], []
            for rank, choice in enumerate(choices):
                one = Handed(AllToAllTokenDispatcher.Config(num_experts=drawn.experts, top_k=drawn.top_k))
                one.ep_mesh, one.counts, one.rank = Mesh(drawn.ranks), counts, rank
                tokens = torch.zeros(len(choice), HIDDEN)
                _, given, told = one.dispatch(tokens, torch.ones(choice.shape), choice, counts[rank])
                sent.append(told.input_splits)
                rows.append(float(given.sum()))
            ours = (found.size_B / TOKEN_B).tolist(), found.rank_load.max, found.dropped
            answers.compare(drawn.name, ours, (sent, max(rows), 0))


def test_tokens_of_limited_groups_travel_as_far(asked: Asker) -> None:
    torch.manual_seed(0)
    with asked(SOFTWARE, "units that hold experts of a token, routed to some groups of experts") as answers:
        for groups, each, limited in itertools.product((4, 8), (4, 8, 32), (1, 2, 3)):
            for top_k in range(limited, min(9, limited * each), 2):
                drawn = Drawn(groups * each, top_k, 3000, 1, 0.0, None, 0)
                one = router(drawn, num_expert_groups=groups, num_limited_groups=limited)
                chosen = one(torch.randn(1, drawn.tokens, HIDDEN))[1][0]
                hit = torch.zeros(drawn.tokens, groups).scatter(1, chosen // each, 1).sum(dim=1).mean()
                ours, theirs = expected_units(Choices(drawn.experts, top_k, groups, limited), groups), float(hit)
                near = abs(ours - theirs) <= 0.03 * theirs
                why = BEST_TWO if not near and top_k // limited != 2 else ""
                answers.compare(f"{groups} x {each} of {limited}, {top_k}", ours, theirs, within=0.03, why=why)


def test_forced_balance_is_balanced(asked: Asker) -> None:
    """`--routing forced` names software that overwrites its router: all experts get as many, to one."""
    assert routing_load("forced") is None
    with asked(SOFTWARE, "rows of every expert where balance is forced") as answers:
        for drawn in layers(60, seed=3):
            one = router(drawn, _debug_force_load_balance=True)
            chosen = one(torch.zeros(1, drawn.tokens, HIDDEN))[1]
            rows, mean = torch.bincount(chosen.flatten(), minlength=drawn.experts), drawn.tokens * drawn.top_k
            few, more = divmod(mean, drawn.experts)
            answers.compare(drawn.name, [few + 1] * more + [few] * (drawn.experts - more), rows.tolist())
