"""`Varied`: one program captured with several values of its arguments, and its step with others.

Calls, the sizes that they read and give, and the tensors that they make and free are laid beside each other from
capture to capture (`growing.py`): what differs must grow by a rule that the captures show, else nothing is said.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.describe.captured import (
    COLLECTIVES,
    PACKED,
    Captured,
    Life,
    Operation,
    opened,
    part,
    read_captured,
    tensor_B,
)
from lockstep.describe.events import Numbers, places
from lockstep.describe.growing import Growth, Many, Uneven

VARIED = "varied.json"
SMALLEST_B = 1 << 20
"""The first bucket of DistributedDataParallel (PyTorch, torch.distributed._DEFAULT_FIRST_BUCKET_BYTES)."""
LAYER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")
"""The number of a layer in the name of a module, which differs between those that are equal."""
MOST_CALLS = 1_000_000
"""Of a step that is derived."""
COUNTS = ("parameters", "trained_parameters")
"""Numbers that the program says of itself."""


@dataclass(frozen=True)
class Varied:
    """The steps of a program."""

    values: dict[str, tuple[int, ...]]
    """Of each argument, in increasing order."""
    arguments: tuple[str, ...]
    """Of the script, with `{name}` where a value goes."""
    members: tuple[Captured, ...]
    """For all combinations of the values, those of the last name the fastest."""

    def at(self, **asked: int) -> Captured:
        """The step with these values, the largest captured ones of what is not asked.

        Raises UnknownName for other names, BadInput for what does not grow by a rule that the captures show.
        """
        for name in asked:
            if name not in self.values:
                raise UnknownName("argument that was varied", name, self.values, "--at")
        steps = self._written
        for name, values in reversed(self.values.items()):
            target = asked.get(name, values[-1])
            groups = [steps[at : at + len(values)] for at in range(0, len(steps), len(values))]
            steps = [self._along(name, values, target, group) for group in groups]
        chosen = {name: asked.get(name, values[-1]) for name, values in self.values.items()}
        calls, said = steps[0]
        program = self.members[-1].program | _program(said)
        return Captured(program | {"arguments": filled(self.arguments, chosen), "varied": chosen}, *_operations(calls))

    def lengthens(self, name: str) -> bool:
        """Whether a larger value of an argument adds calls, as that of depth does."""
        inner = prod(len(some) for some in list(self.values.values())[list(self.values).index(name) + 1 :])
        return len({len(one.operations) for one in self.members[::inner][: len(self.values[name])]}) > 1

    @cached_property
    def _written(self) -> list[Any]:
        """What may grow of every member: its calls, and what the program says of itself."""
        return [(_calls(one), _said(one)) for one in self.members]

    @staticmethod
    def _along(name: str, values: tuple[int, ...], target: int, steps: Sequence[Any]) -> Any:
        """The step at one value of an argument."""
        if target in values:
            return steps[values.index(target)]
        growth = Growth(values, target, counts=len({len(calls) for calls, _ in steps}) > 1)
        _refuse_more_calls(name, values, target, [len(calls) for calls, _ in steps])
        try:
            found = growth.at_target(steps)
            if growth.counts:
                _of_one_size(found[0], [calls for calls, _ in steps])
            return found
        except Uneven as error:
            why = _why(growth, [calls for calls, _ in steps]) or str(error)
            given = ", ".join(map(str, values))
            raise BadInput(
                f"the step with {name}={target} cannot be derived from captures with {given}: {why}", "--at"
            ) from None


def _refuse_more_calls(name: str, values: Sequence[int], target: int, calls: Sequence[int]) -> None:
    """Raises BadInput where a step at the target would have more than MOST_CALLS."""
    each = (calls[-1] - calls[0]) / (values[-1] - values[0])
    there = calls[-1] + each * (target - values[-1])
    if there > MOST_CALLS:
        said = f"the step with {name}={target} would have {there:,.0f} calls, more than {MOST_CALLS:,}"
        raise BadInput(said, "--at")


def _of_one_size(found: Many, steps: Sequence[Many]) -> None:
    """Raises Uneven where collectives grow with the number of layers: more of them may be cut into several.

    Buckets of gradients are, which grow until they are full; none is smaller than SMALLEST_B when it is cut.
    """
    known = {(words[0], shapes) for calls in steps for words, _, _, shapes, *_ in calls if words[0] in COLLECTIVES}
    for (name, phase, *_), _, _, shapes, *_ in found:
        of_B = sum(tensor_B(*one) for one in shapes)
        if name in COLLECTIVES and (name, shapes) not in known and of_B > SMALLEST_B:
            raise Uneven(f"{name} ({phase}) grows with it, and more may be cut into several, as buckets are")


def _why(growth: Growth, steps: Sequence[Many]) -> str:
    """Which call does not grow by a rule, where there are equally many."""
    for calls in () if growth.counts else zip(*steps, strict=True):
        try:
            growth.at_target(calls)
        except Uneven as error:
            (name, phase, *_), *_ = calls[0]
            return f"of {name.removeprefix('aten.')} ({phase}), {error}"
    return ""


def filled(arguments: Sequence[str], values: Mapping[str, int]) -> list[str]:
    """Arguments of the script with values in the places that have their names."""
    found = list(arguments)
    for name, value in values.items():
        found = [one.replace(f"{{{name}}}", str(value)) for one in found]
    return found


def combinations(values: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every combination of the values, those of the last name the fastest."""
    return [dict(zip(values, one, strict=True)) for one in product(*values.values())]


