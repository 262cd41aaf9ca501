"""An option is declared once: every keyword of a verb is a flag with the declared words, in the declared place."""

import inspect
from importlib import import_module
from typing import Annotated, Any, TypedDict, Unpack

import pytest

import lockstep
from lockstep.show.cli.app import build
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.verbs.words.option import Argument, Option, Switch, taken, words_of
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.shared import PANELS, LinkWords
from lockstep.show.views.parts.command import verb_function
from lockstep.show.views.parts.options import options_of

OBJECTS = {"layout", "progress"}
"""Keywords that only a program can give."""
SAID_OTHERWISE = {"group": "the experiment's place", "replica_nodes": "the layout"}
"""Keywords for which the command line has another word."""


class Own(TypedDict, total=False):
    """Options of one function."""

    depth: Annotated[Quantity | None, Option("D", "How deep.", panel="Elsewhere")]
    quick: Annotated[bool | None, Switch("Sooner.", True)]


class All(Own, LinkWords, total=False):
    """These and those of a link."""


def asked(
    what: Annotated[str, Argument("WHAT", "The thing.")],
    many: Annotated[list[str] | None, Option("KEY=VALUE", "Pairs.", "--set", repeated=True)] = None,
    *,
    much: Annotated[Quantity, Option("N", "How much.")],
    often: Annotated[Quantity, Option("N", "How often.", "-o")] = 3,
    sure: Annotated[bool, Switch("No doubt.")] = False,
    progress: object = None,
    **words: Unpack[All],
) -> None:
    """Takes every kind of option."""


def shown(option: tuple[Any, Any]) -> Any:
    return option[0].__metadata__[0]


@pytest.mark.parametrize("verb", VERBS)
def test_every_keyword_of_a_verb_is_a_flag(verb: str) -> None:
    function = inspect.unwrap(verb_function(verb))
    flags = set(import_module(f"lockstep.show.views.{verb}").COMMAND.options(verb))
    assert set(keywords(function)) - OBJECTS - set(SAID_OTHERWISE) <= flags
    assert {word.name for word in words_of(function)} - set(SAID_OTHERWISE) <= flags


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_the_declared_texts(verb: str) -> None:
    [command] = [one for one in build([verb]).registered_commands if one.name == verb]
    assert command.callback is not None
    parameters = inspect.signature(command.callback).parameters
    for word in words_of(verb_function(verb)):
        if word.name not in SAID_OTHERWISE:
            said = parameters[word.name].annotation.__metadata__[0].help
            assert said.removesuffix(" (default: on)").removesuffix(" (default: off)") == word.declared.help


def test_options_are_ordered_as_arguments_own_options_and_headings() -> None:
    assert list(options_of(asked)) == [
        "what", "many", "much", "often", "sure", "quick", "depth", "latency", "bandwidth", "cluster",
    ]  # fmt: skip
    panels = {name: getattr(shown(one), "rich_help_panel", None) for name, one in options_of(asked).items()}
    assert panels["depth"] == "Elsewhere"
    assert panels["latency"] == PANELS[LinkWords]
    assert panels["much"] is None


def test_required_arguments_are_required_and_defaults_come_from_the_function() -> None:
    found = options_of(asked)
    assert [name for name, (_, default) in found.items() if default is inspect.Parameter.empty] == ["what", "much"]
    assert found["often"][1] is None
    assert found["quick"][1] is None


def test_flags_are_named_after_keywords_or_as_declared() -> None:
    flags = {name: [shown(one).default, *(shown(one).param_decls or ())] for name, one in options_of(asked).items()}
    assert flags["many"] == ["--set"]
    assert flags["often"] == ["--often", "-o"]
    assert flags["quick"] == ["--quick/--no-quick"]
    assert flags["sure"] == ["--sure"]


def test_option_groups_are_extracted_from_keywords() -> None:
    words = {"latency": "1us", "depth": 2}
    assert taken(words, LinkWords) == {"latency": "1us"}
    assert words == {"depth": 2}


@pytest.mark.parametrize("verb", VERBS)
def test_signatures_name_every_keyword_with_its_type(verb: str) -> None:
    parameters = inspect.signature(getattr(lockstep, verb)).parameters
    assert set(keywords(verb_function(verb))) <= set(parameters)
    assert not any(one.kind is one.VAR_KEYWORD or isinstance(one.annotation, str) for one in parameters.values())


def test_a_search_takes_several_values_of_what_an_estimate_takes_one() -> None:
    for verb, several in (("plan", True), ("estimate", False)):
        found = {one.name: one for one in words_of(verb_function(verb))}
        assert found["tp"].searched is several
        assert found["tp"].declared.help == "Tensor-parallel ranks." + ("" if several else " (default: 1)")
        assert found["order"].declared.help.endswith("(default: tp-cp-ep-dp-pp)")


def test_a_verb_whose_annotations_are_text_is_refused_with_the_reason() -> None:
    def verb(ranks: "int") -> None: ...

    with pytest.raises(TypeError, match="the type of ranks is text; its file must not have `from __future__"):
        keywords(verb)
