"""Lets the software itself read what `lockstep export` writes: `python tools/export_parsers.py TARGET [UNPACKED]`.

TARGET is an export of the version that its first line names; UNPACKED is the folder into which that release was
unpacked, where it is not installed. Exports are those of random questions (tests/planner/export_questions.py). Each is
parsed, its degrees are multiplied out for the number of devices, and a pipeline's schedule is built, as the software
does before it trains; nothing is trained. What is printed: how many it takes, how many it stops at because the file
says that something is left to the user, and every other reason. It needs torch and what the software imports.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
NUMBER = 100
LEFT = ("is not registered", "--module is required")
"""What the software says where a model is left to the user."""


@contextlib.contextmanager
def fake_ranks(number: int) -> Iterator[None]:
    """A process group of ranks that do not exist."""
    import torch.distributed as ranks
    from torch.testing._internal.distributed.fake_pg import FakeStore

    ranks.init_process_group("fake", rank=0, world_size=number, store=FakeStore())
    try:
        yield
    finally:
        ranks.destroy_process_group()


def stages_of(ranks: int, chunks: int) -> list[Any]:
    """The stages of rank 0 of a pipeline."""
    import torch
    from torch.distributed.pipelining import PipelineStage

    module, device = torch.nn.Linear(1, 1), torch.device("cpu")
    return [PipelineStage(module, chunk * ranks, ranks * chunks, device) for chunk in range(chunks)]


def words_of(file: Path) -> list[str]:
    """The words of a command line, without its comments."""
    return shlex.split(" ".join(line for line in file.read_text().splitlines() if not line.startswith("#")))


def torchtitan(file: Path, layout: Any, layers: int) -> None:
    """Until 0.2: the configuration, the flavor of its TrainSpec, the mesh and the schedule."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed.pipeline_parallel import build_pipeline_schedule
    from torchtitan.protocols.train_spec import get_train_spec

    config = ConfigManager().parse_args(["--job.config_file", str(file)])
    axes = config.parallelism
    ParallelDims(
        dp_shard=axes.data_parallel_shard_degree, dp_replicate=axes.data_parallel_replicate_degree,
        cp=axes.context_parallel_degree, tp=axes.tensor_parallel_degree, pp=axes.pipeline_parallel_degree,
        ep=axes.expert_parallel_degree, etp=axes.expert_tensor_parallel_degree, world_size=layout.world,
    )  # fmt: skip
    if layout.pp > 1:
        chunks = layers // (axes.pipeline_parallel_layers_per_stage * layout.pp)
        with fake_ranks(layout.pp):
            build_pipeline_schedule(config, stages_of(layout.pp, chunks), lambda *_: None)
    spec = get_train_spec(config.model.name)
    spec.model_args[config.model.flavor].update_from_config(config)


def torchtitan_cli(file: Path, layout: Any, layers: int) -> None:
    """From 0.3 on: the options over the configuration in Python, the mesh and the schedule."""
    from torchtitan.config.manager import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed.pipeline_parallel import _build_pipeline_schedule

    words = words_of(file)
    if "--module" not in words:
        # Every other option is read beside some model, before it stops at the one that is missing.
        ConfigManager().parse_args(["--module", "llama3", "--config", "llama3_8b", *words])
    config = ConfigManager().parse_args(words)
    ParallelDims.from_config(config.parallelism, layout.world)
    config.model_spec.model.update_from_config(config=config)
    if layout.pp > 1:
        chunks = layers // (config.parallelism.pipeline_parallel_layers_per_stage * layout.pp)
        with fake_ranks(layout.pp):
            _build_pipeline_schedule(
                parallelism=config.parallelism, local_batch_size=config.training.local_batch_size,
                stages=stages_of(layout.pp, chunks), loss_fn=lambda *_: (None, None),
            )  # fmt: skip


def deepspeed(file: Path, layout: Any, layers: int) -> None:
    """The configuration on the data-parallel ranks, and what it read of it."""
    import deepspeed.comm
    from deepspeed.runtime.config import DeepSpeedConfig

    deepspeed.comm.get_rank = lambda *_: 0
    ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: layout.dp * layout.cp)
    config = DeepSpeedConfig(json.loads(file.read_text()), mpu=ranks)
    assert config.world_size == layout.dp, config.world_size
    assert config.zero_optimization_stage == layout.zero, config.zero_optimization_stage
    assert config.train_micro_batch_size_per_gpu == layout.micro_batch, config.train_micro_batch_size_per_gpu


def megatron(file: Path, layout: Any, layers: int) -> None:
    """The arguments, validate_args and the configuration of the transformer, as if on Hopper."""
    import torch
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    words = words_of(file)
    connections = "8" if "--use-megatron-fsdp" in words else "1"
    os.environ |= {"WORLD_SIZE": str(layout.world), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": connections}
    beside = ["--train-iters", "10", "--lr", "1e-4", "--tokenizer-type", "NullTokenizer", "--mock-data"]
    # The fused kernel is Transformer Engine's, which a CPU does not have.
    sys.argv = ["pretrain_gpt.py", *words, *beside, *([] if "--no-rope-fusion" in words else ["--no-rope-fusion"])]
    args = validate_args(parse_args())
    assert args.data_parallel_size == layout.dp, args.data_parallel_size
    config = core_transformer_config_from_args(args)
    assert (config.virtual_pipeline_model_parallel_size or 1) == layout.vpp, config.virtual_pipeline_model_parallel_size


PARSERS: dict[str, Callable[[Path, Any, int], None]] = {
    "torchtitan": torchtitan, "torchtitan-cli": torchtitan_cli, "deepspeed": deepspeed, "megatron": megatron,
}  # fmt: skip


def main(target: str, unpacked: str | None = None) -> None:
    """Prints what the software says of exports to `target`."""
    sys.path[:0] = [str(TESTS / "planner"), str(TESTS), *([unpacked] if unpacked else [])]
    from export_questions import questions

    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for place, one in enumerate(questions(target, NUMBER, "parsers")):
            file = Path(folder) / f"{place}.txt"
            file.write_text(one.text, encoding="utf-8")
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    PARSERS[target](file, one.found.layout, one.found.job.layers)
                said["taken"] += 1
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
                left = any(part in why for part in LEFT) and "left to you" in one.text
                said["stops at the model, which is left to the user" if left else why[:300]] += 1
    print(target, *(f"{number} {why}" for why, number in said.most_common()), sep="\n  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
