"""`Samples`: how long the samples of a data set are, and the rows that software makes of them.

    none         a row per sample, as long as the longest of its micro-batch
    max-length   a row per sample, as long as a sequence may be
    free         the samples of a micro-batch one after another, without padding
    bfd          best fit, longest first: each sample, cut to a sequence, to the row with the least room that takes it
    bfd-split    the same, but what is beyond a sequence becomes a sample of its own
    wrapped      all samples one after another, cut at every sequence

Rows are packed a thousand samples at a time, as `datasets` hands them to a function that takes batches, so that each
thousand ends with rows that are not full.

Source: TRL 1.16.0, trl/data_utils.py (_pack_bfd, _pack_wrapped), trainer/sft_trainer.py (max_length, padding_free,
DataCollatorForLanguageModeling); datasets 5.2.0, Dataset.map (batch_size=1000). Best fit: arXiv 2404.10830, section 3.
"""

from __future__ import annotations

import csv
import io
import json
from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from lockstep.base.documents.files import read_text
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.play import parse_law

CHUNK = 1000
"""Samples that are packed together."""
DRAWN = 100_000
"""Samples that stand for all where there are more."""
MOST_FILE_B = 256 << 20
LONGEST = 10**8
"""Tokens of a sample; a longer one is taken for a mistake."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What is read at a time: of the samples that stand for all, the tokens of each row without padding."""

    tokens: Array
    attended: float | None
    """Length that costs as much attention per token as the samples inside the rows; None where rows attend whole."""
    cut_frac: float
    """Of all tokens, those beyond the longest sequence, which are not read."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Lengths of `count` samples in tokens, those of at most DRAWN of them."""

    count: int
    lengths: Array

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest."""
        return int(self.lengths.max())

    def rows(self, packing: str, seq: int) -> Rows:
        """The rows that a packing makes, none longer than `seq` tokens."""
        kept = np.minimum(self.lengths, seq)
        cut_frac = 1 - float(kept.sum() / self.lengths.sum())
        if packing in WHOLE:
            return Rows(kept, _attended(kept) if packing == "free" else None, cut_frac)
        chunks = [self.lengths[start : start + CHUNK] for start in range(0, len(self.lengths), CHUNK)]
        if packing == "wrapped":
            return Rows(np.concatenate([_wrapped(int(chunk.sum()), seq) for chunk in chunks]), None, 0.0)
        pieces = [split(chunk, seq) if packing == "bfd-split" else np.minimum(chunk, seq) for chunk in chunks]
        tokens = np.concatenate([best_fit(chunk, seq) for chunk in pieces])
        return Rows(tokens, _attended(np.concatenate(pieces)), 0.0 if packing == "bfd-split" else cut_frac)


WHOLE = ("none", "max-length", "free")
"""Packings that make a row of every sample."""
PACKINGS = (*WHOLE, "bfd", "bfd-split", "wrapped")


def best_fit(lengths: Array, seq: int) -> Array:
    """Tokens of each row where samples go, longest first, to the row with the least room that takes them."""
    rooms: list[int] = []
    full = 0
    for length in np.sort(lengths)[::-1].tolist():
        at = bisect_left(rooms, length)
        room = (rooms.pop(at) if at < len(rooms) else seq) - length
        if room:
            insort(rooms, room)
        else:
            full += 1
    return np.concatenate([np.full(full, seq), seq - np.array(rooms, dtype=np.int64)])


def split(lengths: Array, seq: int) -> Array:
    """Samples of at most `seq` tokens: what is beyond becomes a sample of its own."""
    whole, rest = np.divmod(lengths, seq)
    return np.concatenate([np.full(int(whole.sum()), seq), rest[rest > 0]])


def _wrapped(tokens: int, seq: int) -> Array:
    whole, rest = divmod(tokens, seq)
    return np.array([seq] * whole + [rest] * (rest > 0), dtype=np.int64)


def _attended(lengths: Array) -> float:
    """sum l^2 / sum l: every token attends to those of its own sample."""
    return float(np.square(lengths, dtype=np.float64).sum() / lengths.sum())


def read_samples(text: str, count: int | None, where: str = "--lengths") -> Samples:
    """Samples from `data.jsonl:tokens`, a file of numbers, or a law such as `lognormal:mean=400,cv=0.8` of `count`.

    Raises BadInput for lengths that are no numbers of tokens, and where a law has no count.
    """
    path, _, field = text.partition(":")
    if not Path(path).suffix:
        if count is None:
            raise BadInput("a law needs --samples, the number of samples", where)
        drawn = parse_law(text, where).draw(np.random.default_rng(0), min(count, DRAWN))
        return Samples(count, np.clip(np.rint(drawn), 1, LONGEST).astype(np.int64))
    records = _records(read_text(path, MOST_FILE_B), path)
    found = [size for place, one in records if (size := _length(one, field, place, where))]
    if not found:
        raise BadInput(f"{path} has no lengths", where)
    lengths = np.array(found, dtype=np.int64)
    if len(lengths) > DRAWN:
        lengths = lengths[np.sort(np.random.default_rng(0).permutation(len(lengths))[:DRAWN])]
    return Samples(len(found) if count is None else count, lengths)


def _records(text: str, path: str) -> Iterator[tuple[str, object]]:
    """Where each record of a file is, and the record: rows of a table, items of a JSON list, or a value a line."""
    suffix = Path(path).suffix
    try:
        if suffix in (".csv", ".tsv"):
            table = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
            yield from ((f"{path}:{table.line_num}", row) for row in table)
        elif suffix == ".json":
            yield from ((f"{path}: item {at}", item) for at, item in enumerate(json.loads(text), 1))
        else:
            lines = ((f"{path}:{at}", line) for at, line in enumerate(text.splitlines(), 1) if line.strip())
            yield from ((place, json.loads(line)) for place, line in lines)
    except (ValueError, TypeError, csv.Error) as error:
        raise BadInput(f"is not read as {suffix[1:]}: {error}", path) from None


def _length(found: object, field: str, place: str, where: str) -> int:
    """The length that a record, a list of tokens or a number gives."""
    if isinstance(found, dict):
        name = field or (next(iter(found), "") if len(found) == 1 else field)
        if name not in found:
            names = ", ".join(map(str, found))
            raise BadInput(f"write FILE:FIELD with a field of its records, one of {names}; got {field!r}", where)
        found = found[name]
    size = len(found) if isinstance(found, list) else found
    if isinstance(size, str) and size.strip().isdigit():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= LONGEST:
        raise BadInput(f"must be a number of tokens, 0 to {LONGEST:,}, or their list; got {size!r:.40}", place)
    return size
