"""Pipelines of Megatron Core as its own schedules run them on one rank, without a model and without other ranks.

What a pass computes and what is sent is left out; the functions that decide what comes next run whole, and take what
they "receive" out of their own lists as they do with tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer.transformer_config import TransformerConfig
from torch.overrides import TorchFunctionMode

Passes = list[tuple[str, int, int]]
"""(F or B, micro-batch, chunk) of one device, in order."""


class Ranks:
    """A process group of which only the size, and the rank of this process, are asked."""

    def __init__(self, size: int, rank: int = 0) -> None:
        self._size, self._rank = size, rank

    def size(self) -> int:
        """How many ranks it has."""
        return self._size

    def rank(self) -> int:
        """The rank of this process."""
        return self._rank


class Arrived:
    """A message that is there."""

    def wait(self) -> None:
        """Nothing to wait for."""


class Messages:
    """What a schedule sends its neighbours: everything arrives at once."""

    def __init__(self, config: Any, group: Ranks, chunks: int | None) -> None:
        self.config, self.pp_group, self.virtual_pipeline_model_parallel_size = config, group, chunks

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("send_", "recv_")):
            raise AttributeError(name)
        received = 2 if name.endswith("recv_forward_backward") else 1

        def exchange(*_: Any, overlap_p2p_comm: bool = False, **wanted: Any) -> Any:
            if overlap_p2p_comm:
                came = [way for way in ("recv_prev", "recv_next") if wanted.get(way)]
                return "received", {way: Arrived() for way in (*came, "send_next", "send_prev")}
            return ("received",) * 2 if received > 1 else "received"

        return exchange


class OnThisMachine(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made here."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wanted = {**(kwargs or {})}
        if wanted.get("device") == "cuda":
            wanted["device"] = "cpu"
        return function(*args, **wanted)


def config_of(stages: int, chunks: int, **words: Any) -> Any:
    """Megatron's own configuration of a pipeline; raises what its checks raise."""
    virtual = {"virtual_pipeline_model_parallel_size": chunks} if chunks > 1 else {}
    return TransformerConfig(
        num_layers=stages * chunks, hidden_size=8, num_attention_heads=1, pipeline_model_parallel_size=stages,
        pipeline_dtype=torch.float32, deallocate_pipeline_outputs=False, **virtual, **words,
    )  # fmt: skip


@contextmanager
def _listening(passes: Passes) -> Iterator[None]:
    """Notes the passes that a schedule runs, instead of running them."""

    def forward(*_: Any, current_microbatch: int, vp_stage: int | None = None, **__: Any) -> Any:
        passes.append(("F", current_microbatch, vp_stage or 0))
        return [current_microbatch, vp_stage or 0], torch.zeros([], dtype=torch.int)

    def backward(_: Any, output: list[int], *__: Any) -> str:
        passes.append(("B", output[0], output[1]))
        return "gradient"

    with OnThisMachine(), patch.multiple(schedules, forward_step=forward, backward_step=backward):
        yield


def run(rank: int, stages: int, microbatches: int, chunks: int, **words: Any) -> Passes:
    """The passes of a rank in a step, by the function that Megatron picks; raises what it raises."""
    config, group, passes = config_of(stages, chunks, **words), Ranks(stages, rank), list[tuple[str, int, int]]()
    model = []
    for _ in range(chunks):
        model.append(torch.nn.Linear(1, 1))
        model[-1].config, model[-1].model_type = config, ModelType.encoder_or_decoder
    collection = schedules.ProcessGroupCollection(tp=Ranks(1), cp=Ranks(1), pp=group, dp_cp=Ranks(1))
    collection.embd = collection.pos_embd = None
    virtual = chunks if chunks > 1 else None
    step = schedules.get_forward_backward_func(stages, virtual)
    with _listening(passes):
        step(
            forward_step_func=None, data_iterator=[None] * chunks, model=model, num_microbatches=microbatches,
            seq_length=8, micro_batch_size=1, p2p_communicator=Messages(config, group, virtual),
            pg_collection=collection,
        )  # fmt: skip
    return passes
