"""The verbs about numbers of workers: `scaling` of a job over a cluster, `speedup` by the laws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from lockstep.api.calling import verb
from lockstep.api.exchanges import check_algorithm
from lockstep.api.meaning import refuse_idle
from lockstep.api.network import LinkWords, flags, read_network
from lockstep.api.operations import OPERATION_WORDS, OperationWords, read_operation
from lockstep.api.quantity import Quantity, Size, Time
from lockstep.api.question import read_question, whole
from lockstep.api.targets import read_target
from lockstep.api.verbs import positive
from lockstep.api.words import QuestionWords
from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.planner.search import Progress
from lockstep.units import parse_frac, parse_money_usd, parse_size_B, parse_time_s
from lockstep.workload import Model

if TYPE_CHECKING:
    from lockstep.campaigns import Scaling, SpeedUp

MOST_WORKERS = 1_000_000


class ScalingWords(QuestionWords, OperationWords, total=False):
    """Keywords of `scaling`: those of a planner's question and those of an operation."""


@verb
def scaling(
    model: str | Path | Model,
    cluster: str | Path | Cluster,
    *,
    weak: bool = False,
    tokens: Quantity | None = None,
    loss: Quantity | None = None,
    compute_optimal: bool = False,
    scaling_law: str | None = None,
    critical_batch_tokens: Quantity | None = None,
    deadline: Time | None = None,
    budget: Quantity | None = None,
    progress: Progress | None = None,
    **words: Unpack[ScalingWords],
) -> Scaling:
    """Parts of `cluster` and all of it, each planned anew: where more devices stop helping.

    Strong scaling keeps the batch, `weak` cuts it with the devices. With a target (as for `campaign`) rows have days
    and money with failures; `deadline` and `budget` choose a size. Raises Infeasible when nothing fits on any size.
    """
    from lockstep.campaigns import scaling as find

    operation: dict[str, Any] = {name: value for name, value in words.items() if name in OPERATION_WORDS}
    question: dict[str, Any] = {name: value for name, value in words.items() if name not in OPERATION_WORDS}
    asked = read_question(model, cluster, **question)
    refuse_idle(question, asked.job)
    target = read_target(
        asked.model, tokens=tokens, loss=loss, compute_optimal=compute_optimal, scaling_law=scaling_law,
        critical_batch_tokens=critical_batch_tokens,
    )  # fmt: skip
    if target is None:
        _refuse_operation(operation)
    with flags("--write"):
        return find(
            asked.model,
            asked.cluster,
            asked.recipe,
            target=target,
            operation=partial(read_operation, asked.cluster, operation),
            weak=weak,
            deadline_s=None if deadline is None else positive(parse_time_s(deadline, "--deadline"), "--deadline"),
            budget_usd=None if budget is None else positive(parse_money_usd(budget, "--budget"), "--budget"),
            progress=progress,
        )


def _refuse_operation(words: Mapping[str, Any]) -> None:
    """Without a target there is no run that could fail or save."""
    for name in sorted(name for name, value in words.items() if value is not None):
        flag = f"--{name.removesuffix('_frac').replace('_', '-')}"
        raise BadInput("needs the length of a run: --tokens, --loss or --compute-optimal", flag)


@verb
def speedup(
    *,
    compute: Time,
    size: Size,
    workers: Quantity | None = None,
    serial: Quantity = 0.0,
    exchange: str | None = None,
    **link: Unpack[LinkWords],
) -> SpeedUp:
    """Speed-up of a data-parallel step against the laws of Amdahl and Gustafson, and the best number of workers.

    `compute`: one worker's step; `size`: bytes exchanged; `exchange`: an all-reduce algorithm or parameter-server,
    ring; on a cluster the fastest way across its levels, for the numbers of workers that fill whole units.
    """
    from lockstep.campaigns import SpeedUp

    network = read_network(1, **link)
    machine = network.cluster
    usual, most = ("ring", 4096) if machine is None else (None, machine.num_devices)
    number = most if workers is None else whole(workers, "--workers")
    if number > MOST_WORKERS:
        raise BadInput(f"must be at most {MOST_WORKERS:,}, got {number:,}", "--workers")
    with flags("--exchange"):
        found = SpeedUp(
            compute_s=positive(parse_time_s(compute, "--compute"), "--compute"),
            size_B=parse_size_B(size, "--size"),
            network=machine or network.link,
            exchange=usual if exchange is None else exchange,
            serial_frac=parse_frac(serial, "--serial"),
            most_workers=number,
        )
    if exchange is not None:
        check_algorithm(*found.collective, "--exchange", read_network(int(found.tried[-1]), **link))
    return found
