"""Dumps of the flight recorder as PyTorch itself writes them, of real ranks over gloo."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

from lockstep.explain.read import find
from lockstep.explain.read.flight_recorder import hangs
from lockstep.run.launch import Rank, launch


def come_late(rank: Rank, folder: str) -> None:
    """Three ranks of which the last does not come to its second sum before all have dumped what they did."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    pair, value = dist.new_group([0, 1]), torch.ones(100)
    dist.all_reduce(value)
    if rank.number < 2:
        dist.all_reduce(value, group=pair)
        work = dist.all_reduce(value, async_op=True)
    # A sum is marked as through a moment after it returns, by a thread of its own.
    while not all(one["retired"] for one in pickle.loads(_dump_fr_trace())["entries"][: 2 if rank.number < 2 else 1]):
        time.sleep(0.01)
    for name, dumped in (("pickle", _dump_fr_trace()), ("json", _dump_fr_trace_json())):
        path = Path(folder) / name / f"rank_{rank.number}"
        path.with_suffix(".part").write_bytes(dumped if isinstance(dumped, bytes) else dumped.encode())
        path.with_suffix(".part").rename(path)
    while len(list((Path(folder) / "json").glob("rank_?"))) < 3:
        time.sleep(0.01)
    if rank.number < 2:
        work.wait()
    else:
        dist.all_reduce(value)


def test_the_missing_rank_is_named(tmp_path: Path) -> None:
    """PyTorch's own, of gloo, in both forms: a sum that two ranks wait in, and nothing of the group that is through."""
    for name in ("pickle", "json"):
        (tmp_path / name).mkdir()
    launch(come_late, 3, (str(tmp_path),), timeout_s=900, environment={"TORCH_FR_BUFFER_SIZE": "100"})
    for name in ("pickle", "json"):
        (found,) = hangs([one.read() for one in find([tmp_path / name])])
        assert (found.op, found.sizes, found.missing, found.waiting) == ("all_reduce", ((100,),), (2,), (0, 1))
        assert name == "json" or __file__ in found.frame
