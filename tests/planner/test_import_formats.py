"""The tables of formats: they overlap nowhere, say kinds that exist, and the documentation shows them as they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

import configuration_page
import findings_page
from console_blocks import ROOT
from lockstep.decide.planner.imports import READERS
from lockstep.decide.planner.imports.formats import NUMERIC, OR_ANY, Unfit, converted, format_of, keys

SHAPES = {"json", "yaml", "toml", "command", "log", "python"}


@pytest.mark.parametrize("key", keys())
def test_tables_of_formats_use_known_kinds_and_list_each_setting_once(key: str) -> None:
    format = format_of(key)
    kinds = [
        *(kind for kind, *_ in format.read.values()),
        *(kind for kind, *_ in format.left_out.values()),
        *format.harmless.values(),
        *format.yours.values(),
    ]
    for one in {alternative for kind in kinds for alternative in kind.split(" or ")}:
        kind = one.removeprefix("several ")
        assert kind
        assert " " not in kind or NUMERIC.fullmatch(kind) or kind == OR_ANY, kind
    words = [*format.read, *format.left_out, *format.harmless, *format.yours]
    assert len(words) == len(set(words))
    assert set(format.shapes) <= SHAPES


@pytest.mark.parametrize("key", keys())
def test_defaults_have_the_type_of_their_setting(key: str) -> None:
    for word, (kind, _, default) in format_of(key).read.items():
        if default is not None:
            try:
                assert converted(kind, default) == default or isinstance(default, list), word
            except Unfit as error:
                raise AssertionError(f"{word}: {error}") from None


@pytest.mark.parametrize(("one", "other"), [*combinations(keys(), 2)])
def test_formats_of_one_shape_are_distinguished_by_their_own_settings(one: str, other: str) -> None:
    first, second = format_of(one), format_of(other)
    if set(first.shapes) & set(second.shapes) and one != second.extends and other != first.extends:
        assert not set(first.only) & set(second.only)
        # One that is recognised by its program alone is so before words count.
        assert not set(first.only) & set(second.read) or set(second.only) == set(second.programs)
        assert not set(second.only) & set(first.read) or set(first.only) == set(first.programs)


def test_omitted_setting_patterns_state_what_they_change() -> None:
    """With a reader that asks for nothing, each is unknown, and none is refused as misspelled."""
    word = "zero_optimization.zenflow.topk_ratio"
    assert format_of("deepspeed").kind_of(word)[0] == "left out"
    assert format_of("deepspeed").what_is_left_out(word)[0] == "when states in host memory are updated"


def test_every_table_has_a_reader() -> None:
    assert set(READERS) == set(keys())


@pytest.mark.parametrize(
    ("file", "page"), [("configurations.md", configuration_page.page), ("surprises.md", findings_page.page)]
)
def test_pages_of_reference_match_what_they_are_written_from(file: str, page: Callable[[], str]) -> None:
    """After a change: python tools/pages.py --write docs/reference."""
    assert (ROOT / "docs" / "reference" / file).read_text(encoding="utf-8").strip() == page().strip()
