"""Logs whose only speed is the bar of tqdm: ` 3%|3   | 15/500 [00:48<26:01,  3.22s/it]`, or `1.05it/s` if it is fast.

Hugging Face's Trainer prints its summary at the end of a run; before, and in torchtune and Lightning, the bar is all
there is. One of several bars, as of evaluation and of loading, is the training's: the one that has run longest.

Source: tqdm/tqdm, tqdm/std.py (format_meter): the mean of the last iterations, which `smoothing` weights.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import IO

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.explain.read import LOG, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.read.logs import trainer
from lockstep.explain.read.logs.log import MOST_VALUES, Log, Program, read_log
from lockstep.explain.stated import TIME_S

BAR = re.compile(rb"\|\s*(\d+)/(\d+) \[([\d:]+)<[^,\]]*,\s*(?:([\d.]+)(s/it|it/s)|\?it/s)")
BATCH = re.compile(trainer.BATCH.encode())
SUMMARY = re.compile(trainer.SIGN.encode())
STEPS = Program(
    name="progress-bar",
    what="a log with a progress bar of tqdm",
    sign=BAR.pattern.decode(),
    patterns={TIME_S: (r"\| *\d+/\d+ \[.*?([\d.]+)s/it", 1.0), "steps_per_s": (r"\| *\d+/\d+ \[.*?([\d.]+)it/s", 1.0)},
    settings={"batch": trainer.BATCH},
    step=r"\|\s*(?P<step>\d+)/(?P<last>\d+) \[[\d:]+<",
)
"""Its states one after another, for logs that are followed; not registered, as no log is read by it as a whole."""
CHUNK_B = 1 << 20
COUNTS = (
    "the bar's speed, which is smoothed over its last iterations and rounded to 0.01; an iteration is taken as a step"
)


def read(path: File) -> Log:
    """The speeds that the training's bar showed. Raises BadInput where it showed none.

    A summary of Hugging Face's Trainer behind the beginning of the file goes before the bar.
    """
    elapsed_s: dict[int, int] = {}
    shown: dict[int, list[float]] = defaultdict(list)
    settings: dict[str, float] = {}
    with stream(path) as file:
        for line in _lines(file):
            if SUMMARY.search(line):
                return read_log(path, trainer.PROGRAM)
            if (said := BATCH.search(line)) and "batch" not in settings:
                settings["batch"] = float(said[1].replace(b",", b""))
            if (found := BAR.search(line)) is None or not found[4]:
                continue
            total, speed = int(found[2]), float(found[4])
            elapsed_s[total] = max(elapsed_s.get(total, 0), _seconds(found[3].decode()))
            if speed > 0 and len(shown[total]) < MOST_VALUES:
                shown[total].append(speed if found[5] == b"s/it" else 1.0 / speed)
    if not any(shown.values()):
        raise BadInput("is a progress bar without a speed: no s/it or it/s is in it", str(path))
    longest = max(shown, key=lambda total: (elapsed_s[total], len(shown[total])))
    return Log("progress-bar", {TIME_S: tuple(shown[longest])}, settings, counts=COUNTS)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """What ends at a line feed or, as every state of a bar, at a carriage return; of longer ones the end."""
    rest = b""
    while chunk := file.read(CHUNK_B):
        *whole, rest = re.split(rb"[\r\n]", rest[-CHUNK_B:] + chunk)
        yield from whole
    yield rest


def _seconds(clock: str) -> int:
    """Of `01:02:03` or `02:03`."""
    seconds = 0
    for part in clock.split(":"):
        seconds = 60 * seconds + int(part or 0)
    return seconds


def recognise(begun: Head) -> bool:
    """Whether a bar that counts iterations is in the beginning."""
    return BAR.search(begun.data) is not None


KIND = register(Kind("progress-bar", "a log with a progress bar of tqdm", LOG, recognise, read, order=9))
