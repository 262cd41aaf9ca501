"""The verb `execute`: a collective or a pipeline on real ranks, its measured timeline beside the predicted one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import parse_size_B, parse_time_s
from lockstep.show.verbs.pipeline import check_weight_s, per_stage
from lockstep.show.verbs.trace import trace_path, write_timeline
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.keeping import kept
from lockstep.show.verbs.words.network import flags, read_network
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.processes import longest_wait_s, world
from lockstep.show.verbs.words.quantity import Bandwidth, Quantity, Size, Time, Times
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import PROCESSES, RUNS, SIZE

if TYPE_CHECKING:
    from lockstep.run.execute import Execution
    from lockstep.simulate.collectives import PlainLink
    from lockstep.simulate.failures.stragglers import LateRank
    from lockstep.simulate.program import Program

ELEMENT_B = 4.0
"""float32."""
MOST_OPERATIONS = 100_000


_PIPELINE = "Pipeline, one rank per stage"


class ExecutedWords(TypedDict, total=False):
    """Keywords of a pipeline that runs, whose passes are short."""

    microbatches: Annotated[Quantity | None, Option("M", "Micro-batches per step.", panel=_PIPELINE)]
    schedule: Annotated[
        str | None,
        Option("S", "Pipeline schedule: gpipe, 1f1b, zb-h1 ...", panel=_PIPELINE, names="schedules", default="1f1b"),
    ]
    chunks: Annotated[
        Quantity | None, Option("V", "Model chunks per stage, if the schedule allows a choice.", panel=_PIPELINE)
    ]
    forward_s: Annotated[Times | None, Option("T", "Time of a stage's forward pass.", panel=_PIPELINE, default="10 ms")]
    backward_s: Annotated[
        Times | None, Option("T", "Time of a stage's whole backward pass.", panel=_PIPELINE, default="20 ms")
    ]
    weight_s: Annotated[
        Times | None, Option("T", "Time for weight gradients, part of --backward-s.", panel=_PIPELINE, default="half")
    ]


@dataclass(frozen=True, slots=True, repr=False)
class Executed(Shown):
    """A program that ran, and what it was."""

    what: str
    algorithm: str
    size_B: float | None
    execution: "Execution"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "what algorithm size_B") | self.execution.to_dict()


WHAT = Argument("WHAT", "What to run: pipeline, or a collective such as all-reduce or all-to-all.", names="programs")
ALGORITHM = Option("A", "Algorithm of the collective.", names="algorithms", default="the fastest")
MESSAGE_SIZE = Option("S", "Size of a message between neighbouring stages.", panel=_PIPELINE, default="64 KB")
STRAGGLER = Option("R:T", "Make a rank late: 2:50ms for each computation (or send), or 2:1.5x for slower computing.")
TRACE = Option("FILE", "Write both timelines, measured and predicted, for Perfetto: .json.gz.")
PROFILE = Option("DIR", "Folder for a profile of each rank, of some further runs, for diagnose.")
LATENCY = Option("T", "Latency of the link to predict with, instead of calibrating one; with --bandwidth.")
BANDWIDTH = Option("R", "Bandwidth of the link to predict with; with --latency.")


@verb
def execute(
    what: Annotated[str, WHAT],
    *,
    ranks: Annotated[Quantity | None, PROCESSES] = None,
    size: Annotated[Size | None, SIZE] = None,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    message_size: Annotated[Size | None, MESSAGE_SIZE] = None,
    backend: Annotated[str, Option("B", "Backend: gloo, or nccl with one GPU per rank.", default="gloo")] = "gloo",
    repeats: Annotated[Quantity, Option("N", "Number of runs; the median one is shown.", default="5")] = 5,
    warm_up: Annotated[Quantity, Option("N", "Number of warm-up runs before the measured ones.", default="1")] = 1,
    timeout: Annotated[Time | None, Option("T", "Longest wait for a rank.", default="60 s")] = None,
    straggler: Annotated[str | None, STRAGGLER] = None,
    trace: Annotated[str | Path | None, TRACE] = None,
    profile: Annotated[str | Path | None, PROFILE] = None,
    root: Annotated[str | Path | None, RUNS] = None,
    latency: Annotated[Time | None, LATENCY] = None,
    bandwidth: Annotated[Bandwidth | None, BANDWIDTH] = None,
    progress: Progress | None = None,
    **pipeline: Unpack[ExecutedWords],
) -> Executed:
    """Runs `what`, a collective or `pipeline`, on `ranks` real ranks (stages) and checks bytes, messages and results.

    `ranks`: by default those that torchrun or srun started, else two. `size` and `algorithm` are those of a collective;
    `message_size` and `pipeline`, the options of the verb `pipeline`, those of a pipeline. Without `latency` and
    `bandwidth` the ranks time what predicts first: messages and additions on one machine, else a link. `straggler`
    makes a rank late: `2:50ms` each of its computations (in a collective: sends), `2:1.5x` the time of its
    computations. `trace` writes both timelines; `profile` is a folder for each rank's profile by
    torch.profiler, of further runs.
    `root`: where runs are kept; by default $LOCKSTEP_RUNS, else nowhere.
    Raises RunFailed, BadInput.
    """
    from lockstep.run.execute import execute as run
    from lockstep.run.profiling import profile_folder

    number, link = world(ranks), _link(latency, bandwidth)
    given: Json = {name: value for name, value in pipeline.items() if value is not None}
    program, words, size_B = _asked(what, number, size, algorithm, message_size, link, given)
    path = None if trace is None else trace_path(trace, "--trace")
    folder = profile_folder(profile, "--profile")
    words |= {"backend": backend, "repeats": whole(repeats, "--repeats"), "warm_up": whole(warm_up, "--warm-up", 0)}
    wait_s, late = longest_wait_s(timeout), _late(straggler, program)
    asked = {"what": what, "ranks": number, "size_B": size_B, "straggler": straggler, **given, **words}
    with flags("--ranks"), kept("execute", asked, root) as record:
        found = run(program, **words, link=link, timeout_s=wait_s, straggler=late, profile=folder, progress=progress)
        answer = Executed(what, words["algorithm"], size_B, found)
        for turn, makespan_s in enumerate(found.makespans_s, 1):
            record(run=turn, makespan_s=makespan_s)
        record.result = answer.to_dict()
    if path is not None:
        write_timeline(found.measured, path, "--trace", beside=found.predicted)
    return answer


def _asked(
    what: str, ranks: int, size: Size | None, algorithm: str | None, message_size: Size | None,
    link: "PlainLink | None", pipeline: Mapping[str, Any],
) -> "tuple[Program, Json, float | None]":  # fmt: skip
    """The program, what says how to check it, and the bytes of a collective."""
    size_B = None
    if what == "pipeline":
        _refuse({"size": size, "algorithm": algorithm}, "a pipeline")
        program, name = _pipeline(ranks, message_size, **pipeline)
        words: Json = {"op": "pipeline", "algorithm": name}
    else:
        _refuse({"message_size": message_size, **pipeline}, what)
        program, name, size_B = _collective(what, ranks, size, algorithm, link)
        words = {"op": what, "algorithm": name, "members": ranks, "elems": int(size_B / ELEMENT_B)}
    if len(program) > MOST_OPERATIONS:
        raise _too_long(f"{len(program):,} operations")
    return program, words, size_B


def _late(straggler: str | None, program: "Program") -> "LateRank | None":
    """The rank to make late, if the program has a use for it."""
    from lockstep.simulate.failures.stragglers import parse_late

    if straggler is None:
        return None
    with flags("--straggler"):
        late = parse_late(straggler)
        late.applied(program)
    return late


def _link(latency: Time | None, bandwidth: Bandwidth | None) -> "PlainLink | None":
    if latency is None and bandwidth is None:
        return None
    return read_network(2, latency, bandwidth).link


def _refuse(words: Json, what: str) -> None:
    for name, value in words.items():
        if value is not None:
            raise BadInput(f"does not belong to {what}", f"--{name.replace('_', '-')}")


def _pipeline(
    stages: int,
    message_size: Size | None,
    *,
    microbatches: Quantity | None = None,
    schedule: str = "1f1b",
    chunks: Quantity | None = None,
    forward_s: Times = "10ms",
    backward_s: Times = "20ms",
    weight_s: Times | None = None,
) -> "tuple[Program, str]":
    """The program of a pipeline, one rank per stage, and the schedule's name."""
    from lockstep.simulate.parallel.pipeline import Times, get, program

    if microbatches is None:
        raise BadInput("must be given for a pipeline", "--microbatches")
    times = Times(
        per_stage(forward_s, stages, "--forward-s"),
        per_stage(backward_s, stages, "--backward-s"),
        None if weight_s is None else parse_time_s(weight_s, "--weight-s"),
    )
    number = whole(microbatches, "--microbatches")
    if stages * number > MOST_OPERATIONS:
        raise BadInput(f"{stages} stages x {number} micro-batches are too many to run", "--microbatches")
    with flags("--schedule"):
        chosen = get(schedule)
        made = program(
            chosen, stages, number, times=times, chunks=None if chunks is None else whole(chunks, "--chunks"),
            message_B=round(parse_size_B("64KB" if message_size is None else message_size, "--message-size")),
            priced_by_link=True,
        )  # fmt: skip
    check_weight_s(weight_s, made, chosen.name)
    return made, chosen.name


