"""How noisy is the averaged gradient? It depends on the global batch, not on how many workers share it.

    n workers, B_i examples each:  sample-weighted mean  s^2 / sum B_i      unweighted mean  (s^2 / n^2) sum 1 / B_i
    without replacement from N examples: times (N - B) / (N - 1)
    every worker its own equal shard of the data: only the variance within shards, sum s_i^2 / (n^2 b) (stratification)
    a coordinate that a share p of the examples touches: p s^2 + p (1 - p) m^2
s^2: variance of one example's gradient, m its mean. A worker's own gradient has n s^2 / B, but nobody steps with it.
Refuted: noise that grows with the workers, with sorted shards, or 1 / p times with rare coordinates; that the mean is
the right one whatever the weights and whoever takes part.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.findings import tells
from lockstep.learn.lab.statistics import mean_and_error, variance_and_error

QUESTION = "How noisy is the averaged gradient of n workers, for each way to split the examples among them?"
SOURCE = "variance of a mean; Cochran, 'Sampling techniques', 1977, chapters 2 and 5"
WAYS = ("with replacement", "without replacement", "sorted shards", "one worker alone")

ROUNDING = 1e-15
SHARD_MEANS = np.array([-1.0, 3.0])
"""Mean gradients of two workers whose data differ."""
TOUCHED = 0.05
"""Share of the examples that touch a rare coordinate, there with mean and deviation 1."""
MOST_DRAWS = 40_000_000
"""Random numbers that are held at once."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    examples: int = setting(1024, "Examples N in the data set.", least=64, most=65_536)
    batch: int = setting(64, "Global batch size B.", least=2, most=4096)
    workers: tuple[int, ...] = setting(
        (1, 2, 4, 8, 16), "Numbers of workers n; each must divide the batch size.", least=1, most=1024
    )
    small: int = setting(10, "Batch size of the smaller of two unequal workers.", least=1, most=1000)
    large: int = setting(1000, "Batch size of the larger of two unequal workers.", least=2, most=10_000)
    trials: int = setting(4000, "Number of averaged gradients that are drawn.", least=200, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Variances of averaged gradients over workers and ways to sample, and of two unequal workers."""
    _check(settings)
    data = _examples(settings.examples, seed)
    counts = sorted(set(settings.workers))
    rows: list[Json] = []
    checks: list[Check] = []
    for place, (way, n) in enumerate(watched(((way, n) for way in WAYS for n in counts), progress)):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, place)))
        found, error = variance_and_error(_means(data, settings, n, way, generator))
        expected = _law(data, settings.batch, n, way)
        rows.append({"sampling": way, "workers": n, "variance": found, "variance_law": expected,
                     "ci95": [found - 1.96 * error, found + 1.96 * error]})  # fmt: skip
        checks.append(Check(f"variance, {way}, {n} workers", expected, found, error, tolerance=ROUNDING, holds=ALWAYS))
    checks += [*_unequal(settings, seed), *_different(settings, seed), *_rare(settings, seed)]
    checks += _false_laws(rows, counts)
    checks.append(Check("mean of all examples", 0.0, float(data.mean()), tolerance=1e-12, holds=ALWAYS))
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("variance", 1 / settings.batch, "s^2 / B, s = 1", SOURCE),
            Law("without_replacement_frac", _finite(data, settings.batch), "(N - B) / (N - 1)", SOURCE),
        ),
        rows=tuple(rows),
        curves=_curves(rows),
        picture=Picture("workers", "variance", log_x=True, log_y=True),
        conclusion="At a fixed global batch size the averaged gradient is equally noisy on one worker and on many; a "
        "fixed shard per worker makes it less noisy, not more",
        assumptions=("intervals from the fourth moments of the averaged gradients",),
    )


def _check(settings: Settings) -> None:
    if settings.trials * settings.examples > MOST_DRAWS:
        raise BadInput(f"trials x examples must be at most {MOST_DRAWS:,}", "--set trials")
    if settings.batch > settings.examples:
        raise BadInput(f"must be at most the {settings.examples} examples", "--set batch")
    for n in settings.workers:
        if settings.batch % n or settings.examples % n:
            raise BadInput(
                f"{n} workers must divide {settings.batch} and {settings.examples} examples", "--set workers"
            )
    if settings.large <= settings.small:
        raise BadInput("must be above small", "--set large")


def _examples(count: int, seed: int) -> Array:
    """Sorted gradients of mean 0 and variance 1, both exactly, so that laws have the same value at any seed."""
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).normal(size=count)
    return np.sort((drawn - drawn.mean()) / drawn.std())


def _means(data: Array, settings: Settings, n: int, way: str, generator: np.random.Generator) -> Array:
    """Averaged gradients of all trials."""
    size, trials = settings.batch, settings.trials
    if way == "without replacement":
        order = generator.random((trials, len(data))).argpartition(size - 1, axis=1)[:, :size]
        return np.asarray(data[order].mean(axis=1))
    if way == "sorted shards":
        width = len(data) // n
        places = generator.integers(width, size=(trials, n, size // n)) + width * np.arange(n)[:, np.newaxis]
        return np.asarray(data[places].mean(axis=(1, 2)))
    taken = size // n if way == "one worker alone" else size
    return np.asarray(data[generator.integers(len(data), size=(trials, taken))].mean(axis=1))


def _law(data: Array, batch: int, n: int, way: str) -> float:
    if way == "sorted shards":
        return float(data.reshape(n, -1).var(axis=1).mean()) / batch
    if way == "without replacement":
        return float(data.var()) / batch * _finite(data, batch)
    return float(data.var()) / batch * (n if way == "one worker alone" else 1)


def _finite(data: Array, batch: int) -> float:
    return (len(data) - batch) / (len(data) - 1)


def _normal_means(sizes: Array, trials: int, generator: np.random.Generator) -> Array:
    """Means of two workers' batches of normal gradients, each normal with the variance 1 / B."""
    return generator.normal(size=(trials, 2)) / np.sqrt(sizes)


def _unequal(settings: Settings, seed: int) -> list[Check]:
    """Two workers with different batches; normal gradients with s = 1."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    sizes = np.array([settings.small, settings.large], dtype=np.float64)
    means = _normal_means(sizes, settings.trials, generator)
    weighted, weighted_error = variance_and_error(means @ (sizes / sizes.sum()))
    plain, plain_error = variance_and_error(means.mean(axis=1))
    laws = [
        Check("unequal workers, weighted mean: variance", float(1 / sizes.sum()), weighted, weighted_error,
              holds=ALWAYS),
        Check("unequal workers, unweighted mean: variance", float((1 / sizes).sum() / 4), plain, plain_error,
              holds=ALWAYS),
    ]  # fmt: skip
    right, wrong = laws[1].expected, laws[0].expected
    return [*laws, Check("the unweighted mean has the variance of the global batch", wrong, plain, plain_error,
                         false_law=True, holds=tells(right, wrong, plain_error))]  # fmt: skip


def _different(settings: Settings, seed: int) -> list[Check]:
    """Two workers with different data: only weights by size, and both taking part, give the mean of all examples."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    sizes = np.array([settings.small, settings.large], dtype=np.float64)
    means = SHARD_MEANS + _normal_means(sizes, settings.trials, generator)
    whole = float(SHARD_MEANS @ sizes / sizes.sum())
    weighted, weighted_error = mean_and_error(means @ (sizes / sizes.sum()))
    plain, plain_error = mean_and_error(means.mean(axis=1))
    alone, alone_error = mean_and_error(means[:, 0])
    return [
        Check("different data, weighted mean: mean", whole, weighted, weighted_error, holds=ALWAYS),
        Check("different data: the unweighted mean is unbiased", whole, plain, plain_error, false_law=True,
              holds=tells(float(SHARD_MEANS.mean()), whole, plain_error)),
        Check("different data: whoever participates, the mean is unbiased", whole, alone, alone_error, false_law=True,
              holds=tells(float(SHARD_MEANS[0]), whole, alone_error)),
    ]  # fmt: skip


def _rare(settings: Settings, seed: int) -> list[Check]:
    """A coordinate that one example in 20 touches: p s^2 + p (1 - p) m^2, less than s^2 and not more."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    touched = generator.random(50 * settings.trials) < TOUCHED
    found, error = variance_and_error(touched * (1 + generator.normal(size=touched.size)))
    return [
        Check("coordinate of 1 example in 20: variance", TOUCHED + TOUCHED * (1 - TOUCHED), found, error, holds=ALWAYS),
        Check("coordinate of 1 example in 20: 20 times the variance", 1 / TOUCHED, found, error, false_law=True,
              holds=tells(TOUCHED + TOUCHED * (1 - TOUCHED), 1 / TOUCHED, error)),
    ]  # fmt: skip


def _false_laws(rows: list[Json], counts: list[int]) -> list[Check]:
    """More workers at the same batch make nothing noisier, and shards of one kind of example least of all."""
    most = counts[-1]
    many = when(most >= 4, "4 workers or more")
    seen = {(row["sampling"], row["workers"]): row for row in rows}
    shared, alone, sorted_ = (seen[way, most]["variance"] for way in (WAYS[0], WAYS[3], WAYS[2]))
    return [
        Check(f"the averaged gradient of {most} workers is as noisy as one of them", alone, shared,
              tolerance=0.3 * alone, false_law=True, holds=many),
        Check("sorted shards make the averaged gradient noisier", shared, sorted_, relation="at least",
              false_law=True, holds=many),
    ]  # fmt: skip


def _curves(rows: list[Json]) -> tuple[Curve, ...]:
    curves = []
    for way in WAYS:
        mine = [row for row in rows if row["sampling"] == way]
        x = np.array([float(row["workers"]) for row in mine])
        half = np.array([(row["ci95"][1] - row["ci95"][0]) / 2 for row in mine])
        curves.append(Curve(way, x, np.array([row["variance"] for row in mine]), half_ci95=half, marks=True))
        curves.append(Curve(f"{way}, law", x, np.array([row["variance_law"] for row in mine]), theory=True))
    return tuple(curves)
