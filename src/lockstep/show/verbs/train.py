"""The verb about training for real: `train`."""

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput, Stopped, UnknownName
from lockstep.base.records import asdict, dataclass, replace
from lockstep.base.rows import listed
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import COUNT, parse_number
from lockstep.show.verbs.words.calling import strict, verb
from lockstep.show.verbs.words.keeping import Record, kept
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.processes import longest_wait_s, world
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import named_folder, whole
from lockstep.show.verbs.words.shared import PROCESSES, RUNS, SEED, SETTINGS

if TYPE_CHECKING:
    from lockstep.explain.diagnosis import Diagnosis
    from lockstep.run.train import Method, Saving, StoppedRun, Task, TrainRun
    from lockstep.run.train.result import Step
    from lockstep.simulate.failures.stragglers import LateRank

MOST_STEPS = 1_000_000
USUAL_BATCH = 64
MICROBATCHES = 4
"""What methods that cut a share again do by default."""
USUAL_EVERY, USUAL_KEEP = 10, 2


_TASK = "Task"
_CHECKPOINTS = "Checkpoints and records"


@dataclass(frozen=True, slots=True, repr=False)
class TrainingMethods(Shown):
    """The ways to train."""

    methods: "tuple[Method, ...]"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class Training(Shown):
    """One run per method, all of the same task."""

    runs: "tuple[TrainRun, ...]"
    stopped: "StoppedRun | None" = None
    """The run that Ctrl-C ended, after which no other began."""
    profile: Path | None = None
    """The folder of what every rank profiled."""
    target: float | None = None
    """Training loss to reach, if asked."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the runs: the method, with the settings in which the runs of one method differ."""

        def name(run: "TrainRun") -> str:
            alike = [one.settings for one in self.runs if one.method == run.method]
            differing = [key for key in run.settings if len({str(one.get(key)) for one in alike}) > 1]
            return " ".join([run.method, *(f"{key}={run.settings[key]}" for key in differing)])

        return tuple(map(name, self.runs))

    @property
    def reached(self) -> tuple[Json, ...]:
        """Steps and seconds of every run to the target; null where it is not reached. Nothing without a target."""
        if self.target is None:
            return ()
        found = [run.reached(self.target) or (None, None) for run in self.runs]
        return tuple(
            {"run": name, "steps": steps, "time_s": time_s}
            for name, (steps, time_s) in zip(self.names, found, strict=True)
        )

    @property
    def seconds(self) -> tuple[Json, ...]:
        """Of every run its name, without the method where all have one, and measured seconds: to the target where there
        is one, of the median step otherwise. Over a list of seeds they tell how far such times scatter.
        """
        methods = {run.method for run in self.runs}
        same = f"{methods.pop()} " if len(methods) == 1 else ""
        times_s = [one["time_s"] for one in self.reached] or [run.step_time_s for run in self.runs]
        named = zip(self.names, times_s, strict=True)
        return tuple({"run": name.removeprefix(same), "time_s": time_s} for name, time_s in named)

    def diagnosed(self) -> "Diagnosis | None":
        """What `diagnose` finds in the profiles of this run; None where none was taken. Raises BadInput."""
        from lockstep.run.profiling import PROFILE
        from lockstep.show.verbs.diagnose import diagnose

        if self.profile is None or not self.runs:
            return None
        files = [self.profile / PROFILE.format(rank) for rank in range(self.runs[0].ranks)]
        there = [file for file in files if os.path.isfile(file)]
        return diagnose(there) if there else None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What to know about the numbers of any of them."""
        return tuple(dict.fromkeys(line for run in self.runs for line in run.assumptions))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "runs stopped target reached seconds assumptions")


@strict
def training_methods() -> TrainingMethods:
    """All methods that `train` knows, with their settings."""
    from lockstep.run.train import all_methods

    return TrainingMethods(all_methods())


METHOD = Argument(
    "METHOD",
    "Method, or several separated by commas; all methods are listed when omitted.",
    names="methods",
    optional=True,
)
MODEL = Option("M", "Model: mlp, cnn, gpt or moe.", panel=_TASK, default="the first that the methods train")
BATCH = Option("N", "Samples per step, all ranks together.", panel=_TASK, default="64, or near it")
OPTIMIZER = Option("O", "Optimizer: sgd, momentum or adam.", panel=_TASK, names="trainers", default="sgd")
LEARNING_RATE = Option("X", "Learning rate.", panel=_TASK, default="0.1; gpt 0.5")
DTYPE = Option("T", "Number format: float32 or float64.", panel=_TASK, default="float32")
TARGET = Option(
    "X", "Training loss, mean of 20 steps; adds the steps and the seconds that each run needs.", panel=_TASK
)
EVERY = Option("N", "Steps between checkpoints; the last step always writes one.", panel=_CHECKPOINTS, default="10")
KEEP = Option("N", "Number of checkpoints to keep.", panel=_CHECKPOINTS, default="2")
RESUME = Switch("Resume from the newest complete checkpoint, if there is one.", panel=_CHECKPOINTS)
RESTARTS = Option(
    "N", "How many times to restart a failed run from its newest checkpoint.", panel=_CHECKPOINTS, default="0"
)
TENSORBOARD = Option("DIR", "Folder in which to write the curves for TensorBoard.", panel=_CHECKPOINTS)
PROFILE_OPTION = Option("DIR", "Folder in which each rank writes a profile of some steps, for diagnose.")


@verb
def train(
    method: Annotated[str, METHOD],
    *,
    ranks: Annotated[Quantity | None, PROCESSES] = None,
    model: Annotated[str | None, MODEL] = None,
    layers: Annotated[Quantity, Option("N", "Number of layers of the model.", panel=_TASK, default="4")] = 4,
    steps: Annotated[Quantity, Option("N", "Number of optimizer steps.", panel=_TASK, default="100")] = 100,
    batch: Annotated[Quantity | None, BATCH] = None,
    optimizer: Annotated[str, OPTIMIZER] = "sgd",
    learning_rate: Annotated[Quantity | None, LEARNING_RATE] = None,
    dtype: Annotated[str, DTYPE] = "float32",
    seed: Annotated[Quantity, SEED] = 0,
    settings: Annotated[Mapping[str, object] | None, SETTINGS] = None,
    target: Annotated[Quantity | None, TARGET] = None,
    checkpoint: Annotated[str | Path | None, Option("DIR", "Folder for checkpoints.", panel=_CHECKPOINTS)] = None,
    every: Annotated[Quantity | None, EVERY] = None,
    keep: Annotated[Quantity | None, KEEP] = None,
    beside: Annotated[bool, Switch("Write checkpoints while training continues.", panel=_CHECKPOINTS)] = False,
    resume: Annotated[bool, RESUME] = False,
    restarts: Annotated[Quantity, RESTARTS] = 0,
    root: Annotated[str | Path | None, replace(RUNS, panel=_CHECKPOINTS)] = None,
    tensorboard: Annotated[str | Path | None, TENSORBOARD] = None,
    timeout: Annotated[Time | None, Option("T", "Longest wait of one rank for another.", default="60 s")] = None,
    straggler: Annotated[str | None, Option("R:T", "Make a rank late in every second step, e.g. 1:20ms.")] = None,
    profile: Annotated[str | Path | None, PROFILE_OPTION] = None,
    progress: Progress | None = None,
) -> Training:
    """Trains a small model on real data by one method, or several between commas, on real processes.

    `ranks`: by default those that torchrun or srun started, else two. `batch`: samples per step of all ranks, 64 or a
    number near it that they share evenly. `settings` go to every method that has them; for a list of values, such as
    `period=1,2,4`, the method runs once with each. `target`: a training loss, to which steps and seconds are counted.
    `checkpoint`: a folder for checkpoints after `every` steps (10) and at the end, of which `keep` (2) stay, written
    `beside` the training or in line; `resume` goes on from the newest, and a run that fails does so by itself up to
    `restarts` times. `root`: where runs are kept, by default $LOCKSTEP_RUNS, nowhere without. `tensorboard`: a folder
    for event files of TensorBoard, a folder in it per method. `profile`: a folder in which every rank writes what
    torch.profiler saw of some steps. `timeout` is the longest wait of one rank for another; `straggler` makes a rank
    late in every second step: `1:20ms`; `progress(done, total)` counts the steps of all runs. Ctrl-C raises Stopped, a
    KeyboardInterrupt whose `answer` is what this returns otherwise: the runs until then, and `stopped` with the losses
    of the one under way. Raises BadInput, RunFailed.
    """
    from lockstep.run.profiling import WARM_UP, profile_folder
    from lockstep.run.train import find_method
    from lockstep.run.train import train as run

    chosen, per_method = _with_each_setting([find_method(name.strip()) for name in method.split(",")], settings or {})
    aim = None if target is None else parse_number(target, "--target")
    number, again = world(ranks), whole(restarts, "--restarts", minimum=0)
    samples = _usual_batch(chosen, number) if batch is None else whole(batch, "--batch")
    task = _task(chosen, model, layers, steps, samples, optimizer, learning_rate, dtype, seed)
    saving = _saving(checkpoint, every, keep, beside, resume)
    if saving is not None and len(chosen) > 1:
        raise BadInput("one folder holds the checkpoints of one run: give one method", "--checkpoint")
    runs: list[TrainRun] = []
    wait_s = longest_wait_s(timeout)
    late, curves = _late(straggler, number, task.steps), _curves(tensorboard)
    folder = profile_folder(profile, "--profile")
    if folder is not None and (len(chosen) > 1 or task.steps <= WARM_UP):
        why = f"more than {WARM_UP} steps" if task.steps <= WARM_UP else "one method"
        raise BadInput(f"one folder holds the profiles of one run of {why}", "--profile")
    for one, own in zip(chosen, per_method, strict=True):
        before = len(runs) * task.steps
        words = {"method": one.name, "ranks": number, **asdict(task), "settings": own}
        folder_name = one.name if chosen.count(one) == 1 else f"{one.name}-{len(runs) + 1}"
        with kept("train", words, root, curves and curves / folder_name) as record:
            # A run that goes on from its checkpoint after a failure does some steps again.
            seen_by_step: dict[int, Step] = {}
            heard = None if progress is None else partial(_of_all, progress, before, len(chosen) * task.steps)
            step = partial(_seen, record, seen_by_step, heard)
            try:
                runs.append(
                    run(
                        one.name, task, number, own,
                        saving=saving, restarts=again, timeout_s=wait_s, straggler=late, profile=folder, on_step=step,
                    )
                )  # fmt: skip
            except KeyboardInterrupt:
                raise _stopped(one.name, task, number, own, runs, seen_by_step) from None
            record.result = runs[-1].summary()
    return Training(tuple(runs), profile=folder, target=aim)


def _of_all(progress: Progress, before: int, steps: int, done: int) -> None:
    """Counts the steps of one run among those of all."""
    progress(before + done, steps)


def _seen(
    record: Record, seen_by_step: "dict[int, Step]", heard: Callable[[int], None] | None, done: int, seen: "Step"
) -> None:
    """Keeps what one step of a run was."""
    seen_by_step[done] = seen
    record(step=done, **seen.to_dict())
    if heard is not None:
        heard(done)


def _with_each_setting(
    methods: "list[Method]", settings: Mapping[str, object]
) -> "tuple[list[Method], list[dict[str, object]]]":
    """The methods, each as often as its settings have combinations of values, and these."""
    chosen, each = [], []
    for method in methods:
        own = _for(method, settings, methods)
        lists = [_values(name, value) for name, value in own.items()]
        for values in product(*lists):
            chosen.append(method)
            each.append(dict(zip(own, values, strict=True)))
    return chosen, each


def _values(name: str, value: object) -> tuple[object, ...]:
    """Those of a setting that is given a list or a range."""
    found = listed(value, COUNT, f"--set {name}") if isinstance(value, str | list) else None
    return (value,) if found is None else found


def _stopped(
    method: str,
    task: "Task",
    ranks: int,
    settings: Mapping[str, object],
    runs: "list[TrainRun]",
    seen: "dict[int, Step]",
) -> KeyboardInterrupt:
    """Ctrl-C with what is known by then, if anything is."""
    from lockstep.run.train import StoppedRun

    if not seen and not runs:
        return KeyboardInterrupt()
    first = min(seen, default=1) - 1
    steps = tuple(seen[number] for number in sorted(seen))
    return Stopped(Training(tuple(runs), StoppedRun(method, task, ranks, settings, first, steps)))


def _usual_batch(methods: "list[Method]", ranks: int) -> int:
    """Samples near USUAL_BATCH that the workers of every method share evenly, each share a multiple of four."""
    part = MICROBATCHES * math.lcm(*(max(1, ranks - one.helpers) for one in methods))
    return part * max(1, round(USUAL_BATCH / part))


def _task(
    methods: "list[Method]", model: str | None, layers: Quantity, steps: Quantity, batch: int, optimizer: str,
    learning_rate: Quantity | None, dtype: str, seed: Quantity,
) -> "Task":  # fmt: skip
    """What is trained: a model that all methods train, unless one is named."""
    from lockstep.run.train import MODELS, Task

    name = model
    if name is None:
        name = next((kind for kind in MODELS if all(kind in one.models for one in methods)), "mlp")
    if name not in MODELS:
        raise UnknownName("model", name, MODELS, "--model")
    number = whole(steps, "--steps")
    if number > MOST_STEPS:
        raise BadInput(f"must be at most {MOST_STEPS:,}, got {number:,}", "--steps")
    rate = MODELS[name].learning_rate if learning_rate is None else parse_number(learning_rate, "--learning-rate")
    return Task(
        model=name, layers=whole(layers, "--layers"), steps=number, batch=batch, optimizer=optimizer,
        learning_rate=rate, dtype=dtype, seed=whole(seed, "--seed", minimum=0),
    )  # fmt: skip


def _saving(
    folder: str | Path | None, every: Quantity | None, keep: Quantity | None, beside: bool, resume: bool
) -> "Saving | None":
    """Checkpoints of a run, if a folder is given; without one, whatever is about them is refused."""
    from lockstep.run.train import Saving

    if folder is None:
        given = {"--resume": resume, "--beside": beside, "--every": every is not None, "--keep": keep is not None}
        for flag in (name for name, is_given in given.items() if is_given):
            raise BadInput("needs a folder: --checkpoint DIR", flag)
        return None
    return Saving(
        named_folder(folder, "--checkpoint"),
        whole(USUAL_EVERY if every is None else every, "--every"),
        whole(USUAL_KEEP if keep is None else keep, "--keep"),
        beside,
        resume,
    )


def _curves(folder: str | Path | None) -> Path | None:
    """A folder that can be made, before anything is trained."""
    if folder is None:
        return None
    path = named_folder(folder, "--tensorboard")
    if os.path.exists(path) and not os.path.isdir(path):
        raise BadInput(f"{str(path)!r} is a file; name a folder", "--tensorboard")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {str(path)!r}: {error.strerror}", "--tensorboard") from None
    return path


def _late(straggler: str | None, ranks: int, steps: int) -> "LateRank | None":
    """The rank to make late, if one is."""
    from lockstep.run.train.result import refuse_straggler
    from lockstep.simulate.failures.stragglers import parse_late

    if straggler is None:
        return None
    with flags("--straggler"):
        late = parse_late(straggler)
        refuse_straggler(late, ranks, steps)
    return late


def _for(method: "Method", settings: Mapping[str, object], methods: "list[Method]") -> dict[str, object]:
    """The settings that a method has; every one must belong to some method."""
    known = {one.name: one.setting_names for one in methods}
    for name in settings:
        if not any(name.replace("-", "_") in names for names in known.values()):
            allowed = sorted({name for names in known.values() for name in names})
            raise UnknownName("setting", name, allowed or ("(none)",), "--set")
    return {name: value for name, value in settings.items() if name.replace("-", "_") in known[method.name]}
