"""Cards of the guide: every section is found, and what is right in its tables is what plain formulas give."""

from __future__ import annotations

import math
import re

import pytest

from lockstep.check.evidence.claims.deciders.listings import finishes, most_that_end, right_gradients, right_ranks
from lockstep.check.evidence.claims.entry import Check
from lockstep.check.evidence.claims.shelf import entries, errata_of, find_entries

GUIDE = [entry for entry in entries() if entry.kind == "guide"]
WRONG = ("4.4", "5.3", "6.7", "7.5", "8.2", "9.5", "12.2", "12.4")
"""Sections whose table or output is wrong."""


def ring(ranks: int) -> float:
    """Of a buffer of 1, what a rank sends."""
    return 2 * (ranks - 1) / ranks


def bubble(stages: int, microbatches: int, chunks: int = 1) -> float:
    return (stages - 1) / (microbatches * chunks + stages - 1)


def mixtral(experts: int) -> float:
    """Parameters by shape: attention with 8 of 32 heads for keys and values, experts, router, norms, embeddings."""
    layer = 2 * 4096 * (4096 + 1024) + experts * 3 * 4096 * 14_336 + 4096 * 8 + 2 * 4096
    return 32 * layer + 4096 + 2 * 32_000 * 4096


LAYER_B = 4 * ring(8) * 2048 * 12288 * 2
OUTSIDE: dict[str, list[float]] = {
    "1.1": [math.exp(math.log(2) / 0.076)],
    "1.2": [112.0, 2.0, 208.0, 3.0, 1040.0, 13.0, 2800.0, 35.0, 108.0, 8640.0,
            2048 * 12288 * (34 + 5 * 96 * 2048 / 12288), 96 * 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288) / 1e9],
    "1.3": [9.0],
    "1.5": [989.4, 494.7, 312.0, 156.0, 18 * 25.0, 12 * 25.0],
    "2.1": [7.0, 7.0, 14.0],
    "3.1": [2 * 7.0, ring(8)],
    "3.2": [2 * math.log2(8)],
    "3.3": [14.0, 8 * ring(8)],
    "3.5": [1e3 * (2 * 8 * 1e-5 + ring(256) * 1e8 / 5e10)],
    "3.6": [14.0, 126.0, 28.0, 63 / 56],
    "4.1": [15.0, 15.0],
    "4.4": [7.0, 7.0, 7.0, 7.0, 3.0],
    "4.5": [21.0],
    "5.1": [1e12 / 450e9, 1e3 * (1e-6 + 1e9 / 450e9)],
    "5.3": [450_000.0, 37_500.0, 625_000.0, 62_500.0, 8 * 450_000.0],
    "5.4": [100.0, 350.0, 2**17 * 3 * 2**12 * 2 / 1e9],
    "5.5": [ring(8) * 8 / 2, 0.0],
    "5.6": [ring(8)],
    "6.2": [3072.0, 786_432.0],
    "6.3": [1040.0, 989.4e12 / 450e9],
    "6.6": [989.4e12 / 450e9 / 1.5 / 2048, 6 * 65_536 / 4, 98_304 * 450e9 / 989.4e12],
    "6.7": [19_788.0, 1040.0],
    "7.1": [25 * 1024 * 1024.0],
    "7.4": [112.0, 5.0, 2.5, 28e9 / 200e9 * 1e3],
    "7.5": [4 / (0.01 * 8), 4 / (0.01 * 12), math.floor(8 / (0.01 * 12))],
    "8.2": [112.0, 38.5, 26.25, 14.0, 30 + 90 / 64, 15 + 105 / 64, 120 / 64],
    "8.3": [21.0, 14.0],
    "8.6": [15.0, 3 * 127 / 128 / (2 * 15 / 16), 420 - 420 / 128, 280 - 280 / 16],
    "9.1": [4 * ring(4) * 8 * 32 * 8],
    "9.5": [LAYER_B, 96 * LAYER_B / 1e9],
    "9.6": [7.0],
    "10.1": [0.25, 0.75],
    "10.2": [3 / 7, 4.0, 16.0],
    "10.4": [bubble(4, 8, 4)],
    "10.6": [32 / 39, 2 * 7 * 32 * 16 * 2048 * 8192 * 2 / 1e9],
    "11.2": [72.0, 69.0, 13.0, 79.0, 69.0 + 3 * 8, 13.0 + 3 * 32, 128 / 8, 128 / 4, 128 / 4],
    "11.3": [ring(16) * 2 * 175 / 64, 12 * 96 * LAYER_B / 1e9, 2 * 96 * 2048 * 12288 * 2 / 1e9, bubble(8, 96)],
    "11.8": [4096.0, 512.0],
    "12.1": [LAYER_B / 1e6, 175 * 2 / 64, 12 * 96 * 12288**2 / 1e9, 12 * 96 * 12288**2 / 1e9 + 52_305 * 12288 / 1e9],
    "12.2": [82_432 / 24_000, 135_168 / 24_000, 530_432 / 24_000, 1_022_362 / 2048 / 24,
             6 * 65.2 * 1.4e21 / (1_022_362 * 3600) / 312e12, 6 * 65.2e9 * 380 / 312e12],
    "12.3": [3 * 4096 * 14_336 * 32 / 1e9, mixtral(8), mixtral(2)],
    "12.4": [0.1728 * 8.1 * 2],
    "13.1": [bubble(8, 32), 0.1],
}  # fmt: skip
"""Right values of a section's checks, in their order, computed apart from the deciders."""


