"""Which recipe still trains when the batch is large? A network on digits, always the same number of epochs.

With k times the batch there are k times fewer steps. The linear rule makes up for it until the rate meets the edge of
stability; past it training blows up, and warm-up helps only where the curvature is large at the start and falls.
LARS and LAMB move every layer by the same share of its length, so that no layer meets its edge first:

    first step of LARS: |change of a layer| / |layer| = rate * trust;   of LAMB: rate
Warm-up in its simplest form: on w^4 / 4, w <- w - a w^3 diverges iff a w_0^2 > 2, but not if a grows while w
falls.
Losses and accuracies are measured; nothing is claimed of generalisation but what the rows show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, mean_and_error, watched
from lockstep.learn.lab.objectives import Perceptron
from lockstep.learn.methods.learning_rate import rule, warm_up_frac
from lockstep.learn.methods.optimizers import Lars, Optimizer, optimizer, step
from lockstep.simulate.play.sample import student_t

QUESTION = "Which learning-rate recipe still trains a network when the batch size grows at a fixed number of epochs?"
SOURCE = "Goyal et al. 2017; You, Gitman, Ginsburg 2017; You et al. 2020"
BATCH, RATE = 32, 0.3  # assumed: the base recipe, tuned to about a loss of 0.07 in 15 epochs
TRAINING = 1280  # of the 1,797 digits; the rest is the test set
TOO_LARGE = 10
"""Times the batch, at which the linear rule fails."""
WARM_UP = 0.4  # assumed: share of the steps; shorter ones do not reach the rate asked for here
WORST = 1e6
"""Loss from which on a run is no worse than another."""
UNTRAINED = math.log(10)
"""Loss of a network that gives all ten digits the same chance."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    epochs: int = setting(15, "Passes over the training digits.", least=10, most=30)
    hidden: int = setting(32, "Number of hidden units.", least=16, most=32)
    repetitions: int = setting(
        3, "Runs of each recipe, each with its own initialization and order of examples.", least=2, most=100
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """An optimizer, its rate and warm-up, at a batch size."""

    name: str
    method: Optimizer
    batch: int
    rate: float
    warm_up_steps: int = 0


@dataclass(frozen=True, slots=True)
class Trained:
    """What the runs of one recipe came to, one value per run."""

    recipe: Recipe
    loss: Array
    test_loss: Array
    accuracy: Array

    @property
    def failed(self) -> bool:
        """Whether the mean loss is above that of no training."""
        return not float(self.loss.mean()) < UNTRAINED


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Every recipe with several starts."""
    recipes = _recipes(settings.epochs)
    trained = {}
    for recipe in watched(recipes, progress):
        runs = [_train(recipe, settings, seed * settings.repetitions + one) for one in range(settings.repetitions)]
        trained[recipe.name, recipe.batch] = Trained(recipe, *(np.array(column) for column in zip(*runs, strict=True)))
    return Findings(
        checks=(*_claims(trained), *_shares(settings.hidden, seed), *_quartic()),
        theory=(
            Law("untrained_loss", UNTRAINED, "log 10", "guessing among ten classes"),
            Law("quartic_edge", 2.0, "a w_0^2", "|1 - a w^2| > 1 makes w grow"),
        ),
        rows=tuple(_row(one) for one in trained.values()),
        curves=_curves(trained),
        picture=Picture("batch", "training_loss", log_x=True, log_y=True),
        conclusion="The linear rule keeps the loss at 4 times the batch size and fails at 10; the square-root"
        " rule, momentum with warm-up and LARS still train where it fails",
        assumptions=(
            f"{settings.repetitions} runs per recipe, equal epochs",
            "learning rates of LARS and LAMB tuned by hand",
        ),
    )


def _recipes(epochs: int) -> list[Recipe]:
    sgd, warm_up = optimizer("sgd"), round(WARM_UP * epochs * TRAINING / (TOO_LARGE * BATCH))
    base = [Recipe("base", sgd, BATCH, RATE)]
    scaled = [
        Recipe("no scaling" if name == "none" else f"{name} rule", sgd, k * BATCH, float(rule(name)(RATE, k)))
        for name in ("none", "square-root", "linear") for k in (4, TOO_LARGE, 40)
    ]  # fmt: skip
    momentum = [
        Recipe(
            "momentum" + ", warm-up" * bool(steps), optimizer("momentum"), TOO_LARGE * BATCH, TOO_LARGE * RATE, steps
        )
        for steps in (0, warm_up)
    ]
    return base + scaled + momentum + [
        Recipe("LARS", optimizer("lars"), 40 * BATCH, 50.0), Recipe("LAMB", optimizer("lamb"), 40 * BATCH, 0.1),
    ]  # fmt: skip


def _digits(hidden: int, seed: int) -> tuple[Perceptron, Perceptron]:
    """(training, test) networks on a random split."""
    from lockstep.learn.methods.data import digits

    pixels, classes = digits()
    order = np.random.default_rng([seed, 0]).permutation(len(pixels))
    whole = Perceptron(pixels, classes, len(np.unique(classes)), hidden)
    return whole.part(order[:TRAINING]), whole.part(order[TRAINING:])


def _train(recipe: Recipe, settings: Settings, seed: int) -> tuple[float, float, float]:
    """(training loss, test loss, test accuracy) at the end; losses are cut at `WORST`."""
    training, test = _digits(settings.hidden, seed)
    generator = np.random.default_rng([seed, 1])
    layers: Sequence[Array] = training.layers(training.start(seed))
    state, steps = recipe.method.start(layers), count()
    for _ in range(settings.epochs):
        for batch in generator.permutation(TRAINING).reshape(-1, recipe.batch):
            gradient = training.layers(training.part(batch).gradient(_flat(layers)))
            rate = recipe.rate * float(warm_up_frac(next(steps), recipe.warm_up_steps))
            layers, state = step(recipe.method, layers, gradient, state, rate)
    flat = _flat(layers)
    if not np.isfinite(flat).all():
        return WORST, WORST, 0.0
    right_frac = float(test.accuracy_frac(flat))
    return min(float(training.loss(flat)), WORST), min(float(test.loss(flat)), WORST), right_frac


def _flat(layers: Sequence[Array]) -> Array:
    return np.concatenate([layer.ravel() for layer in layers])


def _claims(trained: dict[tuple[str, int], Trained]) -> list[Check]:
    """What the recipes do to the training loss."""
    base = float(trained["base", BATCH].loss.mean())

    def loss(name: str, k: int) -> float:
        return float(trained[name, k * BATCH].loss.mean())

    return [
        Check("linear rule, 4 times the batch: loss over the base", 1.0, loss("linear rule", 4) / base, tolerance=0.25,
              holds=ALWAYS),
        Check("no scaling, 4 times the batch: loss over the base", 2.0, loss("no scaling", 4) / base,
              relation="at least", holds=ALWAYS),
        Check(f"linear rule, {TOO_LARGE} times the batch: loss, untrained or worse", UNTRAINED,
              loss("linear rule", TOO_LARGE), relation="at least", holds=ALWAYS),
        Check("the linear rule holds at every batch size: loss at 40 times over the base", 1.0,
              loss("linear rule", 40) / base, tolerance=1.0, false_law=True, holds=ALWAYS),
        Check(f"square-root rule, {TOO_LARGE} times the batch: loss", 0.5, loss("square-root rule", TOO_LARGE),
              relation="at most", holds=ALWAYS),
        Check(f"momentum, {TOO_LARGE} times batch and rate, no warm-up: loss", UNTRAINED, loss("momentum", TOO_LARGE),
              relation="at least", holds=ALWAYS),
        Check(f"momentum, {TOO_LARGE} times batch and rate: loss with warm-up over that without", 0.1,
              loss("momentum, warm-up", TOO_LARGE) / loss("momentum", TOO_LARGE), relation="at most", holds=ALWAYS),
        Check(f"momentum, {TOO_LARGE} times batch and rate, warm-up: loss", 0.5, loss("momentum, warm-up", TOO_LARGE),
              relation="at most", holds=ALWAYS),
        Check("LARS at full batch: loss over that of the linear rule", 0.1, loss("LARS", 40) / loss("linear rule", 40),
              relation="at most", holds=ALWAYS),
        Check("LAMB at full batch: loss over that of the linear rule", 0.1, loss("LAMB", 40) / loss("linear rule", 40),
              relation="at most", holds=ALWAYS),
    ]  # fmt: skip


def _shares(hidden: int, seed: int) -> list[Check]:
    """How far the first step moves the two weight matrices, as shares of their length."""
    training, _ = _digits(hidden, seed)
    start = training.start(seed)
    layers, gradient = training.layers(start), training.layers(training.gradient(start))

    def moved(method: Optimizer, rate: float) -> list[float]:
        after, _ = step(method, layers, gradient, method.start(layers), rate)
        return [float(np.linalg.norm(after[i] - layers[i]) / np.linalg.norm(layers[i])) for i in (0, 2)]

    lars, lamb, sgd = moved(Lars(trust=0.001), 20.0), moved(optimizer("lamb"), 0.02), moved(optimizer("sgd"), 0.3)
    return [
        *(Check(f"first step of LARS relative to weight matrix {i + 1}", 0.02, lars[i], tolerance=1e-12,
              holds=ALWAYS) for i in (0, 1)),
        *(Check(f"first step of LAMB relative to weight matrix {i + 1}", 0.02, lamb[i], tolerance=1e-12,
              holds=ALWAYS) for i in (0, 1)),
        Check("SGD moves every layer by the same relative amount: first over "
              "second", 1.0, sgd[0] / sgd[1], tolerance=0.05,
              false_law=True, holds=ALWAYS),
    ]  # fmt: skip


def _quartic() -> list[Check]:
    """w^4 / 4 from 1: the edge, and a warm-up to twice as far."""

    def diverges(rate: float, warm_up_steps: int = 0) -> float:
        w = 1.0
        try:
            for at in range(2000):
                w -= rate * float(warm_up_frac(at, warm_up_steps)) * w**3
        except OverflowError:
            return 1.0
        return 0.0

    return [
        Check("w^4 / 4 at a w_0^2 = 1.9: diverges (1 = yes)", 0.0, diverges(1.9), holds=example("from w_0 = 1")),
        Check("w^4 / 4 at a w_0^2 = 2.1: diverges (1 = yes)", 1.0, diverges(2.1), holds=example("from w_0 = 1")),
        Check("w^4 / 4 at a w_0^2 = 4 after 10 steps of warm-up: diverges (1 = yes)", 0.0, diverges(4.0, 10),
              holds=example("from w_0 = 1")),
    ]  # fmt: skip


def _row(trained: Trained) -> Json:
    recipe, n = trained.recipe, len(trained.loss)
    mean, error = mean_and_error(trained.loss)
    half = student_t(0.975, n - 1) * error
    return {
        "recipe": recipe.name, "batch": recipe.batch, "rate": recipe.rate,
        "loss": None if trained.failed else mean,
        "ci95": None if trained.failed else [max(mean - half, 0.0), mean + half],
        "test_loss": None if trained.failed else float(trained.test_loss.mean()),
        "accuracy_frac": float(trained.accuracy.mean()),
    }  # fmt: skip


def _curves(trained: dict[tuple[str, int], Trained]) -> tuple[Curve, ...]:
    """Training loss over batch sizes of every recipe; a curve ends where training is worse than none."""
    base, curves = trained["base", BATCH], []
    for name in dict.fromkeys(name for name, _ in trained if name != "base"):
        mine = [one for (other, _), one in trained.items() if other == name]
        points = [base, *mine] if len(mine) > 1 else mine
        x = np.array([float(one.recipe.batch) for one in points])
        y = np.array([float(one.loss.mean()) for one in points])
        curves.append(Curve.until_divergence(name, x, y, limit=UNTRAINED, marks=len(mine) == 1))
    ends = np.array([BATCH, 40.0 * BATCH])
    return (*curves, Curve("untrained", ends, np.full(2, UNTRAINED), theory=True))
