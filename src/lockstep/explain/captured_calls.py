"""`calls_beside`: the calls of a captured step beside the operators of a profile of the same program.

Both have PyTorch's own names. A kernel of the profile belongs to the outermost operator around its launch that the
capture has as a call, overloads and updates in place apart: a copy in `aten::to` is the capture's `_to_copy`. Where an
operator ran as often in every step as the capture calls it, the n-th is the n-th, with its module and phase.

Collectives last from the rank's own arrival, so what is measured of them includes waiting for other ranks.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.base.types.plain import Json, picked, plain
from lockstep.describe.captured import COLLECTIVES, Captured
from lockstep.describe.hardware import Cluster
from lockstep.explain.read.operators import Operators
from lockstep.explain.seen import Seen
from lockstep.explain.trace import RankTrace
from lockstep.price.kernels.captured import Priced
from lockstep.price.step.captured import StepTime
from lockstep.simulate.parallel.group import collective_s

_SAME = {
    "native_batch_norm": "cudnn_batch_norm miopen_batch_norm",
    "native_batch_norm_backward": "cudnn_batch_norm_backward miopen_batch_norm_backward",
    "_scaled_dot_product_cudnn_attention": "_cudnn_attention_forward",
    "_scaled_dot_product_flash_attention": "_flash_attention_forward",
    "_scaled_dot_product_efficient_attention": "_efficient_attention_forward",
    "_scaled_dot_product_cudnn_attention_backward": "_cudnn_attention_backward",
    "_scaled_dot_product_flash_attention_backward": "_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward": "_efficient_attention_backward",
    "copy": "_to_copy clone",
    "fill": "zero zeros ones zeros_like ones_like full full_like new_zeros new_ones new_full",
}
SAME = {name: one for one, names in _SAME.items() for name in names.split()}
"""What a card's library runs in place of a call, and what PyTorch runs for several calls: profiles may lack these."""
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A part of a module's name that counts: layers of one kind are one row."""
ALIEN = "(not in the capture)"
LEAST_S = 1e-9
"""The resolution of profilers' clocks."""
MATERIAL_FRAC = 0.1
"""Of the calls that are compared, or of their number: what differs more is of another step."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """Calls of one name in a step; `module` and `phase` are empty where all of them are one row."""

    operation: str
    module: str
    phase: str
    calls: int
    """In the capture."""
    profiled: float
    """In a step of the profile."""
    measured_s: float
    priced_s: float

    @property
    def difference_s(self) -> float:
        """Measured less priced."""
        return self.measured_s - self.priced_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"difference_s": self.difference_s}


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A captured step as it is priced on a cluster."""

    path: str
    captured: Captured
    cluster: Cluster
    priced: Priced
    time: StepTime
    low_s: float
    high_s: float
    """Between which the step is expected."""

    @property
    def program(self) -> str:
        """The command that was captured."""
        return " ".join([self.captured.program["script"], *self.captured.program["arguments"]])

    @property
    def calls(self) -> dict[str, list[int]]:
        """Calls that launch kernels, by name."""
        found: dict[str, list[int]] = defaultdict(list)
        for at, (one, work) in enumerate(zip(self.captured.operations, self.priced.works, strict=True)):
            if float(work.kernels) and one.name not in COLLECTIVES:
                found[base_name(one.name)].append(at)
        return found

    def priced_s(self, calls: Iterable[int]) -> float:
        """Seconds of the kernels of some calls."""
        return sum(float(self.priced.works[at].device_s) for at in calls)


@dataclass(frozen=True, slots=True)
class CallsBeside:
    """A captured step beside a profile of it; seconds are of a step."""

    step: CapturedStep
    measured_s: float
    shares: Mapping[str, tuple[float, float]]
    """(measured, priced) seconds of kernels, of collectives while no kernel runs, and of neither; they add up."""
    rows: tuple[CallRow, ...]
    """By operation, those that differ most first; collectives too."""
    places: tuple[CallRow, ...]
    """The same by module and phase, of operations that ran as often as the capture calls them."""
    matched_frac: float
    """Of the kernel time of the profile, what `places` are of."""
    times: float
    """How often an operation of the capture ran, the median over operations."""
    apart: tuple[str, ...] = ()
    """What shows that the profile is of another step."""

    @property
    def as_predicted(self) -> bool:
        """Whether the step is within what is expected."""
        return self.step.low_s <= self.measured_s <= self.step.high_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        step = self.step
        return {
            **picked(step, "path program"),
            "device": step.cluster.device.name,
            "measured_s": self.measured_s,
            "time": step.time.to_dict(),
            "interval": {"low": step.low_s, "high": step.high_s},
            "as_predicted": self.as_predicted,
            "shares": {name: {"measured_s": one, "priced_s": other} for name, (one, other) in self.shares.items()},
            **picked(self, "matched_frac times apart"),
            "operations": plain(self.rows),
            "places": plain(self.places),
        }


