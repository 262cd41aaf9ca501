"""How much does one example matter? Two runs of SGD on data sets that differ in one example, with the same order.

    delta_t = |w_t - w'_t|, N examples, data gradients of at most G, smoothness beta, rates a_t, any batch size
    convex, a <= 2 / beta:               E delta_T <= (2 G / N) sum a_t                  gap <= (2 G^2 / N) sum a_t
    mu-strongly, a <= 2 / (beta + mu):   E delta_T <= (2 G / (mu N)) (1 - (1 - a mu)^T)  gap <= 2 G^2 / (mu N)
    exactly:                             E (test loss - training loss) = E (loss at z of w' - loss at z of w)
z: the example that only the run of w has. Linear losses and quadratics that pull to +G and -G meet both bounds with
equality. A penalty is the same in both runs, so G bounds the gradients of the data alone. Refuted: a gap that falls
with the number of gradients as 1 / sqrt(B T), that grows with the workers as sqrt(n), that a full batch has none; half
the bound; the bound at rates beyond 2 / beta.

Source: Hardt, Recht, Singer, "Train faster, generalize better", 2016, theorems 2.2, 3.8 and 3.9; Bousquet, Elisseeff,
"Stability and generalization", 2002.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, absent, example, mean_and_error
from lockstep.learn.lab.objectives import Logistic, digits_logistic

Gradient = Callable[[Array, Array], Array]
"""Of parameters (trials, d) on the examples at places (trials, batch); place 0 is the one that N replaces."""

QUESTION = (
    "How far apart do two runs end whose training sets differ in one example, and what does that imply for the "
    "generalization gap?"
)
SOURCE = "Hardt, Recht, Singer 2016, theorems 2.2, 3.8 and 3.9"
TOO_FAR = 2.5
"""Rate times smoothness beyond the 2 up to which a step brings two runs on a convex loss no further apart."""
TOO_FAR_STEPS = 50


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    examples: int = setting(60, "Examples N of the training set.", least=20, most=500)
    batches: tuple[int, ...] = setting(
        (1, 10), "Batch sizes of SGD; the full batch is always included.", least=1, most=500
    )
    steps: int = setting(200, "Steps T of a run.", least=50, most=5000)
    penalty: float = setting(0.1, "L2 penalty mu that makes the loss strongly convex.", least=0.01, most=1)
    workers: int = setting(4, "Number of workers that split a batch of one example each.", least=2, most=16)
    trials: int = setting(
        200, "Number of pairs of data sets, each with its own order of examples.", least=100, most=5000
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two coupled runs: distance after every step (trials, steps), and where they ended (trials, d)."""

    distance: Array
    first: Array
    second: Array

    @property
    def last(self) -> Array:
        """Distance at the end of every trial."""
        return np.asarray(self.distance[:, -1])


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Distances of coupled runs on the digits and on the two losses that meet the bounds; gaps beside them."""
    n, steps = settings.examples, settings.steps
    if max(settings.batches) > n:
        raise BadInput(f"must be at most the {n} examples", "--set batches")
    whole = digits_logistic(penalty=0.0, side=4)
    longest = float((whole.inputs**2).sum(axis=1).max())
    # |p - y| <= sqrt(2) bounds a gradient by sqrt(2) |x|; the Hessian is at most |x|^2 / 2.
    steepest, rate = math.sqrt(2 * longest), 2 / (longest + 4 * settings.penalty)
    drawn = _orders(len(whole.inputs), settings.trials, np.random.default_rng([seed, 0]))
    batches = sorted({*settings.batches, n})
    pairs: dict[tuple[float, int], Pair] = {}
    for mu in (0.0, settings.penalty):
        loss = Logistic(whole.inputs, whole.classes, whole.num_classes, mu)
        for batch in batches:
            progress(len(pairs), 2 * len(batches))
            generator = np.random.default_rng([seed, 1, batch])
            pairs[mu, batch] = _coupled(_on_digits(loss, drawn), _start(loss, drawn), rate, n, batch, steps, generator)
    checks = [_below(pair, mu, batch, steepest, rate, n) for (mu, batch), pair in pairs.items()]
    checks += _gaps(whole, drawn, pairs[0.0, min(settings.batches)], steepest, rate, settings)
    checks += [*_exact(settings, steepest, rate, np.random.default_rng([seed, 3])), *_every_draw()]
    checks += _refuted(settings, pairs, _with_workers(settings, whole, drawn, rate, seed))
    progress(len(pairs), len(pairs))
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("convex_distance", bound(steepest, n, rate, steps, 0.0), "(2 G / N) sum a", SOURCE),
            Law("strongly_convex_distance", bound(steepest, n, rate, steps, settings.penalty),
                "(2 G / (mu N)) (1 - (1 - a mu)^T)", SOURCE),
        ),
        rows=tuple(_row(pair, mu, batch, steepest, rate, n) for (mu, batch), pair in pairs.items()),
        curves=_curves(pairs, steepest, rate, n, steps),
        picture=Picture("step", "distance", log_x=True, log_y=True),
        conclusion=_conclusion(pairs, settings, bound(steepest, n, rate, steps, 0.0)),
        assumptions=(
            f"digits of 4 x 4 pixels, logistic regression: G = {steepest:.3g}, rate {rate:.3g}, inside both conditions",
            "the replacement is drawn from the same distribution",
        ),
    )  # fmt: skip


def bound(steepest: float, examples: int, rate: float, steps: Any, mu: float) -> Any:
    """Largest expected distance after `steps` at a constant rate. Broadcasts over steps."""
    if mu == 0:
        return 2 * steepest / examples * rate * steps
    return 2 * steepest / (mu * examples) * (1 - (1 - rate * mu) ** steps)


def _orders(pool: int, trials: int, generator: np.random.Generator) -> Array:
    """Places of the pool in an order of every trial: N examples, then the one that replaces the first."""
    return np.array([generator.permutation(pool) for _ in range(trials)])


def _on_digits(loss: Logistic, drawn: Array) -> Gradient:
    rows = np.arange(len(drawn))[:, np.newaxis]
    return lambda parameters, places: loss.part(drawn[rows, places]).gradient(parameters)


def _start(loss: Logistic, drawn: Array) -> Array:
    return np.zeros((len(drawn), loss.dimension))


def _coupled(
    gradient: Gradient, start: Array, rate: float, examples: int, batch: int, steps: int, generator: np.random.Generator
) -> Pair:
    """SGD on both data sets of every trial, with the same places drawn at every step."""
    first, second, distance = start, start, np.empty((len(start), steps))
    everything = np.broadcast_to(np.arange(examples), (len(start), examples))
    for step in range(steps):
        places = everything if batch == examples else generator.integers(examples, size=(len(start), batch))
        first = first - rate * gradient(first, places)
        second = second - rate * gradient(second, np.where(places == 0, examples, places))
        distance[:, step] = np.sqrt(((first - second) ** 2).sum(axis=1))
    return Pair(distance, first, second)


def _kind(mu: float) -> str:
    return "strongly convex" if mu else "convex"


def _below(pair: Pair, mu: float, batch: int, steepest: float, rate: float, examples: int) -> Check:
    """The distance at the end beside its bound."""
    mean, error = mean_and_error(pair.last)
    largest = float(bound(steepest, examples, rate, pair.distance.shape[1], mu))
    return Check(
        f"{_kind(mu)}, batch {batch}: distance at the end", largest, mean, error, relation="at most", holds=ALWAYS
    )


def _gaps(whole: Logistic, drawn: Array, pair: Pair, steepest: float, rate: float, settings: Settings) -> list[Check]:
    """The gap on digits that were not trained on is what replacing one example changes at that example."""
    examples, pool = settings.examples, len(whole.inputs)
    training = whole.part(drawn[:, :examples]).loss(pair.first)
    test = (pool * whole.loss(pair.first) - examples * training) / (pool - examples)
    one = whole.part(drawn[:, :1])
    replaced = one.loss(pair.second) - one.loss(pair.first)
    gap, error = mean_and_error(test - training)
    # Both means are of the same trials: their difference has its own error, smaller or larger than either.
    difference, apart = mean_and_error(test - training - replaced)
    largest = float(steepest * bound(steepest, examples, rate, settings.steps, 0.0))
    return [
        Check("gap minus the change of loss at the replaced example", 0.0, difference, apart, holds=ALWAYS),
        Check("gap on the digits, at most (2 G^2 / N) sum a", largest, gap, error, relation="at most", holds=ALWAYS),
    ]


def _exact(settings: Settings, steepest: float, rate: float, generator: np.random.Generator) -> list[Check]:
    """Losses w z and mu w^2 / 2 + w z with z = G in one data set and -G in the other meet the bounds."""
    n, trials = settings.examples, settings.trials
    pulls = generator.uniform(-steepest, steepest, (trials, n + 1))
    pulls[:, 0], pulls[:, -1] = steepest, -steepest
    rows, checks = np.arange(trials)[:, np.newaxis], []

    def distance(mu: float, step: float, steps: int, batch: int) -> float:
        def gradient(parameters: Array, places: Array) -> Array:
            pulled: Array = mu * parameters + pulls[rows, places].mean(axis=1, keepdims=True)
            return pulled

        start = np.zeros((trials, 1))
        return float(_coupled(gradient, start, step, n, batch, steps, generator).last.mean())

    for mu in (0.0, settings.penalty):
        law = float(bound(steepest, n, rate, settings.steps, mu))
        for batch in sorted({*settings.batches, n}):
            found = distance(mu, rate, settings.steps, batch)
            error = _spread(n, batch, settings.steps, steepest, rate, mu) / math.sqrt(trials)
            checks.append(Check(f"{'quadratics' if mu else 'linear losses'}, batch {batch}: distance = bound", law,
                                found, error, tolerance=1e-9 * law, holds=ALWAYS))  # fmt: skip
        if mu == 0:
            checks.append(Check("half the bound, (G / N) sum a, on linear losses", law / 2, found, relation="at most",
                                false_law=True, holds=ALWAYS))  # fmt: skip
    found = distance(1.0, TOO_FAR, TOO_FAR_STEPS, n)
    at_any_rate = float(bound(steepest, n, TOO_FAR, TOO_FAR_STEPS, 0.0))
    checks.append(Check(f"(2 G / N) sum a at any rate: log10 of the distance at a beta = {TOO_FAR}",
                        math.log10(at_any_rate), math.log10(found), relation="at most", false_law=True,
                        holds=ALWAYS))  # fmt: skip
    return checks


def _spread(examples: int, batch: int, steps: int, steepest: float, rate: float, mu: float) -> float:
    """Standard deviation of the distance there: the example is drawn a binomial number of times at every step."""
    chance = 1 / examples
    of_a_step = (2 * rate * steepest) ** 2 * chance * (1 - chance) / batch * (batch < examples)
    left = (1 - rate * mu) ** (2.0 * np.arange(steps))
    return math.sqrt(of_a_step * float(left.sum()))


def _every_draw() -> Iterator[Check]:
    """That standard deviation over all draws: 4 examples pulled by +-1.5, batches of 2, 2 steps of 0.3, mu 0.7."""
    ends = []
    for drawn in product(range(4), repeat=4):
        apart = 0.0
        for places in (drawn[:2], drawn[2:]):
            apart = apart - 0.3 * (0.7 * apart + 3 * places.count(0) / 2)
        ends.append(abs(apart))
    for batch, words, law in ((2, "all draws of two batches of 2 of 4 examples", float(np.std(ends))),
                              (4, "two full batches of 4 examples", 0.0)):  # fmt: skip
        yield Check(f"standard deviation of the distance, {words}", law, _spread(4, batch, 2, 1.5, 0.3, 0.7),
                    tolerance=1e-12, holds=example("quadratics"))  # fmt: skip


def _with_workers(settings: Settings, whole: Logistic, drawn: Array, rate: float, seed: int) -> float:
    """Mean distance with workers that average the gradients of their shards over that with one."""
    shards = _on_digits(whole, drawn)

    def averaged(parameters: Array, places: Array) -> Array:
        parts = [shards(parameters, part) for part in np.split(places, settings.workers, axis=1)]
        mean: Array = np.mean(parts, axis=0)
        return mean

    ends = [
        _coupled(gradient, _start(whole, drawn), rate, settings.examples, settings.workers, settings.steps,
                 np.random.default_rng([seed, 2])).last.mean()
        for gradient in (shards, averaged)
    ]  # fmt: skip
    return float(ends[1] / ends[0])


def _refuted(settings: Settings, pairs: dict[tuple[float, int], Pair], ratio: float) -> list[Check]:
    """The forms in print that the coupled runs contradict."""
    smallest, full = pairs[0.0, min(settings.batches)], pairs[0.0, settings.examples]
    early, late = settings.steps // 10, settings.steps
    mean, error = mean_and_error(full.last)
    workers = settings.workers
    return [
        Check(f"{workers} workers at the same batch: distance over that of one worker", 1.0, ratio, tolerance=1e-9,
              holds=ALWAYS),
        Check(f"m(n) = m(1) sqrt(n): distance with {workers} workers over that of one", math.sqrt(workers), ratio,
              tolerance=0.1, false_law=True, holds=ALWAYS),
        _growth(smallest, early, late),
        Check("full batch: no distance", 0.0, mean, error, false_law=True, holds=ALWAYS),
    ]  # fmt: skip


def _growth(pair: Pair, early: int, late: int) -> Check:
    """How the distance grows, beside a gap that falls with the number of gradients."""
    before, after = (float(pair.distance[:, at - 1].mean()) for at in (early, late))
    what = f"1 / sqrt(B T): distance from {early} to {late} steps, ratio"
    if not before:
        return absent(what, "the differing example is drawn in the first tenth of the steps")
    return Check(what, math.sqrt(early / late), after / before, tolerance=0.5, false_law=True, holds=ALWAYS)


def _row(pair: Pair, mu: float, batch: int, steepest: float, rate: float, examples: int) -> Json:
    mean, error = mean_and_error(pair.last)
    return {
        "loss": _kind(mu), "examples": examples, "batch": batch, "distance": mean,
        "ci95": [mean - 1.96 * error, mean + 1.96 * error],
        "bound": float(bound(steepest, examples, rate, pair.distance.shape[1], mu)),
    }  # fmt: skip


def _curves(
    pairs: dict[tuple[float, int], Pair], steepest: float, rate: float, examples: int, steps: int
) -> tuple[Curve, ...]:
    """Mean distances, and both bounds."""
    at = np.unique(np.geomspace(1, steps, 40).astype(int))
    x, curves = at.astype(float), []
    for (mu, batch), pair in pairs.items():
        values = pair.distance[:, at - 1]
        half = 1.96 * values.std(axis=0, ddof=1) / math.sqrt(len(values))
        curves.append(Curve(f"{_kind(mu)}, batch {batch}", x, values.mean(axis=0), half_ci95=half))
    for mu in sorted({mu for mu, _ in pairs}):
        curves.append(Curve(f"bound, {_kind(mu)}", x, bound(steepest, examples, rate, x, mu), theory=True))
    return tuple(curves)


def _conclusion(pairs: dict[tuple[float, int], Pair], settings: Settings, largest: float) -> str:
    ends = [float(pairs[0.0, batch].last.mean()) for batch in sorted({*settings.batches, settings.examples})]
    return (
        f"One example of {settings.examples} moves the parameters by {min(ends):.3g} to {max(ends):.3g} in"
        f" {settings.steps} steps, at most {largest:.3g}: it depends on the sum of the learning rates, hardly on the "
        "batch size, and not on the number of workers; an L2 penalty bounds it"
    )
