"""Answers in one HTML file and in notebooks: all that the command prints, nothing that runs, names shown as text."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_programs.questions import COMMANDS
from cli_runner import LLAMA, run
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_size
from lockstep.show.verbs import VERBS
from lockstep.show.views.parts import ranks
from lockstep.show.views.parts.notebook import LONGEST, SHOWN, VIEWS

QUESTIONS: dict[str, tuple[str, ...]] = {
    **COMMANDS,
    "plan": ("plan", *LLAMA, "--tokens", "1T"),
    "estimate": ("estimate", *LLAMA, "--pp", "2", "--no-flash"),
    "memory": ("memory", *LLAMA, "--pp", "2", "--recompute", "full"),
    "guide": ("guide", *LLAMA),
    "roofline": ("roofline", *LLAMA),
    "sensitivity": ("sensitivity", *LLAMA),
    "cite": ("cite", *LLAMA, "--bibtex"),
    "export": ("export", *LLAMA, "--to", "torchtitan"),
    "campaign": ("campaign", *LLAMA, "--tokens", "1G", "--device-mtbf", "1y"),
    "speedup": ("speedup", "--compute", "10s", "--size", "200MB", "--latency", "5us", "--bandwidth", "25GB/s"),
    "converge": ("converge", "delay-stability", "--set", "delays=0,1,5"),
    "experiments": ("converge",),
    "choices": ("pipeline", "--stages", "4", "--microbatches", "8,16", "--schedule", "all"),
    "rows": ("collective", "all-reduce", "--ranks", "8,16", "--size", "1MB", *COMMANDS["crossover"][-4:]),
    "catalog": ("catalog", "devices"),
    "stack": ("stack", "torchtitan", "hf-trainer"),
    "support": ("support",),
    "find": ("find", "does", "it", "fit"),
}  # fmt: skip
EMPTY = {"meta", "use", "path", "rect", "br", "img", "link", "input"}


class Page(HTMLParser):
    """Text, tags and attributes of a page; what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words, self.tags, self.attributes, self.open = "", [], [], []  # type: ignore[var-annotated]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


