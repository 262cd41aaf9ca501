"""`Log`: what a training program printed of its steps, in SI units and by the program's own definitions.

A program is data: a sign by which its log is known, and a pattern per quantity. Steps before the middle of the log are
slower for reasons of their own (compilation, allocation, filling of caches); the first tenth is left out and the median
of the rest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.explain.read import LOG, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.stated import TIME_S

WARM_UP_FRAC = 0.1
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_LINE = 1 << 20
CONFIGURATION_LINES = 50_000
"""Lines from the beginning among which a program prints its configuration."""
MOST_VALUES = 1_000_000
LETTERS = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
PER_DEVICE_TOKENS, SAMPLES, HARDWARE, MEMORY = (
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "hardware_flops_per_gpu_per_s",
    "memory_B",
)


@dataclass(frozen=True, slots=True)
class Log:
    """Steps of a run as its program printed them."""

    program: str
    printed: Mapping[str, tuple[float, ...]]
    """By quantity, in the order of the file: those of `Stated`, and tokens per device, samples, memory."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the configuration that the log prints: layers, hidden, heads, vocab, seq, batch, devices."""
    parts_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a step by the program's own timers, by their names."""
    counts: str = ""
    """How the program counts FLOPs and tokens, in words."""

    def steady(self, quantity: str) -> float | None:
        """The median of a quantity after warming up; None where it was not printed."""
        values = self.printed.get(quantity, ())
        kept = values[int(len(values) * WARM_UP_FRAC + 0.999) if len(values) > 2 else 0 :]
        return median(kept) if kept else None

    @property
    def steps(self) -> int:
        """Steps, or intervals of steps, that were printed."""
        return max((len(values) for values in self.printed.values()), default=0)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        steady = {name: self.steady(name) for name in self.printed}
        return {
            "program": self.program,
            "steps": self.steps,
            "median": steady,
            "settings": dict(self.settings),
            "parts_s": dict(self.parts_s),
            "counts": self.counts,
        }


@dataclass(frozen=True, slots=True)
class Program:
    """A training program and how its log is read."""

    name: str
    what: str
    sign: str
    """A pattern that no other kind of file has in its first million bytes."""
    patterns: Mapping[str, tuple[str, float]]
    """By quantity, a pattern with a number in its first group, and its unit in SI; a letter after it multiplies. Words
    after the quantity tell patterns of the same one apart."""
    settings: Mapping[str, str] = field(default_factory=dict)
    counts: str = ""
    timers: str = ""
    """A pattern of a line of timers in ms, whose group is `name: value | name: value`."""
    order: int = 5
    step: str = ""
    """A pattern of the line that a step is printed on: its number is the group `step`, that of the run's last step the
    group `last`, milliseconds since the start of training the group `elapsed_ms`; empty where no line has a number."""
    block: bool = False
    """Whether the numbers of a step stand on the lines after that one."""
    step_counts: str = "steps"
    """What the number of a step counts: steps or samples."""


PROGRAMS: list[Program] = []
"""Every program that is registered."""


def program(one: Program) -> Kind:
    """Registers a program: its log is one kind of file."""
    sign = re.compile(one.sign, re.MULTILINE)
    PROGRAMS.append(one)

    def recognise(begun: Head) -> bool:
        return sign.search(COLOURS.sub("", begun.text)) is not None

    def read(path: File) -> Log:
        return read_log(path, one)

    return register(Kind(one.name, one.what, LOG, recognise, read, one.order))


def read_log(path: File, one: Program) -> Log:
    """What a program printed. Raises BadInput where no step is in the file, or a number is not one."""
    with stream(path) as file:
        printed, settings, timers = _numbers(path, one, file)
    if not any(printed.values()) and not settings:
        names = " or ".join(sorted(one.patterns))
        raise BadInput(f"is {one.what} without a step: no {names} is in it", str(path))
    if (times := printed.get(TIME_S)) and not any(times):
        raise BadInput("states that every step takes no time", str(path))
    often = max((len(values) for values in timers.values()), default=0) / 2
    parts = {name: median(values[len(values) // 10 :]) for name, values in timers.items() if len(values) > often > 0.5}
    kept: dict[str, tuple[float, ...]] = {}
    for name, values in printed.items():
        if values:
            kept[name.partition(" ")[0]] = tuple(values)
    return Log(one.name, kept, settings, parts, one.counts)


def _numbers(
    path: File, one: Program, lines: Iterable[bytes]
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, list[float]]]:
    patterns = compiled(one.patterns)
    settings = {name: re.compile(pattern) for name, pattern in one.settings.items()}
    timer = re.compile(one.timers) if one.timers else None
    printed: dict[str, list[float]] = {name: [] for name in patterns}
    said: dict[str, float] = {}
    timers: dict[str, list[float]] = {}
    for number, line in text_lines(lines):
        where = f"{path}:{number}"
        for name, value in quantities(line, patterns, where):
            if len(printed[name]) < MOST_VALUES:
                printed[name].append(value)
        for name, pattern in settings.items() if number <= CONFIGURATION_LINES else ():
            if name not in said and (found := pattern.search(line)):
                said[name] = number_of(found, where)
        if timer and (found := timer.search(line)):
            _timers(found[1], timers)
    return printed, said, timers


Patterns = Mapping[str, tuple[re.Pattern[str], float]]


def compiled(patterns: Mapping[str, tuple[str, float]]) -> Patterns:
    """The patterns of quantities, each with its unit in SI."""
    return {name: (re.compile(pattern), unit) for name, (pattern, unit) in patterns.items()}


def quantities(line: str, patterns: Patterns, where: str) -> Iterator[tuple[str, float]]:
    """Each quantity that a line states, in SI units. Raises BadInput for a number that is none."""
    for name, (pattern, unit) in patterns.items():
        if found := pattern.search(line):
            yield name, number_of(found, where) * unit


def text_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """(number of the line, text without colours); the states of a progress bar are as many texts of one line."""
    for number, raw in enumerate(lines, 1):
        for part in raw.rstrip(b"\r\n").split(b"\r"):
            yield number, text_of(part)


def text_of(raw: bytes) -> str:
    """A line as text without colours; of a very long one the beginning."""
    line = raw[:LONGEST_LINE].decode("utf-8", "replace")
    return COLOURS.sub("", line) if "\x1b" in line else line


def number_of(found: re.Match[str], where: str) -> float:
    """The number in the first group, and the letter in the second if there is one. Raises BadInput."""
    letter = found[2] if found.re.groups > 1 and found[2] else ""
    try:
        value = float(found[1].replace(",", "").replace("_", "")) * LETTERS.get(letter, 1.0)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e30:
        raise BadInput(f"{found[0].strip()[:80]!r} has no usable number", where)
    return value


def _timers(text: str, timers: dict[str, list[float]]) -> None:
    """`forward-compute: 144.40 | optimizer: 42.46` into seconds."""
    for part in text.split("|"):
        name, _, value = part.rpartition(":")
        try:
            timers.setdefault(name.strip(), []).append(float(value) / 1e3)
        except ValueError:
            continue
