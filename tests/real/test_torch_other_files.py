"""PyTorch writes what is no trace, dump or snapshot; `diagnose` says what it is and reads none of it as a trace."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from agreement import Answers, Asker
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

import lockstep
from effort import share
from lockstep.base.errors import BadInput

pytestmark = pytest.mark.filterwarnings("ignore")
SOFTWARE = "torch"
TORCH = "what PyTorch writes beside traces says nothing of the times of a step, and is refused by what it is"


def profiled(chance: random.Random) -> profile:
    """A profile of a drawn program with everything that can be recorded."""
    layer, verbose = torch.nn.Linear(chance.randint(1, 40), 8), torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
        experimental_config=verbose,
    ) as found:  # fmt: skip
        for _ in range(chance.randint(2, 5)):
            layer(torch.randn(chance.randint(1, 50), layer.in_features)).sum().backward()
    return found


def timeline(found: profile, path: Path) -> None:
    found.export_memory_timeline(f"{path}.json", device="cpu")


def packed_timeline(found: profile, path: Path) -> None:
    found.export_memory_timeline(f"{path}.json.gz", device="cpu")


def raw_timeline(found: profile, path: Path) -> None:
    found.export_memory_timeline(f"{path}.raw.json.gz", device="cpu")


def stacks(found: profile, path: Path) -> None:
    found.export_stacks(str(path), "self_cpu_time_total")


def table(found: profile, path: Path) -> None:
    path.write_text(found.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=20))


def tensors(found: profile, path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, path)


def old_tensors(found: profile, path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, path, _use_new_zipfile_serialization=False)


def numbers(found: profile, path: Path) -> None:
    path.write_text(json.dumps({event.key: event.count for event in found.key_averages()}))


WRITERS: dict[Callable[[profile, Path], None], str] = {
    timeline: "is a memory timeline of torch.profiler",
    packed_timeline: "is a memory timeline of torch.profiler",
    raw_timeline: "is a memory timeline of torch.profiler",
    stacks: "is a file of stacks of torch.profiler",
    table: "is a table of torch.profiler",
    tensors: "is a file of tensors (torch.save)",
    old_tensors: "is a file of tensors (torch.save)",
    numbers: "is of no kind known here",
}


def refused(answers: Answers, path: Path, words: str) -> None:
    """Counts the refusal of a file."""
    with pytest.raises(BadInput) as raised:
        lockstep.diagnose(path)
    assert raised.value.where == str(path)
    answers.refused(path.name, raised.value, words, TORCH)


def test_other_files_are_refused_by_what_they_are(asked: Asker, tmp_path: Path) -> None:
    chance = random.Random(11)
    with asked(SOFTWARE, "files beside traces") as answers:
        for number in share(range(10), 10):
            found = profiled(chance)
            for write, words in WRITERS.items():
                write(found, tmp_path / f"{number} {write.__name__}")
                (path,) = tmp_path.glob(f"{number} {write.__name__}*")
                refused(answers, path, words)


def test_an_execution_trace_alone_is_refused(asked: Asker, tmp_path: Path) -> None:
    """It says what ran and not when."""
    with asked(SOFTWARE, "execution traces without a profile") as answers:
        for number in share(range(50), 10):
            path = tmp_path / f"{number}.json"
            observer = ExecutionTraceObserver().register_callback(str(path))
            observer.start()
            torch.nn.Linear(1 + number, 4)(torch.randn(2, 1 + number)).sum().backward()
            observer.stop()
            observer.unregister_callback()
            refused(answers, path, "says what ran and not when")


def test_a_log_of_compiling_is_refused(asked: Asker, tmp_path: Path) -> None:
    """`TORCH_TRACE`, by the formatter that writes it."""
    from torch._logging._internal import TorchLogsFormatter

    with asked(SOFTWARE, "logs of torch.compile") as answers:
        for number in range(3):
            made = logging.LogRecord("torch.__trace", logging.DEBUG, torch.__file__, number + 1, "", (), None)
            made.payload = None
            made.metadata = {"artifact": {"name": "torch_version", "encoding": "json"}}
            (path := tmp_path / f"{number}.log").write_text(TorchLogsFormatter(trace=True).format(made) + "\n")
            refused(answers, path, "is a log of torch.compile")
