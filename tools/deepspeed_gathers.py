"""Counts what DeepSpeed's ZeRO-3 gathers and holds under several of its limits, on two ranks of a CPU.

    DS_ACCELERATOR=cpu python tools/deepspeed_gathers.py tests/parallel/data/deepspeed_gathers.csv

It needs deepspeed and transformers, which Lockstep does not install; the tests read only the table. A row counts
elements of parameters in the last of several steps of one micro-batch, when the order of all fetches has been recorded:
those that the coordinator gathered in the forward and in the backward pass because they were not there, those that
persist and are gathered once per step after the update, those that were whole on a rank at the loss, and the most that
were whole after any gather of either pass.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

FIELDS = (
    "model", "recompute", "max_reuse_distance", "max_live_parameters", "prefetch_bucket_size",
    "param_persistence_threshold", "elements", "forward", "backward", "once", "at_loss", "peak_forward",
    "peak_backward",
)  # fmt: skip
LLAMA = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 8, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
GPT2 = {"n_embd": 64, "n_layer": 8, "n_head": 4, "vocab_size": 1024, "n_positions": 64, "use_cache": False}
MICROBATCHES = 6
LIMITS = (
    (10**9, 10**9, 5 * 10**7, 10**5),
    (10**9, 10**9, 50_000, 0),
    (10**9, 10**9, 50_000, 100),
    (300_000, 10**9, 10_000, 0),
    (300_000, 200_000, 10_000, 0),
    (300_000, 100_000, 30_000, 100),
    (100_000, 100_000, 20_000, 100),
    (100_000, 300_000, 20_000, 0),
    (0, 300_000, 20_000, 100),
    (0, 100_000, 20_000, 100),
    (0, 100_000, 0, 5_000),
    (0, 0, 0, 0),
    (200_000, 0, 0, 100),
    (700_000, 150_000, 5_000, 100),
)
"""Reuse distance, live parameters, prefetch bucket and persistence threshold."""


def measured(name: str, recompute: bool, limits: tuple[int, ...]) -> dict[str, Any]:
    """The row of one model under one set of limits."""
    import deepspeed
    import torch
    from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

    config = GPT2Config(**GPT2) if name == "gpt2" else LlamaConfig(**LLAMA, tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_config(config)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    words = ("max_reuse_distance", "max_live_parameters", "prefetch_bucket_size", "param_persistence_threshold")
    zero = {"stage": 3, **{f"stage3_{word}": limit for word, limit in zip(words, limits, strict=True)}}
    settings = {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": True},
        "zero_optimization": zero, "zero_allow_untested_optimizer": True,
    }  # fmt: skip
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), config=settings)
    parameters = list(engine.module.parameters())
    coordinator = engine.optimizer.parameter_offload.get_param_coordinator()
    counted: dict[str, int] = {}
    phase = "forward"

    def whole() -> int:
        return sum(one.ds_numel for one in parameters if one.ds_status != ZeroParamStatus.NOT_AVAILABLE)

    gather = coordinator._PartitionedParameterCoordinator__all_gather_params_

    def watched(asked: Any, *words: Any, **more: Any) -> None:
        missing = sum(one.ds_numel for one in asked if one.ds_status == ZeroParamStatus.NOT_AVAILABLE)
        gather(asked, *words, **more)
        counted[phase] = counted.get(phase, 0) + missing
        counted[f"peak_{phase}"] = max(counted.get(f"peak_{phase}", 0), whole())

    coordinator._PartitionedParameterCoordinator__all_gather_params_ = watched
    tokens = torch.randint(0, 1024, (1, 32))
    for _ in range(MICROBATCHES):
        counted.clear()
        phase = "forward"
        loss = engine(input_ids=tokens, labels=tokens).loss
        counted["at_loss"] = whole()
        phase = "backward"
        engine.backward(loss)
        engine.step()
        counted["once"] = sum(one.ds_numel for one in parameters if one.ds_persist)
    elements = sum(one.ds_numel for one in parameters)
    engine.destroy()
    return {"model": name, "recompute": int(recompute), **dict(zip(words, limits, strict=True)), "elements": elements,
            **{one: counted.get(one, 0) for one in FIELDS[-6:]}}  # fmt: skip


def rows() -> Iterator[dict[str, Any]]:
    """Every model with and without recomputation under all limits."""
    for name in ("llama", "gpt2"):
        for recompute in (False, True):
            for limits in LIMITS:
                yield measured(name, recompute, limits)


def run(rank: int, path: str) -> None:
    """One of two ranks; the first writes."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": "29533"}  # fmt: skip
    import deepspeed
    import torch
    import transformers

    deepspeed.init_distributed(dist_backend="gloo")
    found = list(rows())
    if rank == 0:
        with open(path, "w", newline="") as file:
            programs = ", ".join(f"{one.__name__} {one.__version__}" for one in (deepspeed, transformers, torch))
            file.write(
                f"# {programs}; two ranks, gloo on a CPU; made on {date.today()} by tools/deepspeed_gathers.py\n"
            )
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    import torch.multiprocessing

    torch.multiprocessing.spawn(run, (sys.argv[1],), nprocs=2)
