"""Megatron Core's own layers run on a CPU, split among ranks without other ranks, and are asked what they send: column
and row parallel products of attention and block, and the dispatcher of experts; Lockstep's answer is what it prices.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
import torch
from agreement import Asker
from llama_of_ranks import Shape, priced_B, traffic_B
from recorded import Alike, Sent, ranks_of

from effort import share
from lockstep.describe.workload import Experts
from lockstep.price.layout import Job, Layout, process_groups
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
NUMBERS = "Megatron also sends the weight of every copy of a token, and counts of tokens, which Lockstep leaves out"


class NoStream:
    """In place of a stream of CUDA, where there is none."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self


@contextlib.contextmanager
def megatron(**sizes: int) -> Iterator[None]:
    """Its groups of ranks, without a GPU."""
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    no_fork = patch.object(CudaRNGStatesTracker, "fork", lambda *_: contextlib.nullcontext())
    here = patch.object(torch.cuda, "current_device", lambda: torch.device("cpu"))
    streams = [patch.object(torch.cuda, name, NoStream) for name in ("Stream", "current_stream")]
    within = patch.object(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    stays = patch.object(torch.Tensor, "cuda", lambda self, *_, **__: self)
    world = sizes.pop("world")
    with ranks_of(world, backend="alike"), no_fork, here, streams[0], streams[1], within, stays:
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False, **sizes)
        try:
            yield
        finally:
            parallel_state.destroy_model_parallel()


def sent() -> list[Sent]:
    """What all groups have sent, which forget it."""
    found: list[Sent] = []
    for group in [*torch.distributed.distributed_c10d._world.pg_map]:
        found += group.sent
        group.sent.clear()
    return found


def configured(shape: Shape, **words: Any) -> Any:
    """The configuration of a layer."""
    from megatron.core.transformer.transformer_config import TransformerConfig

    return TransformerConfig(
        num_layers=1, hidden_size=shape.hidden, num_attention_heads=shape.heads, kv_channels=shape.head,
        num_query_groups=shape.kv_heads, ffn_hidden_size=shape.ffn, use_cpu_initialization=True, hidden_dropout=0.0,
        attention_dropout=0.0, gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
        bias_activation_fusion=False, masked_softmax_fusion=False, gradient_accumulation_fusion=False, **words,
    )  # fmt: skip


def passed(modules: list[Any], x: torch.Tensor) -> list[Sent]:
    """What modules send forward and backward."""
    sent()
    Alike.phase = "forward"
    for one in modules:
        x = x + one(x)
    Alike.phase = "backward"
    x.sum().backward()
    return sent()


def test_column_and_row_parallel_layers(asked: Asker) -> None:
    """Attention and a gated block, each between a column and a row parallel product."""
    with asked(
        "megatron-core", "bytes of tensor and sequence parallel attention and block, and their ranks"
    ) as answers:
        for seed in share(range(60), 4):
            random = Random(seed)
            ranks, sequences = random.choice([2, 4, 8]), random.random() < 0.6
            shape = replace(Shape.drawn(random, ranks, layers=(1,)))
            with megatron(world=2 * ranks, tensor_model_parallel_size=ranks):
                theirs, groups = of_layer(shape, ranks, sequences)
            layout = Layout(tp=ranks, dp=2, sequence_parallel=sequences, micro_batch=shape.sequences)
            ours = priced_B(shape, layout, "tp", stack="megatron-te", batch=2 * shape.sequences, dtype="fp32")
            case = f"{shape} among {ranks}, sequences {sequences}"
            answers.compare(case, dict(ours), dict(theirs))
            answers.compare(f"{case}: ranks", {tuple(process_groups(layout, "tp")[0])}, groups)


