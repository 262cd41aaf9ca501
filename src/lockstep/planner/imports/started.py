"""`started`: a configuration that a command names, with the options of the command over it.

    llamafactory-cli train f.yaml learning_rate=1e-5
    axolotl train f.yml --micro-batch-size 2
    trl sft --config f.yaml --max_length 4096

The file must lie beside the script, or in a folder beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from lockstep.documents.files import open_file
from lockstep.errors import BadInput
from lockstep.planner.imports.script import CONFIGURATIONS
from lockstep.planner.imports.text import MOST_MAPPING_B, Text, mapping, shape_of

PROGRAMS = ("llamafactory-cli", "lmf", "axolotl", "axolotl.cli.train")
"""Programs whose first argument is a configuration."""
OPTION = "config"
ARGUMENTS = "launcher.arguments"


def started(texts: Sequence[Text]) -> Text | None:
    """The configuration that the first of some commands names; None where none names one.

    Raises BadInput, located at the command, for a file that does not lie beside it or is none.
    """
    for text in texts:
        word, named = _named(text)
        if named:
            found = beside(text.file, named)
            if found is not None:
                return _over(found, text)
            if word == ARGUMENTS or str(text.words.get("launcher.program")) == "trl":
                raise BadInput(f"{named[:80]} does not lie beside the command that starts it", text.where(word))
    return None


def _named(text: Text) -> tuple[str, str]:
    """The word of a command that names a configuration, and the name."""
    program = str(text.words.get("launcher.program", "")).rpartition("/")[2]
    arguments = text.words.get(ARGUMENTS)
    if program in PROGRAMS and isinstance(arguments, list) and str(arguments[0]).endswith(CONFIGURATIONS):
        return ARGUMENTS, str(arguments[0])
    given = str(text.words.get(OPTION, ""))
    return OPTION, given if given.endswith(CONFIGURATIONS) else ""


def beside(file: str, named: str) -> Text | None:
    """The mapping of that name beside a file, or in a folder beside it; None where there is none.

    Raises BadInput for a file that is no mapping in JSON or YAML.
    """
    relative, folder = PurePosixPath(named), Path(file).parent
    if relative.is_absolute() or ".." in relative.parts or not Path(file).is_file():
        return None
    path = next((one for one in (folder / relative, folder / relative.name) if one.is_file()), None)
    if path is None:
        return None
    try:
        with open_file(path) as raw:
            text = raw.read(MOST_MAPPING_B + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadInput("cannot be read as text", str(path)) from None
    shape = shape_of(text)
    if shape not in ("json", "yaml"):
        raise BadInput("is no mapping in JSON or YAML", str(path))
    return mapping(text, str(path), shape)


def _over(found: Text, command: Text) -> Text:
    """A configuration with the options of a command over it."""
    given = {word: value for word, value in command.words.items() if word not in (OPTION, ARGUMENTS)}
    options = {word if word.startswith("launcher.") else word.replace("-", "_"): value for word, value in given.items()}
    lines = {word: line for word, line in found.lines.items() if word not in options}
    return replace(found, words={**found.words, **options}, lines=lines, repeated=command.repeated)
