"""Megatron Core's router, dropping and all-to-all dispatcher route drawn tokens; Lockstep answers for the same layer.

The process group has no other ranks behind it: what the dispatcher would gather of the others is handed to it, and the
device is the processor. Everything else is Megatron's own code.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from agreement import Asker
from drawn_experts import TOKEN_B, Drawn, layers, whole
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.moe import moe_utils, token_dispatcher
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.transformer_config import TransformerConfig
from pipelines_of_megatron import Ranks
from torch.testing._internal.distributed.fake_pg import FakeStore

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout, Recipe
from lockstep.simulate.parallel.expert import balance_loss, capacity
from lockstep.simulate.parallel.expert.spread import Choices, expected_units

BINARY = "Megatron multiplies binary fractions: 1.1 times 10 is a hair above 11, and an expert takes 12"
SOFTWARE = "megatron-core"


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    """A group of 16 of which this process plays each rank in turn."""
    dist.init_process_group("fake", rank=0, world_size=16, store=FakeStore())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.cuda, "current_device", lambda: torch.device("cpu"))
        patched.setattr(token_dispatcher.MoEAlltoAllTokenDispatcher, "cuda_dtoh_stream", object())
        yield
    dist.destroy_process_group()


def config(drawn: Drawn, **fields: Any) -> TransformerConfig:
    """Megatron's settings of the layer."""
    return TransformerConfig(
        num_layers=1, hidden_size=16, num_attention_heads=2, num_moe_experts=drawn.experts,
        moe_router_topk=drawn.top_k, moe_expert_capacity_factor=drawn.factor, moe_aux_loss_coeff=0.0,
        moe_router_load_balancing_type="none", moe_token_dispatcher_type="alltoall", use_cpu_initialization=True,
        moe_router_pre_softmax=True, **fields,
    )  # fmt: skip


def groups(ep: int, tp: int = 1, rank: int = 0) -> ProcessGroupCollection:
    """Of `rank` in the expert-parallel group, the first of tp."""
    one, several = Ranks(1), Ranks(ep, rank)
    return ProcessGroupCollection(
        tp=Ranks(tp), cp=one, tp_cp=Ranks(tp), tp_dp_cp=Ranks(tp * ep), ep=several, expt_tp=Ranks(tp),
        tp_ep=Ranks(tp * ep, rank * tp),
    )  # fmt: skip


def logits(drawn: Drawn) -> torch.Tensor:
    """Scores by which Megatron chooses what Lockstep's routing chose, in its order."""
    found = np.full((drawn.tokens, drawn.experts), -9.0)
    best_first = np.broadcast_to(-np.arange(drawn.top_k) / 2.0, (drawn.tokens, drawn.top_k))
    np.put_along_axis(found, drawn.routing().choice, best_first, axis=1)
    return torch.tensor(found + np.random.default_rng(drawn.seed).uniform(0, 0.4, found.shape))


