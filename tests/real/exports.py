"""Plans drawn at random that an export takes, and what parsers of several frameworks need beside their files."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "planner"))
from export_questions import questions


def drawn(target: str, number: int) -> tuple[Any, ...]:
    """Questions of `export_questions` with a seed of their own."""
    return tuple(questions(target, number, "real"))


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


def words_of(text: str) -> list[str]:
    """The words of a command line, without its comments."""
    return shlex.split(" ".join(line for line in text.splitlines() if not line.startswith("#")))