def _collective(
    op: str, ranks: int, size: Size | None, algorithm: str | None, link: "PlainLink | None"
) -> "tuple[Program, str, float]":
    """The program of a collective on whole float32 elements, its algorithm's name and its size."""
    from lockstep.run.execute.lanes import USUAL_LINK, settled
    from lockstep.simulate.collectives import best, get, ops

    if op not in ops():
        raise UnknownName("program", op, ("pipeline", *ops()), "WHAT")
    if size is None:
        raise BadInput("must be given for a collective", "--size")
    size_B = ELEMENT_B * max(1, round(parse_size_B(size, "--size") / ELEMENT_B))
    with flags("--algorithm"):
        name = algorithm
        if name is None:
            name = str(best(op, ranks, size_B, link or USUAL_LINK).algorithm)
        chosen = get(op, name)
        chosen.price(ranks, size_B, link or USUAL_LINK, ELEMENT_B)
        forecast = float(chosen.operations(ranks, size_B, link or USUAL_LINK, ELEMENT_B))
        # The forecast counts a reduction for every message; far above the limit nothing is built.
        if forecast > 2 * MOST_OPERATIONS:
            raise _too_long(f"about {forecast:.2g} operations")
        return settled(op, name, ranks, size_B, ELEMENT_B, link), name, size_B


def _too_long(operations: str) -> BadInput:
    return BadInput(
        f"{operations} are too many to run, at most {MOST_OPERATIONS:,}; use fewer ranks or micro-batches", "--ranks"
    )