def routed(drawn: Drawn, **fields: Any) -> list[torch.Tensor]:
    """The map [tokens, experts] of every rank after its router dropped."""
    scores = logits(drawn).split(drawn.tokens // drawn.ranks)
    router = TopKRouter(config(drawn, **fields), groups(1))
    return [router.routing(one.unsqueeze(1))[1] for one in scores]


def dispatched(drawn: Drawn, maps: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch, tp: int = 1) -> Any:
    """(rows that each rank sends to each, rows of each expert) by the dispatchers of all ranks."""
    counts = torch.cat([one.sum(dim=0).long() for one in maps])
    monkeypatch.setattr(token_dispatcher, "gather_from_sequence_parallel_region", lambda _, group: counts)
    ranks, rows, sent = len(maps) // tp, [], []
    each = drawn.experts // ranks
    for rank in range(ranks):
        held, settings = list(range(rank * each, (rank + 1) * each)), config(drawn, expert_model_parallel_size=ranks)
        one = token_dispatcher.MoEAlltoAllTokenDispatcher(each, held, settings, groups(ranks, tp, rank))
        rows += one.preprocess(maps[rank * tp]).tolist()
        sent.append([sum(rows)] if one.input_splits is None else one.input_splits.tolist())
    return np.array(sent), np.array(rows)


def test_capacity_is_that_of_megatron(asked: Asker) -> None:
    cases = itertools.product((1, 7, 60, 100, 333, 4096), (1, 2, 6), (4, 8, 10, 60), (0.5, 1.0, 1.1, 1.15, 1.25, 1.7))
    with asked(SOFTWARE, "capacity of an expert") as answers:
        for tokens, top_k, number, factor in cases:
            ours = capacity(tokens, top_k, number, factor)
            theirs = moe_utils.get_capacity(tokens * top_k, number, factor)
            odd = theirs == ours + 1 and whole(tokens, top_k, number, factor)
            answers.compare(f"{tokens} {top_k} {number} {factor}", ours, theirs, why=BINARY if odd else "")


@pytest.mark.parametrize("policy", ["probs", "position"])
def test_a_rank_keeps_as_many_rows_of_every_expert(policy: str, asked: Asker) -> None:
    with asked(SOFTWARE, "rows of every expert after dropping, rank by rank") as answers:
        for drawn in layers(60, seed=1, drops=False):
            maps = routed(drawn, moe_token_drop_policy=policy)
            ours = [part.sum(axis=0).tolist() for part in np.split(drawn.map(drawn.kept()), drawn.ranks)]
            theirs = [one.sum(dim=0).tolist() for one in maps]
            odd = bool(drawn.factor) and ours != theirs and one_more(drawn)
            answers.compare(f"{policy} {drawn.name}", ours, theirs, why=BINARY if odd else "")


def one_more(drawn: Drawn) -> bool:
    """Whether the capacity is whole, so that Megatron's may be one more."""
    return whole(drawn.tokens // drawn.ranks, drawn.top_k, drawn.experts, drawn.factor or 1.0)


def test_a_layer_sends_what_the_dispatcher_sends(asked: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    with asked(SOFTWARE, "bytes from rank to rank, rows dropped and rows of a rank") as answers:
        for drawn in layers(80, seed=2, drops=False):
            found = drawn.layer()
            sent, rows = dispatched(drawn, routed(drawn), monkeypatch)
            dropped = drawn.tokens * drawn.top_k - int(rows.sum())
            ours = found.dropped, (found.size_B / TOKEN_B).tolist(), found.rank_load.max
            theirs = dropped, sent.tolist(), float(rows.reshape(drawn.ranks, -1).sum(axis=1).max())
            odd = bool(drawn.factor) and ours != theirs and one_more(drawn)
            answers.compare(drawn.name, ours, theirs, why=BINARY if odd else "")


def test_padding_to_the_capacity_sends_the_capacity(asked: Asker) -> None:
    """`moe_pad_expert_input_to_capacity`: every expert gets its capacity of each rank, full or not."""
    why = "Lockstep sends no padding: an import says that experts padded to their capacity are left out"
    with asked(SOFTWARE, "rows of experts that are padded to their capacity") as answers:
        for drawn in layers(60, seed=3):
            maps = routed(drawn, moe_pad_expert_input_to_capacity=True)
            theirs, ours = sum(int(one.sum()) for one in maps), int(drawn.kept().sum())
            answers.compare(drawn.name, ours, theirs, why=why if ours < theirs else "")


@pytest.mark.parametrize("multiple", [16, 32])
def test_padding_for_narrow_formats_adds_a_few_rows(multiple: int, asked: Asker) -> None:
    """`moe_router_padding_for_quantization`: tokens are routed to experts that did not ask for them."""
    why = "Lockstep does not count rows that fill an expert up to a multiple of 16 or 32 for fp8 or fp4"
    with asked(SOFTWARE, "rows of experts that are padded for narrow formats") as answers:
        for drawn in layers(40, seed=6, drops=False):
            routed_map = torch.tensor(drawn.map())
            theirs, ours = int(moe_utils.pad_routing_map(routed_map, multiple).sum()), drawn.tokens * drawn.top_k
            few = ours < theirs <= ours + drawn.experts * (multiple - 1)
            answers.compare(f"{multiple} {drawn.name}", ours, theirs, why=why if few else "")


def test_sinkhorn_sends_as_many_rows(asked: Asker) -> None:
    """`moe_router_load_balancing_type` sinkhorn: other experts, as many rows in all."""
    with asked(SOFTWARE, "rows in all, routed by Sinkhorn's algorithm") as answers:
        for drawn in layers(50, seed=7):
            drawn = replace(drawn, factor=None, ranks=1)
            settings = replace(config(drawn), moe_router_load_balancing_type="sinkhorn")
            scores = torch.randn(drawn.tokens, 1, drawn.experts)
            chosen = TopKRouter(settings, groups(1)).routing(scores)[1]
            answers.compare(drawn.name, int(drawn.layer().rank_load.max), int(chosen.sum()))


def test_tokens_of_limited_groups_travel_as_far(asked: Asker) -> None:
    """Independent scores; within what 3,000 drawn tokens tell."""
    torch.manual_seed(0)
    with asked(SOFTWARE, "units that hold experts of a token, routed to some groups of experts") as answers:
        for number, each, top_groups in itertools.product((4, 8), (4, 8, 32), (1, 2, 3)):
            for top_k in range(top_groups, min(9, top_groups * each), 2):
                scores = torch.rand(3000, number * each)
                limits = top_k, 3000, number * each, number, top_groups
                chosen = moe_utils.group_limited_topk(scores, *limits)[1]
                for units in (number, 2 * number):
                    hit = torch.zeros(3000, units).scatter(1, chosen // (number * each // units), 1)
                    ours = expected_units(Choices(number * each, top_k, number, top_groups), units)
                    answers.compare(f"{limits} {units}", ours, float(hit.sum(dim=1).mean()), within=0.02)


def test_the_balancing_loss_is_that_of_megatron(asked: Asker) -> None:
    with asked(SOFTWARE, "loss that balances experts") as answers:
        for drawn in layers(60, seed=4):
            drawn = replace(drawn, ranks=1, factor=None)
            routing, scores = drawn.routing(), torch.softmax(logits(drawn), dim=-1)
            theirs = moe_utils.switch_load_balancing_loss_func(
                scores, torch.tensor(drawn.map()).sum(dim=0), drawn.tokens, drawn.top_k, drawn.experts, 1.0
            )
            ours = balance_loss(replace(routing, probability=scores.mean(dim=0).numpy()))
            answers.compare(drawn.name, ours, float(theirs), within=1e-6)


def test_experts_of_a_rank_get_as_many_rows(asked: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Balanced routing, as Lockstep takes it, of ranks that divide experts (ep) and cut them (etp = tp)."""
    chance, mixtral = random.Random(5), model("mixtral-8x7b")
    assert isinstance(mixtral, Transformer)
    assert mixtral.experts is not None
    with asked(SOFTWARE, "rows of the experts of a rank, which tp cuts and ep divides") as answers:
        for tp, ep, top_k, micro_batch in itertools.product((1, 2, 4), (1, 2, 4), (1, 2, 4), (1, 2)):
            seq = 8 * tp * chance.randint(1, 16)
            drawn = Drawn(8, top_k, micro_batch * seq // tp, 1, 0.0, None, 0)
            choice = torch.arange(drawn.tokens * top_k).reshape(-1, top_k) % 8
            balanced = torch.zeros(drawn.tokens, 8).scatter(1, choice, 1).bool()
            _, rows = dispatched(drawn, [balanced] * (tp * ep), monkeypatch, tp)
            layout = Layout(tp=tp, dp=ep, ep=ep, micro_batch=micro_batch, sequence_parallel=tp > 1)
            recipe, moe = Recipe(seq=seq, batch=64), replace(mixtral.experts, top_k=top_k)
            one = replace(mixtral, experts=moe)
            shard = Shard(one, layout.grid(), recipe, Clock.of(cluster("dgx-h100:2").device, recipe))
            ours = float(np.asarray(shard.expert_rows))
            answers.compare(f"tp {tp} ep {ep} k {top_k} {micro_batch}x{seq}", ours, float(rows.sum()) / ep)
