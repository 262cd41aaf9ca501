"""The verb `diagnose`: a measured run beside the predicted one, and what would explain the difference."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

from lockstep.base.documents.files import writable_yaml, write_text, writing
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_frac
from lockstep.explain.diagnosis import Diagnosis
from lockstep.show.verbs.capture import CapturedMemory, is_capture, read_capture
from lockstep.show.verbs.estimate import estimate
from lockstep.show.verbs.trace import trace_path
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.measured import expected_number, other_case, other_run, run_of_case, stated_numbers
from lockstep.show.verbs.words.named import Cluster, Known, Layout, Model
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.quantity import FlopRate, Quantity, Time
from lockstep.show.verbs.words.run_file import run_of
from lockstep.show.verbs.words.shared import LayoutWords
from lockstep.show.verbs.words.traces import ranked_files, read_operations
from lockstep.show.verbs.words.varied import AT, At, refuse_at

if TYPE_CHECKING:
    from lockstep.base.documents.files import File
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.answer import Beside, Measured
    from lockstep.explain.captured_calls import CallsBeside
    from lockstep.explain.gather import Gathered
    from lockstep.explain.judge import Judged
    from lockstep.explain.recalibrate import Recalibrated
    from lockstep.explain.seen import Seen
    from lockstep.show.verbs.words.run_file import RunFile

MEASURED = "What was measured, instead of files or besides them"
SAID = "What traces do not say themselves"
PARTS = 4
"""Of the work, for `progress`: files, the prediction, operations, and what explains the difference."""


FILE = Argument(
    "FILE",
    "Files of the run, or folders with them, of any name: traces of torch.profiler or Nsight Systems (sqlite), "
    "tables of operations (CSV), logs of training programs, memory snapshots, dumps of the flight recorder, "
    "output of nccl-tests.",
    repeated=True,
)
MODEL = Option("M", "Model, as estimate takes it.", names="models", default="that of a log which has the arguments")
CLUSTER = Option("C", "Cluster, as estimate takes it.", "-c", names="clusters")
CAPTURE = Option("FILE", "A step that lockstep capture wrote of the program that ran, instead of --model.")
CASE = Option("FILE", "A measured run as lockstep case reads it, instead of --model, its layout and numbers.")
TOKENS_PER_S = Option("N", "Tokens per second of all devices, e.g. 43.7k.", panel=MEASURED)
TFLOPS = Option("F", "FLOP/s per device that the model needs; a plain number is in TFLOP/s.", panel=MEASURED)
PEAK = Option("F", "Peak FLOP/s that the MFU was, or would be, divided by, e.g. 1979T.", panel=MEASURED)
AGAINST = Option(
    "X",
    "What it is held against: a number like those above, traces or log of another run, or case:NAME.",
    panel=MEASURED,
)
STEPS = Option("N-N", "Steps of the traces to use, e.g. 3-5.", panel=SAID, default="all but the first and last")
RANKS = Option("N=FILE,...", "Ranks of files that do not say theirs: 0=a.json,8=b.json.", panel=SAID)
GROUP = Option("KIND=NAME,...", "What process groups are for: tp=2,dp=0, where files do not say.", panel=SAID)
OUT = Option("FILE", "Cluster file to write, with the rates that the run shows, ending in .yaml.", flag="-o")
TRACE = Option("FILE", "Write a measured step over the predicted one, for Perfetto: .json.gz.")
FAIL_ABOVE = Option("FRAC", "End with code 1 when the step takes so much longer than predicted, e.g. 10%.")


@strict
def diagnose(
    file: Annotated[Sequence[str | Path | Known], FILE] = (),
    *,
    model: Annotated[str | Path | Model | None, MODEL] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    case: Annotated[str | Path | None, CASE] = None,
    capture: Annotated[str | Path | CapturedMemory | None, CAPTURE] = None,
    at: Annotated[At, AT] = (),
    measured: Annotated[Time | None, Option("T", "Time of an optimizer step, e.g. 11.99s.", panel=MEASURED)] = None,
    tokens_per_s: Annotated[Quantity | None, TOKENS_PER_S] = None,
    tflops: Annotated[FlopRate | None, TFLOPS] = None,
    mfu: Annotated[Quantity | None, Option("FRAC", "Model FLOPs utilisation, e.g. 32%.", panel=MEASURED)] = None,
    peak: Annotated[FlopRate | None, PEAK] = None,
    against: Annotated[str | Path | Sequence[Known] | None, AGAINST] = None,
    steps: Annotated[str | None, STEPS] = None,
    ranks: Annotated[str | None, RANKS] = None,
    group: Annotated[str | None, GROUP] = None,
    out: Annotated[str | Path | None, OUT] = None,
    replan: Annotated[bool, Switch("Also find the best layout on the cluster as the run shows it.")] = False,
    trace: Annotated[str | Path | None, TRACE] = None,
    fail_above: Annotated[Quantity | None, FAIL_ABOVE] = None,
    layout: Layout | None = None,
    progress: Progress | None = None,
    **words: Unpack[LayoutWords],
) -> Diagnosis:
    """Holds a measured run against the predicted one, and says what would explain the difference.

    Args: `file`: files and folders, or files that have been read; `capture`: a captured step of the program, or its
    file, with values `at` of its arguments; `model`, `cluster`, `layout` and words of the layout as for `estimate`,
    without which what was measured is shown alone; `measured` seconds, `tokens_per_s`, `tflops` FLOP/s, `mfu` a
    fraction; `progress(done, PARTS)` is called before each part and each variant that is priced.
    Raises BadInput at the file and its line or byte, and for a layout that breaks a rule.
    """
    from lockstep.explain.beside import beside as beside_of
    from lockstep.explain.deviations import silent
    from lockstep.explain.gather import gather, numbers_of
    from lockstep.explain.judge import judge
    from lockstep.explain.measure import measured as measured_parts
    from lockstep.explain.stated import QUANTITIES

    given = dict(zip(QUANTITIES, (measured, tokens_per_s, tflops, mfu), strict=True))
    heard = progress or silent
    files = _files(file, ranks, case is not None or any(value is not None for value in given.values()))
    path = None if out is None else writable_yaml(out, "--out")
    picture = None if trace is None else trace_path(trace, "--trace")
    heard(0, PARTS)
    gathered = gather(files)
    heard(1, PARTS)
    stated, found = stated_numbers(given, peak), None
    step = _step(capture, cluster, at, {"model": model, "case": case, **given, **words})
    if case is not None:
        _refuse_question(model, cluster, layout, words)
        found, of_case = run_of_case(case)
        stated = stated or of_case
    elif step is None:
        refuse_at(at)
        found = predicted(gathered.log_files, model, cluster, layout, words, needed=bool(stated))
    heard(2, PARTS)
    seen = read_operations(gathered.traces, found.layout if found else None, steps, ranks, group)
    other = other_run(against, seen is not None)
    published = other_case(against)
    expected = other or (published[1] if published else against if isinstance(against, str | Path) else None)
    if found is not None:
        known = {one.quantity for one in stated}
        stated += [one for log in gathered.logs for one in numbers_of(log, found.job) if one.quantity not in known]
    shown = None if seen is None else measured_parts(seen)
    heard(3, PARTS)
    beside = None if seen is None or found is None else beside_of(found, seen)
    calls = None if step is None else _calls(step, gathered, seen)
    if picture is not None:
        _write_overlay(found, seen, picture)
    count = partial(heard, 3, PARTS)
    judged = judge(found, stated, expected_number(expected, stated, found), count) if found and stated else None
    _refuse_without(found or calls, fail_above=fail_above)
    _refuse_without(found, against=None if other else against)
    answer = _answer(gathered, found, shown, beside, judged, seen, other, published[0] if published else None)
    most_frac = None if fail_above is None else parse_frac(fail_above, "--fail-above")
    answer = replace(answer, fail_above_frac=most_frac, captured=calls)
    made = _recalibrated(answer, gathered, path, replan) if path is not None or replan else None
    return replace(answer, recalibrated=made)


def _files(file: Sequence[str | Path | Known], ranks: str | None, needless: bool) -> list[str | Path | Known]:
    """The files given, or those that are named with their ranks. Raises BadInput for none where they are needed."""
    files: list[str | Path | Known] = [file] if isinstance(file, str | Path) else [*file] or [*ranked_files(ranks)]
    if not files and not needless:
        raise BadInput("give a FILE, --case, or one of --measured, --tokens-per-s, --tflops and --mfu", "FILE")
    return files


def _answer(
    gathered: "Gathered", found: "Estimate | None", shown: "Measured | None", beside: "Beside | None",
    judged: "Judged | None", seen: "Seen | None", other: "Gathered | None", from_case: "Estimate | None",
) -> Diagnosis:  # fmt: skip
    """All parts of the answer that need no further search."""
    from lockstep.explain.changes import changes as changes_of
    from lockstep.explain.gather import held, link_found, mismatches
    from lockstep.explain.path import path as path_from
    from lockstep.explain.read.flight_recorder import hangs
    from lockstep.explain.seen import see
    from lockstep.explain.whatif import what_if

    return Diagnosis(
        inputs=(*(gathered.named(shown.inputs, shown.step_time_s) if shown else ()), *gathered.inputs),
        predicted=found,
        seen=replace(shown, collectives=beside.collectives) if shown and beside else shown,
        beside=beside,
        slowdowns=what_if(gathered.tables) if gathered.tables else None,
        changes=changes_of(see(other.traces), seen) if seen and other and other.traces else None,
        judged=judged,
        mismatches=tuple(one for log in gathered.logs for one in mismatches(log, found)) if found else (),
        logs=gathered.logs,
        memory=tuple(held(one, found) for one in gathered.snapshots),
        path=path_from(from_case, found, judged.measured) if from_case and found and judged else None,
        recalibrated=None,
        links=tuple(link_found(one, found.cluster if found else None) for one in gathered.links),
        hangs=tuple(hangs(gathered.dumps)) if gathered.dumps else None,
        not_known=tuple(_not_known(gathered, judged, shown, beside)),
        fail_above_frac=None,
        operations=seen,
    )


def _step(
    capture: str | Path | CapturedMemory | None, cluster: str | Path | Cluster | None, at: At, words: Json
) -> CapturedMemory | None:
    """The captured step, which may stand for the model. Raises BadInput for words that say what a program says."""
    if capture is None and is_capture(words["model"]):
        capture = words.pop("model")
    return read_capture(capture, cluster, words, at) if isinstance(capture, str | Path) else capture


def _calls(step: CapturedMemory, gathered: "Gathered", seen: "Seen | None") -> "CallsBeside":
    """The calls of a captured step beside the profile of its rank, or of the first. Raises BadInput without either."""
    from lockstep.explain.captured_calls import CapturedStep, calls_beside
    from lockstep.explain.read.operators import read_operators

    profiles = {str(one.path): one.path for one in gathered.known if one.kind.name == "kineto"}
    traces = [] if seen is None else [(one.rank, at) for at, one in enumerate(seen.traces) if one.path in profiles]
    if seen is None or not traces:
        raise BadInput("needs a profile of the program, as torch.profiler writes it; give one as FILE", "--capture")
    if step.time is None or step.interval is None:
        raise BadInput(f"has no time: {step.untimed}", str(step.path))
    between = step.interval.low, step.interval.high
    priced = CapturedStep(step.path, step.captured, step.cluster, step.priced, step.time, *between)
    number = dict(traces).get(step.captured.program["rank"], traces[0][1])
    return calls_beside(priced, read_operators(profiles[seen.traces[number].path]), seen, number)


def _write_overlay(found: "Estimate | None", seen: "Seen | None", path: Path) -> None:
    """A measured step over the predicted one. Raises BadInput where either is missing."""
    from lockstep.explain.overlay import write_overlay

    if found is None or seen is None:
        raise BadInput("needs traces of a run and the run they are of; give both, with --model", "--trace")
    with writing(path, "--trace"):
        write_overlay(found, seen, path)


def _recalibrated(answer: Diagnosis, gathered: "Gathered", path: Path | None, replan: bool) -> "Recalibrated":
    """The cluster as the run shows it, written where that is asked. Raises BadInput where the run cannot show it."""
    from lockstep.explain.answer import REPLAYED_FRAC
    from lockstep.explain.recalibrate import recalibrate
    from lockstep.explain.same_run import is_another

    where = "--replan" if path is None else "--out"
    found, step_s, judged = answer.predicted, answer.measured_s, answer.judged
    if found is None or step_s is None:
        raise BadInput("needs a measured step and the run it is of; give --model", where)
    if answer.mismatches or (judged is not None and (judged.contradictions or judged.verdict == "impossible")):
        raise BadInput("the files or numbers contradict one another; give those of one run", where)
    if (beside := answer.beside) is not None and beside.of_another_run:
        why = (
            f"the replay of the measured operations differs from the step by {beside.replay_off_frac:+.0%}, more than "
        )
        why += f"{REPLAYED_FRAC:.0%}"
        if is_another(beside.products_times):
            why = f"the recorded matrix products take {beside.products_times:.2g} times the FLOPs of the run described"
        raise BadInput(
            f"{why}, so rates from it would not be the cluster's: check that model, batch, length and layout are those "
            "of the run",
            where,
        )
    made = recalibrate(
        found, step_s, answer.beside.refit if answer.beside else None, seen=answer.operations, replan=replan,
        traces=[one.path for one in gathered.known if one.kind.name == "kineto"],
        links=[one.path for one in gathered.known if one.kind.gives == "links"],
    )  # fmt: skip
    if path is None:
        return made
    write_text(path, made.yaml(path.stem), "--out")
    return replace(made, path=str(path))


def predicted(
    logs: "Sequence[File]",
    model: str | Path | Model | None,
    cluster: str | Path | Cluster | None,
    layout: Layout | None,
    words: LayoutWords,
    needed: bool,
) -> "Estimate | None":
    """The estimate of the run described; of the arguments in a log where no model is named, None without either."""
    if model is not None:
        return estimate(model, cluster, layout, **words)
    if cluster is not None and (stated := run_of(logs)) is not None:
        # A dropped log is a file that is in memory only.
        return _of_log(cast(Path, stated[0]), stated[1], cluster, layout, words)
    if needed or cluster is not None or layout is not None or any(value is not None for value in words.values()):
        raise BadInput("give the model of the run, and its layout as estimate takes it", "--model")
    return None


def _of_log(
    path: Path, stated: "RunFile", cluster: str | Path | Cluster, layout: Layout | None, words: LayoutWords
) -> "Estimate":
    """The estimate of the run in a log, on as many devices as it says unless `words` do.

    Raises BadInput, which says what the log has and what was given, where they do not go together.
    """
    devices = stated.found.words.get("gpus")
    if devices and words.get("gpus") is None and ":" in str(cluster):
        words = {**words, "gpus": devices}
    try:
        return estimate(path, cluster, layout, **words)
    except BadInput as error:
        given = {name: value for name, value in words.items() if value is not None and name != "gpus"}
        own = {**stated.found.words, **stated.found.layout}
        apart = [f"{name} {own[name]}, not {value}" for name, value in given.items() if own.get(name, value) != value]
        if not apart:
            raise
        raise BadInput(f"{error.message}; {path.name} has {' and '.join(apart)}", error.where) from None


def _refuse_question(model: object, cluster: object, layout: object, words: LayoutWords) -> None:
    for name, value in {"model": model, "cluster": cluster, "layout": layout, **words}.items():
        if value is not None:
            raise BadInput("has no effect with --case, which has it", f"--{name.replace('_', '-')}")


def _refuse_without(found: object, **given: object) -> None:
    for name, value in given.items():
        if found is None and value is not None:
            raise BadInput("needs a prediction to hold the run against; give --model", f"--{name.replace('_', '-')}")


def _not_known(
    gathered: "Gathered", judged: "Judged | None", seen: "Measured | None", beside: "Beside | None"
) -> list[str]:
    told = list(beside.not_known if beside else seen.not_known if seen else ())
    if gathered.snapshots:
        told.append(
            "Snapshots see what PyTorch allocates, not NCCL, libraries or the context; what was there before recording "
            "is one block."
        )
    if gathered.dumps:
        told.append("Flight recorder dumps do not say their rank; it is taken from the end of their names.")
    expected = judged.expected if judged else None
    if judged is not None and (judged.candidates or (expected is not None and expected.candidates)):
        told.append("Single deviations are candidates, not proofs: several may hold at once. A trace tells them apart.")
    return told
