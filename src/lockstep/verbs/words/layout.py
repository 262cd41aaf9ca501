"""The words that verbs take, as on the command line: which model is trained how, and in which layout."""

from __future__ import annotations

from lockstep.verbs.words.quantity import Quantity
from lockstep.verbs.words.recipe import RecipeWords


class QuestionWords(RecipeWords, total=False):
    """Keywords of every verb about a training run; see the flags of the same names."""

    gpus: Quantity | None
    """Number of devices, instead of the cluster's own."""
    batch: Quantity | None
    """Sequences per optimizer step."""
    batch_tokens: Quantity | None
    """Tokens per optimizer step, instead of `batch`."""
    seq: Quantity | None
    """Tokens per sequence."""


class LayoutWords(QuestionWords, total=False):
    """Keywords of every verb about one layout: those of `Layout`."""

    tp: Quantity | None
    pp: Quantity | None
    dp: Quantity | None
    cp: Quantity | None
    ep: Quantity | None
    vpp: Quantity | None
    micro_batch: Quantity | None
    zero: Quantity | None
    shard: Quantity | None
    recompute: str | None
    sequence_parallel: bool | None
    schedule: str | None
    offload: str | None
    order: str | None


LAYOUT_WORDS = tuple(sorted(set(LayoutWords.__annotations__) - set(QuestionWords.__annotations__)))
