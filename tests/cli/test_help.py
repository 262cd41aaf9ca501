"""The help of a verb: a short one that fits on a screen, and one with every option."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cli_runner import run
from lockstep.show.cli.app import build
from lockstep.show.cli.verb import ALL_SHOWN, _shortened
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.option import words_of
from lockstep.show.verbs.words.shared import FIRST, PANELS, SEARCHED
from lockstep.show.views.parts.options import verb_function

COMMANDS: Any = typer.main.get_command(build())
PARAMETERS: dict[str, list[Any]] = {verb: list(COMMANDS.commands[verb].params) for verb in VERBS}
FLAGS = {
    verb: [one.opts[0] for one in every if one.param_type_name == "option" and one.name != "help_all"]
    for verb, every in PARAMETERS.items()
}
LONG = [verb for verb in VERBS if len(FLAGS[verb]) > ALL_SHOWN]
MORE = re.compile(r" (\d+) more options: lockstep ([a-z]+) --help-all lists them\.")


def listed(text: str) -> list[str]:
    """The flags in the boxes of a help text."""
    return re.findall(r"^│ [* ]*(--[a-z0-9-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_help_all_lists_every_option(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    shown = run(verb, "--help-all")
    assert (shown.code, shown.err) == (0, "")
    assert set(listed(shown.out)) - {"--help", "--help-all"} == set(FLAGS[verb])
    panels = {one.rich_help_panel for one in PARAMETERS[verb] if getattr(one, "rich_help_panel", None)}
    assert [panel for panel in panels if f"─ {panel} ─" not in shown.out] == []
    assert "more options" not in shown.out


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in LONG])
def test_the_help_of_a_verb_with_few_options_is_whole(verb: str) -> None:
    shown = run(verb, "--help").out
    assert set(listed(shown)) - {"--help"} == set(FLAGS[verb])
    assert "--help-all" not in shown


@pytest.mark.parametrize("verb", LONG)
def test_the_short_help_fits_on_a_screen_and_counts_the_rest(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(verb, "--help").out.rstrip()
    lines = shown.splitlines()
    assert len(lines) <= (60 if verb == "plan" else 75)
    assert max(map(len, lines)) <= 80
    options = set(listed(shown)) - {"--help", "--help-all"}
    assert {"--json"} < options < set(FLAGS[verb])
    assert "Example" in shown
    told = MORE.fullmatch(lines[-1].rstrip())
    assert told is not None
    assert (int(told[1]), told[2]) == (len(FLAGS[verb]) - len(options), verb)


def test_what_a_newcomer_needs_of_a_plan_is_in_its_short_help() -> None:
    assert {"--cluster", "--batch", "--batch-tokens", "--tokens", "--seq", "--tp", "--dtype", "--for", "--plot"} <= set(
        listed(run("plan", "--help").out)
    )


@pytest.mark.parametrize("verb", LONG)
def test_options_without_which_a_verb_refuses_are_in_its_short_help(verb: str) -> None:
    must = {one.opts[0] for one in PARAMETERS[verb] if one.required and one.param_type_name == "option"}
    assert must <= set(listed(run(verb, "--help").out))


def test_every_name_of_the_table_is_an_option_of_its_class() -> None:
    own = {word.name for verb in LONG for word in words_of(verb_function(verb)) if word.annotation is None}
    own |= {name for verb in LONG for name in import_module(f"lockstep.show.views.{verb}").COMMAND.options(verb)}
    for home, names in FIRST.items():
        assert home is None or home in PANELS
        assert names - (own if home is None else set(home.__annotations__)) == frozenset()


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Bytes per token.", "Bytes per token."),
        ("Pipeline schedule: 1f1b, zb-h1 ... (default: 1f1b)", "Pipeline schedule: 1f1b, zb-h1 ... (default: 1f1b)"),
        ("Tokens, e.g. 15T; adds days. See campaign. (default: none; ever)", "Tokens, e.g. 15T. (default: none; ever)"),
        ("Where it runs. Serial is slow.", "Where it runs."),
    ],
)
def test_a_short_help_has_the_first_clause_of_a_text_and_its_default(text: str, short: str) -> None:
    assert _shortened(SimpleNamespace(help=text)).help == short


def test_help_is_not_an_option_of_the_function_in_python() -> None:
    assert "help_all" not in inspect.signature(verb_function("plan")).parameters


def test_a_flag_with_a_typing_error_is_still_explained_after_a_short_help() -> None:
    """The help leaves options out, the parser and its hints do not."""
    assert "--fused-elementwise" in run("plan", "llama3-8b", "--fused-elementwis", "on").refusal()
    assert "--fused-elementwise" not in run("plan", "--help").out


def test_headings_of_options_fit_on_a_line_of_80_columns() -> None:
    assert {heading for heading in (*PANELS.values(), SEARCHED) if len(heading) > 80 - len("╭─  ─╮")} == set()
