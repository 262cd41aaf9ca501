"""Tables for a person: verdict first, inside the width, no colour where none is wanted."""

import contextlib
from importlib import import_module

import pytest
from rich.cells import cell_len
from test_cli_contract import COMMANDS

from cli_runner import LLAMA, run, shell
from lockstep.price.layout import Job
from lockstep.show.cli import main

SCREEN = 50
"""Lines that a table may take at 80 columns."""


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if verb not in ("export",)])
def test_tables_stay_inside_the_width(verb: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    session = run(*COMMANDS[verb])
    assert session.code == 0
    lines = session.out.splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert "\x1b" not in session.out
    if verb not in ("catalog", "cite"):
        assert len(lines) <= SCREEN


@pytest.mark.parametrize(
    "words",
    [("converge", "summation-error"),
     ("stragglers", "--workers", "4,1024", "--law", "lognormal:mean=50ms,cv=0.2; lognormal:mean=50ms,cv=0.4")],
)  # fmt: skip
def test_titles_break_before_numbers_are_cut(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = run(*words)
    assert found.code == 0
    assert "\u2026" not in found.out
    assert max(cell_len(line) for line in found.out.splitlines()) <= 80


def test_the_plan_prints_its_sections_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    session = run("plan", "llama3-70b", "--cluster", "dgx-h100:64", "--batch-tokens", "4M", "--tokens", "15T")
    parts = ["llama3-70b on 512 x h100-sxm", "in 90 % of cases", "15T tokens take", "Best layouts", "Pareto front"]
    places = [
        session.out.find(part)
        for part in [*parts, "Why other layouts were rejected", "nearest:", "Assumptions", "512 sequences"]
    ]
    assert -1 not in places
    assert places == sorted(places)


def test_image_models_report_images_per_second() -> None:
    assert "images/s" in run("plan", "resnet50", "--cluster", "dgx-a100-80gb", "--batch", "256").out


def test_an_interrupted_search_reports_that_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("lockstep.decide.planner.search")

    real, calls = module._score, []

    def interrupted(*arguments: object) -> None:
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(None)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_score", interrupted)
    session = run("plan", *LLAMA)
    assert session.code == 0
    assert "Stopped early" in session.out
    calls.clear()
    assert run("plan", *LLAMA, "--json").json()["complete"] is False


def test_a_search_interrupted_before_any_result_gives_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("lockstep.decide.planner.search")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_score", interrupted)
    session = run("plan", *LLAMA)
    assert (session.code, session.out) == (130, "")
    assert "interrupted before there was a result" in session.err
    assert "Traceback" not in session.err


def test_a_terminal_without_unicode_gets_ascii() -> None:
    session = shell("estimate", *LLAMA, "--zero", "3", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert session.code == 0
    assert session.out.isascii()


def test_progress_is_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lockstep.show.views.parts import progress as module

    with module.progress("searching") as report:
        report(1, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with module.progress("searching") as report:
        report(1, 10)
        report(10, 10)
    assert "searching" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "words", "title"),
    [
        ("pipeline", ("--stages", "4", "--microbatches", "8"), "building the schedule"),
        ("stragglers", ("--workers", "4", "--law", "exponential:mean=1s", "--mitigation", "bounded:2"), "simulating"),
        ("stragglers", ("--workers", "8", "--law", "exponential:mean=1s"), "simulating"),
        ("stragglers", ("--workers", "4", "--law", "exponential:mean=1s", "--mitigation", "local:4"), "simulating"),
    ],
)
def test_long_commands_show_progress(
    verb: str,
    words: tuple[str, ...],
    title: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from lockstep.show.views.parts import progress as module

    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    silent = run(verb, *words, "--json")
    assert silent.err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with contextlib.suppress(SystemExit):
        main([verb, *words, "--json"])
    watched = capsys.readouterr()
    assert title in watched.err
    assert watched.out == silent.out


def test_an_interrupted_search_over_sizes_reports_that_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("lockstep.decide.planner.search")
    real, sizes = module._score, []

    def interrupted(found: object, job: Job, *rest: object) -> None:
        sizes.append(job.devices)
        if len(set(sizes)) == 4:
            raise KeyboardInterrupt
        real(found, job, *rest)

    monkeypatch.setattr(module, "_score", interrupted)
    answer = run("plan", *LLAMA, "--objective", "cost", "--json").json()
    assert answer["complete"] is False
    assert answer["gpus"] < sizes[-1]
