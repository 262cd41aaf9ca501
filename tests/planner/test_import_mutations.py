"""A file with one thing wrong is refused at its line, or says what it left out: nothing is accepted in silence.

Every sample of every format is changed in one place: a value of another kind or out of range, a misspelled word, a word
given twice, a value one level too deep. What a right reader does with it follows from the change and from the kind that
the format declares for the word, not from what the reader answers.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.from_file import LOUD
from lockstep.decide.planner.imports import READERS, Imported, recognised
from lockstep.decide.planner.imports.formats import Unfit, converted, format_of
from lockstep.describe.workload import model

FOLDER = Path(__file__).parent / "imports_samples"
SAMPLES = sorted(FOLDER.iterdir())
LINE = re.compile(r"^(?P<before>\s*(?:--)?[\"']?)(?P<word>[A-Za-z_][\w./-]*)(?P<joint>[\"']?\s*(?:[:=]|\s)\s*)"
                  r"(?P<value>[^\s\[{][^,\\{\[]*?)(?P<after>\s*,?\s*\\?)$")  # fmt: skip
EVENT = re.compile(r'^(?P<before>.*"key": ")(?P<word>\w+)(?P<joint>", "value": )(?P<value>[^,{]+)(?P<after>, .*)$')
"""Of an MLPerf log."""
LOGGED = re.compile(r"^(?P<before>\S*\s+)(?P<word>\w+)(?P<joint> \.{3,} )(?P<value>\S.*)(?P<after>)$")
"""Of the arguments that Megatron-LM prints."""
MUTATIONS = 200
"""Of each format; all of them in every run, as a share of them missed a word that was read in silence."""
WRONG = ("[[1]]", "-7.5", "1e99", '"perhaps"', "2.5", "{}", "a" * 5000)
"""Values that few words take, in what all of these formats write alike."""


def said_by(line: str) -> re.Match[str] | None:
    """The word and the value of a line, whatever it is written in."""
    return EVENT.match(line) or LOGGED.match(line) or LINE.match(line)


def lines_of(text: str) -> list[int]:
    """Lines that hold a word and its value, comments left out."""
    return [at for at, line in enumerate(text.splitlines())
            if said_by(line) and not line.lstrip().startswith(("#", "//"))]  # fmt: skip


def misspelled(word: str, draw: random.Random) -> str:
    """A word with a letter left out, twice, or in the place of its neighbour."""
    at = draw.randrange(1, max(2, len(word) - 1))
    return draw.choice([word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:],
                        word[: at - 1] + word[at : at + 1] + word[at - 1] + word[at + 1 :]])  # fmt: skip


def mutated(text: str, draw: random.Random, kind: str) -> tuple[str, str, str]:
    """The text with one thing wrong, the word before, and the word after."""
    lines = text.splitlines()
    at = draw.choice(lines_of(text))
    match = said_by(lines[at])
    assert match is not None
    before, word, joint, value, after = match.group("before", "word", "joint", "value", "after")
    other = word
    if kind == "misspelled":
        other = misspelled(word, draw)
        lines[at] = f"{before}{other}{joint}{value}{after}"
    elif kind == "twice":
        behind = "," if "," in after and match.re is LINE else after
        lines.insert(at, f"{before}{word}{joint}{'0' if value != '0' else '7'}{behind}")
    elif kind == "nested":
        lines[at] = f'{before}{word}{joint}{{"deeper": {value}}}{after}'
    else:
        lines[at] = f"{before}{word}{joint}{draw.choice(WRONG)}{after}"
    return "\n".join(lines) + "\n", word, other


def per_format(sample: Path) -> int:
    """Samples of the same format, which share its mutations."""
    return sum(other.name.partition("-")[0] == sample.name.partition("-")[0] for other in SAMPLES)


def answered(text: str, name: str) -> Imported | None:
    """What a file says; None where it is refused, located, or taken for no configuration at all."""
    try:
        return recognised(text, name, model("llama3-8b"), folder=FOLDER)
    except BadInput as error:
        where = error.where
    assert where is not None, text
    return None


def fits(found: Imported, word: str, value: object) -> bool:
    """Whether the format takes that value for the word."""
    format = next(format_of(key) for key in READERS if format_of(key).name == found.software)
    try:
        converted(format.kind_of(word)[1], value)
    except Unfit:
        return False
    return True


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", ["misspelled", "twice", "nested", "value"])
def test_every_mutation_of_a_file_is_refused_or_reported(sample: Path, kind: str) -> None:
    text, described = sample.read_text(encoding="utf-8"), model("llama3-8b")
    original = recognised(text, sample.name, described, folder=FOLDER)
    assert original is not None
    right = {row.word: row for row in original.table}
    for seed in range(max(2, MUTATIONS // 4 // per_format(sample))):
        changed, word, other = mutated(text, random.Random(f"{sample.name} {kind} {seed}"), kind)
        found = answered(changed, sample.name)
        if found is None:
            continue
        new = [row for row in found.table if row.word not in right or row.value != right[row.word].value]
        gone = [row for row in original.table if row.word not in {one.word for one in found.table}]
        loud = [row for row in found.table if row.kind in LOUD and (row in new or row.kind == "contradictory")]
        harmless = all(row.kind in ("harmless", "yours") or fits(found, row.word, row.value) for row in new)
        assert loud or (new and harmless) or not (new or gone), (kind, word, other, changed)
        if kind == "misspelled":
            assert loud or all(row.kind in ("harmless", "yours") for row in new), (word, other, changed)
