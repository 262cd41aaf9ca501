"""A run whose rank 3 is slow, as the trace files of its ranks, for the page to be given."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lockstep
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.write_kineto import write_kineto
from lockstep.show.verbs.estimate import estimate
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind
from ui.asking import Client

NAMES = {"model": "llama3-8b", "cluster": "dgx-h100:1"}
ASKED = {"batch": 16, "tp": 2, "pp": 2, "zero": 1}
WORDS = {**NAMES, **{name: str(value) for name, value in ASKED.items()}}
"""The run as an address says it."""
SLOW = 3


@cache
def run() -> dict[str, Any]:
    """The same for a verb, with the layout that the page takes where it is not said."""
    best = lockstep.plan(**NAMES, **ASKED).best
    return {**NAMES, "batch": 16, **best.layout.to_dict()}


def write(folder: Path, factor: float = 1.5) -> list[Path]:
    """Files of all ranks; the kernels of rank 3 take `factor` times as long."""
    found = estimate(**run())
    one = all_ranks(found, range(8))
    slow = np.where((one.program.rank == one.ranks.index(SLOW)) & (one.program.kind == Kind.COMPUTE), factor, 1.0)
    late = replace(one.program, columns={**one.program.columns, "duration_s": one.program.duration_s * slow})
    paths = []
    for trace in traces_of([simulate(late)] * 3, Shown.of(one)):
        paths.append(folder / f"rank{trace.rank}.json.gz")
        write_kineto(trace, paths[-1])
    return sorted(paths)


def drop(client: Client, body: bytes, name: str = "file") -> tuple[int, Any]:
    """The status and the answer of a measured file that is dropped on the page."""
    found = client.ask(f"/drop/measured?name={name}", "POST", body, Origin=f"http://{client.host}")
    return found.status, json.loads(found.body)  # type: ignore[attr-defined]


def dropped(client: Client, paths: list[Path]) -> dict[str, str]:
    """The words of the run with its files."""
    answers = [drop(client, path.read_bytes(), path.name)[1] for path in paths]
    return {**WORDS, "file": " ".join(one["word"] for one in answers)}
