"""Exports of questions drawn at random: what is left to the user comes first, and what is read again is the same."""

import json
from pathlib import Path
from typing import Any, Unpack

import pytest
from export_questions import SEQUENCE, Question, questions

from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.decide.planner.export import TARGETS, version
from lockstep.price.layout import Job, Layout
from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.shared import LayoutWords


@strict
def asked(model: str, cluster: str, layout: Layout | None = None, **words: Unpack[LayoutWords]) -> tuple[Job, Layout]:
    """The job and the layout that `estimate` would price."""
    question, placed = read_asked(model, cluster, layout, dict(words))
    return question.job, placed


BESIDE: dict[str, dict[str, Any]] = {"deepspeed": {"seq": SEQUENCE}, "torchtitan-cli": {"cross_entropy": "chunked"}}
"""What the file has no word for: the length of sequences, and the loss of the configuration in Python."""


def again(one: Question, target: str, file: Path) -> Estimate:
    """The file priced on the cluster of the question."""
    file.write_text(one.text, encoding="utf-8")
    job, layout = asked(f"{one.found.job.model.name}@{file}", one.cluster, **BESIDE.get(target, {}))
    return estimate(job, one.found.cluster, layout)


@pytest.mark.parametrize("target", TARGETS)
def test_an_exported_run_reads_back_with_the_same_price(target: str, tmp_path: Path) -> None:
    """To the last digit: the time of a step, its parts, and the memory of a device."""
    for place, one in enumerate(questions(target)):
        back = again(one, target, tmp_path / f"{place}.txt")
        assert back.job.recipe.batch == one.found.job.recipe.batch
        assert back.step_time_s == one.found.step_time_s, one.text
        assert back.memory.total_B == one.found.memory.total_B, one.text


@pytest.mark.parametrize("target", TARGETS)
def test_export_headers_name_the_version_and_what_is_left_to_the_user(target: str) -> None:
    """Comments come before everything else, and no word of the file comes before them."""
    for one in questions(target):
        if target == "deepspeed":
            document = json.loads(one.text)
            said = document["comment"]
            assert next(iter(document)) == "comment"
        else:
            lines = one.text.splitlines()
            said = [line.removeprefix("# ") for line in lines if line.startswith("#")]
            assert all(line.startswith("#") for line in lines[: len(said)])
        assert said[0] == f"written for {version(target)}"
        assert any(sentence.startswith("left to you: ") for sentence in said)
