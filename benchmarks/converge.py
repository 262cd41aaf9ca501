"""Delayed SGD over many trials at once, beside a plain loop over trials and beside what memory allows, one core.

    python benchmarks/converge.py [--steps N]

1,000 trials x 10,000 steps x 100 dimensions, a delay of 10, with noise and without. The plain loop runs the same
recursion trial by trial on numpy vectors of 100 numbers; it is timed on a few trials and scaled. The memory limit is
the time to copy as many bytes as the arrays of a step move (read and written, counted in `traffic_B`) at the rate that
copying one large array reaches on this machine in the same run. Budgets: 20 times the loop, 3 times the limit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from lockstep.learn.lab.descent.delayed import descend

TRIALS, DIMENSION, DELAY, STEP = 1000, 100, 10, 0.05
LOOP_TRIALS, LOOP_STEPS = 3, 2000
ROUNDS = 3
COPY_ELEMS = 16_000_000


def seconds(action: Callable[[], object]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def loop(curvatures: np.ndarray, noise_std: float, trials: int, steps: int) -> None:
    """The same, one trial after another."""
    for trial in range(trials):
        generator = np.random.default_rng(trial)
        ring = np.ones((DELAY + 1, DIMENSION))
        for step in range(steps):
            gradient = curvatures * ring[(step + 1) % (DELAY + 1)]
            if noise_std:
                gradient = gradient + noise_std * (2.0 * generator.integers(0, 2, DIMENSION) - 1.0)
            ring[(step + 1) % (DELAY + 1)] = ring[step % (DELAY + 1)] - STEP * gradient


def traffic_B(noisy: bool) -> float:
    """Bytes that the passes of one step read and write, caches or not."""
    arrays = 3 + 3 + (2 + 2 + 3) * noisy
    """Multiply: 2 read, 1 written; subtract: the same; noise: table and draw, scale in place, add."""
    return 8.0 * TRIALS * DIMENSION * arrays


def main() -> None:
    """Prints a row without noise and one with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    steps = parser.parse_args().steps
    large, target = np.ones(COPY_ELEMS), np.empty(COPY_ELEMS)
    copy_s = min(seconds(lambda: np.copyto(target, large)) for _ in range(5))
    copy_Bps = 16.0 * COPY_ELEMS / copy_s
    curvatures, start = np.linspace(0.1, 1.0, DIMENSION), np.ones((TRIALS, DIMENSION))
    print(f"{TRIALS:,} trials x {steps:,} steps x {DIMENSION}, delay {DELAY}; copying: {copy_Bps / 1e9:.1f} GB/s")
    print(f"{'':<12}{'seconds':>9}{'loop':>10}{'/ loop':>9}{'limit':>9}{'of limit':>10}")
    for name, noise_std in (("no noise", 0.0), ("noise", 1.0)):

        def vectorised(noise_std: float = noise_std) -> object:
            return descend(curvatures, start, STEP, delay=DELAY, noise_std=noise_std, steps=steps, record_every=steps)

        def plain(noise_std: float = noise_std) -> None:
            loop(curvatures, noise_std, LOOP_TRIALS, LOOP_STEPS)

        ours_s = statistics.median(seconds(vectorised) for _ in range(ROUNDS))
        loop_s = min(seconds(plain) for _ in range(ROUNDS)) * TRIALS / LOOP_TRIALS * steps / LOOP_STEPS
        limit_s = steps * traffic_B(noise_std > 0) / copy_Bps
        print(
            f"{name:<12}{ours_s:>9.2f}{loop_s:>10.1f}{loop_s / ours_s:>8.0f}x{limit_s:>9.2f}{ours_s / limit_s:>9.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
