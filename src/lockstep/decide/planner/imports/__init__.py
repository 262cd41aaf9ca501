"""`read_run`: a configuration or a log of other training software as a question and a layout.

A file is recognised by settings that only its format has (`formats/*.toml`), read strictly, and every setting of it is
classified: read, harmless, yours, unknown or contradictory. What it says is the inverse of `export`, so that a layout
goes there and back.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from lockstep.base.documents.files import File, InMemory, open_file
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import accelerate as of_accelerate
from lockstep.decide.planner.imports import bridge as of_bridge
from lockstep.decide.planner.imports import nemo_rl as of_nemo_rl
from lockstep.decide.planner.imports import torchtitan_options as of_torchtitan
from lockstep.decide.planner.imports import verl as of_verl
from lockstep.decide.planner.imports.accelerate import accelerate
from lockstep.decide.planner.imports.bridge import bridge
from lockstep.decide.planner.imports.deepspeed import deepspeed, spelled_out
from lockstep.decide.planner.imports.formats import Format, format_of
from lockstep.decide.planner.imports.imported import Imported as Imported
from lockstep.decide.planner.imports.megatron import megatron
from lockstep.decide.planner.imports.megatron_log import megatron_log
from lockstep.decide.planner.imports.mindspeed import mindspeed
from lockstep.decide.planner.imports.mlperf import SIGN, mlperf, mlperf_log
from lockstep.decide.planner.imports.nanotron import nanotron
from lockstep.decide.planner.imports.nemo_rl import nemo_rl
from lockstep.decide.planner.imports.python_options import CHOSEN, is_python, python_options
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.script import CONFIGURATIONS, commands
from lockstep.decide.planner.imports.started import started
from lockstep.decide.planner.imports.text import Text, mapping, shape_of
from lockstep.decide.planner.imports.torchtitan import torchtitan
from lockstep.decide.planner.imports.torchtitan_options import torchtitan_options
from lockstep.decide.planner.imports.tuning import (
    axolotl,
    llamafactory,
    swift,
    swift_megatron,
    trainer,
    trainer_lora,
    trl,
)
from lockstep.decide.planner.imports.verl import verl
from lockstep.describe.workload import Model

MOST_B = 256 * 1024 * 1024
"""Of a log; longer ones are not read."""
Reader = Callable[[Said, str, Model | None], Imported]
READERS: Mapping[str, Reader] = {
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "nanotron": nanotron,
    "nemo-rl": nemo_rl,
    "torchtitan": torchtitan,
    "torchtitan-3": torchtitan_options,
    "verl": verl,
    "megatron": megatron,
    "bridge": bridge,
    "mlperf": mlperf,
    "mindspeed": mindspeed,
    "axolotl": axolotl,
    "llamafactory": llamafactory,
    "swift": swift,
    "swift-megatron": swift_megatron,
    "trainer": trainer,
    "trainer-lora": trainer_lora,
    "trl": trl,
}
"""By the name of the format."""
PREPARED: Mapping[str, Callable[[Text], Text]] = {
    "accelerate": of_accelerate.prepared,
    "bridge": of_bridge.prepared,
    "deepspeed": spelled_out,
    "nemo-rl": of_nemo_rl.prepared,
    "torchtitan-3": of_torchtitan.prepared,
    "verl": of_verl.prepared,
}
"""What is done to the settings of a format before they are checked."""


def _logs(text: str, file: str) -> tuple[Text, ...]:
    """The settings of a log, once for every kind of line that it has."""
    found = mlperf_log(text, file) if SIGN in text else None
    return (megatron_log(text, file), *((found,) if found else ()))


TEXTS: Mapping[str, Callable[[str, str], tuple[Text, ...]]] = {"command": commands, "log": _logs}
"""What holds several texts."""


def read_run(path: File, model: Model | None = None, accepted: Collection[str] = ()) -> Imported | None:
    """What a file says of a run, with `model` where it has none of its own; None where it is of none of these kinds.

    `accepted` are unknown settings, or patterns of them, that are left out. Raises BadInput, located at its line, for a
    setting that cannot be read and for a setting that is not known.
    """
    folder, chosen = None, ""
    if not isinstance(path, InMemory):
        name, _, chosen = str(path).partition(CHOSEN)
        path, folder = Path(name), Path(name).parent
    text = _text(path)
    return None if text is None else recognised(text, str(path), model, accepted, folder, chosen)


def _text(path: File) -> str | None:
    """The text of a file, which may be compressed with gzip; None where it is none, or longer than MOST_B."""
    try:
        with open_file(path) as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            found = gzip.GzipFile(fileobj=raw).read(MOST_B + 1) if packed else raw.read(MOST_B + 1)
        return found.decode("utf-8-sig") if len(found) <= MOST_B else None
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile):
        return None


def recognised(
    text: str,
    file: str,
    model: Model | None = None,
    accepted: Collection[str] = (),
    folder: Path | None = None,
    chosen: str = "",
) -> Imported | None:
    """`read_run` of a text that is called `file` and may name others in a folder; `chosen` is a function of Python."""
    shape = "python" if is_python(text) else shape_of(text)
    texts: Sequence[Text] = ()
    if shape == "command" and any(ending in text for ending in CONFIGURATIONS):
        texts = [replace(one, folder=folder) for one in commands(text, file)]
        named = started(texts)
        texts, shape, text = (texts, shape, text) if named is None else ((named,), named.shape, named.raw)
    formats = [one for one in map(format_of, READERS) if shape in one.shapes and _may_be(one, text)]
    if shape is None or not formats:
        return None
    claiming, claims = _claims(formats, texts or _texts(text, file, shape, chosen))
    if not claims:
        return None
    if len(claims) > 1:
        each = " and ".join(f"{format_of(key).name} ({word})" for key, word in claims.items())
        raise BadInput(f"could be {each}; use settings of only one", file)
    ((key, word),) = claims.items()
    said = claiming[key] if claiming[key].folder else replace(claiming[key], folder=folder)
    if key in PREPARED:
        said = PREPARED[key](said)
    read = Said(format_of(key), said, accepted, given=model is not None)
    return READERS[key](read, Path(file).stem, model).finished(read, word)


def _texts(text: str, file: str, shape: str, chosen: str) -> Sequence[Text]:
    """What a text says: a command of a script each, else one."""
    if shape in TEXTS:
        return TEXTS[shape](text, file)
    return (python_options(text, file, chosen) if shape == "python" else mapping(text, file, shape),)


def _claims(formats: Sequence[Format], texts: Sequence[Text]) -> tuple[dict[str, Text], dict[str, str]]:
    """By format, the command that it claims and by which word: the program, else one of its own or one of several."""
    for signs in ("programs", "only", "shared"):
        words: dict[str, tuple[str, ...]] = {one.key: getattr(one, signs) for one in formats}
        chosen = {one.key: said for one in formats if (said := _chosen(one, words[one.key], texts)) is not None}
        if chosen:
            # A dialect has settings that the format which it extends has not, and all of those that it has.
            base = {format_of(key).extends for key in chosen}
            return chosen, {key: claimed(words[key], said) for key, said in chosen.items() if key not in base}
    return {}, {}


def _chosen(format: Format, words: Collection[str], texts: Sequence[Text]) -> Text | None:
    """The command that a format claims by one of some words.

    It may stand beside others with few of its words, as a conversion has. Raises BadInput where two are runs that say
    something else.
    """
    runs = [
        {word: value for word, value in one.words.items() if word in format.read and not word.startswith("launcher.")}
        for one in texts
    ]
    found = [(run, one) for run, one in zip(runs, texts, strict=True) if claimed(words, one)]
    if not found:
        return None
    most, chosen = max(found, key=lambda one: len(one[0]))
    for run, other in found:
        if run != most and 2 * len(run) > len(most):
            first, second = sorted((chosen, other), key=lambda one: min(one.lines.values()))
            where = first.where(next(iter(first.lines)))
            raise BadInput(
                f"starts two runs, here and at {where}; keep one of them", second.where(next(iter(second.lines)))
            )
    return chosen


def _may_be(format: Format, text: str) -> bool:
    """Whether a text has a setting by which this format is recognised."""
    words = (*format.only, *format.shared)
    names = [(word.partition("=")[2] or word.rpartition(".")[2]).strip("*") for word in words]
    return any(name in text or name.replace("-", "_") in text for name in names)


def claimed(words: Collection[str], said: Text) -> str:
    """The first of some settings that a text has, or nothing; `word=value` is one with a value like that."""
    for only in words:
        name, valued, value = only.partition("=")
        for word, given in said.words.items():
            found = word == name or word.startswith(f"{name}.") or ("*" in name and fnmatchcase(word, name))
            if found and (not valued or fnmatchcase(str(given), value)):
                return only
    return ""


__all__ = ["Imported", "read_run", "recognised"]
