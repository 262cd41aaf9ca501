"""Rounding is exact to the bit: against ml_dtypes and numpy on every pattern of 16 bits and around every edge."""

import ml_dtypes
import numpy as np
import pytest

from lockstep.learn.methods.number_format import FORMATS, number_format, rounded_sum

ORACLES = {
    "fp32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8-e5m2": ml_dtypes.float8_e5m2,
    "fp8-e4m3": ml_dtypes.float8_e4m3fn,
}


def oracle(values: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(ORACLES[name]).astype(np.float64)


def sample() -> np.ndarray:
    """All bit patterns of bf16 and fp16 (halves between fp8 neighbours among them), and random float32 bits."""
    patterns = np.arange(2**16, dtype=np.uint16)
    bits = np.random.Generator(np.random.PCG64(0)).integers(0, 2**32, 200_000, dtype=np.uint32)
    kinds = (patterns.view(np.float16), patterns.view(ml_dtypes.bfloat16), bits.view(np.float32))
    with np.errstate(invalid="ignore"):
        return np.concatenate([values.astype(np.float64) for values in kinds])


@pytest.mark.parametrize("name", ORACLES)
def test_every_rounding_matches_the_format(name: str) -> None:
    values = sample()
    np.testing.assert_array_equal(FORMATS[name].rounded(values), oracle(values, name))


@pytest.mark.parametrize("name", ORACLES)
def test_ties_and_limits_round_as_in_ieee(name: str) -> None:
    """Half way between neighbours, and one float32 to either side of it."""
    one = FORMATS[name]
    stored = np.unique(oracle(sample(), name))
    stored = stored[np.isfinite(stored)]
    if name == "fp32":
        stored = stored[::37]
        halves = stored + one.spacing(stored) / 2
        expected = oracle(halves, name)
        np.testing.assert_array_equal(one.rounded(halves), expected)
        return
    middle = (stored[1:] + stored[:-1]) / 2
    near = np.concatenate([middle, np.nextafter(middle.astype(np.float32), np.float32(np.inf)).astype(np.float64)])
    np.testing.assert_array_equal(one.rounded(near), oracle(near, name))


@pytest.mark.parametrize("name", ORACLES)
def test_format_properties_match_the_numpy_type(name: str) -> None:
    one, info = FORMATS[name], ml_dtypes.finfo(ORACLES[name])
    assert one.largest == float(info.max)
    assert one.least_normal == float(info.smallest_normal)
    assert one.least_subnormal == float(info.smallest_subnormal)
    assert one.unit_roundoff == float(info.eps) / 2
    assert not np.isfinite(one.rounded(one.overflows_from))
    assert one.rounded(np.nextafter(one.overflows_from, 0.0)) == one.largest
    assert one.rounded(one.least_subnormal / 2) == 0.0 < one.rounded(np.nextafter(one.least_subnormal / 2, 1.0))


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_sums_match_the_numpy_type(name: str) -> None:
    bits = np.random.Generator(np.random.PCG64(1)).integers(0, 2**16, (2, 100_000), dtype=np.uint16)
    kind = ORACLES[name] if name != "fp32" else np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        pair = bits.view(np.float16 if name == "fp16" else ml_dtypes.bfloat16).astype(kind)
        expected = (pair[0] + pair[1]).astype(np.float64)
        got = rounded_sum(name)(pair[0].astype(np.float64), pair[1].astype(np.float64))
    np.testing.assert_array_equal(got, expected)


def test_stochastic_rounding_is_unbiased_and_to_a_neighbour() -> None:
    one = number_format("bf16")
    value, draw = 1.0 + 0.3 * 2.0**-7, np.random.Generator(np.random.PCG64(2))
    got = one.rounded(np.full(40_000, value), draw)
    assert set(got) == {1.0, 1.0 + 2.0**-7}
    assert abs(got.mean() - value) < 4 * got.std() / 200
    assert (one.rounded(np.full(100, 1.5), draw) == 1.5).all()


def test_sizes_are_those_of_a_number_in_memory() -> None:
    """A tf32 lies in memory as the fp32 that it is cut from."""
    sizes = {name: one.size_B for name, one in FORMATS.items()}
    assert sizes == {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8-e5m2": 1, "fp8-e4m3": 1}


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.infinite])
def test_the_largest_number_of_an_ieee_format_has_all_bits_of_its_last_binade(name: str) -> None:
    """Exponents are symmetric around 1/2, so the last binade begins at 2^(1 - the least); one exponent is for inf."""
    one = FORMATS[name]
    assert one.largest == (2 - 2.0 ** (1 - one.precision_bits)) * 2.0 ** (1 - one.least_exponent)


def test_tf32_is_fp32_without_its_last_13_bits() -> None:
    """10 bits of a significand and 8 of an exponent; to the nearest, ties to even."""
    values = np.random.Generator(np.random.PCG64(1)).integers(0, 2**31, 100_000, dtype=np.uint32)
    values = values[np.isfinite(values.view(np.float32))]
    nearest = (values + np.uint32(0xFFF) + ((values >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    found = FORMATS["tf32"].rounded(values.view(np.float32).astype(np.float64))
    np.testing.assert_array_equal(found, nearest.view(np.float32).astype(np.float64))
    assert FORMATS["tf32"].largest == float(np.uint32(0x7F7FE000).view(np.float32))