def letters(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_html_page_contains_the_printed_answer(name: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.html"
    session = run(*QUESTIONS[name], "--html", str(file))
    assert session.code in (0, 1), session.err
    page = Page(file.read_text(encoding="utf-8"))
    assert page.open == []
    assert file.stat().st_size < 1_000_000
    said = letters(page.words)
    # What a terminal cuts or draws to its width is drawn anew.
    lines = [line for line in session.out.splitlines() if not re.search(r"[│┤├└┘…]|more with --json", line)]
    missed = [word for line in lines for word in line.split() if letters(word.strip("-")) not in said]
    assert missed == []
    assert not {"script", "iframe", "object", "embed", "link", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    named = [str(value) for name, value in page.attributes if name in ("href", "src", "xlink:href")]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in named)


@pytest.mark.parametrize("name", ["plan", "estimate", "collective", "converge"])
def test_the_command_on_a_page_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    file, again = tmp_path / "answer.html", tmp_path / "again.html"
    session = run(*QUESTIONS[name], "--html", str(file))
    command = re.split("In a shell|In Python", Page(file.read_text(encoding="utf-8")).words)[1].strip()
    repeated = run(*shlex.split(command)[1:], "--html", str(again))
    assert repeated.out == session.out
    assert again.read_bytes() == file.read_bytes()


def test_the_call_on_a_page_gives_the_same_answer(tmp_path: Path) -> None:
    file = tmp_path / "answer.html"
    run("estimate", *LLAMA, "--pp", "2", "--no-flash", "--html", str(file))
    words = Page(file.read_text(encoding="utf-8")).words
    call = re.search(r"lockstep\.estimate\((.*?)\)", words)
    assert call is not None
    found = eval(f"lockstep.estimate({call[1]})", {"lockstep": lockstep})
    assert found.to_dict() == lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, pp=2, flash=False).to_dict()


def test_the_call_leaves_out_what_the_command_line_alone_takes(tmp_path: Path) -> None:
    """Files beside the answer are no keywords of the library, and its call must run as it is written."""
    file = tmp_path / "page.html"
    more = ("--trace", str(tmp_path / "step.json.gz"), "--machine", str(tmp_path / "m.svg"), "--moment", "40%")
    asked = ("estimate", "gpt2", "-c", "dgx-h100:1", "--batch", "64", *more)
    assert run(*asked, "--html", str(file)).code == 0
    call = re.split("In Python", Page(file.read_text(encoding="utf-8")).words)[1]
    assert "lockstep.estimate(model='gpt2', cluster='dgx-h100:1', batch='64')" in call


def test_a_report_contains_the_answers_of_the_verbs(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    session = run("report", "gpt2", "--cluster", "dgx-h100:1", "--batch", "64", "--tokens", "1G", "-o", str(file))
    assert session.code == 0, session.err
    page = Page(file.read_text(encoding="utf-8"))
    said = letters(page.words)
    plan = lockstep.plan("gpt2", "dgx-h100:1", batch=64, tokens="1G")
    for answer in (
        plan,
        plan.best,
        lockstep.memory("gpt2", "dgx-h100:1", plan.best.layout, batch=64),
        lockstep.cite(plan.best),
    ):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", answer._repr_mimebundle_()["text/html"])
        assert cells
        assert [cell for cell in cells if letters(Page(cell).words) not in said] == []
    assert letters("Ranks by node" + ranks.note(plan.best)) in said
    assert letters("".join(cell for row in ranks.rows(plan.best) for cell in row)) in said
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == 3
    targets = {value for name, value in page.attributes if name == "id"}
    assert {str(value)[1:] for name, value in page.attributes if name == "href" and "part" in str(value)} <= targets
    command = re.split("In a shell|In Python", page.words)[1].strip()
    assert command.startswith("lockstep report gpt2")
    assert command.endswith("--out report.html")
    saved = tmp_path / "saved.html"
    plan.save(saved)
    assert letters(Page(saved.read_text(encoding="utf-8")).words)
    assert run("report", "gpt2", "--cluster", "dgx-h100:1", "--batch", "64").refusal().startswith("--out: ")
    assert run("report", "gpt2", "-c", "dgx-h100:1", "--batch", "64", "-o", "x.pdf").refusal().startswith("--out: ")


TOO_LARGE = ("llama3-70b", "-c", "dgx-h100:1", "--batch", "8")


def test_what_does_not_fit_is_written_with_what_would_help(tmp_path: Path) -> None:
    """By a report, and by every verb that is asked for a file; a report may be asked either way."""
    for verb, option in (("report", "-o"), ("report", "--html"), ("plan", "--html")):
        file = tmp_path / f"{verb}{option}.html"
        session = run(verb, *TOO_LARGE, option, str(file))
        assert session.code == 1
        page = Page(file.read_text(encoding="utf-8"))
        assert page.tags.count("h1") == 1
        for part in (
            "llama3-70b does not fit on 8 x h100-sxm",
            "What would help",
            "--offload optimizer",
            "More devices",
        ):
            assert letters(part) in letters(page.words)
            assert letters(part) in letters(session.err)
        assert f"lockstep {verb} llama3-70b" in page.words
    fits = tmp_path / "fits.html"
    assert run("report", "gpt2", "-c", "dgx-h100:1", "--batch", "64", "--html", str(fits)).code == 0
    assert "gpt2" in Page(fits.read_text(encoding="utf-8")).words


def test_a_report_notes_a_step_too_long_to_simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of many micro-batches is not simulated, and everything else is there."""
    asked = ("report", *LLAMA, "--pp", "2", "-o")
    whole, rest = tmp_path / "whole.html", tmp_path / "rest.html"
    assert run(*asked, str(whole)).code == 0
    monkeypatch.setattr(sys.modules["lockstep.decide.planner.estimate"], "MOST_PASSES", 1)
    assert run(*asked, str(rest)).code == 0
    pages = [Page(file.read_text(encoding="utf-8")) for file in (whole, rest)]
    assert ["too long to be drawn" in page.words for page in pages] == [False, True]
    assert pages[0].tags.count("svg") == pages[1].tags.count("svg") + 1
    assert "Every layout" in pages[1].words


def test_text_in_a_picture_is_text(tmp_path: Path) -> None:
    file = tmp_path / "answer.html"
    run(*QUESTIONS["pipeline"], "--html", str(file))
    page = Page(file.read_text(encoding="utf-8"))
    assert {"svg", "text"} <= set(page.tags)
    (named,) = [str(value) for name, value in page.attributes if name == "aria-labelledby"]
    assert {*named.split()} <= {str(value) for name, value in page.attributes if name == "id"}
    assert "time, seconds" in page.words
    assert page.words.count("rank 3 compute") >= 1


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_a_hostile_name_is_shown_as_text(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
        "intermediate_size": 2048, "vocab_size": 1000, "_name_or_path": HOSTILE,
    }  # fmt: skip
    model, file = tmp_path / "config.json", tmp_path / "answer.html"
    model.write_text(json.dumps(config), encoding="utf-8")
    run("plan", str(model), "--cluster", "dgx-h100:1", "--batch", "8", "--html", str(file))
    page = Page(file.read_text(encoding="utf-8"))
    assert "alert(1)" in page.words
    assert not {"script", "img"} & set(page.tags)


@pytest.mark.parametrize("name", ["a.txt", "no/such/folder.html"])
def test_an_unwritable_html_path_is_refused(name: str, tmp_path: Path) -> None:
    assert run(*QUESTIONS["messages"], "--html", str(tmp_path / name)).refusal().startswith("--html: ")


ANSWERS: dict[str, Any] = {
    "plan": lambda: lockstep.plan("llama3-70b", "dgx-h100:8", batch=128, tokens="15T"),
    "estimate": lambda: lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64),
    "memory": lambda: lockstep.memory("llama3-8b", "dgx-h100:2", batch=64),
    "rows": lambda: lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, micro_batch=[1, 2]),
    "pipeline": lambda: lockstep.pipeline(stages=4, microbatches=8),
    "catalog": lambda: lockstep.catalog("devices"),
    "messages": lambda: lockstep.messages(workers=8, params="25M"),
    "findings": lambda: lockstep.converge("delay-stability", {"delays": "0,1,5"}),
    "crossover": lambda: lockstep.crossover("all-reduce", ranks=8, latency="5us", bandwidth="25GB/s"),
    "rank": lambda: lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64).memory,
    "timeline": lambda: lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, pp=4).timeline(),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_notebook_shows_an_answer(name: str) -> None:
    answer = ANSWERS[name]()
    assert 0 < len(repr(answer)) <= LONGEST
    shown = answer._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    assert shown["text/plain"] == repr(answer)
    page = Page(shown["text/html"])
    assert page.open == []
    assert letters(repr(answer).removesuffix(" ...")) in letters(page.words)
    only = answer._repr_mimebundle_(include=["application/json"])
    assert json.loads(json.dumps(only["application/json"], allow_nan=False)) == only["application/json"]
    assert set(answer._repr_mimebundle_(exclude=["text/html"])) == {"text/plain"}


def test_rows_are_those_of_the_json() -> None:
    plan = ANSWERS["plan"]()
    rows = plan.table()
    assert [row["step_time_s"] for row in rows] == [one["step_time_s"] for one in plan.to_dict()["plans"]]
    assert [row["layout.tp"] for row in rows] == [one.layout.tp for one in plan.plans]
    (alone,) = ANSWERS["estimate"]().table()
    assert alone["memory.total_B"] > 0
    with pytest.raises(UnknownName, match="pandas"):
        plan.table("panda")
    with pytest.raises(BadInput, match="no picture"):
        lockstep.cite().plot()
    assert len(plan.plot().axes) == 2


def test_parts_of_answers_have_rows_and_pictures() -> None:
    """The memory of a rank and a timeline, which people hold in their hands too."""
    one = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, pp=4)
    assert one.memory.plot().axes
    assert one.timeline().plot().axes
    assert f"{format_size(float(one.memory.total_B))} of {format_size(one.memory.capacity_B)}" in repr(one.memory)
    assert repr(one.timeline()) == str(one.timeline())
    assert one.memory.table() == [one.memory.to_dict()]
    assert [row["exposed_s"] for row in one.timeline().table()] == one.timeline().exposed_s.tolist()
    many = replace(one.memory, parameters_B=np.array([1.0, 2.0]))
    assert "2 layouts" in repr(many)
    with pytest.raises(BadInput, match="one layout"):
        many.plot()


def test_every_answer_of_a_verb_shows_itself() -> None:
    """Each class named in what a verb returns has a view, and each view that is named exists."""
    for name, view in VIEWS.items():
        assert hasattr(import_module(f"lockstep.show.views.{view}"), "COMMAND"), name
    for view, render, picture in SHOWN.values():
        module = import_module(f"lockstep.show.views.{view}")
        assert callable(getattr(module, render))
        assert not picture or callable(getattr(module, picture))
    known = set()
    for name in (*VIEWS, *SHOWN):
        module, _, kind = name.rpartition(".")
        found = getattr(import_module(module), kind)
        assert issubclass(found, Shown)
        assert found.__repr__ is Shown.__repr__, name
        known.add(kind)
    protocols = {"RunsAnswer", "SweepsAnswer"}
    for verb in VERBS:
        function = inspect.unwrap(getattr(import_module(f"lockstep.show.verbs.{verb}"), verb))
        returned = function.__annotations__["return"]
        named = returned if isinstance(returned, str) else getattr(returned, "__name__", str(returned))
        classes = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", named)} - protocols
        assert classes <= known, verb