def of_layer(shape: Shape, ranks: int, sequences: bool) -> tuple[Counter[str], set[tuple[int, ...]]]:
    """Bytes by collective, and the ranks of them."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.spec_utils import build_module

    config = configured(shape, tensor_model_parallel_size=ranks, sequence_parallel=sequences)
    of = get_gpt_layer_local_spec().submodules
    attention = build_module(of.self_attention, config=config, layer_number=1)
    block = build_module(of.mlp, config=config)
    mask = torch.ones(1, 1, shape.seq, shape.seq).tril() < 0.5
    rows = shape.seq // ranks if sequences else shape.seq
    x = torch.randn(rows, shape.sequences, shape.hidden, requires_grad=True)
    found: Counter[str] = Counter()
    several = passed([lambda one: attention(one, attention_mask=mask)[0], lambda one: block(one)[0]], x)
    for one in several:
        found[one.op] += one.size_B
    return found, {one.ranks for one in several}


class Even(torch.nn.Module):
    """Chooses all experts equally often."""

    def __init__(self, experts: int, top_k: int) -> None:
        super().__init__()
        self.experts, self.top_k = experts, top_k

    def forward(self, x: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights, and which experts."""
        tokens = x.numel() // x.shape[-1]
        chosen = torch.arange(tokens * self.top_k).view(tokens, self.top_k) % self.experts
        where = torch.zeros(tokens, self.experts, dtype=torch.bool).scatter_(1, chosen, True)
        return where / self.top_k, where

    def set_layer_number(self, _: int) -> None:
        """Is of no use."""


def test_the_exchange_of_experts(asked: Asker) -> None:
    """Tokens there and back, forward and backward, every expert as many."""
    with asked("megatron-core", "bytes of the experts' exchange (alltoall dispatcher), and their ranks") as answers:
        for seed in share(range(60), 4):
            random = Random(seed)
            ep, etp = random.choice([2, 4]), random.choice([1, 1, 2])
            experts, top_k = ep * random.choice([1, 2]), random.choice([1, 2])
            shape = replace(Shape.drawn(random, 2, layers=(1,)), seq=4 * ep * etp, sequences=random.choice([1, 2]))
            world, tp = 2 * ep * etp, etp
            words = {"tensor_model_parallel_size": tp, "expert_model_parallel_size": ep}
            with megatron(world=world, expert_tensor_parallel_size=etp, **words):
                theirs, groups = exchanged(shape, experts, top_k, etp, words)
            layout = Layout(
                tp=tp, etp=etp, ep=ep, dp=world // tp, sequence_parallel=tp > 1, micro_batch=shape.sequences
            )
            model = replace(shape.described, experts=Experts(experts=experts, top_k=top_k, ffn=shape.ffn))
            recipe = recipe_by(
                "megatron-te", seq=shape.seq, batch=shape.sequences * layout.dp, dtype="fp32"
            )  # fmt: skip
            ours = traffic_B(Job(model, recipe, world), layout, "ep etp")
            case = f"{shape}, {experts} experts, {top_k} of them, ep {ep}, etp {etp}"
            answers.compare(f"{case}: numbers", 0, theirs.pop("numbers"), why=NUMBERS)
            answers.compare(case, dict(ours), dict(theirs))
            answers.compare(f"{case}: ranks", {tuple(process_groups(layout, "ep")[0])}, groups)


def exchanged(
    shape: Shape, experts: int, top_k: int, etp: int, words: dict[str, int]
) -> tuple[Counter[str], set[tuple[int, ...]]]:
    """Bytes by collective, of numbers of tokens apart, and the ranks of all-to-alls."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.spec_utils import build_module

    config = configured(
        shape, num_moe_experts=experts, moe_router_topk=top_k, moe_ffn_hidden_size=shape.ffn,
        moe_token_dispatcher_type="alltoall", expert_tensor_parallel_size=etp, sequence_parallel=etp > 1,
        moe_router_load_balancing_type="none", moe_router_pre_softmax=True, **words,
    )  # fmt: skip
    layer = build_module(get_gpt_layer_local_spec(num_experts=experts).submodules.mlp, config=config)
    layer.router = Even(experts, top_k)
    x = torch.randn(shape.seq // etp, shape.sequences, shape.hidden, requires_grad=True)
    found: Counter[str] = Counter()
    several = [one for one in passed([lambda one: layer(one)[0]], x) if one.size_B]
    for one in several:
        found["numbers" if one.dims == 1 else one.op] += one.size_B
    return found, {one.ranks for one in several if one.op == "all-to-all"}