@dataclass(frozen=True, slots=True)
class _Ran:
    """Operators of one name that the capture knows, in the order in which the host ran them in one step."""

    seconds: Floats
    operator: Ints


NONE = _Ran(np.zeros(0), np.zeros(0, dtype=np.int64))


def calls_beside(step: CapturedStep, operators: Operators, seen: Seen, number: int) -> CallsBeside:
    """The calls of a step beside the profile `number` of those seen, whose operators were read.

    Raises BadInput for a profile that does not say its steps.
    """
    calls, edges = step.calls, [operators.steps[one] for one in seen.steps if one in operators.steps]
    if not edges:
        where = seen.traces[number].path
        raise BadInput("does not say where steps begin: call step() of torch.profiler after every step", where)
    owner = _owners(operators, set(calls))
    ran = [_ran(operators, owner, *one) for one in edges]
    rows, places = _collectives(step, seen, number), list[CallRow]()
    for name, each in calls.items():
        seconds = [one.get(name, NONE).seconds for one in ran]
        count, measured_s = np.mean([(len(one), one.sum()) for one in seconds], axis=0).tolist()
        rows.append(CallRow(name, "", "", len(each), count, measured_s, step.priced_s(each)))
        if all(len(one) == len(each) for one in seconds):
            places += _places(name, step, each, np.mean(seconds, axis=0))
    times = median([one.profiled / one.calls for one in rows] or [1.0])
    kernels_s = _kernels_s(operators, owner, edges)
    alien_s = kernels_s - sum(one.measured_s for one in rows if one.operation in calls)
    if alien_s > LEAST_S:
        rows.append(CallRow(ALIEN, "", "", 0, 0.0, alien_s, 0.0))
    return CallsBeside(
        step,
        float(seen.step_s.mean()),
        _shares(seen, number, step.time),
        tuple(sorted(rows, key=lambda one: -abs(one.difference_s))),
        tuple(sorted(places, key=lambda one: -abs(one.difference_s))),
        sum(one.measured_s for one in places) / kernels_s if kernels_s else 0.0,
        times,
        tuple(_apart(step, operators, ran[0], times, seen.traces[number])),
    )


def base_name(name: str) -> str:
    """`aten::relu_` and `aten.relu_.default` as `relu`."""
    space, *rest = name.split("::") if "::" in name else name.split(".")
    if not rest:
        return name
    bare = rest[0].rstrip("_")
    bare = SAME.get(bare, bare)
    return bare if space == "aten" else f"{space}.{bare}"


def _owners(operators: Operators, known: set[str]) -> Ints:
    """Of each operator the outermost around it, or itself, whose name is known; -1 where none is."""
    named = [base_name(one) in known for one in operators.names]
    found = list[int]()
    for at, (name, inside) in enumerate(zip(operators.name.tolist(), operators.inside.tolist(), strict=True)):
        outer = found[inside] if inside >= 0 else -1
        found.append(outer if outer >= 0 else at if named[name] else -1)
    return np.array(found, dtype=np.int64)


def _ran(operators: Operators, owner: Ints, low_us: float, high_us: float) -> dict[str, _Ran]:
    """What ran in a step, by name."""
    launched = np.flatnonzero(operators.kernel >= 0)
    mine = owner[operators.kernel[launched]]
    launched, mine = launched[mine >= 0], mine[mine >= 0]
    begins_us = operators.start_us[mine]
    inside = (begins_us >= low_us) & (begins_us < high_us)
    each, place = np.unique(mine[inside], return_inverse=True)
    seconds = np.bincount(place, operators.kernel_s[launched[inside]], len(each))
    order = np.argsort(operators.start_us[each], kind="stable")
    each, seconds = each[order], seconds[order]
    names = np.array([base_name(operators.names[one]) for one in operators.name[each].tolist()])
    return {str(name): _Ran(seconds[names == name], each[names == name]) for name in np.unique(names)}


