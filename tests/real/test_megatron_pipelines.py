"""Megatron Core is asked which pipelines its schedules refuse, what order a rank runs, how many passes it runs ahead,
and for how many micro-batches it keeps activations, which is read off that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from agreement import Asker
from pipelines_of_megatron import Messages, Passes, Ranks, config_of, run

from lockstep.decide.planner.export.refusals import Placed
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline.schedules.interleaved import group_size
from placed_pipelines import exported, placed

STAGES, CHUNKS, ROUNDS = (1, 2, 3, 4, 5, 8), (1, 2, 3, 4), 3
GROUP = "microbatch-group-size-per-virtual-pipeline-stage"
OVERLAPS: tuple[dict[str, bool], ...] = (
    {"overlap_p2p_comm": False, "batch_p2p_comm": True},
    {"overlap_p2p_comm": True, "batch_p2p_comm": False},
    {"overlap_p2p_comm": True, "batch_p2p_comm": False, "overlap_p2p_comm_warmup_flush": True},
)
UNEVEN = "Megatron Core also runs a last group with fewer micro-batches than the others, which Lockstep does not price"
LARGER = "Lockstep prices interleaving in the smallest equal groups; larger ones hold more micro-batches"
BLOCKING = "Megatron-LM's arguments refuse interleaving on two stages without overlapped sends; its schedules do not"
AHEAD = "with overlap_moe_expert_parallel_comm one more pass runs ahead, layer by layer beside the first backward pass"
Case = tuple[int, int, int]


def cases() -> Iterator[Case]:
    """(stages, micro-batches, chunks)."""
    for stages in STAGES:
        for chunks in CHUNKS if stages > 1 else (1,):
            for microbatches in range(1, (ROUNDS + 1) * stages + 2):
                yield stages, microbatches, chunks


def schedule_of(chunks: int) -> str:
    """Lockstep's name of the schedule."""
    return "1f1b" if chunks == 1 else "interleaved"


def both() -> list[Case]:
    """Those that Lockstep prices and Megatron runs."""
    return [one for one in cases() if pipelines.get(schedule_of(one[2])).valid(*one) and runs_somehow(*one, {})]


def words_of(case: Case) -> dict[str, Any]:
    """The group that a pipeline is priced with, as Megatron's word."""
    stages, microbatches, chunks = case
    if chunks == 1:
        return {}
    return {"microbatch_group_size_per_vp_stage": int(group_size(stages, microbatches))}


def run_or_none(case: Case, words: dict[str, Any]) -> Passes | None:
    """What the first rank runs; None where Megatron refuses."""
    try:
        return run(0, *case, **words)
    except (ValueError, RuntimeError):
        return None


def runs_somehow(stages: int, microbatches: int, chunks: int, words: dict[str, Any]) -> bool:
    """Whether Megatron runs a pipeline with a group of any size."""
    sizes = range(1, microbatches + 1) if chunks > 1 else (None,)
    named: Any = ({"microbatch_group_size_per_vp_stage": size} if size else {} for size in sizes)
    return any(run_or_none((stages, microbatches, chunks), words | size) is not None for size in named)


def held(order: Passes, chunks: int) -> float:
    """Most micro-batches whose activations a device holds in an order."""
    return float(np.cumsum([1 if step == "F" else -1 for step, _, _ in order]).max()) / chunks


def ahead(order: Passes) -> int:
    """Forward passes before the first backward pass."""
    return next(at for at, (step, _, _) in enumerate(order) if step == "B")


@pytest.mark.parametrize("words", OVERLAPS)
def test_orders_are_those_of_megatron(words: dict[str, bool], asked: Asker) -> None:
    with asked("megatron-core", "orders of passes of pipelines") as answers:
        for case in both():
            stages, _, chunks = case
            if chunks > 1 or not words["overlap_p2p_comm"]:
                theirs = [run(rank, *case, **words_of(case), **words) for rank in range(stages)]
                answers.compare(f"{case}", pipelines.get(schedule_of(chunks)).order(*case), theirs)


