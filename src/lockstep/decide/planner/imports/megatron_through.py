"""`through`: what other software says with settings of its own, read as Megatron-LM's options."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.megatron import megatron
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text
from lockstep.describe.workload import Model


def through(
    said: Said, name: str, model: Model | None, options: Mapping[str, object], words: Mapping[str, str]
) -> tuple[Imported, Said]:
    """What options say, and how they were read; `words` names the setting of the file that each option comes from."""
    started = {word: value for word, value in said.values.items() if word.startswith("launcher.")}
    given = {option: value for option, value in options.items() if value is not None} | started
    words = {**words, **{word: word for word in started}}
    lines = {option: said.text.lines[word] for option, word in words.items() if word in said.text.lines}
    text = Text(said.text.file, said.text.shape, given, lines)
    inner = Said(format_of("megatron"), text, ("*",))
    found = megatron(inner, name, model)
    found.software = said.format.name
    for option, word in words.items():
        if option in inner.asked and word in said.format.read:
            said.asked.add(word)
        if option in inner.noted:
            said.noted[word] = inner.noted[option]
    return found, inner
