"""Pickles take memory in proportion to their bytes, whatever they announce; plain ones come back as they were."""

from __future__ import annotations

import io
import pickle
import random
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_runner import run
from lockstep.base.documents.files import InMemory
from lockstep.base.errors import BadInput
from lockstep.explain.read.pickles import CODES, read_plain

BEGIN = b"\x80\x04"
HUGE = (1 << 26).to_bytes(4, "little")
"""As a place in the table of repeated values: a table of a gigabyte."""
ANNOUNCED: dict[str, bytes] = {
    "a far place": b"Nr" + HUGE + b".",
    "a far place in text": b"Np67108864\n.",
    "bytes": b"B\xff\xff\xff\x7f.",
    "more bytes": b"\x8e" + (1 << 40).to_bytes(8, "little") + b".",
    "an array of bytes": b"\x96" + (1 << 40).to_bytes(8, "little") + b".",
    "letters": b"X\xff\xff\xff\x7f.",
    "more letters": b"\x8d" + (1 << 40).to_bytes(8, "little") + b".",
    "a number": b"\x8b\xff\xff\xff\x7f.",
    "a frame": b"\x95" + (1 << 40).to_bytes(8, "little") + b"N.",
}
"""What a few bytes say is to come."""


def peak_B(data: bytes) -> int:
    """The most memory that reading the pickle takes; whether it is refused does not matter."""
    tracemalloc.start()
    try:
        with suppress(BadInput):
            read_plain(InMemory("a.pickle", data))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("what", ANNOUNCED)
def test_small_pickles_take_little_memory(what: str) -> None:
    assert peak_B(BEGIN + ANNOUNCED[what]) < 1 << 20


@pytest.mark.parametrize("what", ANNOUNCED)
def test_diagnose_refuses_hostile_pickles_by_file(what: str, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(BEGIN + ANNOUNCED[what])
    assert str(path) in run("diagnose", str(path)).refusal()


@pytest.mark.parametrize("seed", range(200))
def test_memory_of_a_pickle_is_bounded_by_its_bytes(seed: int) -> None:
    """Of operations drawn at random, with numbers behind them that are mostly large."""
    draw = random.Random(seed)
    codes = [code for name, code in CODES.items() if name != "STOP"]
    data = BEGIN + b"".join(
        draw.choice(codes) + draw.choice((b"", draw.randbytes(1), draw.randbytes(4), HUGE)) for _ in range(40)
    )
    assert peak_B(data + b".") < 300 * len(data) + (1 << 19)


def plain(*more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), *more),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )


# Protocol 2 has no bytes: it names the function that makes them.
PICKLED = st.tuples(plain(), st.just(2)) | st.tuples(plain(st.binary()), st.sampled_from((4, 5)))


@given(pickled=PICKLED, after=st.binary(max_size=3))
def test_plain_pickled_values_round_trip(pickled: tuple[Any, int], after: bytes) -> None:
    value, protocol = pickled
    assert read_plain(InMemory("a.pickle", pickle.dumps(value, protocol) + after)) == value


def test_pickles_with_many_repeated_values_round_trip() -> None:
    """More than 256 of them take the operations with wide places, of old and new protocols."""
    rows = [{"action": f"a{number}", "frames": [number]} for number in range(70_000)]
    for protocol in (2, 4):
        assert read_plain(InMemory("a.pickle", pickle.dumps([rows, rows], protocol))) == [rows, rows]


def test_an_oversized_pickle_is_refused_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.explain.read.pickles.MOST_MEMORY_B", 1 << 20)
    data = pickle.dumps([[] for _ in range(10_000)])
    monkeypatch.setattr("lockstep.explain.read.pickles.PlainUnpickler", io.BytesIO)
    with pytest.raises(BadInput, match=r"takes about .* more than 1 MiB"):
        read_plain(InMemory("a.pickle", data))