def checks(section: str) -> list[Check]:
    (entry,) = find_entries(f"G.{section}")
    return list(entry.every_check())


def test_right_values_are_those_of_plain_formulas() -> None:
    for section, values in OUTSIDE.items():
        assert len(checks(section)) >= len(values), section
        for check, value in zip(checks(section), values, strict=False):
            assert check.right.away(value) <= check.right.half_digit + 1e-9 * value, (section, check.what)
    assert sum(map(len, OUTSIDE.values())) >= 48


def test_thirteen_sections_are_found() -> None:
    assert {int(re.split(r"\.", entry.id)[1]) for entry in GUIDE} == set(range(1, 14))
    for entry in GUIDE:
        section = entry.id.removeprefix("G.")
        for name in (f"section {section}", section, f"g{section}", f"Guide {section}", f"g.{section}"):
            assert find_entries(name) == (entry,), name


def test_a_section_without_a_part_names_all_of_its_entries() -> None:
    for name in ("section 9", "G.9", "guide 9"):
        assert [one.id for one in find_entries(name)] == ["G.9.1", "G.9.5", "G.9.6", "G.9.7"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("section 5.2", "G.4.4"), ("8.4", "G.8.2"), ("section 10.3", "G.10.2"), ("3.4", "G.3.3"), ("guide 4.2", "G.4.4"),
     ("g.4.3", "G.4.4"), ("7.2", "G.7.1"), ("7.3", "G.7.1"), ("8.5", "G.8.3"), ("9.2", "G.9.1"), ("9.3", "G.9.1"),
     ("9.4", "G.9.5"), ("11.5", "G.11.4"), ("11.6", "G.11.4"), ("section 11.7", "G.11.4")],
)  # fmt: skip
def test_tables_that_repeat_another_are_found_there(name: str, wanted: str) -> None:
    assert [one.id for one in find_entries(name)] == [wanted]


def test_wrong_tables_are_false_and_have_errata() -> None:
    for section in WRONG:
        (entry,) = find_entries(section)
        assert entry.verdict == "false"
        assert errata_of(entry.id), section


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 12])
def test_only_a_bias_on_every_rank_after_the_sum_is_right(ranks: int) -> None:
    assert [right_ranks(ranks, bias, 3, 12) for bias in ("after", "first", "before")] == [ranks, 1, 0]


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_gradients_of_a_layer_split_by_columns_have_to_be_summed(ranks: int) -> None:
    assert [right_gradients(ranks, reduced, 3, 6) for reduced in (True, False)] == [ranks, 0]


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_sends_that_wait_need_a_receive_beside_them(stages: int) -> None:
    """One micro-batch goes there and back; from two on a stage sends forward to one that sends back to it."""
    assert [finishes(stages, number, False) for number in (1, 2, 4, 16)] == [1, 0, 0, 0]
    assert [finishes(stages, number, True) for number in (1, 2, 4, 16)] == [1, 1, 1, 1]
    assert (most_that_end(stages, 5, False), most_that_end(stages, 5, True)) == (1, 5)


def test_one_stage_sends_nothing_and_ends() -> None:
    assert finishes(1, 4, False) == 1
