"""Lets the software itself read what `lockstep export` writes: `python tools/export_parsers.py TARGET [UNPACKED]`.

TARGET is an export of the version that its first line names; UNPACKED is the folder into which that release was
unpacked, where it is not installed. What can be installed from the index is asked in tests/real instead. Exports are
those of random questions (tests/planner/export_questions.py). Each is parsed, its degrees are multiplied out for the
number of devices, and a pipeline's schedule is built, as the software does before it trains; nothing is trained. What
is printed: how many it takes, how many it stops at because the file says that something is left to the user, and every
other reason. It needs torch and what the software imports.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
NUMBER = 100
sys.path[:0] = [str(TESTS), str(TESTS / "real")]
from exports import drawn, fake_ranks, stages_of, words_of  # noqa: E402

LEFT = ("is not registered", "--module is required")
"""What the software says where a model is left to the user."""


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


def megatron(file: Path, layout: Any, layers: int) -> None:
    """The arguments, validate_args and the configuration of the transformer, as if on Hopper."""
    import torch
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    words = words_of(file.read_text())
    connections = "8" if "--use-megatron-fsdp" in words else "1"
    os.environ |= {"WORLD_SIZE": str(layout.world), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": connections}
    beside = ["--train-iters", "10", "--lr", "1e-4", "--tokenizer-type", "NullTokenizer", "--mock-data"]
    # The fused kernel is Transformer Engine's, which a CPU does not have.
    sys.argv = ["pretrain_gpt.py", *words, *beside, *([] if "--no-rope-fusion" in words else ["--no-rope-fusion"])]
    args = validate_args(parse_args())
    assert args.data_parallel_size == layout.dp, args.data_parallel_size
    config = core_transformer_config_from_args(args)
    assert (config.virtual_pipeline_model_parallel_size or 1) == layout.vpp, config.virtual_pipeline_model_parallel_size


PARSERS: dict[str, Callable[[Path, Any, int], None]] = {"torchtitan": torchtitan, "megatron": megatron}


def main(target: str, unpacked: str | None = None) -> None:
    """Prints what the software says of exports to `target`."""
    sys.path[:0] = [unpacked] if unpacked else []
    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for place, one in enumerate(drawn(target, NUMBER)):
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
