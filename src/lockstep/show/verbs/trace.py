"""The verb `trace`: a collective, a pipeline or a captured step as a file for Perfetto or chrome://tracing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from lockstep.base.documents.files import writable, writing
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import parse_size_B
from lockstep.show.verbs.capture import CapturedMemory, is_capture, read_capture
from lockstep.show.verbs.pipeline import TRANSFER, StageWords, pipeline
from lockstep.show.verbs.words.algorithms import check_switch
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Estimate
from lockstep.show.verbs.words.network import flags, read_network
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity, Size, Times
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import RANKS, SIZE, LinkWords
from lockstep.show.verbs.words.varied import AT, At, refuse_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.explain.trace import RankTrace
    from lockstep.simulate.collectives.levels import Levels
    from lockstep.simulate.program import Timeline
    from lockstep.simulate.program.trace import Inside

MOST_OPERATIONS = 300_000
FORMS = ("perfetto", "kineto")
MOST_RANKS = 256
"""Files of one folder."""
STEPS = 3
"""Of a trace of all ranks: as a profiler's, whose first step is left out."""
OPENED = ("tp", "cp", "ep", "dp")
EXPANSIONS = {"layers": (), "operations": (), "messages": OPENED, **{part: (part,) for part in OPENED}}
"""What a step's trace shows besides passes -> the kinds of traffic whose collectives are opened."""


class PipelineWords(StageWords, total=False):
    """Keywords about a pipeline; see the verb `pipeline`."""

    stages: Annotated[Quantity | None, Option("P", "Number of pipeline stages.")]
    transfer_s: Annotated[Times | None, TRANSFER]


class CollectiveWords(LinkWords, total=False):
    """Keywords about a collective; see the verb `collective`."""

    ranks: Annotated[Quantity | None, RANKS]
    size: Annotated[Size | None, SIZE]
    algorithm: Annotated[
        str | None, Option("A", "Algorithm of the collective.", names="algorithms", default="the fastest")
    ]


class TraceWords(PipelineWords, CollectiveWords, total=False):
    """Keywords of `trace`: those of what is traced."""


@dataclass(frozen=True, slots=True, repr=False)
class Trace(Shown):
    """The file that was written and what is in it."""

    path: str
    what: str
    timeline: "Timeline"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        line = self.timeline
        return {
            "file": self.path,
            "what": self.what,
            "ranks": line.program.ranks,
            "operations": len(line.program),
            **picked(line, "makespan_s utilization_frac"),
            "critical_s": line.critical_s_by_kind(),
        }


WHAT = Argument(
    "WHAT",
    "What to simulate: pipeline, a collective such as all-reduce or all-to-all, or a captured step, step.capture.",
    names="programs",
)
OUT = Option("FILE", "Output file, ending in .json.gz; ui.perfetto.dev and chrome://tracing open it.", flag="-o")
FORM = Option(
    "FORM",
    "Form of the trace: perfetto, one file with all ranks; or kineto, a folder with a file per rank as "
    "PyTorch's profiler writes it.",
    flag="--as",
    default="perfetto",
)


@strict
def trace(
    what: Annotated[str, WHAT],
    *,
    out: Annotated[str | Path, OUT],
    form: Annotated[str, FORM] = "perfetto",
    at: Annotated[At, AT] = (),
    **words: Unpack[TraceWords],
) -> Trace:
    """Simulates `what`, `pipeline`, a collective or a captured step, and writes the trace; nothing on bad input.

    `form`: `perfetto` writes one file, `kineto` a folder with a file per rank.

    `words`: those of `pipeline`, or ranks, size, algorithm and the link as in `collective`.
    """
    if form not in FORMS:
        raise UnknownName("form of a trace", form, FORMS, "--as")
    if is_capture(what):
        if form != "perfetto":
            raise BadInput("does not belong to a captured step", "--as")
        return trace_captured(read_capture(what, words.get("cluster"), words, at), out, "--out")
    refuse_at(at)
    path = trace_path(out, "--out") if form == "perfetto" else _new_folder(out, "--out")
    given: Json = {name: value for name, value in words.items() if value is not None}
    known = PipelineWords if what == "pipeline" else CollectiveWords
    for name in given:
        if name not in known.__annotations__:
            kind = "a pipeline" if what == "pipeline" else what
            raise BadInput(f"does not belong to {kind}", f"--{name.replace('_', '-')}")
    timeline = _pipeline(given) if what == "pipeline" else _collective(what, **given)
    if form == "kineto":
        write_ranks(timeline, path, "--out")
        return Trace(str(path), what, timeline)
    return _written(timeline, path, what, "--out")


def trace_captured(found: CapturedMemory, out: str | Path, where: str) -> Trace:
    """Plays a captured step and writes the trace: its calls on the host and in the streams of the card."""
    path = trace_path(out, where)
    return _written(found.played[0], path, f"step of {found.name}", where)


@strict
def trace_step(estimate: Estimate, out: str | Path, expand: str | None = None, form: str = "perfetto") -> Trace:
    """Simulates the step of an estimate, one rank per pipeline stage, and writes the trace.

    `form`: `kineto` writes all ranks of the layout instead, a file per rank into the folder `out`, three steps of each.

    `expand`: `layers` writes each layer, `operations` also what each of them computes; `messages` writes layers and
    opens each different collective of the first stage once into its own sends, tp, cp, ep or dp those of one group.
    """
    if form not in FORMS:
        raise UnknownName("form of a trace", form, FORMS, "--as")
    if form == "kineto":
        return _step_of_ranks(estimate, out, expand)
    path = trace_path(out, "--trace")
    if expand is not None and expand not in EXPANSIONS:
        raise UnknownName("expansion", expand, tuple(EXPANSIONS), "--expand")
    timeline = estimate.timeline(expand is not None, EXPANSIONS[expand] if expand else ())
    inside = {}
    if expand == "operations":
        from lockstep.price.step import operations_inside

        inside = operations_inside(estimate.job, estimate.cluster, estimate.layout, timeline)
    return _written(timeline, path, f"step of {estimate.job.model.name}", "--trace", inside)


