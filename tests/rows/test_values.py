"""Lists and ranges in the place of one value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.rows import listed
from lockstep.base.rows.rows import MOST_VALUES
from lockstep.base.units import COUNT, SIZE, TIME, parse_count, parse_size_B
from lockstep.show.verbs.words.calling import laws


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1MB,10MB", ("1MB", "10MB")),
        (" 1 , 2 ,2,1", ("1", "2")),
        ("4..7", ("4", "5", "6", "7")),
        ("2..9x2", ("2", "4", "8")),
        ("0..1+0.25", ("0", "0.25", "0.5", "0.75", "1")),
        ("1,4..6,16..64x2", ("1", "4", "5", "6", "16", "32", "64")),
        ("512KB..4MBx2", ("512KB", "1024KB", "2048KB", "4000KB")[:3]),
        ("1MiB..4MiBx2", ("1MiB", "2MiB", "4MiB")),
        ("0.1..0.3+0.1", ("0.1", "0.2", "0.3")),
    ],
)
def test_lists_and_ranges_are_parsed(text: str, wanted: tuple[str, ...]) -> None:
    assert listed(text, SIZE, "--size") == wanted


@pytest.mark.parametrize("one", ["8", "1MB", "", "run:last", "run:../a", 3, 2.5, None, "../file"])
def test_a_single_value_is_not_a_list(one: object) -> None:
    assert listed(one, SIZE, "--size") is None


@pytest.mark.parametrize(
    "text", ["1,", ",", "1,,2", "4..", "8..4", "2..16x1", "2..16x0", "0..16x2", "1..2+0", "1..2xq", "1..9s", "1..2x"]
)
def test_malformed_lists_are_refused_at_their_option(text: str) -> None:
    with pytest.raises(BadInput, match="--size"):
        listed(text, SIZE, "--size")


@pytest.mark.parametrize("text", ["1..1000000", "1..1e300+1", "1..1e300x1.0001", "0..1+1e-9"])
def test_an_oversized_range_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(BadInput, match=f"at most {MOST_VALUES:,}"):
        listed(text, COUNT, "--ranks")


def test_sequences_of_python_are_lists() -> None:
    assert listed([1, 2, 2, 4], COUNT, "--ranks") == (1, 2, 4)
    assert listed(range(2, 5), COUNT, "--ranks") == (2, 3, 4)
    with pytest.raises(BadInput, match="empty list"):
        listed([], COUNT, "--ranks")


def test_options_with_several_numbers_are_listed_with_semicolons() -> None:
    assert listed("1ms,2ms", TIME, "--forward-s", vector=True) is None
    assert listed("1ms,2ms;3ms", TIME, "--forward-s", vector=True) == ("1ms,2ms", "3ms")


@given(st.integers(1, 10**6), st.integers(0, 12), st.integers(2, 9), st.integers(0, 8))
def test_a_growing_range_has_every_power_up_to_its_end(first: int, powers: int, factor: int, beyond: int) -> None:
    last = first * factor**powers
    values = listed(f"{first}..{last + min(beyond, last * (factor - 1) - 1)}x{factor}", COUNT, "--ranks")
    assert values is not None
    assert [parse_count(value) for value in values] == [first * factor**power for power in range(powers + 1)]


@given(st.integers(0, 1000), st.integers(0, 200), st.sampled_from(["1", "3", "0.5", "0.1"]))
def test_a_range_in_steps_ends_at_its_end(first: int, count: int, step: str) -> None:
    last = first + count * float(step)
    values = listed(f"{first}..{last:.10g}+{step}", COUNT, "--ranks")
    assert values is not None
    assert len(values) == count + 1
    assert math.isclose(float(values[-1]), last, rel_tol=1e-9, abs_tol=1e-9)


def test_range_ends_may_have_different_units() -> None:
    values = listed("1KB..1MBx10", SIZE, "--size")
    assert values is not None
    assert [parse_size_B(value) for value in values] == [1e3, 1e4, 1e5, 1e6]


def test_laws_are_listed_with_semicolons_or_with_a_range_as_a_parameter() -> None:
    assert laws("lognormal:mean=50ms,cv=0.1..0.3+0.1") == [f"lognormal:mean=50ms,cv=0.{k}" for k in (1, 2, 3)]
    assert laws("exponential:mean=1s; pareto:mean=1s..4sx2,shape=2..3") == [
        "exponential:mean=1s", *(f"pareto:mean={mean},shape={shape}" for mean in ("1s", "2s", "4s") for shape in (2, 3))
    ]  # fmt: skip
    assert laws("lognormal:mean=50ms,cv=0.2") == laws("trace:times.csv") == laws("trace:../times.csv") == []
    rows = lockstep.stragglers(workers=[4, 16], law="lognormal:mean=50ms,cv=0.1..0.3+0.2")
    alone = lockstep.stragglers(workers=16, law="lognormal:mean=50ms,cv=0.3")
    assert len(rows.rows) == 4
    assert rows.rows[3].answer == alone.to_dict()
    with pytest.raises(BadInput, match="--law"):
        laws("lognormal:mean=50ms,cv=0.1..x")
