"""`commands`: the commands of a shell script or a pasted command line that have options, each as a `Text`.

    tensor-model-parallel-size        the value of --tensor-model-parallel-size: True, a text, or a list of texts
    launcher.nproc_per_node           an option of what starts the run, launcher.program and launcher.subcommand too
    launcher.arguments                words behind the program that are no options
    model.hidden_size                 an override model.hidden_size=4096, with + or ++ before it or not

Lines that hold options alone are one command. An option that is given twice with another value is `repeated`; one that
needs a variable which the script does not set has an `Unset` value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lockstep.decide.planner.imports.launchers import TORCHRUN, launched
from lockstep.decide.planner.imports.shell import Shell, Word, lines_of, script_shell, whole
from lockstep.decide.planner.imports.text import Text, Unset

OPTION = re.compile(r"--[A-Za-z]")
SHORT = re.compile(r"-[A-Za-z][\w-]*")
OVERRIDE = re.compile(r"(?:\+\+|\+|~)?([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
WHOLE_VARIABLE = re.compile(r"\$\{?(\w+)(?:\[[@*]\])?\}?")
HOLDS_OPTIONS = re.compile(r"arg|opt|param|flag|config|cmd|setting|extra", re.IGNORECASE)
"""Names of variables that hold options rather than a value."""
PRINTS = ("echo", "printf", "cat", "tee", "log", "print")
CONFIGURATIONS = (".yaml", ".yml", ".json")
"""Files that a command may take in place of options."""
SHELLS = ("bash", "sh", "zsh")
MOST_NESTED = 4
"""Scripts within a word of a script."""
MOST_COMMANDS = 20_000


def commands(text: str, file: str) -> tuple[Text, ...]:
    """The commands with options in a text, in its order. Raises BadInput located at its line."""
    shell = script_shell(text, file)
    found: list[list[Word]] = []
    for words in _commands(shell, lines_of(text), 0):
        options = any(OPTION.match(one.text) or OVERRIDE.fullmatch(one.text) or one.text.endswith(CONFIGURATIONS)
                      for one in words)  # fmt: skip
        if len(found) >= MOST_COMMANDS:
            raise shell.refuse(f"has more than the {MOST_COMMANDS} commands allowed", words[0].line)
        if words[0].text.startswith("--") and found and found[-1]:
            _continue(shell, found, words)
        elif words[0].text not in PRINTS:
            found.append(words if options else [])
    texts = tuple(_text(one, shell, text) for one in found if one)
    return texts or _unused(shell, text)


def _commands(shell: Shell, pieces: Sequence[Word], depth: int) -> Iterator[list[Word]]:
    """The commands in pieces, and those in a text that a command hands to another shell."""
    for parts in shell.commands(pieces, depth):
        words = [whole(one) for one in parts]
        handed = _handed(words)
        if handed is None or depth >= MOST_NESTED:
            yield words
            continue
        before, inner = words[: handed[0]], parts[handed[1] : handed[2]]
        # Piece by piece, so that a variable without a value leaves the words around it as they are.
        text = [piece for one in inner for piece in (*one, Word(" ", words[0].line))]
        for other in _commands(shell, text, depth + 1):
            yield [*before, *other]


def _handed(words: Sequence[Word]) -> tuple[int, int, int] | None:
    """Where `eval` or `bash -c` stands, and where the text that it runs begins and ends."""
    if words[0].text == "eval":
        return 0, 1, len(words)
    for place, word in enumerate(words):
        at = place + 1
        while word.text.rpartition("/")[2] in SHELLS and at < len(words) - 1 and words[at].text.startswith("-"):
            at += 1
            if re.fullmatch(r"-\w*c", words[at - 1].text):
                return place, at, at + 1
    return None


def _continue(shell: Shell, found: list[list[Word]], words: list[Word]) -> None:
    """Adds a line of options to the lines before it."""
    if not found[-1][0].text.startswith("--"):
        raise shell.refuse(
            f"{words[0].text} begins a command: a backslash is missing at the end of a line before it, or a comment "
            "stands between the options",
            words[0].line,
        )
    found[-1] += words


def _unused(shell: Shell, text: str) -> tuple[Text, ...]:
    """The options in variables that no command uses, as in a file that other scripts read."""
    words: list[Word] = []
    for name in tuple(shell.unused):
        for part in shell.variables[name]:
            for command in _commands(shell, [*part, Word("\n", 1)], MOST_NESTED):
                words += command if command[0].text.startswith("--") else []
    return (_text(words, shell, text),) if words else ()


def _text(words: list[Word], shell: Shell, raw: str) -> Text:
    """A command as words with values."""
    starts, rest = launched(words)
    if "name" in starts and starts["name"].text == "srun":
        # Without options of its own it has those of the batch script.
        for name, set_by in (("nodes", "SLURM_NNODES"), ("ntasks_per_node", "SLURM_NTASKS_PER_NODE")):
            if (value := shell.value(set_by)) is not None and "ntasks" not in starts:
                starts.setdefault(name, whole(value[0]))
    found = _Options({}, {}, {}, {})
    for name, word in starts.items():
        found.add(f"launcher.{name}", [word], word)
    arguments: list[Word] = []
    place = 0
    while place < len(rest):
        word, place = rest[place], place + 1
        values: list[Word] = []
        if OPTION.match(word.text) or SHORT.fullmatch(word.text):
            before = [word] if "=" in word.text else values
            while place < len(rest) and _is_value(rest[place], before):
                values.append(rest[place])
                place += 1
            found.option(word, values, fragment=not starts)
        elif (override := OVERRIDE.fullmatch(word.text)) is not None:
            found.override(override[1], replace(word, text=override[2]))
        elif word.unset and (variable := WHOLE_VARIABLE.fullmatch(word.text)) and starts:
            found.add(f"${variable[1]}", [word], word)
        elif word.text != "--":
            arguments.append(word)
    if arguments:
        found.add("launcher.arguments", arguments, arguments[0], several=True)
    return Text(shell.file, "command", found.words, found.lines, found.repeated, raw, found.branched)


def _is_value(word: Word, before: Sequence[Word]) -> bool:
    """Whether a word belongs to the option before it."""
    if OPTION.match(word.text) or SHORT.fullmatch(word.text) or word.text == "--":
        return False
    if word.unset and (variable := WHOLE_VARIABLE.fullmatch(word.text)) is not None:
        return not before and HOLDS_OPTIONS.search(variable[1]) is None
    return not before or OVERRIDE.fullmatch(word.text) is None


class _Options:
    """Words while a command is read."""

    def __init__(self, words: dict[str, object], lines: dict[str, int], repeated: dict[str, str],
                 branched: dict[str, str]) -> None:  # fmt: skip
        self.words, self.lines, self.repeated, self.branched = words, lines, repeated, branched

    def option(self, word: Word, values: list[Word], fragment: bool = False) -> None:
        """Adds an option with the words behind it; in a fragment without a program it may be one of torchrun's."""
        name, joined, given = word.text.partition("=")
        if joined:
            values = [replace(word, text=given), *values]
        bare = name.removeprefix("--")
        starts = fragment and bare.replace("-", "_") in TORCHRUN
        self.add(f"launcher.{bare.replace('-', '_')}" if starts else bare, values, word)

    def override(self, name: str, word: Word) -> None:
        """Adds an override, whose value is written as in YAML."""
        if word.text in ("null", "None") or not word.text:
            self.words[name], self.lines[name] = None, word.line
        elif word.text[0] == "[" and word.text[-1] == "]":
            parts = [one.strip(" '\"") for one in word.text[1:-1].split(",")]
            self.add(name, [replace(word, text=one) for one in parts if one], word, several=True)
        else:
            self.add(name, [word], word)

    def add(self, name: str, values: list[Word], word: Word, several: bool = False) -> None:
        """Adds a word with its values."""
        texts = [one.text for one in values]
        value: object = True if not values else texts if several or len(values) > 1 else texts[0]
        if any(one.unset for one in values):
            value = Unset(" ".join(texts))
        if name in self.words and self.words[name] != value:
            self.repeated.setdefault(name, str(self.words[name]))
        doubt = next((one.doubt for one in (word, *values) if one.doubt is not None), None)
        if doubt is not None:
            self.branched[name] = doubt
        else:
            self.branched.pop(name, None)
        self.words[name], self.lines[name] = value, word.line
