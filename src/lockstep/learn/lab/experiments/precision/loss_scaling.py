"""Training with 16-bit gradients under every policy of loss scaling: steps lost, and the loss that is reached.

    a gradient below 2.98e-8 is zero in fp16: without a scale the run stops where its gradients get there
    static S: as fp32 while S |g| stays in range; never moves if it does not
    dynamic: halves at an overflow and skips that step, doubles after `interval` good ones
             long run, steady gradients: 1 / (interval + 1) of the steps are lost
             start too high: log2(S_0 / S_fit) steps are lost before the first good one
    clip after unscaling: to min(|g|, limit); before it: to min(|g|, limit / S), S times too short
Refuted beside it: that bf16 needs a scale as well, that clipping may come before unscaling, that micro-batches may be
clipped one by one.

Source: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2; PyTorch's GradScaler (defaults).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.loss_scaling import (
    GROWTH_INTERVAL,
    LossScale,
    all_finite,
    clip_by_norm,
    lost_steps_frac,
    static,
    unscaled,
)
from lockstep.learn.methods.number_format import NumberFormat, number_format

QUESTION = "What does fp16 lose without loss scaling, and what does static or dynamic scaling cost?"
SOURCE = "Micikevicius et al. 2018, section 3.2; PyTorch GradScaler"

ELEMS = 200
EARLY_STEPS = 10
CLIPPED = "50 entries, S = 1024, limit 1"
HALF, BRAIN, SINGLE = (number_format(name) for name in ("fp16", "bf16", "fp32"))


@dataclass(frozen=True, slots=True)
class Settings:
    """A quadratic with small curvatures, so that its gradients are small, and the policies."""

    curvature: float = setting(1e-6, "Largest curvature, which sets the size of the gradients.", above=0, most=1)
    steps: int = setting(2000, "Number of steps of a run.", least=100, most=1_000_000)
    static_power: int = setting(20, "Exponent of the static scale, a power of 2.", least=0, most=60)
    start_power: int = setting(40, "Exponent of the initial dynamic scale, a power of 2.", least=0, most=60)
    interval: int = setting(200, "Steps without overflow before the dynamic scale doubles.", least=1, most=100_000)


@dataclass(frozen=True, slots=True)
class Trained:
    """A run: loss after every step over that at the start, steps skipped, and the scale at the end."""

    losses: Array
    skipped: int
    scale: LossScale


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Every policy on the same problem."""
    policies = {
        **{chosen.name: (chosen, static(1.0)) for chosen in (SINGLE, BRAIN, HALF)},
        f"fp16, static 2^{settings.static_power}": (HALF, static(float(np.exp2(settings.static_power)))),
        f"fp16, dynamic from 2^{settings.start_power}": (
            HALF, LossScale(float(np.exp2(settings.start_power)), interval=settings.interval),
        ),
    }  # fmt: skip
    runs = {}
    for name, (chosen, scale) in watched(policies.items(), progress, more=1):
        runs[name] = _trained(chosen, scale, settings)
    checks = (
        _early(runs["fp32"], settings),
        *_run_checks(list(runs.values()), settings),
        *_lost_steps(settings),
        *_counted(runs["fp32"]),
        *_clip_order(seed),
    )
    progress(len(policies) + 1, len(policies) + 1)
    x = np.arange(settings.steps + 1, dtype=float)
    return Findings(
        checks=checks,
        theory=(
            Law("long-run fraction "
                "of steps lost", lost_steps_frac(settings.interval), "1 / (interval + 1)", "one cycle"),
            Law("fraction with PyTorch's interval", lost_steps_frac(GROWTH_INTERVAL), "1 / 2001", "GradScaler"),
            Law("gradients are zero up to", HALF.least_subnormal / 2, "2^-25", "IEEE 754-2019"),
        ),
        rows=tuple(
            {"policy": name, "final_loss": float(found.losses[-1]), "skipped_steps": found.skipped,
             "final_scale": found.scale.scale}
            for name, found in runs.items()
        ),
        curves=tuple(Curve(name, x, found.losses) for name, found in runs.items()),
        picture=Picture("step", "loss", log_y=True, least_y=1e-30),
        conclusion=_conclusion(list(runs.values())),
        assumptions=("weights and updates in fp32; only the gradient is in the format",),
    )  # fmt: skip