def test_stages_hold_activations_of_as_many_micro_batches(asked: Asker) -> None:
    """Of every group that Megatron takes, also of those that Lockstep does not price."""
    with asked("megatron-core", "most micro-batches that a stage keeps activations of") as answers:
        for case in both():
            stages, _, chunks = case
            own = words_of(case)
            code = pipelines.code(schedule_of(chunks))
            live = [float(pipelines.peak_live_by_code(code, *case[:2], chunks=chunks, stage=s)) for s in range(stages)]
            for words in [own, *(one for one in larger_groups(case, own))]:
                theirs = [held(run(rank, *case, **words), chunks) for rank in range(stages)]
                why = LARGER if words != own and live != theirs else ""
                answers.compare(f"{case} {words}", live, theirs, why=why)


def larger_groups(case: Case, own: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Groups of other sizes that Megatron takes."""
    stages, microbatches, chunks = case
    for size in range(stages, microbatches + 1) if chunks > 1 else ():
        words = dict.fromkeys(own, size)
        if words != own and run_or_none(case, words) is not None:
            yield words


def flags(text: str) -> dict[str, str]:
    """Flags of an export, each with its value."""
    lines = (line.split() for line in text.splitlines() if line.startswith("--"))
    return {words[0].removeprefix("--"): " ".join(words[1:]) for words in lines}


def of_flags(text: str, chunks: int) -> dict[str, Any]:
    """An export's flags of a pipeline, as Megatron-LM hands them to Megatron Core."""
    said = flags(text)
    overlaps = chunks > 1 and "no-overlap-p2p-communication" not in said
    group = {"microbatch_group_size_per_vp_stage": int(said[GROUP])} if GROUP in said else {}
    return {**group, "overlap_p2p_comm": overlaps, "batch_p2p_comm": not overlaps}


def having(found: Placed, overlaps: bool) -> Placed:
    """A pipeline whose sends are overlapped, or not."""
    return Placed(replace(found.job, recipe=replace(found.job.recipe, overlap_pp=overlaps)), found.layout)


@pytest.mark.parametrize("overlaps", [False, True])
def test_megatron_runs_what_is_exported_and_nothing_that_is_refused(overlaps: bool, asked: Asker) -> None:
    with asked("megatron-core", "pipelines that are exported, or refused") as answers:
        for case in cases():
            stages, microbatches, chunks = case
            if stages == 1:
                continue
            found = having(placed(schedule_of(chunks), stages, microbatches, chunks, zero=0), overlaps)
            text = exported(found, "megatron")
            words = {"overlap_p2p_comm": overlaps, "batch_p2p_comm": not overlaps}
            runs = runs_somehow(*case, words) if text is None else run_or_none(case, of_flags(text, chunks)) is not None
            answers.compare(f"{case} {overlaps}", text is not None, runs, why=why_not(case, overlaps) if runs else "")


def why_not(case: Case, overlaps: bool) -> str:
    """Why Lockstep does not export a pipeline that Megatron runs; empty where it does."""
    stages, microbatches, chunks = case
    if chunks > 1 and microbatches % max(1, microbatches // stages):
        return UNEVEN
    return BLOCKING if chunks > 1 and stages == 2 and not overlaps else ""


def test_as_many_passes_run_ahead(asked: Asker) -> None:
    """By the function that counts them, with the chunks that the same table gives for captured graphs."""
    from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches, get_schedule_table
    from megatron.core.transformer.cuda_graphs import convert_schedule_table_to_order

    with asked("megatron-core", "forward passes that a rank runs ahead, and the order of its chunks") as answers:
        for case in both():
            stages, microbatches, chunks = case
            size = int(group_size(stages, microbatches)) if chunks > 1 else stages
            table = get_schedule_table(microbatches, chunks, microbatches if chunks == 1 else size)
            for rank, ours in enumerate(pipelines.get(schedule_of(chunks)).order(*case)):
                messages = Messages(config_of(stages, chunks), Ranks(stages, rank), chunks if chunks > 1 else None)
                for together in (False, True) if chunks > 1 else (False,):
                    _, every, warm, _ = get_pp_rank_microbatches(
                        microbatches, chunks, size, overlap_moe_expert_parallel_comm=together, p2p_communicator=messages
                    )
                    theirs = warm + (not every), convert_schedule_table_to_order(warm, chunks, table)
                    own = ahead(ours), chunks_of(ours)
                    why = AHEAD if together and own != theirs else ""
                    answers.compare(f"{case}, rank {rank}, {together}", own, theirs, why=why)


def chunks_of(order: Passes) -> list[int]:
    """Chunks in order, from 1 on; below zero those of backward passes."""
    return [chunk + 1 if step == "F" else -chunk - 1 for step, _, chunk in order]
