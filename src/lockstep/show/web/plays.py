"""What the screen Play offers: a verb of the library each, with the knobs that change its answer.

A knob has a few values that are listed here, so an address can ask nothing else; the first of `Knob.start` is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json

Words = Mapping[str, str]
BANDWIDTH = {"bandwidth": "25GB/s"}
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
UNIT = re.compile(r"(?<=\d)(?=[a-zA-Z])")
"""Between a number and its unit."""
BUCKETS = ("1MB", "2MB", "5MB", "10MB", "25MB", "50MB", "100MB", "200MB", "700MB")


@dataclass(frozen=True, slots=True)
class Knob:
    """A word of the verb and the values that it may take."""

    name: str
    label: str
    values: tuple[str, ...]
    start: str
    slides: bool = True
    """Whether the values have an order."""

    @property
    def texts(self) -> list[str]:
        """The values as a person writes them: 25 MB."""
        return [UNIT.sub(" ", value) for value in self.values] if self.slides else list(self.values)

    def value(self, words: Words) -> str:
        """The value that is asked for, or the first one shown."""
        said = words.get(self.name, "")
        return said if said in self.values else self.start


@dataclass(frozen=True, slots=True)
class Play:
    """One of them."""

    name: str
    title: str
    about: str
    verb: str
    knobs: tuple[Knob, ...]
    fixed: Json
    """Other words of the verb."""
    turned: Callable[[Words], Json] = dict
    """The words of the verb from the values of the knobs."""

    def words(self, said: Words) -> Json:
        """The words of the verb."""
        return {**self.fixed, **self.turned({knob.name: knob.value(said) for knob in self.knobs})}


def _settings(words: Words) -> Json:
    return {"settings": dict(words)}


def _powers(most: int, least: int = 1) -> tuple[str, ...]:
    return tuple(str(2**exponent) for exponent in range(least, most + 1))


PLAYS = (
    Play(
        "schedule",
        "A pipeline schedule",
        "Stages wait for one another; more micro-batches, or another order of the passes, leave less idle time.",
        "pipeline",
        (
            Knob("schedule", "Schedule", ("gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe-v"), "1f1b", False),
            Knob("stages", "Stages", _powers(4), "4"),
            Knob("microbatches", "Micro-batches", _powers(6, 0), "8"),
            Knob("transfer_s", "Time of a message", ("0s", "0.1s", "0.2s", "0.5s", "1s"), "0s"),
        ),
        {},
    ),
    Play(
        "collective",
        "A collective",
        "Small messages are bound by latency, large ones by bandwidth: the fastest algorithm changes with the size.",
        "collective",
        (
            Knob("op", "Collective", COLLECTIVES, "all-reduce", False),
            Knob("ranks", "Ranks", _powers(9), "64"),
            Knob("size", "Size", ("1kB", "10kB", "100kB", "1MB", "10MB", "100MB", "1GB"), "1MB"),
            Knob("latency", "Latency", ("1us", "2us", "5us", "10us", "20us", "50us"), "5us"),
        ),
        BANDWIDTH,
    ),
    Play(
        "bucket",
        "A bucket size",
        "Gradients are sent while earlier layers compute: small buckets start early and pay latency, large ones wait.",
        "overlap",
        (
            Knob("bucket_size", "Bucket", BUCKETS, "25MB"),
            Knob("ranks", "Ranks", _powers(10, 3), "256"),
            Knob("latency", "Latency", ("1us", "5us", "10us", "50us", "100us"), "10us"),
        ),
        {"layers": "96", "backward": "480ms", "gradients": "700MB", **BANDWIDTH},
    ),
    Play(
        "straggler",
        "Stragglers",
        "A step is as long as its slowest worker; the more workers there are, the later the last one comes.",
        "stragglers",
        (
            Knob("workers", "Workers", ("4", "16", "64", "256", "1024"), "64"),
            Knob("cv", "Spread of the step times", ("0.05", "0.1", "0.2", "0.3", "0.5"), "0.2"),
            Knob("mitigation", "Mitigation", ("none", "backup:2", "drop:2", "bounded:4"), "none", False),
        ),
        {},
        lambda words: {
            "workers": words["workers"],
            "law": f"lognormal:mean=50ms,cv={words['cv']}",
            "mitigation": words["mitigation"],
        },
    ),
    Play(
        "stale",
        "Stale gradients",
        "A gradient that arrives late acts like momentum, until it makes the step unstable.",
        "converge",
        (
            Knob("delay", "Steps of delay", ("1", "2", "5", "10", "20"), "10"),
            Knob("momentum", "Momentum", ("0.5", "0.8", "0.9", "0.95"), "0.9"),
        ),
        {"experiment": "async-momentum"},
        _settings,
    ),
    Play(
        "precision",
        "Weights in few bits",
        "An update smaller than half a spacing of the format is lost, unless a wider copy of the weights keeps it.",
        "converge",
        (
            Knob("format", "Format", ("fp16", "bf16"), "bf16", False),
            Knob("step_size", "Step size", ("0.01", "0.02", "0.05", "0.1", "0.2"), "0.05"),
        ),
        {"experiment": "master-weights"},
        _settings,
    ),
    Play(
        "claim",
        "A claim",
        "What a textbook says, decided by the formulas and simulations of this library.",
        "claims",
        (Knob("claim", "Claim", ("B.14", "C.1", "C.2", "C.5", "C.11"), "B.14", False),),
        {"run": True},
        lambda words: {"claim": [words["claim"]]},
    ),
)  # fmt: skip


def play(name: str) -> Play:
    """One of them; the first where none is named. Raises UnknownName."""
    found = {one.name: one for one in PLAYS}
    if name and name not in found:
        raise UnknownName("play", name, found, "play")
    return found.get(name, PLAYS[0])