def _trained(chosen: NumberFormat, scale: LossScale, settings: Settings) -> Trained:
    """Descent with gradients that are scaled, stored in the format, checked, unscaled."""
    curvature = settings.curvature * np.geomspace(0.1, 1.0, ELEMS)
    step_size = 1 / settings.curvature
    weights, skipped = np.ones(ELEMS), 0
    losses = [float(curvature @ weights**2)]
    for _ in range(settings.steps):
        stored = chosen.rounded(scale.scale * curvature * weights)
        finite = all_finite([stored])
        if finite:
            weights = weights - step_size * unscaled([stored], scale.scale)[0]
        skipped += not finite
        scale = scale.after(finite)
        losses.append(float(curvature @ weights**2))
    return Trained(np.array(losses) / losses[0], skipped, scale)


def _run_checks(runs: list[Trained], settings: Settings) -> list[Check]:
    """Where each policy ends, by formula."""
    single, brain, plain, fixed, moving = runs
    slowest = (1 - 0.1) ** (2 * settings.steps)
    # Without a scale a direction stops once its gradient rounds to zero: between half of the limit and the limit.
    curvature = settings.curvature * np.geomspace(0.1, 1.0, ELEMS)
    stuck = np.minimum(curvature, HALF.least_subnormal / 2)
    most = float((stuck**2 / curvature).sum() / curvature.sum())
    overflows = settings.curvature * 2.0**settings.static_power >= HALF.overflows_from
    small = settings.curvature * 2.0**settings.static_power < 1e3 * HALF.least_normal
    wide = when(settings.curvature >= 1e4 * BRAIN.least_normal, "curvatures that bf16 and fp32 represent")
    moves = when(settings.curvature * 2.0**settings.start_power >= 1e3 * HALF.least_normal,
                 "a start_power at which the first gradient is far above the subnormal numbers")  # fmt: skip
    return [
        Check("fp32 converges", 0.0, float(single.losses[-1]), tolerance=1e-9 + slowest, holds=wide),
        Check("bf16 without a scale converges", 0.0, float(brain.losses[-1]), tolerance=1e-9 + slowest, holds=wide),
        Check("bf16 needs a scale: 1/1000 of the "
              "loss is left", 1e-3, float(brain.losses[-1]), relation="at least", false_law=True,
              holds=wide & when(slowest < 1e-3, "steps enough for plain descent to get there")),
        Check("fp16 without a scale: loss where gradients are flushed", most, float(plain.losses[-1]),
              tolerance=0.75 * most + slowest, holds=ALWAYS),
        Check("fp16 with a dynamic scale "
              "converges", 0.0, float(moving.losses[-1]), tolerance=1e-9 + _left_after(settings), holds=moves),
        Check("steps before a dynamic scale fits, in the run", _steps_lost(settings),
              float((moving.losses[1:] == 1).sum()), holds=moves),
        Check("a static scale that is too large loses every step", settings.steps, fixed.skipped,
              holds=when(overflows, "a static scale at which the first gradient overflows")),
        Check("fp16 with a static scale converges", 0.0, float(fixed.losses[-1]), tolerance=1e-6 + slowest,
              holds=when(not (overflows or small), "a static scale that keeps the first gradient a thousand times above"
                         " the subnormal numbers, and in range")),
    ]  # fmt: skip


def _counted(single: Trained) -> list[Check]:
    """Steps skipped by a run whose gradients are all in range, and by one whose gradients never are."""
    steps, huge = 100, 2.0**60
    lost = _trained(HALF, static(huge), Settings(curvature=1.0, steps=steps))
    return [
        Check("steps skipped in fp32", 0.0, single.skipped, holds=ALWAYS),
        Check("steps skipped at a scale of 2^60", steps, lost.skipped, holds=example("fp16, curvatures from 0.1 to 1")),
    ]


