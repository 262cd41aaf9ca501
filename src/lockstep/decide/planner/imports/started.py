"""`started`: a configuration that a command names, with the options of the command over it.

    llamafactory-cli train f.yaml learning_rate=1e-5
    axolotl train f.yml --micro-batch-size 2
    trl sft --config f.yaml --max_length 4096
    accelerate launch src/train.py f.yaml

The file must lie at its path from the script, or beside the script. Of a script in Python it is read if it lies there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.beside import beside
from lockstep.decide.planner.imports.script import CONFIGURATIONS
from lockstep.decide.planner.imports.text import Text

PROGRAMS = ("llamafactory-cli", "lmf", "axolotl", "axolotl.cli.train")
"""Programs whose first argument is a configuration."""
OPTION = "config"
ARGUMENTS = "launcher.arguments"


def started(texts: Sequence[Text]) -> Text | None:
    """The configuration that the first of some commands names; None where none names one.

    Raises BadInput, located at the command, for a file that does not lie beside it or is none.
    """
    for text in texts:
        word, named, needed = _named(text)
        if named:
            found = beside(text, named)
            if found is not None:
                return _over(found, text)
            if needed:
                raise BadInput(f"{named[:80]} is not in the folder of the command that starts it", text.where(word))
    return None


def _named(text: Text) -> tuple[str, str, bool]:
    """The setting of a command that names a configuration, the name, and whether the command cannot be read without."""
    program = str(text.words.get("launcher.program", "")).rpartition("/")[2]
    arguments = text.words.get(ARGUMENTS)
    first = str(arguments[0]) if isinstance(arguments, list) else ""
    alone = program.endswith(".py") and arguments == [first]
    if first.endswith(CONFIGURATIONS) and (program in PROGRAMS or alone):
        return ARGUMENTS, first, program in PROGRAMS
    given = str(text.words.get(OPTION, ""))
    return OPTION, given if given.endswith(CONFIGURATIONS) else "", program == "trl"


def _over(found: Text, command: Text) -> Text:
    """A configuration with the options of a command over it."""
    given = {word: value for word, value in command.words.items() if word not in (OPTION, ARGUMENTS)}
    options = {word if word.startswith("launcher.") else word.replace("-", "_"): value for word, value in given.items()}
    lines = {word: line for word, line in found.lines.items() if word not in options}
    return replace(found, words={**found.words, **options}, lines=lines, repeated=command.repeated)
