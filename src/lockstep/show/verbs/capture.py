"""Your own program as the workload: a training script, captured on a machine without a GPU."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import read_cluster, whole
from lockstep.show.verbs.words.varied import STEPS, VARY, At, Vary, named, read_at, read_vary

if TYPE_CHECKING:
    from lockstep.base.types.arrays import Array
    from lockstep.decide.planner.comparison import Comparison
    from lockstep.decide.planner.interval import Interval
    from lockstep.describe.captured import Captured
    from lockstep.describe.varied import CaptureFile, Varied
    from lockstep.price.kernels.captured import Priced
    from lockstep.price.layout import Memory
    from lockstep.price.step.captured import StepTime
    from lockstep.simulate.program import Timeline

SUFFIX = ".capture"
FILE = f"step{SUFFIX}"
MOST_STEPS = 1 << 20
"""How far the largest value that fits is looked for."""
OF_ESTIMATES = ("tight", "out_of_memory_frac")
"""What is said of the memory of estimates, whose error is that of a description."""
PROGRAM = Argument(
    "SCRIPT ARGUMENTS",
    "A training script and its arguments, after -- where they begin with a hyphen: train.py -- --lr 1e-4.",
    repeated=True,
)
CARD = Option(
    "C", "Machine of whose devices the program sees one, e.g. rtx-4090:1, or a YAML file.", "-c", names="clusters"
)
ANSWER = Option(
    "PLACE=VALUE",
    "What a line is told that asks for a value, e.g. train.py:120=0; may be repeated. Without it numbers are 1 and "
    "truths are true.",
    repeated=True,
)

RANKS = Option("W", "How many ranks torchrun would start, for a program that trains on several.", default="none")
RANK = Option("R", "The rank that is captured.", default="0")


@dataclass(frozen=True, repr=False)
class CapturedMemory(Shown):
    """A captured step, and its memory on a device."""

    captured: "Captured"
    cluster: Cluster
    path: str
    varied: "Varied | None" = None
    """The steps with other values of its arguments, of which this is one."""
    steps: int | None = None
    """Of the run, where that is asked about."""

    def at(self, **values: Quantity) -> "CapturedMemory":
        """The step with other values of the arguments that were varied.

        Raises BadInput for a value whose step does not follow from the captured ones.
        """
        if self.varied is None:
            raise BadInput(f"{self.path} was captured without --vary", "--at")
        return replace(self, captured=self.varied.at(**self.chosen | read_at(values)))

    @property
    def chosen(self) -> dict[str, int]:
        """Values of the arguments that were varied."""
        return dict(self.captured.program.get("varied", {}))

    @cached_property
    def largest(self) -> dict[str, int | None]:
        """Of each argument that was varied, the largest value that fits, the others as they are; None where none does.

        Those are left out whose largest value cannot be told.
        """
        from lockstep.price.layout.captured import largest_that_fits

        found = {}
        for name, values in {} if self.varied is None else self.varied.values.items():
            with suppress(BadInput):
                found[name] = largest_that_fits(values, partial(self._memory_at, name), self._most_steps(name))
        return found

    @property
    def run(self) -> Json | None:
        """Seconds and dollars of all steps on all ranks; None where no number is given or a step has no time."""
        from lockstep.decide.planner.estimate import SECONDS_PER_HOUR, hourly_price_usd

        if self.steps is None or self.time is None:
            return None
        seconds, price = self.steps * self.time.step_time_s, hourly_price_usd(self.cluster)
        cost = None if price is None else price * self.captured.ranks * seconds / SECONDS_PER_HOUR
        return {"steps": self.steps, "time_s": seconds, "cost_usd": cost}

    def _most_steps(self, name: str) -> int:
        """How far the largest value is looked for: where each adds calls, that takes time."""
        from lockstep.describe.varied import MOST_CALLS

        more = self.varied is not None and self.varied.lengthens(name)
        return MOST_CALLS // len(self.captured.operations) if more else MOST_STEPS

    def _memory_at(self, name: str, value: int) -> "Memory":
        return self.at(**{name: value}).memory

    @cached_property
    def memory(self) -> "Memory":
        """Bytes by category when most are held."""
        from lockstep.price.layout.captured import captured_memory

        return captured_memory(self.captured, self.cluster)

    @cached_property
    def time(self) -> "StepTime | None":
        """Seconds of the step; None where they cannot be told, as `untimed` says."""
        return self._timed[0]

    @property
    def untimed(self) -> str:
        """Why there is no time; empty where there is one."""
        return self._timed[1]

    @cached_property
    def priced(self) -> "Priced":
        """Every call on the device."""
        from lockstep.price.kernels.captured import priced_calls

        return priced_calls(self.captured, self.cluster.device)

    @cached_property
    def parts_s(self) -> dict[str, float]:
        """Exposed seconds of the step by part, which add up to it; none where there is no time."""
        from lockstep.decide.planner.captured_side import captured_parts_s

        return {} if self.time is None else captured_parts_s(self.captured, self.priced, self.time)

    @cached_property
    def interval(self) -> "Interval | None":
        """Between which seconds the step is expected, by the law of estimates; None where there is no time."""
        from lockstep.decide.planner.captured_side import captured_ends
        from lockstep.decide.planner.interval import spread_on

        if self.time is None:
            return None
        ends = captured_ends(self.captured, self.cluster, self.priced, self.time)
        return ends.interval(spread_on(self.cluster.device))

    @cached_property
    def allocated_B(self) -> int:
        """Bytes that PyTorch counts as allocated at the fullest moment: what measurements of captures are of."""
        from lockstep.price.layout.captured import allocated_B

        return allocated_B(self.captured, self.cluster)

    @cached_property
    def played(self) -> "tuple[Timeline, Array]":
        """When every operation of the step starts and ends; and when each call begins. Raises where it has no time."""
        from lockstep.price.step.captured import captured_timeline

        return captured_timeline(self.captured, self.cluster, self.priced)

    @cached_property
    def _timed(self) -> "tuple[StepTime | None, str]":
        from lockstep.base.errors import UnknownName
        from lockstep.price.step.captured import captured_time

        if self.captured.program["untimed"]:
            return None, self.captured.program["untimed"]
        try:
            return captured_time(self.captured, self.cluster, self.priced), ""
        except UnknownName:
            return None, f"the {self.cluster.device.name} has no products in the formats of this step"
        except BadInput as error:
            return None, error.message

    @property
    def name(self) -> str:
        """The command that was captured."""
        program = self.captured.program
        return " ".join([program["script"], *program["arguments"]])

    @property
    def fits(self) -> bool:
        """Whether the step does."""
        return bool(self.memory.fits)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        found = self.captured
        return {
            "capture": self.path,
            "cluster": self.cluster.name,
            "device": self.cluster.device.name,
            "program": found.program,
            "largest_that_fit": self.largest,
            "time": None if self.time is None else self.time.to_dict(),
            "interval": None if self.interval is None else self.interval.to_dict(),
            "run": self.run,
            "memory": {name: value for name, value in self.memory.to_dict().items() if name not in OF_ESTIMATES},
            "allocated_B": self.allocated_B,
            "tensors_B": found.peak_B,
            "peak": {"phase": found.peak_operation.phase, "operation": found.peak_operation.name},
            "operations": found.by_phase,
            "flops": found.flops,
        }


def is_capture(path: object) -> bool:
    """Whether a name is that of a capture."""
    return isinstance(path, str | Path) and str(path).endswith(SUFFIX)


def read_capture(
    path: str | Path,
    cluster: str | Path | Cluster | None,
    words: Mapping[str, object] = MappingProxyType({}),
    at: At = (),
    steps: Quantity | None = None,
) -> CapturedMemory:
    """The step in a file, `at` values of its arguments, on a device of `cluster` or of the machine it was captured for.

    Raises BadInput where any of `words` is given: what a program does is in the program.
    """
    from lockstep.describe.varied import read_capture_file

    for word, value in words.items():
        if value is not None and word != "cluster":
            raise BadInput("does not belong to a captured step", f"--{word.replace('_', '-')}")
    return step_of(read_capture_file(path), cluster, at, steps)


def step_of(
    file: "CaptureFile", cluster: str | Path | Cluster | None, at: At = (), steps: Quantity | None = None
) -> CapturedMemory:
    """The step in a file that was read, as `read_capture` gives it."""
    found = file.at(**read_at(at))
    machine = own_machine(found) if cluster is None else read_cluster(cluster)
    number = None if steps is None else whole(steps, "--steps")
    return CapturedMemory(found, machine, str(file.path), file.varied, number)


def own_machine(found: "Captured") -> Cluster:
    """The machine that a step was captured for, with nodes for all ranks; one card of its kind where it is unknown."""
    name = found.program.get("cluster")
    try:
        return read_cluster(f"{name}:{-(-found.ranks // read_cluster(name).num_devices)}")
    except BadInput:
        return read_cluster(f"{found.program['card']['name']}:1")


def compare_captures(
    a: str, b: object, cluster: str | Path | Cluster | None, words: Mapping[str, object]
) -> "Comparison":
    """Two captured steps next to each other; `b` is a file, or the cluster and values of arguments that differ in A."""
    from lockstep.decide.planner.captured_side import captured_side
    from lockstep.decide.planner.comparison import Comparison

    first = read_capture(a, cluster, words)
    if is_capture(b):
        second = read_capture(str(b), cluster)
    else:
        changes = dict(b) if isinstance(b, Mapping) else dict(named(one, "B") for one in str(b).split())
        try:
            second = read_capture(a, changes.pop("cluster", cluster), {}, changes)
        except BadInput as error:
            raise BadInput(error.message, "B") from None
    sides = [
        captured_side(one.captured, one.cluster, f"{one.name} on {one.cluster.device.name}") for one in (first, second)
    ]
    return Comparison(*sides)


@strict
def capture(
    *program: Annotated[str, PROGRAM],
    cluster: Annotated[str | Path | Cluster | None, CARD] = None,
    out: Annotated[str | Path, Option("FILE", "File for the step.", "-o", default=FILE)] = FILE,
    answer: Annotated[Mapping[str, str] | Sequence[str], ANSWER] = (),
    ranks: Annotated[Quantity | None, RANKS] = None,
    rank: Annotated[Quantity, RANK] = 0,
    vary: Annotated[Vary, VARY] = (),
    steps: Annotated[Quantity | None, STEPS] = None,
    progress: Progress | None = None,
) -> CapturedMemory:
    """Runs a training script without a GPU until a step is known, and writes what it would have done on the card.

    Tensors have shapes and no bytes, in a process of its own. Raises BadInput for what cannot be captured, by name.
    """
    from lockstep.run.capture.start import Asked, capture_varied

    if not program:
        raise BadInput("give a training script, e.g. lockstep capture train.py -c rtx-4090:1", "SCRIPT")
    if not is_capture(out):
        raise BadInput(f"must end in {SUFFIX}, got {out}", "--out")
    script, *arguments = program
    machine = read_cluster(cluster)
    number = None if ranks is None else whole(ranks, "--ranks", minimum=1)
    which = whole(rank, "--rank", minimum=0)
    if which >= (number or 1):
        raise BadInput(f"must be less than the number of ranks, {number or 1}, got {which}", "--rank")
    asked = Asked(script, arguments, machine, _answers(answer), number, which)
    capture_varied(asked, read_vary(vary), out, progress)
    return read_capture(out, machine, steps=steps)


def _answers(given: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    if isinstance(given, Mapping):
        return given
    found = {}
    for one in given:
        place, equals, value = one.partition("=")
        if not equals or ":" not in place:
            raise BadInput(f"must be FILE:LINE=VALUE, such as train.py:120=0, got {one!r}", "--answer")
        found[place] = value
    return found