def _step_of_ranks(estimate: Estimate, out: str | Path, expand: str | None) -> Trace:
    """The step of every rank, as profilers of all of them would have seen it."""
    from lockstep.explain.predicted import Shown, traces_of
    from lockstep.explain.ranks import all_ranks
    from lockstep.explain.replay import as_predicted

    if expand is not None:
        raise BadInput("does not belong to --as kineto, whose kernels are those of a step's passes", "--expand")
    if (world := estimate.layout.world) > MOST_RANKS:
        raise BadInput(f"{world:,} ranks are too many files, at most {MOST_RANKS:,}", "--as")
    path = _new_folder(out, "--trace")
    one = all_ranks(estimate, range(world))
    timeline = as_predicted(one)
    _write_traces(traces_of([timeline] * STEPS, Shown.of(one)), path, "--trace")
    return Trace(str(path), f"step of {estimate.job.model.name}", timeline)


def write_ranks(timeline: "Timeline", folder: Path, where: str) -> None:
    """A file per rank, as PyTorch's profiler writes it. Raises BadInput at `where`."""
    from lockstep.explain.predicted import plain, traces_of

    _write_traces(traces_of([timeline], plain(timeline)), folder, where)


def _write_traces(traces: "Iterable[RankTrace]", folder: Path, where: str) -> None:
    from lockstep.explain.write_kineto import write_kineto

    for one in traces:
        with writing(folder / f"rank{one.rank}.json.gz", where):
            write_kineto(one, folder / f"rank{one.rank}.json.gz")


def _new_folder(out: str | Path, where: str) -> Path:
    """The folder, made if there is none. Raises BadInput at `where`."""
    path = Path(out)
    with writing(path, where):
        path.mkdir(exist_ok=True)
    return path


def trace_path(out: str | Path, where: str) -> Path:
    """The path, which must end as a trace does and be in a folder that exists. Raises BadInput at `where`."""
    path = Path(out)
    if not path.name.endswith((".json", ".json.gz")):
        raise BadInput(f"{path.name!r} must end in .json.gz or .json", where)
    return writable(path, where)


def _written(timeline: "Timeline", path: Path, what: str, where: str, inside: "Inside | None" = None) -> Trace:
    write_timeline(timeline, path, where, inside=inside)
    return Trace(str(path), what, timeline)


def write_timeline(
    timeline: "Timeline", path: Path, where: str, beside: "Timeline | None" = None, inside: "Inside | None" = None
) -> None:
    """Writes the trace, with another timeline and parts of operations if given. Raises BadInput at `where`."""
    from lockstep.simulate.program import write_trace

    with writing(path, where):
        write_trace(timeline, path, beside, inside or {})


def _pipeline(given: Json) -> "Timeline":
    for name in ("stages", "microbatches"):
        if name not in given:
            raise BadInput("must be given for a pipeline", f"--{name}")
    return pipeline(**given).timeline


def _collective(
    op: str, *, ranks: Quantity | None = None, size: Size | None = None, algorithm: str | None = None, **link: Any
) -> "Timeline":
    from lockstep.simulate.collectives import best, get, ops
    from lockstep.simulate.collectives.cost import used_by
    from lockstep.simulate.collectives.levels import WAYS
    from lockstep.simulate.play import simulate

    if op not in ops():
        raise UnknownName("program", op, ("pipeline", *ops()), "WHAT")
    if ranks is None or size is None:
        raise BadInput("must be given for a collective", "--ranks" if ranks is None else "--size")
    network, size_B = read_network(whole(ranks, "--ranks"), **link), parse_size_B(size, "--size")
    if network.spans_levels and op in WAYS and algorithm in (None, *WAYS[op]):
        network.check_filled()
        return _on_levels(op, network.levels, size_B, algorithm)
    if algorithm is not None:
        check_switch(op, algorithm, "--algorithm", network)
    with flags("--algorithm"):
        name = algorithm if algorithm is not None else str(best(op, network.ranks, size_B, network.link).algorithm)
        chosen = get(op, name)
        chosen.price(network.ranks, size_B, network.link)
        _check_size(float(chosen.operations(network.ranks, size_B, network.link)))
        program = chosen.program(network.ranks, size_B, network.link)
    return simulate(program, network.cluster if network.node_ranks else used_by(op, network.link))


def _on_levels(op: str, levels: "Levels", size_B: float, way: str | None) -> "Timeline":
    """One way across the levels of a cluster, the fastest if none is named."""
    from lockstep.simulate.collectives import best_on_levels, program_on_levels, sent_on_levels
    from lockstep.simulate.collectives.op import op_of
    from lockstep.simulate.play import simulate

    way = way if way is not None else str(best_on_levels(op, levels, size_B).algorithm)
    with flags("--ranks"):
        _check_size(float(sent_on_levels(op, levels, size_B, way).total.messages * (2 + op_of(op).adds)))
        return simulate(*program_on_levels(op, levels, size_B, way))


def _check_size(operations: float) -> None:
    if operations > MOST_OPERATIONS:
        allowed = f"at most {MOST_OPERATIONS:,}; use fewer ranks"
        raise BadInput(f"a trace of about {operations:.3g} operations is too large: {allowed}", "ranks")
