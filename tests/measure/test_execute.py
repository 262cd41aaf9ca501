"""P2: what is priced is what runs. Every collective and every pipeline over real sends, on 2, 3 and 4 ranks and more:
bytes and messages equal the predicted integers, results equal torch's own collective and the program in one process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.collectives.conformance import CASES

from effort import share
from lockstep.base.errors import BadInput
from lockstep.run.execute import execute
from lockstep.run.execute.cores import link_of, sizes_to_time
from lockstep.run.execute.execute import measured_timeline
from lockstep.run.execute.lanes import check_runnable, lanes_of
from lockstep.run.execute.transfer import (
    OWN_CORE,
    SHARED_CORES,
    SHARED_CORES_IN_TURN,
    SHARED_CORES_OWN_NETWORK,
    Cut,
    Transfers,
    cut_for,
)
from lockstep.run.execute.worker import Report, Work, run_rank
from lockstep.run.launch import Fault, Host, Rank, RunFailed, launch
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.play import SharedCores, Timed, simulate_shared_cores
from lockstep.simulate.program import Kind, ProgramBuilder
from lockstep.simulate.program.timeline import COMPUTES

from .workers import run_programs

LINK = PlainLink(1e-4, 1e9)
"""Settles choices such as the number of segments; a link without latency would cut a message into its elements."""
ELEMS = {2: 7, 3: 1, 4: 4000}
"""Elements by number of ranks: uneven shares, fewer elements than ranks (empty messages), many."""


@dataclass(frozen=True)
class Run:
    """A program and its name."""

    name: str
    work: Work


def collectives_to_run() -> list[Run]:
    """Every algorithm with every choice, on some or all of the 2, 3 or 4 ranks that it fits."""
    runs = []
    for place, case in enumerate(CASES):
        fitting = [ranks for ranks in ELEMS if case.fits(ranks)]
        for ranks in share(fitting, 2, place % max(1, len(fitting))):
            op, name, elems = case.algorithm.op, case.algorithm.name, ELEMS[ranks]
            work = Work(case.program(ranks, elems, LINK), op, name, ranks, elems, seed=1, warm_up=0, repeats=1)
            runs.append(Run(f"{case} on {ranks} of {elems}", work))
    return runs


def pipelines_to_run() -> list[Run]:
    """Every schedule on 2 and 4 stages with messages of their own number, in passes of a tenth of a millisecond."""
    runs = []
    for name in pipelines.names():
        for stages in (2, 4):
            found = pipelines.pipeline(name, stages, 2 * stages, forward_s=1e-4, backward_s=2e-4, message_B=64.0)
            work = Work(found.program, "pipeline", name, stages, 0, seed=1, warm_up=0, repeats=1)
            runs.append(Run(f"{name} on {stages}", work))
    return runs


RUNS = [*collectives_to_run(), *pipelines_to_run()]


@pytest.fixture(scope="module")
def reports() -> dict[str, list[Report]]:
    """What every rank reports of every run, one launch per number of processes."""
    found: dict[str, list[Report]] = {}
    for world in sorted({run.work.program.ranks for run in RUNS}):
        here = [run for run in RUNS if run.work.program.ranks == world]
        by_rank = launch(run_programs, world, ([run.work for run in here],), timeout_s=900)
        for i, run in enumerate(here):
            found[run.name] = [by_rank[rank][i] for rank in range(world)]
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_executed_bytes_messages_and_results_match_the_prediction(run: Run, reports: dict[str, list[Report]]) -> None:
    found, program = reports[run.name], run.work.program
    spans = [report.runs[0] for report in found]
    assert [span.sent_B for span in spans] == program.sent_B().tolist()
    assert [span.messages for span in spans] == program.messages_sent().tolist()
    assert [report.wrong for report in found] == [0] * program.ranks
    if run.work.elems:
        assert "the program run in one process" in found[0].checks
        built_in = run.work.op != "gossip" and run.work.algorithm != "asynchronous"
        assert ("torch's own collective" in found[0].checks) == built_in


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_measured_timeline_keeps_lanes_and_dependencies(run: Run, reports: dict[str, list[Report]]) -> None:
    program = run.work.program
    line = measured_timeline(program, reports[run.name], 0)
    assert line.source == "measured"
    assert len(line.start_s) == len(program)
    later = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    assert (line.end_s[program.after] <= line.end_s[later]).all()
    timed = np.isin(program.kind, COMPUTES) & (program.duration_s > 0)
    assert (line.end_s[timed] - line.start_s[timed] >= program.duration_s[timed] - 1e-9).all()
    by_lane = np.lexsort((np.arange(len(program)), program.lane))
    same = program.lane[by_lane[1:]] == program.lane[by_lane[:-1]]
    assert (line.end_s[by_lane[:-1]] <= line.start_s[by_lane[1:]] + 1e-12)[same].all()


def test_an_execution_reports_prediction_and_measurement() -> None:
    elems = 5000
    program = get("all-reduce", "ring").program(2, 4.0 * elems, element_B=4.0)
    turns: list[tuple[int, int]] = []
    found = execute(
        program, op="all-reduce", algorithm="ring", elems=elems, repeats=3, timeout_s=900,
        progress=lambda done, total: turns.append((done, total)),
    )  # fmt: skip
    assert found.ok
    assert found.calibrated
    assert len(found.makespans_s) == 3
    assert found.measured.makespan_s in found.makespans_s
    assert sorted(found.makespans_s)[1] == found.measured.makespan_s
    assert turns[-1] == (4, 4)
    answer = found.to_dict()
    assert answer["sent_B"] == answer["predicted_sent_B"] == [4 * elems] * 2
    assert answer["predicted"]["source"] == "simulated"
    assert answer["measured"]["source"] == "measured"
    assert answer["machine"]["scheduling"] != "unknown"


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_of_one_machine_are_predicted_from_single_and_concurrent_runs(ranks: int) -> None:
    program = get("all-reduce", "ring").program(ranks, 4000.0, element_B=4.0)
    found = execute(program, op="all-reduce", algorithm="ring", elems=1000, repeats=1)
    assert found.cores is not None
    assert found.cores.ranks == ranks
    sent_B = {int(size_B) for size_B in program.size_B[program.kind == Kind.SEND]}
    assert {int(one.size_B) for one in found.cores.timed} == {64, 65536} | sent_B
    assert all(min(one.alone_s, one.together_s) > 0 for one in found.cores.timed)
    assert found.predicted.makespan_s == simulate_shared_cores(program, found.cores).makespan_s > found.cores.start_s
    assert found.to_dict()["cores"] == found.cores.to_dict()


def test_timed_sizes_are_few_whole_elements_including_both_ends() -> None:
    assert sizes_to_time(np.array([8.0, 8.0, 5.0])) == (4, 8, 64, 65536)
    many = sizes_to_time(np.arange(1000.0) * 4)
    assert {4, 3996} <= set(many)
    assert len(many) <= 7
    assert sizes_to_time(np.array([0.0])) == (4, 64, 65536)
    assert sizes_to_time(np.array([1e9, 2e9])) == (64, 65536, 1 << 24)


def test_the_link_of_a_machine_is_measured_from_messages_alone() -> None:
    timed = tuple(Timed(size_B, 1e-5 + size_B / 1e9, 1.0, size_B / 1e10, 2.0) for size_B in (64, 65536, 1 << 20))
    link = link_of(SharedCores(4, timed))
    assert (link.latency_s, link.bandwidth_Bps) == pytest.approx((1e-5, 1e9), rel=1e-9)
    assert link.reduce_s_per_B == pytest.approx(1e-10)
    noisy = link_of(SharedCores(2, (Timed(64, 2.0, 1.0, 0.0, 0.0), Timed(128, 1.0, 1.0, 0.0, 0.0))))
    assert (noisy.latency_s, noisy.bandwidth_Bps) == (0.0, 128.0)


def test_a_specified_link_predicts_without_calibration() -> None:
    program = get("broadcast", "binomial").program(2, 4000.0, element_B=4.0)
    found = execute(program, op="broadcast", algorithm="binomial", elems=1000, link=PlainLink(1e-3, 1e6), repeats=1)
    assert not found.calibrated
    assert found.predicted.makespan_s == pytest.approx(1e-3 + 4e-3)
    assert "link as given" in found.assumptions


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("algorithm", ["ring", "recursive-doubling", "tree"])
def test_large_messages_in_chunks_are_right_and_counted_once(algorithm: str, ranks: int) -> None:
    """Four pieces and a bit; recursive doubling must not add before it has sent."""
    elems = ranks * (4 * int(OWN_CORE.piece_B) // 4) + 10
    program = get("all-reduce", algorithm).program(ranks, 4.0 * elems, element_B=4.0)
    found = execute(program, op="all-reduce", algorithm=algorithm, elems=elems, link=PlainLink(1e-4, 1e9), repeats=2)
    assert found.ok
    assert sum(found.messages) == program.num_messages


@pytest.mark.skipif(sys.platform != "linux", reason="who takes turns is asked of Linux")
def test_chunk_requests_depend_on_shared_cores_and_scheduling_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(ranks: int, cores: int | None, namespace: str | None = None, backend: str = "gloo") -> object:
        return cut_for(Rank(0, ranks, 0, backend, 1.0, host=Host(namespace), cores=cores))

    for policy, shared in ((os.SCHED_OTHER, SHARED_CORES), (os.SCHED_RR, SHARED_CORES_IN_TURN)):
        monkeypatch.setattr(os, "sched_getscheduler", lambda _, policy=policy: policy)
        assert chosen(2, 2) == chosen(8, None) == chosen(8, 2, backend="nccl") == OWN_CORE
        assert chosen(3, 2) == shared
        assert chosen(3, 2, "a network of its own") == SHARED_CORES_OWN_NETWORK


def test_wrong_results_and_counts_are_detected() -> None:
    """A ring that forgets its last message is neither right nor as priced."""
    whole = get("all-reduce", "ring").program(2, 4000.0, element_B=4.0)
    builder = ProgramBuilder(2)
    builder.message(0, 1, 2000.0, chunk=(0, 500), buffer="data", to_buffer="data")
    found = execute(builder.build(), op="all-reduce", algorithm="broken", elems=1000, repeats=1)
    assert found.wrong > 0
    assert not found.ok
    assert not replace(found, program=whole, wrong=0).counts_agree


def test_barriers_and_computations_are_executed() -> None:
    builder = ProgramBuilder(3)
    first = builder.compute(0, 0.02, label="work")
    builder.barrier([0, 2], after=[first])
    found = execute(builder.build(), repeats=1)
    barrier = found.program.kind == Kind.BARRIER
    assert (found.measured.end_s[barrier] >= 0.02).all()
    assert found.ok


def test_programs_that_cannot_run_are_refused() -> None:
    builder = ProgramBuilder(2)
    builder.collective([0, 1], "all-reduce", 100.0)
    with pytest.raises(BadInput, match="expand the program first"):
        execute(builder.build())
    builder = ProgramBuilder(2)
    builder.message(0, 1, 2.5)
    with pytest.raises(BadInput, match=r"2\.5 B cannot be sent"):
        execute(builder.build())
    builder = ProgramBuilder(2)
    builder.compute(1, 0.1, after=builder.compute(0, 0.1))
    with pytest.raises(BadInput, match="waits for another rank without a message"):
        execute(builder.build())


def test_a_dependency_on_the_remote_end_of_a_message_is_mapped_to_the_local_end() -> None:
    builder = ProgramBuilder(2)
    send, recv = builder.message(0, 1, 8.0)
    builder.compute(0, 0.0, after=recv)
    program = builder.build()
    check_runnable(program)
    compute = next(task for lane in lanes_of(program, 0) for task in lane if task.kind == Kind.COMPUTE)
    assert compute.waits == (send,)


def test_a_rank_killed_in_a_round_is_named_with_its_step() -> None:
    program = get("all-reduce", "ring").program(2, 4000.0, element_B=4.0)
    work = Work(program, "all-reduce", "ring", 2, 1000, seed=0, warm_up=0, repeats=1)
    with pytest.raises(RunFailed, match=r"^rank 1 killed by SIGKILL during all-reduce-ring step 1"):
        launch(run_rank, 2, (work,), timeout_s=900, faults=[Fault(1, "mid_all_reduce_ring:1", "kill")])


def test_a_message_is_cut_into_chunks_of_the_requested_size() -> None:
    import torch

    made = Transfers.__new__(Transfers)
    for piece_B, number in ((1e9, 1), (8000, 1), (7999, 2), (1000, 8), (999, 9)):
        made.cut = Cut(piece_B)
        whole = torch.arange(1000, dtype=torch.float64)
        pieces = made._pieces(whole)
        assert len(pieces) == number
        assert torch.equal(torch.cat(pieces), whole)
        assert len({len(piece) for piece in pieces[:-1]}) <= 1
        assert all(8 * len(piece) <= piece_B + 8 for piece in pieces)
