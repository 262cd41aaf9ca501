"""`execute`: runs a program on real ranks and puts the measured timeline beside the predicted one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.run.execute.clock import Alignment, said
from lockstep.run.execute.cores import link_of
from lockstep.run.execute.exchange import link_through
from lockstep.run.execute.lanes import check_runnable
from lockstep.run.execute.worker import Report, Work, run_rank
from lockstep.run.launch import Host, launch
from lockstep.run.machine import Machine, with_load
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.failures.stragglers import FoundLate, LateRank, find_late
from lockstep.simulate.play import SharedCores, simulate, simulate_shared_cores
from lockstep.simulate.program import Kind, Program, Timeline, TimelineDiff, diff


@dataclass(frozen=True, slots=True)
class Execution:
    """A program that ran: what it was predicted to do, what it did, and whether the two agree."""

    program: Program
    predicted: Timeline
    measured: Timeline
    """Of the run with the median makespan."""
    makespans_s: tuple[float, ...]
    """Of all runs after the warm-up."""
    sent_B: tuple[int, ...]
    """Bytes that each rank gave to the network in one run."""
    messages: tuple[int, ...]
    wrong: int
    checks: tuple[str, ...]
    link: PlainLink
    """Given, or calibrated; on one machine that of a message which is alone."""
    calibrated: bool
    cores: SharedCores | None
    """What predicts when all ranks are on one machine and no link was given."""
    machine: Machine
    """Rank 0's."""
    clocks: tuple[Alignment, ...]
    """Of every rank, against rank 0's."""
    on_time: Timeline
    """Simulated without a late rank."""
    late: FoundLate | None
    """The rank that was late, found in the measurements alone; None when no rank clearly was."""
    straggler: LateRank | None
    """The one that was made late on purpose: `program` and `predicted` hold it."""

    @property
    def counts_agree(self) -> bool:
        """Whether every rank sent exactly the bytes and messages of the program."""
        sent = tuple(int(size_B) for size_B in self.program.sent_B())
        return self.sent_B == sent and self.messages == tuple(self.program.messages_sent().tolist())

    @property
    def ok(self) -> bool:
        """Whether counts agree and no element is wrong."""
        return self.counts_agree and not self.wrong

    @property
    def difference(self) -> TimelineDiff:
        """Predicted against measured, operation by operation."""
        return diff(self.predicted, self.measured)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the prediction takes for granted, and what the measurement is worth."""
        how = "link as given"
        if self.cores is not None:
            how = "messages and additions timed separately in this run, alone and on all ranks simultaneously"
        elif self.calibrated:
            how = "link calibrated on exchanges of two ranks in this run"
        known = (*said(self.clocks), *self.machine.warnings(self.program.ranks))
        return (how, *self.predicted.assumptions, *known)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "ranks": self.program.ranks,
            **picked(self, "ok wrong checks counts_agree sent_B"),
            "predicted_sent_B": [int(size_B) for size_B in self.program.sent_B()],
            "messages": plain(self.messages),
            "predicted_messages": plain(self.program.messages_sent()),
            **picked(self, "predicted measured makespans_s"),
            "error_frac": self.difference.makespan_frac,
            "cores": plain(self.cores),
            "on_time_s": self.on_time.makespan_s,
            **picked(self, "straggler late"),
            **picked(self.link, "latency_s bandwidth_Bps"),
            **picked(self, "calibrated machine clocks assumptions"),
        }


def execute(
    program: Program,
    *,
    op: str = "",
    algorithm: str = "",
    members: int | None = None,
    elems: int = 0,
    link: PlainLink | None = None,
    backend: str = "gloo",
    repeats: int = 5,
    warm_up: int = 1,
    seed: int = 0,
    timeout_s: float = 60.0,
    hosts: Sequence[Host] = (),
    environment: Mapping[str, str] | None = None,
    straggler: LateRank | None = None,
    profile: Path | None = None,
    progress: Progress | None = None,
) -> Execution:
    """Runs the program on `program.ranks` real ranks.

    Args: `op`, `algorithm`, `members` and `elems` (float32 per rank) say which collective it is, so that its result is
    checked; a program without data has none. `link` predicts; without it the ranks calibrate one first. `hosts`,
    one per rank, where the ranks are in networks of their own; `environment` variables of the ranks.
    `straggler`, a rank to make late. `profile`, a folder in which each rank writes a profile of further runs.
    Raises: RunFailed, BadInput.
    """
    check_runnable(program)
    asked, program = program, program if straggler is None else straggler.applied(program)
    work = Work(
        program, op, algorithm, members or program.ranks, elems, seed, warm_up, repeats,
        calibrate=link is None and program.num_messages > 0, profile=None if profile is None else str(profile),
    )  # fmt: skip
    total = warm_up + repeats

    def on_message(rank: int, turn: int) -> None:
        if progress is not None:
            progress(turn, total)

    reports = launch(
        run_rank, program.ranks, (work,), backend=backend, timeout_s=timeout_s, hosts=hosts, environment=environment,
        on_message=on_message,
    )  # fmt: skip
    return _execution(work, reports, link, asked, straggler)


def _execution(
    work: Work, reports: Sequence[Report], link: PlainLink | None, asked: Program, straggler: LateRank | None
) -> Execution:
    program = work.program
    machine = with_load(reports[0].machine, [report.load for report in reports])
    cores, given = reports[0].cores, link
    link = given or (link_through(reports[0].samples, reports[0].reduce_s_per_B) if cores is None else link_of(cores))

    def predicted(one: Program) -> Timeline:
        return simulate(one, link) if cores is None else simulate_shared_cores(one, cores)

    lines = [measured_timeline(program, reports, run) for run in range(work.repeats)]
    middle = sorted(range(len(lines)), key=lambda run: lines[run].makespan_s)[(len(lines) - 1) // 2]
    spans = [report.runs[middle] for report in reports]
    on_time = predicted(asked)
    return Execution(
        program=program,
        predicted=predicted(program),
        measured=lines[middle],
        makespans_s=tuple(line.makespan_s for line in lines),
        sent_B=tuple(span.sent_B for span in spans),
        messages=tuple(span.messages for span in spans),
        wrong=sum(report.wrong for report in reports),
        checks=reports[0].checks,
        link=link,
        calibrated=given is None and program.num_messages > 0,
        cores=cores,
        machine=machine,
        clocks=tuple(report.clock for report in reports),
        on_time=on_time,
        late=find_late(lines, on_time, middle),
        straggler=straggler,
    )


def measured_timeline(program: Program, reports: Sequence[Report], run: int) -> Timeline:
    """The spans of all ranks on rank 0's clock, from the first start on.

    As in the program's semantics a message starts when both ends are ready, and what comes before is waiting.
    """
    start, end = np.zeros(len(program), dtype=np.int64), np.zeros(len(program), dtype=np.int64)
    for report in reports:
        spans, ids = report.runs[run], np.array(report.runs[run].ids, dtype=np.int64)
        start[ids] = report.clock.on_rank_0(np.array(spans.start_ns, dtype=np.int64))
        end[ids] = report.clock.on_rank_0(np.array(spans.end_ns, dtype=np.int64))
    paired = program.match >= 0
    zero = int(start.min(initial=np.iinfo(np.int64).max)) if len(program) else 0
    # A send may be waited for late; it has left when it has arrived.
    sends = program.kind == Kind.SEND
    end[sends] = np.maximum(start[sends], np.minimum(end[sends], end[program.match[sends]]))
    start[paired] = np.minimum(np.maximum(start[paired], start[program.match[paired]]), end[paired])
    return Timeline(program, (start - zero) / 1e9, (end - zero) / 1e9, source="measured")
