"""`bench_collective`: a sweep over sizes and implementations on real ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lockstep.collectives import get
from lockstep.errors import BadInput, RunFailed, UnknownName
from lockstep.measure.bench.collective import BUILT_IN, Row, Sweep, run_sweep
from lockstep.measure.bench.definition import OPS
from lockstep.measure.bench.result import CollectiveBench, record_of
from lockstep.measure.launch import Fault, Host, launch
from lockstep.measure.machine import with_load

Progress = Callable[[int, int], None]
MOST_B = 8 << 30


def bench_collective(
    op: str,
    ranks: int,
    sizes_B: Sequence[int],
    algorithms: Sequence[str] = (BUILT_IN,),
    *,
    backend: str = "gloo",
    repeats: int = 20,
    warm_up: int = 3,
    budget_s: float = 2.0,
    timeout_s: float = 60.0,
    hosts: Sequence[Host] = (),
    faults: Sequence[Fault] = (),
    progress: Progress | None = None,
    on_row: Callable[[Mapping[str, Any]], None] | None = None,
) -> CollectiveBench:
    """Times of `op` on `ranks` ranks: every size with every implementation, `built-in` or a name of an algorithm.

    `on_row` hears of every row as it is measured, with the keys of COLUMNS. A rank that fails ends the sweep; what was
    measured until then is in the result, with the reason in `stopped`. Raises BadInput, and RunFailed when nothing was
    measured.
    """
    if op not in OPS:
        raise UnknownName("collective", op, OPS, "op")
    for name in algorithms:
        if name != BUILT_IN:
            _check(op, name, ranks)
    if not sizes_B or min(sizes_B) < 1 or max(sizes_B) > MOST_B:
        raise BadInput(f"sizes must be 1 B to {MOST_B >> 30} GiB, at least one", "sizes")
    sweep = Sweep(op, tuple(algorithms), tuple(sizes_B), repeats, warm_up, budget_s)
    rows: list[Row] = []

    def on_message(rank: int, row: Any) -> None:
        rows.append(row)
        if on_row is not None:
            on_row(record_of(op, ranks, backend, row))
        if progress is not None:
            progress(len(rows), len(sizes_B) * len(algorithms))

    machine, stopped = None, ""
    try:
        found = launch(
            run_sweep, ranks, (sweep,),
            backend=backend, timeout_s=timeout_s, hosts=hosts, faults=faults, on_message=on_message,
        )  # fmt: skip
        machine = with_load(found[0][0], [load for _, load in found])
    except RunFailed as error:
        if not rows:
            raise
        stopped = str(error)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return CollectiveBench(op, ranks, backend, tuple(rows), machine, date, stopped)


def _check(op: str, name: str, ranks: int) -> None:
    """Raises when an algorithm does not exist, or needs ranks beside the group."""
    if op == "send-recv":
        raise UnknownName("implementation of send-recv", name, (BUILT_IN,), "algorithm")
    if get(op, name).program(ranks, 4.0 * ranks, element_B=4.0).ranks != ranks:
        raise BadInput(f"{op} {name} needs servers in addition to the {ranks} ranks", "algorithm")
