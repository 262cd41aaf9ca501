"""`lockstep find`: a newcomer's questions, leads that can be followed, and the ranking against its formula."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from typing import Any, cast

import pytest
import typer

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.check.evidence.claims.shelf import entries
from lockstep.check.validation.cases import names as studies
from lockstep.learn.lab.experiment import EXPERIMENTS, find_experiment
from lockstep.learn.lab.facts import facts
from lockstep.show.cli.app import build
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.leads.index import KINDS, ROOT, Lead, leads
from lockstep.show.verbs.leads.ranking import LENGTH, SATURATION, Ranking, stem, stems
from lockstep.show.verbs.leads.synonyms import ALIKE, PHRASES, STOP

QUESTIONS = {
    "parameter server": {"A.11", "C.11", "E6"},
    "how much does local SGD save": {"local-period", "docs/learn/convergence.md", "A.9", "B.7"},
    "does it fit": {"memory"},
    "will a 70B model fit on 8 H100": {"memory", "plan", "docs/learn/memory.md"},
    "my run is slow": {"diagnose"},
    "what GPU should I buy": {"sensitivity"},
    "cost of checkpoints": {"checkpoint"},
    "ZeRO": {"--zero"},
    "MFU": {"estimate"},
    "out of memory": {"memory"},
    "which model can I train on one 4090": {"memory"},
    "what can I train on this machine?": {"memory", "docs/use/fine-tune.md"},
    "how long will training take": {"campaign"},
    "how many GPUs do I need": {"scaling"},
    "which layout is best for my model": {"plan"},
    "what does a pipeline bubble cost": {"docs/learn/pipelines.md"},
    "does asynchronous SGD converge": {"T3", "B.5"},
    "gradient compression": {"docs/learn/compression.md"},
    "can I trust the predictions?": {"validate"},
    "ring or tree all-reduce": {"C.4", "docs/learn/collectives.md"},
    "how often should I save a checkpoint": {"checkpoint"},
    "fine-tune with LoRA on one card": {"docs/use/fine-tune.md"},
    "generate a Megatron config": {"export"},
    "my own cluster": {"docs/use/own-hardware.md"},
    "benchmark NCCL": {"bench"},
    "what happens when a node fails": {"checkpoint", "campaign"},
    "is fp8 worth it": {"--dtype"},
    "critical batch size": {"critical-batch"},
    "how are experts balanced": {"experts"},
    "Which papers is this based on": {"cite"},
    "slow workers": {"stragglers"},
    "two runs with the same seed differ": {"reproduce"},
    "list of models": {"catalog"},
}
"""Question -> leads of which one must be among the first three."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_leads_to_what_answers_it(question: str) -> None:
    found = [lead.name for lead in lockstep.find(question).leads[:3]]
    assert QUESTIONS[question] & set(found), found


def of_kind(kind: str) -> list[Lead]:
    return [one for one in leads() if one.kind == kind]


def test_everything_that_is_there_can_be_found() -> None:
    assert {one.kind for one in leads()} == set(KINDS)
    assert [one.name for one in of_kind("command")] == list(VERBS)
    assert {one.name for one in of_kind("claim")} == {one.id for one in entries()}
    assert {one.name for one in of_kind("fact")} == {one.id for one in facts()}
    assert {one.name for one in of_kind("case")} == set(studies())
    assert {one.name: one.says for one in of_kind("experiment")} == {
        name: find_experiment(name).question for name in EXPERIMENTS
    }


def test_the_pages_are_there() -> None:
    assert len(of_kind("page")) > 40
    root = ROOT.parents[1]
    assert [one.name for one in of_kind("page") if not (root / one.name).is_file()] == []