def _kernels_s(operators: Operators, owner: Ints, steps: Sequence[tuple[float, float]]) -> float:
    """Seconds of all kernels of a step, those of no operator by when they ran."""
    known = operators.kernel >= 0
    outer = np.where(known, owner[operators.kernel] if len(owner) else -1, -1)
    of = np.where(outer >= 0, outer, operators.kernel)
    begins_us = np.where(known, operators.start_us[of] if len(owner) else 0.0, operators.kernel_start_us)
    inside = [(begins_us >= low) & (begins_us < high) for low, high in steps]
    return float(np.mean([operators.kernel_s[one].sum() for one in inside]))


def _places(name: str, step: CapturedStep, each: Sequence[int], measured_s: Floats) -> list[CallRow]:
    """The calls of one name by module and phase."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, at in enumerate(each):
        one = step.captured.operations[at]
        found[NUMBER.sub("*", one.module), one.phase].append(place)
    rows = list[CallRow]()
    for (module, phase), here in found.items():
        priced_s = step.priced_s(each[one] for one in here)
        rows.append(CallRow(name, module, phase, len(here), len(here), float(measured_s[here].sum()), priced_s))
    return rows


def _collectives(step: CapturedStep, seen: Seen, number: int) -> list[CallRow]:
    """Collectives of a step by name, as long as they ran on this rank."""
    trace, windows = seen.traces[number], [one.window for one in seen.partitions[number]]
    spans = trace.spans.at(trace.spans.communicates)
    inside = sum((spans.start_s >= one.start_s) & (spans.start_s < one.end_s) for one in windows) > 0
    names = np.array([trace.name(one) for one in spans.op.tolist()], dtype=str)
    calls, priced_s = Counter[str](), defaultdict[str, float](float)
    for one in step.captured.operations:
        if one.name in COLLECTIVES:
            levels = step.cluster.levels_between(step.captured.groups[one.group])
            calls[one.name] += 1
            priced_s[one.name] += float(collective_s(one.name, levels, one.size_B))
    rows = list[CallRow]()
    for name, number_of in calls.items():
        mine = inside & (names == name)
        measured_s = float((spans.end_s - spans.start_s)[mine].sum()) / len(windows)
        rows.append(CallRow(name, "", "", number_of, float(mine.sum()) / len(windows), measured_s, priced_s[name]))
    return rows


def _shares(seen: Seen, number: int, time: StepTime) -> dict[str, tuple[float, float]]:
    """Seconds of kernels, of exposed collectives, and of neither, which are all of the step."""
    each = seen.partitions[number]
    step_s = float(np.mean([one.window.seconds for one in each]))
    kernels_s = float(np.mean([sum(one.compute_s.values()) for one in each]))
    exposed_s = float(np.mean([one.exposed.transfer_s.sum() + np.nansum(one.exposed.waiting_s) for one in each]))
    rest_s = time.step_time_s - time.device_s - time.exposed_communication_s
    return {
        "kernels": (kernels_s, time.device_s),
        "collectives": (exposed_s, time.exposed_communication_s),
        "neither": (step_s - kernels_s - exposed_s, max(0.0, rest_s)),
    }


def _apart(
    step: CapturedStep, operators: Operators, ran: Mapping[str, _Ran], times: float, trace: RankTrace
) -> Iterator[str]:
    """What shows that the profile is of another step than the captured one."""
    if abs(times - 1) > MATERIAL_FRAC:
        yield f"calls of the capture run {times:.2g} times in a step of the profile, in the median"
    if trace.world is not None and trace.world != step.captured.ranks:
        yield f"the profile is of {trace.world:,} ranks, the capture of {step.captured.ranks:,}"
    compared, other = 0, list[str]()
    for name, each in step.calls.items():
        mine = ran.get(name, NONE).operator.tolist()
        for at, operator in zip(each, mine, strict=True) if len(mine) == len(each) else ():
            shape, reads = int(operators.shape[operator]), step.captured.operations[at].shapes.partition(":")[0]
            compared += shape >= 0 and bool(reads)
            if shape >= 0 and reads and operators.shapes[shape] != reads:
                other.append(f"{name} reads {operators.shapes[shape]} in the profile and {reads} in the capture")
    if len(other) > MATERIAL_FRAC * compared:
        yield f"{len(other):,} of {compared:,} calls read other shapes: {other[0]}"