def _early(single: Trained, settings: Settings) -> Check:
    """In fp32 direction i shrinks by 1 - h_i / h at every step: the loss on the way, up to roundings."""
    shares = np.geomspace(0.1, 1.0, ELEMS)
    law = float((shares * (1 - shares) ** (2 * EARLY_STEPS)).sum() / shares.sum())
    # Twenty roundings of 2^-24, each of a step that is a share of the way.
    return Check(
        f"fp32: loss after {EARLY_STEPS} steps", law, float(single.losses[EARLY_STEPS]), tolerance=1e-6 * law,
        holds=when(settings.curvature >= 1e4 * SINGLE.least_normal, "curvatures that fp32 represents"),
    )  # fmt: skip


def _fitting_power(settings: Settings) -> int:
    """The largest power of two by which the largest gradient stays in range."""
    return math.ceil(math.log2(HALF.overflows_from / settings.curvature)) - 1


def _steps_lost(settings: Settings) -> int:
    """First steps of a run that its scale is halved in."""
    return min(settings.steps, max(0, settings.start_power - _fitting_power(settings)))


def _left_after(settings: Settings) -> float:
    """Loss that plain descent has left when the first steps were lost."""
    lost = max(0, settings.start_power - _fitting_power(settings))
    return float((1 - 0.1) ** (2 * max(0, settings.steps - lost - settings.steps // settings.interval)))


def _lost_steps(settings: Settings) -> list[Check]:
    """Skips until the first good step, and the long-run share with gradients of steady size, by running the rule."""
    fit = _fitting_power(settings)
    scale, lost = LossScale(float(np.exp2(settings.start_power)), interval=settings.interval), 0
    while not math.isfinite(float(HALF.rounded(scale.scale * settings.curvature))):
        scale, lost = scale.after(False), lost + 1
    expected = max(0, settings.start_power - fit)
    steps, steady, skipped = 20 * (settings.interval + 1), LossScale(2.0**fit, interval=settings.interval), 0
    for _ in range(steps):
        finite = math.isfinite(float(HALF.rounded(steady.scale * settings.curvature)))
        skipped += not finite
        steady = steady.after(finite)
    return [
        Check("steps lost from too high an initial scale", expected, lost, holds=ALWAYS),
        Check(
            "long-run fraction of steps lost",
            lost_steps_frac(settings.interval),
            skipped / steps,
            tolerance=1e-12,
            holds=ALWAYS,
        ),
    ]


def _clip_order(seed: int) -> list[Check]:
    """Norms after clipping on either side of unscaling, and of micro-batches clipped one by one."""
    (draw,) = streams(seed, 1)
    gradient, scale, limit = draw.standard_normal(50), 1024.0, 1.0
    after = clip_by_norm(unscaled([gradient * scale], scale), limit)[0]
    before = unscaled(clip_by_norm([gradient * scale], limit), scale)[0]
    parts = [draw.standard_normal(50) + 0.5, draw.standard_normal(50) / 10]
    together = clip_by_norm([parts[0] + parts[1]], limit)[0]
    apart = clip_by_norm([parts[0]], limit)[0] + clip_by_norm([parts[1]], limit)[0]
    gap = float(np.abs(together - apart).max())
    return [
        Check("norm, clipped after unscaling", limit, float(np.linalg.norm(after)),
              tolerance=1e-12, holds=example(CLIPPED)),
        Check("norm, clipped before unscaling: limit / S", limit / scale, float(np.linalg.norm(before)),
              tolerance=1e-12,
              holds=example(CLIPPED)),
        Check("clipping may come before unscaling", limit, float(np.linalg.norm(before)),
              tolerance=1e-6, false_law=True,
              holds=example(CLIPPED)),
        Check("micro-batches may be clipped separately", 0.0, gap, tolerance=1e-6, false_law=True,
              holds=example("two micro-batches of 50 entries, limit 1")),
    ]  # fmt: skip


def _conclusion(runs: list[Trained]) -> str:
    return (
        f"without a scale fp16 stalls at a loss of {runs[2].losses[-1]:.2g}; the dynamic scale loses {runs[4].skipped} "
        f"of {len(runs[4].losses) - 1} steps and reaches {runs[4].losses[-1]:.2g}"
    )