def test_the_commands_to_type_have_flags_that_exist() -> None:
    group = cast(Any, typer.main.get_command(build()))
    for lead in leads():
        if not lead.command:
            assert lead.kind == "page"
            continue
        _, verb, *words = shlex.split(lead.command)
        flags = {flag for one in group.commands[verb].params for flag in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= {*flags, "--help"}, lead.command
        assert lead.kind != "option" or lead.name in words


def test_every_option_that_a_function_declares_can_be_found() -> None:
    known = {one.name for one in of_kind("option")}
    group = cast(Any, typer.main.get_command(build(["plan", "estimate", "campaign", "train"])))
    shown = {flag for verb in ("plan", "campaign", "train") for one in group.commands[verb].params for flag in one.opts}
    of_views = {"--json", "--csv", "--plot", "--html", "--card", "--help-all", "--export", "--engine", "--store"}
    assert {flag for flag in shown if flag.startswith("--")} - of_views <= known


@pytest.mark.parametrize("question", ["qwertz uiop", "the and is", "???", "8 70b"])
def test_nothing_found_says_where_to_look_and_is_a_no(question: str) -> None:
    shown = run("find", question)
    assert shown.code == 1
    assert "lockstep --help" in shown.out
    assert run("find", question, "--json").json() == {"question": question, "leads": []}


def test_no_words_are_no_question() -> None:
    for words in ((), ("",), (" ", "")):
        with pytest.raises(BadInput, match="WORDS"):
            lockstep.find(*words)
    assert "WORDS" in run("find").refusal()


def test_quotes_case_and_marks_make_no_difference() -> None:
    one = lockstep.find("does it fit").leads
    assert one == lockstep.find("does", "it", "fit").leads == lockstep.find("DOES it (really) fit?!").leads
    assert run("find", "does", "it", "fit").out == run("find", "does it fit").out


def test_the_answer_is_ordered_and_as_long_as_asked() -> None:
    found = lockstep.find("checkpoint", top=30)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    assert lockstep.find("checkpoint", top=2).leads == found.leads[:2]
    assert "--top" in run("find", "checkpoint", "--top", "0").refusal()


def test_an_answer_has_a_line_to_type_and_fits_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("find", "cost", "of", "checkpoints").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "lockstep checkpoint --help" in shown
    assert "docs/use/checkpoint.md" in shown


def test_finding_loads_no_library_for_computing() -> None:
    code = (
        "import sys, lockstep; lockstep.find('does it fit');"
        "print([name for name in ('numpy', 'scipy', 'torch', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words",
    ["checkpoint checkpoints checkpointing checkpointed", "shard shards sharding sharded", "fail fails failing failed",
     "optimizer optimizers optimize", "overlap overlaps overlapping overlapped", "delay delays delayed",
     "batch batches", "company companies", "slow slower", "loss losses"],
)  # fmt: skip
def test_inflections_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1, [stem(word) for word in words.split()]


def test_words_of_different_things_keep_their_stems_apart() -> None:
    words = {"memory", "message", "model", "mode", "node", "trace", "track", "rank", "rate", "step", "stage", "state"}
    assert len({stem(word) for word in words}) == len(words)


def test_a_hyphenated_word_is_found_by_its_parts_and_as_one_word() -> None:
    ranking = Ranking([[(1.0, "an all-reduce of gradients")], [(1.0, "a broadcast of weights")]])
    for question in ("all-reduce", "allreduce"):
        first, second = ranking.scores(question)
        assert first > second == 0


def test_one_word_scores_as_the_formula_says() -> None:
    """BM25 by hand: two of three texts have the word, once and twice; stop words do not count."""
    texts = ["the gradients of a ring", "gradients, gradients: sums", "a tree"]
    lengths, counts = [2, 3, 1], [1, 2, 0]
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = [
        rarity * count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length / 2))
        for count, length in zip(counts, lengths, strict=True)
    ]
    assert Ranking([[(1.0, text)] for text in texts]).scores("gradient") == pytest.approx(expected)


def test_a_text_with_all_words_comes_before_one_with_a_rare_word_alone() -> None:
    texts = ["optimal ring cost", "ring", "cost of a tree", "cost of a mesh", "ring ring ring"]
    scores = Ranking([[(1.0, text)] for text in texts]).scores("what does a ring cost")
    assert max(scores) == scores[0]


def test_tables_of_words_are_tidy() -> None:
    assert [one for line in ALIKE for one in line.split() if one in STOP] == []
    assert [phrase for phrase in PHRASES if phrase != " ".join(phrase.lower().split())] == []
    known = {term for lead in leads() for _, text in lead.fields() for term in stems(text)}
    meant = {words: {term for word in words.split() for term in stems(word)} for words in PHRASES.values()}
    assert {words: terms - known for words, terms in meant.items() if not terms & known} == {}
    assert [words for words in PHRASES.values() if set(words.split()) & STOP] == []
