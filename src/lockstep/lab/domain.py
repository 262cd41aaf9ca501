"""`Domain`: the settings for which a check holds. Every `Check` has one, so that nobody adds a check without asking.

ALWAYS                                              every setting that the experiment takes
when(settings.delay > 0, "a delay")                 some of them; elsewhere the check is left out and says so
example("a = 0.08, momentum 0.9")                   a problem with numbers of its own, which no setting moves
example("T = 400", when_asked=settings.steps == 400)   what is printed about one choice of the settings
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
    """For which settings a check holds.

    `here`: whether the settings of this run are among them; `example`: whether it is about one problem with numbers of
    its own, such as one that is printed somewhere.
    """

    words: str
    here: bool = True
    example: bool = False

    def __and__(self, other: Domain) -> Domain:
        """The settings for which both hold."""
        return Domain(f"{self.words}; {other.words}", self.here and other.here, self.example or other.example)


ALWAYS = Domain("all settings")


def when(here: bool, words: str) -> Domain:
    """Settings that fulfil a condition: `here` whether those of this run do, `words` the condition itself."""
    return Domain(words, bool(here))


def example(words: str, *, when_asked: bool = True) -> Domain:
    """One problem, with the numbers in `words`; `when_asked` is false where it depends on settings that are others."""
    return Domain(words, bool(when_asked), example=True)
