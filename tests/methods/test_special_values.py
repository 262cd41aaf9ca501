"""Infinities, NaN of both kinds, subnormals and the largest numbers go through every method, on any processor."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from lockstep.learn.methods import norms
from lockstep.learn.methods.compression import COMPRESSORS, compressor, exchange
from lockstep.learn.methods.loss_scaling import all_finite, clip_by_norm, unscaled
from lockstep.learn.methods.number_format import FORMATS, rounded_sum
from lockstep.learn.methods.optimizers import OPTIMIZERS, optimizer, step
from lockstep.learn.methods.summation import SUMS

TYPES = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
NOT_FINITE = ("signalling NaN", "quiet NaN", "infinity")
KINDS = (*NOT_FINITE, "subnormal", "largest", "zero")
NORMS = (norms.Absolute(), norms.Euclidean(), norms.Maximum(), norms.Power(), norms.Spectral())
FORGETFUL = ("sign", "random-k", "shared-random-k")
"""They send no length, or not every entry."""


def special(kind: str, dtype: type) -> np.ndarray:
    """Both signs of that kind of value."""
    info = np.finfo(dtype)
    exponent = ((1 << (info.bits - 1 - info.nmant)) - 1) << info.nmant
    bits = np.array([exponent | 1, exponent | 5 | 1 << (info.bits - 1)], dtype=f"uint{info.bits}")
    return {
        "signalling NaN": bits.view(dtype),
        "quiet NaN": np.array([np.nan, -np.nan], dtype),
        "infinity": np.array([np.inf, -np.inf], dtype),
        "subnormal": np.array([info.smallest_subnormal, -info.smallest_subnormal], dtype),
        "largest": np.array([info.max, -info.max], dtype),
        "zero": np.array([0.0, -0.0], dtype),
    }[kind]


def vector(kind: str, dtype: type) -> np.ndarray:
    """Sixteen entries, two of them special."""
    return np.concatenate([special(kind, dtype), np.arange(1, 15).astype(dtype)])


each_kind = pytest.mark.parametrize("kind", KINDS)
each_type = pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)


@each_type
@each_kind
@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressors_hide_no_divergence(name: str, kind: str, dtype: type) -> None:
    one, given = compressor(name), vector(kind, dtype)
    mean = exchange(one, [given], [one.start(given)], [Generator(PCG64(0))]).mean
    assert mean.shape == given.shape
    if kind in NOT_FINITE and name not in FORGETFUL:
        assert not np.isfinite(mean).all()


@each_type
@each_kind
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_hide_no_divergence(name: str, kind: str, dtype: type) -> None:
    given = vector(kind, dtype).reshape(4, 4)
    one = optimizer(name)
    (moved,), _ = step(one, (np.ones_like(given),), (given,), one.start((given,)), 0.1)
    if kind in NOT_FINITE[:2]:
        assert not np.isfinite(moved).all()


@each_type
@each_kind
@pytest.mark.parametrize("norm", NORMS, ids=[one.name for one in NORMS])
def test_norms_hide_no_divergence(norm: norms.Norm, kind: str, dtype: type) -> None:
    given = vector(kind, dtype).reshape(4, 4)
    lengths = norm.length(given), norm.dual(given), norms.steepest_step(norm, given, 0.1)
    if kind in NOT_FINITE:
        assert not any(np.isfinite(length).all() for length in lengths)


@each_type
@each_kind
def test_gradients_are_summed_clipped_and_scaled(kind: str, dtype: type) -> None:
    given, plain = vector(kind, dtype), np.ones(16, dtype)
    assert all_finite((given,)) == (kind not in NOT_FINITE)
    unscaled((given,), 2.0**16)
    clipped = clip_by_norm((given,), 1.0)
    for add in SUMS.values():
        total = add([plain, given, plain])
        if kind in NOT_FINITE:
            assert not np.isfinite(total[:2]).any()
            assert not all_finite(clipped)


@pytest.mark.parametrize("kind", [*NOT_FINITE, "largest"])
def test_the_reproducible_sum_has_one_value_without_a_largest_term(kind: str) -> None:
    terms = [vector(kind, np.float64), np.full(16, 3.0), np.arange(16.0)]
    expected = SUMS["reproducible"](terms)
    for order in ([1, 0, 2], [2, 1, 0], [1, 2, 0]):
        np.testing.assert_array_equal(SUMS["reproducible"]([terms[place] for place in order]), expected)


@each_type
@pytest.mark.parametrize("name", FORMATS)
def test_formats_keep_infinities_and_nan(name: str, dtype: type) -> None:
    one = FORMATS[name]
    for kind in NOT_FINITE:
        given = special(kind, dtype)
        kept = given.astype(np.float64) if kind == "infinity" and one.infinite else np.nan
        np.testing.assert_array_equal(one.rounded(given), kept)
        assert np.isnan(one.spacing(given)).all()
        assert not np.isfinite(rounded_sum(name)(given, given)).any()
    past = [np.inf, -np.inf] if one.infinite else [np.nan, np.nan]
    np.testing.assert_array_equal(one.rounded(special("largest", np.float64)), past)
    np.testing.assert_array_equal(one.rounded(special("subnormal", np.float64)), [0.0, 0.0])


def digest() -> str:
    """One hash over everything above that is exact by definition, NaN counted as one value."""
    bits = Generator(PCG64(0)).integers(0, 2**32, 50_000, dtype=np.uint32)
    found = hashlib.sha256()
    with np.errstate(all="ignore"):
        patterns = [np.arange(2**16, dtype=np.uint16).view(np.float16), bits.view(np.float32)]
        specials = [vector(kind, dtype) for kind in KINDS for dtype in TYPES.values()]
        values = np.concatenate([part.astype(np.float64) for part in patterns + specials])
    results = [make(values) for one in FORMATS.values() for make in (one.rounded, one.spacing)]
    results += [one.rounded(values, Generator(PCG64(1))) for one in FORMATS.values()]
    results += [add([values, values[::-1], np.abs(values)]) for add in SUMS.values()]
    for result in results:
        found.update(np.where(result == result, result, np.nan).tobytes())
    return found.hexdigest()


def test_older_processors_give_the_same_bits() -> None:
    """With the newest instructions of this processor switched off one after the other."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    found = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    for kept in range(len(found)):
        environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(found[kept:])}
        command = [sys.executable, "-W", "error", __file__]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == digest(), f"without {' '.join(found[kept:])}"


if __name__ == "__main__":
    print(digest())