def _calls(step: Captured) -> Many:
    """Each call with the tensors that it makes and frees, as what may grow; one more for those after the last."""
    made, freed = defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
    for life in step.lives:
        made[life.born].append((life.size_B, life.category))
        if life.died is not None:
            freed[life.died].append((life.size_B, life.category))
    operations, found = (*step.operations, Operation("", "", "", 0, 0)), list[Any]()
    for at, (one, place) in enumerate(zip(operations, places(operations), strict=True)):
        words = (one.name, one.phase, one.group, LAYER.sub("*", one.module))
        numbers = (one.reads, one.flops, int(one.causal), one.stream)
        found.append((words, numbers, place, Many(one.tensors()), Many(made[at]), Many(freed[at])))
    return Many(found)


def _operations(calls: Many) -> tuple[tuple[Operation, ...], tuple[Life, ...]]:
    """Calls and tensors again. Of tensors of one size and category that live at once, the first made goes first."""
    operations, lives, event_of = list[Operation](), list[Life](), Numbers()
    living = defaultdict[Any, list[int]](list)
    for at, (words, numbers, place, shapes, made, freed) in enumerate(calls):
        for one in made:
            living[one].append(len(lives))
            lives.append(Life(one[0], at, None, one[1]))
        for one in freed:
            if not living[one]:
                raise BadInput("tensors are freed that no call made; capture it with the values themselves", "--at")
            mine = living[one].pop(0)
            lives[mine] = replace(lives[mine], died=at)
        name, phase, group, module = words
        reads, flops, causal, stream = numbers
        text = _text(shapes)
        operations.append(
            Operation(name, phase, text, reads, flops, bool(causal), stream, event_of(place), group, module)
        )
    return tuple(operations[:-1]), tuple(lives)


@lru_cache(1 << 16)
def _text(shapes: Many) -> str:
    """Shapes and formats as a call has them; many calls are alike."""
    return ";".join("x".join(map(str, sizes)) + f":{dtype}" for sizes, dtype in shapes)


def _said(step: Captured) -> Any:
    """Numbers that the program says of itself, and what it asked."""
    asked = [(one["place"], one["kind"], str(one["answer"]), one["times"]) for one in step.program["values"]]
    return tuple(step.program[name] for name in COUNTS), Many(asked)


def _program(said: Any) -> Json:
    numbers, asked = said
    names = ("place", "kind", "answer", "times")
    return {
        **dict(zip(COUNTS, numbers, strict=True)),
        "values": [dict(zip(names, one, strict=True)) for one in asked],
    }


@dataclass(frozen=True)
class CaptureFile:
    """What a file of `lockstep capture` holds: one step, or those of several values."""

    path: File
    alone: Captured | None
    varied: Varied | None

    @cached_property
    def values(self) -> dict[str, tuple[int, ...]]:
        """Captured values of each argument that was varied."""
        return {} if self.varied is None else self.varied.values

    def at(self, **asked: int) -> Captured:
        """The step with these values. Raises as `Varied.at`, and BadInput for values of a program without any."""
        if self.varied is not None:
            return self.varied.at(**asked)
        if asked or self.alone is None:
            raise BadInput(f"{self.path} was captured without --vary", "--at")
        return self.alone


def read_capture_file(path: File) -> CaptureFile:
    """All steps in a file. Raises BadInput where it is no capture."""
    with opened(path) as file:
        names = file.namelist()
        said: Any = json.loads(part(file, VARIED)) if VARIED in names else None
        if said is not None:
            values = {str(name): tuple(map(int, some)) for name, some in said["values"].items()}
            arguments = tuple(map(str, said["arguments"]))
            number = prod(map(len, values.values()))
            rising = all(len(some) > 1 and list(some) == sorted({*some}) for some in values.values())
            if not (rising and 1 <= number <= len(names)):
                raise ValueError(f"{VARIED} has values without steps")
    if said is None:
        return CaptureFile(path, read_captured(path), None)
    members = tuple(read_captured(path, folder(one)) for one in range(number))
    return CaptureFile(path, None, Varied(values, arguments, members))


def folder(number: int) -> str:
    """Where the parts of a step lie in the file."""
    return f"{number}/" if number else ""


def join(paths: Sequence[Path], values: Mapping[str, Sequence[int]], arguments: Sequence[str], out: str | Path) -> None:
    """Writes the captures of all combinations as one file."""
    with zipfile.ZipFile(out, "w") as file:
        said = {"values": {name: list(some) for name, some in values.items()}, "arguments": list(arguments)}
        file.writestr(zipfile.ZipInfo(VARIED), json.dumps(said), PACKED)
        for number, path in enumerate(paths):
            with zipfile.ZipFile(path) as one:
                for each in one.infolist():
                    name = zipfile.ZipInfo(folder(number) + each.filename)
                    file.writestr(name, one.read(each), PACKED)
