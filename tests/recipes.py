"""Recipes by their options and the habits of their software, in one list of words."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from lockstep.layout import Recipe
from lockstep.stacks import DEFAULT, Habits, Stack, stack

HABITS = {one.name for one in fields(Habits)}
PLAIN = replace(stack(DEFAULT), habits=Habits(), switches={})
"""A software without habits of its own."""


def recipe_by(software: str | Stack = PLAIN, **words: Any) -> Recipe:
    """The recipe of a software, with other options and habits."""
    habits = {word: words.pop(word) for word in HABITS & words.keys()}
    return Recipe.by(stack(words.pop("stack", software)).having(**habits), **words)


def with_words(recipe: Recipe, **words: Any) -> Recipe:
    """The same recipe with other options and habits."""
    habits = {word: words.pop(word) for word in HABITS & words.keys()}
    return replace(recipe, stack=recipe.software.having(**habits), **words)
