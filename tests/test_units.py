"""Units: against pint over random text, wrong kinds refused, and what is printed reads back."""

import math
from collections.abc import Callable

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base import units
from lockstep.base.errors import BadInput, UnknownName, Violation, suggestion

REGISTRY = pint.UnitRegistry()
NUMBERS = st.decimals(min_value=0, max_value=10**6, places=4).map(str) | st.integers(0, 10**9).map(str)
SIZES = {
    "B": "byte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "KiB": "kibibyte",
    "MiB": "mebibyte", "GiB": "gibibyte", "TiB": "tebibyte", "bit": "bit", "Mbit": "megabit", "Gbit": "gigabit",
}  # fmt: skip
TIMES = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "min": "min", "h": "hour", "d": "day"}


@given(NUMBERS, st.sampled_from(sorted(SIZES)), st.sampled_from(["", " "]))
def test_sizes_match_pint(number: str, unit: str, gap: str) -> None:
    expected = REGISTRY.Quantity(float(number), SIZES[unit]).to("byte").magnitude
    assert units.parse_size_B(f"{number}{gap}{unit}") == pytest.approx(expected, rel=1e-14)


@given(NUMBERS, st.sampled_from(sorted(SIZES)))
def test_bandwidths_match_pint(number: str, unit: str) -> None:
    expected = REGISTRY.Quantity(float(number), f"{SIZES[unit]}/s").to("byte/s").magnitude
    assert units.parse_bandwidth_Bps(f"{number} {unit}/s") == pytest.approx(expected, rel=1e-14)


@given(NUMBERS, st.sampled_from(sorted(TIMES)))
def test_times_match_pint(number: str, unit: str) -> None:
    expected = REGISTRY.Quantity(float(number), TIMES[unit]).to("s").magnitude
    assert units.parse_time_s(f"{number} {unit}") == pytest.approx(expected, rel=1e-14)


REGISTRY.define("flop = [operations]")
PREFIXES = {"": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "E": "exa"}


@given(NUMBERS, st.sampled_from(sorted(PREFIXES)), st.sampled_from(["FLOP/s", "FLOPS", "flop/s", "flops", "FLOPs"]))
def test_compute_rates_match_pint(number: str, prefix: str, word: str) -> None:
    expected = REGISTRY.Quantity(float(number), f"{PREFIXES[prefix]}flop/s").to("flop/s").magnitude
    assert units.parse_flops(f"{number} {prefix}{word}") == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_time_s, "10us", 1e-5),
        (units.parse_time_s, "30d", 30 * 86400.0),
        (units.parse_bandwidth_Bps, "400 Gbit/s", 50e9),
        (units.parse_bandwidth_Bps, "100Gbps", 12.5e9),
        (units.parse_size_B, "1GiB", 2.0**30),
        (units.parse_count, "4M", 4e6),
        (units.parse_count, "15T", 15e12),
        (units.parse_count, "70B", 70e9),
        (units.parse_flops, "989.4 TFLOP/s", 989.4e12),
        (units.parse_frac, "85%", 0.85),
        (units.parse_power_W, "0.7 kW", 700.0),
        (units.parse_money_usd, "2.5 USD", 2.5),
        (units.parse_count, 7, 7.0),
    ],
)
def test_quantities_are_parsed_to_si(parse: Callable[[object], float], text: object, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (units.parse_size_B, "10 s"),
        (units.parse_time_s, "10 GB"),
        (units.parse_bandwidth_Bps, "10 GB"),
        (units.parse_count, "3 GB"),
        (units.parse_size_B, "GB"),
        (units.parse_size_B, ""),
        (units.parse_size_B, "-1 GB"),
        (units.parse_size_B, "1 2 GB"),
        (units.parse_size_B, "1e400 GB"),
        (units.parse_size_B, "1e999999999 GB"),
        (units.parse_size_B, "nan"),
        (units.parse_size_B, "inf GB"),
        (units.parse_size_B, math.nan),
        (units.parse_size_B, math.inf),
        (units.parse_size_B, True),
        (units.parse_size_B, None),
        (units.parse_size_B, [1]),
        (units.parse_size_B, 10**400),
        (units.parse_time_s, "12:30"),
        (units.parse_integer, "1.5"),
        (units.parse_integer, "0"),
        (units.parse_integer, "1e30"),
    ],
)
def test_invalid_quantities_are_refused_at_their_place(parse: Callable[..., float], text: object) -> None:
    with pytest.raises(BadInput, match=r"^--flag: "):
        parse(text, "--flag")


@given(st.floats(1.0, 1e17))
def test_formatted_quantities_parse_back(value: float) -> None:
    assert units.parse_size_B(units.format_size(value, 6)) == pytest.approx(value, rel=1e-4)
    assert units.parse_bandwidth_Bps(units.format_bandwidth(value, 6)) == pytest.approx(value, rel=1e-4)
    assert units.parse_count(units.format_count(value, 6)) == pytest.approx(value, rel=1e-4)
    assert units.parse_flops(units.format_flops(value, 6)) == pytest.approx(value, rel=1e-4)


@given(st.floats(1e-9, 1e8))
def test_formatted_times_parse_back(value: float) -> None:
    assert units.parse_time_s(units.format_time(value, 6)) == pytest.approx(value, rel=1e-4)


@given(st.text(max_size=40))
def test_arbitrary_text_is_a_number_or_bad_input(text: str) -> None:
    for parse in (units.parse_size_B, units.parse_time_s, units.parse_bandwidth_Bps, units.parse_count):
        try:
            value = parse(text)
        except BadInput:
            continue
        assert 0 <= value < math.inf


def test_unknown_names_suggest_the_closest() -> None:
    assert suggestion("dgx-h10", ("dgx-h100", "dgx-a100")).startswith("did you mean dgx-h100")
    assert suggestion("zzz", ("a", "b")) == "try one of: a, b"
    assert str(UnknownName("cluster", "dgx-h10", ("dgx-h100",), "--cluster")) == (
        "--cluster: unknown cluster 'dgx-h10'; did you mean dgx-h100?"
    )


def test_a_violation_knows_its_margin() -> None:
    assert Violation("memory", 5.0, 10.0).margin_frac == 0.5


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_number_takes_more_than_a_few_digits(value: float) -> None:
    for format_it in (units.format_time, units.format_size, units.format_count, units.format_frac, units.format_flops):
        assert len(format_it(value)) <= 26


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_different_numbers_are_printed_differently(first: float, second: float) -> None:
    one, other = (float(text) for text in units.format_apart(first, second))
    assert (one < other, one > other) == (first < second, first > second)


def test_a_fraction_near_one_is_not_printed_as_one() -> None:
    assert units.format_apart(0.99999332, 0.999999) == ("0.999993", "0.999999")
