"""What people type into a field, as the word of a verb that they mean.

`4,000,000`, `4 000 000` and `4M tokens` are one number, as a screen takes no lists; `512 H100` is `dgx-h100:64`. What
is not understood stays as it is, for the verb to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.base.errors import BadInput
from lockstep.base.units import SCALES

TOKENS, SEQUENCES = ("tokens", "token", "tok"), ("sequences", "sequence", "seqs", "samples", "sample", "examples")
NOUNS: Mapping[str, tuple[str, ...]] = {
    "batch_tokens": TOKENS,
    "tokens": TOKENS,
    "seq": TOKENS,
    "sample_tokens": TOKENS,
    "batch": SEQUENCES,
    "samples": SEQUENCES,
    "epochs": ("epochs", "epoch", "passes", "times"),
    "gpus": ("gpus", "gpu", "devices"),
    "tokens_per_s": ("tokens/s", "tok/s", "tokens per second"),
    "spares": ("nodes", "node"),
}
"""What a field counts, in the words that people put behind the number."""
GROUPED = re.compile("\\d{1,3}([,.' _\u00a0\u202f\u2009])\\d{3}(?:\\1\\d{3})*(?!\\d)")
"""Digits in groups of three."""
NUMBER = re.compile(r"([\d.]+(?:[eE][+-]?\d+)?)\s*(.*)")
LETTERS = {**dict(zip(SCALES, "kMBT", strict=True)), "mio": "M", "mn": "M", "bn": "B", "tn": "T"}


def typed(words: Mapping[str, str]) -> dict[str, str]:
    """Words of an address as a verb takes them."""
    return {name: _typed(name, value.strip()) for name, value in words.items()}


def _typed(name: str, value: str) -> str:
    if name == "cluster":
        return _cluster(value)
    if name == "price":
        return value.removeprefix("$").strip()
    found = NUMBER.fullmatch(GROUPED.sub(_joined, value)) if name in NOUNS else None
    if found is None:
        return value
    digits, rest = found.groups()
    noun = next((one for one in NOUNS[name] if rest.lower().endswith(one)), "")
    scale = rest.removesuffix(rest[len(rest) - len(noun) :]).strip()
    letter = LETTERS.get(scale.lower(), scale)
    return f"{digits}{letter}" if len(letter) <= len("Mi") else value


def _joined(group: re.Match[str]) -> str:
    """Digits without what stands between groups; one group behind a point is a fraction."""
    return group[0] if group[1] == "." and group[0].count(".") == 1 else re.sub(r"\D", "", group[0])


def _cluster(value: str) -> str:
    from lockstep.describe.hardware.meant import meant
    from lockstep.show.views.parts.completing import clusters

    return value if value.partition(":")[0] in clusters() else meant(value) or value


def refuse_other(name: str, value: str, where: str) -> None:
    """Raises BadInput for a number of what another field counts."""
    last, own = value.rpartition(" ")[2].lower(), NOUNS.get(name, ())
    if own in (TOKENS, SEQUENCES) and last in (*TOKENS, *SEQUENCES) and last not in own:
        raise BadInput(f"takes a number of {own[0]}, got {value!r}; another field is for {last}", where)
