"""Texts ranked by a question: BM25 over stems, with words that may stand for one another.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), section 3. A field counts by its
weight, before the number of occurrences saturates. A question is a list of concepts, each with the stems that may stand
for it, of which the best counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from lockstep.show.verbs.leads.synonyms import ALIKE, PHRASES, STOP

SATURATION, LENGTH = 1.2, 0.5
"""k1 and b of BM25."""
EXCHANGED = 0.6
"""Weight of a word that stands for the one of the question. This weight, the next two and those of the kinds of leads
were chosen on the questions of tests/verbs/test_find.py."""
ADJACENT = 0.7
"""Weight of two words of the question that stand beside one another in the text."""
MISSING = 0.7
"""Share of its score that a text loses which has none of the question but its commonest word."""
LONGEST_PHRASE = max(len(phrase.split()) for phrase in PHRASES)
NUMBER = re.compile(r"\d+[a-z]{0,2}")
"""A number with or without a unit, which says what a question is about in no text: 8, 70b, 24gb."""
WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ENDINGS = """
ization isation ations ation ities ity izers isers izer iser ized ised izing ising ize ise ments ment ness ies ings ing
edly ers er ed ly es s
"""
ENDINGS = {ending: "y" if ending == "ies" else "" for ending in _ENDINGS.split()}
"""Ending -> what stands in its place; the first that fits counts."""
SHORTEST = 3
"""Letters that a stem keeps."""

Concept = dict[str, float]
"""Stems that may stand for a word of the question -> weight."""


@cache
def stem(word: str) -> str:
    """The word without a common English ending; the same for both sides of a comparison, not always a word."""
    for ending, instead in ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    if len(word) > SHORTEST and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > SHORTEST else word


def stems(text: str) -> list[str]:
    """Stems of the words of a text in order; a word with hyphens is its parts, and one word beside them."""
    found = []
    for word in WORD.findall(text.lower().replace("_", "-")):
        if word.isalnum():
            found += [stem(word)] if word not in STOP else []
        else:
            parts = word.split("-")
            found += [*map(stem, parts), stem("".join(parts))]
    return found


def _pairs(found: Sequence[str]) -> list[str]:
    return [f"{one} {other}" for one, other in pairwise(found)]


class Ranking:
    """Texts, each a list of (weight, text), that questions are held against."""

    def __init__(self, texts: Iterable[Sequence[tuple[float, str]]]) -> None:
        self.counts: list[dict[str, float]] = []
        for fields in texts:
            count: dict[str, float] = defaultdict(float)
            for weight, text in fields:
                found = stems(text)
                for one in (*found, *_pairs(found)):
                    count[one] += weight
            self.counts.append(count)
        self.lengths = [sum(weight for term, weight in count.items() if " " not in term) for count in self.counts]
        self.mean_length = sum(self.lengths) / max(len(self.lengths), 1)
        self.in_texts = Counter(term for count in self.counts for term in count)

    def scores(self, question: str) -> list[float]:
        """How well each text answers the question; 0 where no word of it is there."""
        concepts, pairs = read_question(question)
        concepts = [known for one in concepts if (known := self._known(one))]
        weights = [max(one.values()) * self.rarity(max(one, key=one.__getitem__)) for one in concepts]
        found = []
        for place in range(len(self.counts)):
            parts = [max(self._part(place, term, weight) for term, weight in one.items()) for one in concepts]
            covered = sum(weight for weight, part in zip(weights, parts, strict=True) if part)
            beside = sum(self._part(place, pair, ADJACENT) for pair in pairs)
            share = covered / sum(weights) if covered else 0.0
            found.append((sum(parts) + beside) * (1 - MISSING + MISSING * share) if covered else 0.0)
        return found

    def _known(self, concept: Concept) -> Concept:
        """Those of its stems that are in a text."""
        return {term: weight for term, weight in concept.items() if term in self.in_texts}

    def rarity(self, term: str) -> float:
        """Inverse document frequency of a stem."""
        held = self.in_texts[term]
        return math.log(1 + (len(self.counts) - held + 0.5) / (held + 0.5))

    def _part(self, place: int, term: str, weight: float) -> float:
        """What one stem adds to the score of a text."""
        count = self.counts[place].get(term, 0.0)
        if not count:
            return 0.0
        room = SATURATION * (1 - LENGTH + LENGTH * self.lengths[place] / self.mean_length)
        return weight * self.rarity(term) * count * (SATURATION + 1) / (count + room)


def read_question(question: str) -> tuple[list[Concept], list[str]]:
    """The concepts of a question, and pairs of stems that stand beside one another in it."""
    words = [word for word in WORD.findall(question.lower().replace("_", " ")) if not NUMBER.fullmatch(word)]
    concepts, place = list[Concept](), 0
    while place < len(words):
        lengths = range(min(LONGEST_PHRASE, len(words) - place), 0, -1)
        phrase = next((words[place : place + length] for length in lengths if _is_phrase(words[place:], length)), None)
        if phrase:
            concepts += _meant(phrase)
        elif words[place] not in STOP:
            concepts.append(_concept(words[place]))
        place += len(phrase or (place,))
    return concepts, _pairs(stems(" ".join(words)))


def _is_phrase(words: Sequence[str], length: int) -> bool:
    return " ".join(words[:length]) in PHRASES


def _meant(phrase: Sequence[str]) -> list[Concept]:
    """The concepts for which a phrase stands, which share its weight; a single word may also stand for itself."""
    first, *rest = map(_concept, PHRASES[" ".join(phrase)].split())
    own = [stem(word) for word in phrase if word not in STOP]
    meant = [dict.fromkeys(own, EXCHANGED) | first if len(own) == 1 else first, *rest]
    share = len(meant) ** -0.5
    return [{term: weight * share for term, weight in one.items()} for one in meant]


def _concept(word: str) -> Concept:
    """The stems that may stand for a word: those like it, its parts, and above all its own."""
    parts = word.split("-")
    others = [*_alike().get(stem("".join(parts)), ()), *(stem(part) for part in parts if len(parts) > 1)]
    return dict.fromkeys(others, EXCHANGED) | {stem("".join(parts)): 1.0}


@cache
def _alike() -> dict[str, list[str]]:
    """By stem, those for which it may stand."""
    found: dict[str, list[str]] = {}
    for line in ALIKE:
        together = [stem(word.replace("-", "")) for word in line.split()]
        for one in together:
            found.setdefault(one, []).extend(together)
    return found
