"""How far is the loss on new data from the loss on the training data? It depends on how much was fitted, not on B.

Least squares in d dimensions, N normal examples, noise of variance s^2, exact fit:

    E (test loss - training loss) = (s^2 / 2) (d / (N - d - 1) + d / N)
    its variance, N > d + 3:        (s^4 / 2) (d (N - 1) / ((N - d - 1)^2 (N - d - 3)) + (N - d) / N^2)
On the way there the gap grows with the number of steps, about equally at every batch size; and a larger batch with the
same steps has the same gap. For convex losses with gradients of at most G, smoothness beta and rates of at most
2 / beta, SGD on any batch size and any number of workers has E gap <= (2 G^2 / N) sum alpha_t. It is measured on the
digits. Refuted: gap ~ 1 / sqrt(B steps), and no gap at full batch.

Sources: closed form: moments of the inverse Wishart law; bound: Hardt, Recht, Singer, "Train faster, generalize
better", 2016, theorem 3.8.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import (
    ALWAYS,
    Check,
    Curve,
    Findings,
    Law,
    Picture,
    Progress,
    example,
    mean_and_error,
    watched,
    when,
)
from lockstep.learn.lab.objectives import digits_logistic
from lockstep.learn.lab.statistics import ratio_of_means, variance_and_error

QUESTION = "Does a larger batch size widen the generalization gap?"
SOURCE = "Hardt, Recht, Singer 2016, theorem 3.8; moments of the inverse Wishart law"
DIGITS = "400 digits, batch 20, 200 steps"
SEEN = 0.1
"""Gap from which a hundred data sets show that it is not zero."""
STEPS = (10, 30, 100, 300)
FAR_FROM_SQUARE = 8
"""Examples per dimension from which the fourth moment of a gap is that of a hundred data sets."""
MOST_NUMBERS = 4_000_000
"""Features of all data sets, which are held at once."""
ALIKE = 0.3
"""Largest difference between batch sizes at equal steps that counts as alike, as a share."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    dimension: int = setting(50, "Dimension d of the least-squares problem.", least=10, most=200)
    examples: tuple[int, ...] = setting(
        (100, 200, 400, 800), "Training set sizes N, each above d + 1.", least=6, most=5000
    )
    batches: tuple[int, ...] = setting(
        (5, 20), "Batch sizes of SGD on the smallest N; the full batch is always included.", least=4, most=5000
    )
    trials: int = setting(100, "Number of random data sets.", least=50, most=2000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Gaps of the exact fit over N, of SGD over steps and batch sizes, and of SGD on the digits beside its bound."""
    d, smallest = settings.dimension, min(settings.examples)
    if smallest <= d + 1:
        raise BadInput(f"must be above dimension + 1 = {d + 1}", "--set examples")
    if settings.trials * smallest * d > MOST_NUMBERS:
        raise BadInput(f"trials x examples x dimension must be at most {MOST_NUMBERS:,}", "--set trials")
    if max(settings.batches) > smallest:
        raise BadInput(f"must be at most the {smallest} examples", "--set batches")
    rows: list[Json] = []
    checks: list[Check] = []
    counts = sorted(set(settings.examples))
    for place, n in enumerate(watched(counts, progress, more=1)):
        fitted = _fitted(d, n, settings.trials, np.random.default_rng([seed, 0, place]))
        rows.append(_row("exact fit", n, n, None, *mean_and_error(fitted), fitted_gap(d, n)))
        checks += [_fit(d, n, fitted), _fit_spread(d, n, fitted)]
    paths = {b: _descended(d, smallest, b, settings.trials, seed) for b in sorted({*settings.batches, smallest})}
    for b, gaps in paths.items():
        for step, values in zip(STEPS, gaps.T, strict=True):
            gap, error = mean_and_error(values)
            rows.append(_row(f"SGD, batch {b}", smallest, b, step, gap, error, None))
    checks += [
        _by_powers(d, smallest, settings.trials, seed, paths[smallest]),
        *_alike(paths),
        *_false_laws(paths, fitted_gap(d, smallest)),
        *_two_dimensions(),
        *_digits(seed),
    ]
    progress(len(counts) + 1, len(counts) + 1)
    return Findings(
        checks=tuple(checks),
        theory=tuple(
            Law(f"gap_at_{n}", fitted_gap(d, n), "(s^2 / 2) (d / (N - d - 1) + d / N)", SOURCE) for n in counts
        ),
        rows=tuple(rows),
        curves=_curves(rows, fitted_gap(d, smallest)),
        picture=Picture("step", "gap", log_x=True),
        conclusion="The gap grows with the steps and falls with the number of examples; at equal steps the "
        "batch size does not change it",
        assumptions=(
            f"least squares with s = 1, learning rate 1 / (d + 2) = {stable_rate(d):.3g}",
            "digits: logistic regression, learning rate 1 / beta",
        ),
    )


def fitted_gap(dimension: int, examples: int) -> float:
    """Expected gap of least squares with s = 1 on normal data."""
    return 0.5 * (dimension / (examples - dimension - 1) + dimension / examples)


def fitted_spread(dimension: int, examples: int) -> float:
    """Standard deviation of that gap over data sets; infinite up to d + 3 examples.

    With m = N - d - 1 and W the Wishart matrix of the data, the gap is normal noise squared: half of E tr W^-2 and of
    (N - d) / N^2 is its variance for given data, a quarter of Var tr W^-1 = 2 d (N - 1) / ((m + 1) m^2 (m - 2)) that of
    its mean; E tr W^-2 = d (N - 1) / ((m + 1) m (m - 2)).
    """
    m = examples - dimension - 1
    if m <= 2:
        return math.inf
    return math.sqrt((dimension * (examples - 1) / (m**2 * (m - 2)) + (examples - dimension) / examples**2) / 2)


def _fit(dimension: int, examples: int, gaps: Array) -> Check:
    """The gaps of the exact fits beside their mean.

    Large gaps are rare. Data sets without one have too small a mean, and know the error only from the law; those with
    one have too large a mean, and an error of its own.
    """
    gap, error = mean_and_error(gaps)
    spread = fitted_spread(dimension, examples)
    return Check(f"gap of the exact fit to {examples} examples", fitted_gap(dimension, examples), gap,
                 max(error, spread / math.sqrt(len(gaps))),
                 holds=when(math.isfinite(spread),
                            "more than dimension + 3 examples; with fewer the gap has no finite variance"))  # fmt: skip


def _fit_spread(dimension: int, examples: int, gaps: Array) -> Check:
    """The variance over data sets beside its law, where large gaps are not rare."""
    law = fitted_spread(dimension, examples) ** 2
    return Check(f"variance of the gap of the exact fit to {examples} examples", law, *variance_and_error(gaps),
                 runs=len(gaps), holds=when(examples >= FAR_FROM_SQUARE * dimension,
                                            f"at least {FAR_FROM_SQUARE} examples per dimension"))  # fmt: skip


def _two_dimensions(examples: int = 8) -> list[Check]:
    """Mean and variance of the gap in two dimensions, by the triangular root of the Wishart matrix.

    Its entries are a, c > 0 and b, independent, with a^2 and c^2 chi-square of N and N - 1 degrees of freedom and b
    normal; tr W^-1 = 1 / a^2 + 1 / c^2 + b^2 / (a^2 c^2), and det W = a^2 c^2.
    """
    n = examples
    a, a2, c, c2 = 1 / (n - 2), 1 / ((n - 2) * (n - 4)), 1 / (n - 3), 1 / ((n - 3) * (n - 5))
    trace, square = a + c + a * c, a2 + c2 + 3 * a2 * c2 + 2 * (a * c + a2 * c + a * c2)
    mean = (trace + 2 / n) / 2
    variance = (square - 2 * a * c) / 2 + (n - 2) / (2 * n**2) + (square - trace**2) / 4
    return [
        Check(f"gap in two dimensions, {n} examples", mean, fitted_gap(2, n), tolerance=1e-12,
              holds=example("d = 2")),
        Check("1 over the standard deviation with 3 examples more than dimensions", 0.0, 1 / fitted_spread(2, 5),
              holds=example("d = 2")),
        # E |x|^2 x_1^2 of normal numbers: 3 from x_1^4, and 1 for each other direction.
        Check("learning rate, times the mean of |x|^2 x_1^2", 1.0, stable_rate(7) * (3 + 6), tolerance=1e-12,
              holds=example("d = 7")),
        Check(f"variance of the gap in two dimensions, {n} examples", variance, fitted_spread(2, n) ** 2,
              tolerance=1e-12, holds=example("d = 2")),
    ]  # fmt: skip


def stable_rate(dimension: int) -> float:
    """Half the largest rate that is stable on single normal examples, whose E |x|^2 x x' is (d + 2) I."""
    return 1 / (dimension + 2)


def _fitted(d: int, n: int, trials: int, generator: np.random.Generator) -> Array:
    """Gaps of the exact fits. The loss on new data is |theta - truth|^2 / 2 + 1 / 2, exactly."""
    gaps = []
    for _ in range(trials):
        x, noise = generator.normal(size=(n, d)), generator.normal(size=n)
        error = np.linalg.lstsq(x, noise, rcond=None)[0]
        gaps.append(0.5 * float(error @ error) + 0.5 - 0.5 * float(((x @ error - noise) ** 2).mean()))
    return np.array(gaps)


def _descended(d: int, n: int, batch: int, trials: int, seed: int) -> Array:
    """Gaps of SGD after each of `STEPS`, shape (trials, steps); the same data sets for every batch size.

    theta is the distance from the truth, which SGD starts at a random place of length 1.
    """
    x, noise, theta = _data(d, n, trials, seed)
    generator, gaps, rate = np.random.default_rng([seed, 2, batch]), [], stable_rate(d)
    rows = np.arange(trials)[:, np.newaxis]
    for step in range(1, max(STEPS) + 1):
        places = generator.integers(n, size=(trials, batch)) if batch < n else np.arange(n)
        inputs, targets = x[rows, places], noise[rows, places]
        residual = np.einsum("tbd,td->tb", inputs, theta) - targets
        theta = theta - rate * np.einsum("tb,tbd->td", residual, inputs) / batch
        if step in STEPS:
            training = 0.5 * ((np.einsum("tnd,td->tn", x, theta) - noise) ** 2).mean(axis=1)
            gaps.append(0.5 * (theta**2).sum(axis=1) + 0.5 - training)
    return np.array(gaps).T


def _data(d: int, n: int, trials: int, seed: int) -> tuple[Array, Array, Array]:
    """Inputs, noise of the targets, and distances from the truth at the start, of every data set."""
    data = np.random.default_rng([seed, 1])
    x, noise = data.normal(size=(trials, n, d)), data.normal(size=(trials, n))
    return x, noise, data.normal(size=(trials, d)) / math.sqrt(d)


def _by_powers(d: int, n: int, trials: int, seed: int, gaps: Array) -> Check:
    """Full-batch descent on the first data set in one go: its map to the power of the steps, about the exact fit."""
    (x, *_), (noise, *_), (start, *_) = _data(d, n, trials, seed)
    first, *_ = gaps
    end = np.linalg.lstsq(x, noise, rcond=None)[0]
    shrink = np.linalg.matrix_power(np.eye(d) - stable_rate(d) / n * x.T @ x, max(STEPS))
    theta = end + shrink @ (start - end)
    law = 0.5 * float(theta @ theta) + 0.5 - 0.5 * float(((x @ theta - noise) ** 2).mean())
    return Check(f"gap after {max(STEPS)} steps of the full batch on one data set", law, float(first[-1]),
                 tolerance=1e-9, holds=ALWAYS)  # fmt: skip


def _alike(paths: dict[int, Array]) -> list[Check]:
    """At equal steps and rate every batch size has nearly the gap of the largest, once steps are many enough."""
    most, checks = max(paths), []
    for b in sorted(paths.keys() - {most}):
        times = ratio_of_means(paths[b][:, 2], paths[most][:, 2])
        checks.append(
            Check(f"gap after {STEPS[2]} steps of batch {b} over that of batch {most}", 1.0, times.value,
                  times.standard_error, ALIKE, runs=times.pairs,
                  holds=when(times.known, "enough data sets to resolve the gap of the largest batch"))
        )  # fmt: skip
    return checks


def _false_laws(paths: dict[int, Array], ends_at: float) -> list[Check]:
    """Where the printed laws and the runs part; with many examples the gap is too small to tell."""
    wide = when(ends_at >= SEEN, f"so few examples that the gap of the exact fit is at least {SEEN:g}")
    (least, *_), (*_, most) = sorted(paths), sorted(paths)
    early, late = (float(paths[least][:, place].mean()) for place in (0, -1))
    gap, error = mean_and_error(paths[most][:, -1])
    return [
        Check(f"gap ~ 1 / sqrt(B steps): from {STEPS[0]} to {STEPS[-1]} steps, ratio",
              math.sqrt(STEPS[0] / STEPS[-1]), late / early, tolerance=0.5, false_law=True, holds=wide),
        Check("no gap at full batch", 0.0, gap, error, false_law=True, holds=wide),
    ]  # fmt: skip


def _digits(seed: int, examples: int = 400, batch: int = 20, steps: int = 200) -> list[Check]:
    """SGD on logistic regression: the measured gap is below the stability bound, averaged over splits."""
    whole = digits_logistic(penalty=0.0, side=4)
    longest = float((whole.inputs**2).sum(axis=1).max())
    # |p - y| <= sqrt(2) bounds each gradient by sqrt(2) |x|; the Hessian is at most |x|^2 / 2.
    largest, rate = 2 * longest, 2 / longest
    generator, gaps = np.random.default_rng([seed, 3]), []
    for _ in range(8):
        order = generator.permutation(len(whole.inputs))
        training, rest = whole.part(order[:examples]), whole.part(order[examples:])
        w = np.zeros(whole.dimension)
        for _ in range(steps):
            w = w - rate * training.part(generator.integers(examples, size=batch)).gradient(w)
        gaps.append(float(rest.loss(w) - training.loss(w)))
    gap, error = mean_and_error(np.array(gaps))
    bound = 2 * largest / examples * rate * steps
    return [
        Check("gap on the digits, at most (2 G^2 / N) sum alpha", bound, gap, error, relation="at most", runs=len(gaps),
              holds=example(DIGITS)),
    ]  # fmt: skip


def _row(what: str, n: int, batch: int, step: int | None, gap: float, error: float, law: float | None) -> Json:
    return {"run": what, "examples": n, "batch": batch, "step": step, "gap": gap,
            "ci95": [gap - 1.96 * error, gap + 1.96 * error], "gap_law": law}  # fmt: skip


def _curves(rows: list[Json], limit: float) -> tuple[Curve, ...]:
    """The gap over steps of every batch size, and where it ends."""
    curves = []
    for name in dict.fromkeys(row["run"] for row in rows if row["step"] is not None):
        mine = [row for row in rows if row["run"] == name]
        half = np.array([(row["ci95"][1] - row["ci95"][0]) / 2 for row in mine])
        curves.append(Curve(name, np.array(STEPS, dtype=float), np.array([row["gap"] for row in mine]), half_ci95=half))
    ends = np.array([STEPS[0], STEPS[-1]], dtype=float)
    curves.append(Curve("exact fit, law", ends, np.full(2, limit), theory=True))
    return tuple(curves)
