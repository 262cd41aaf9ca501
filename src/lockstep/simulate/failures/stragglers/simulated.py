"""`simulate_steps`: step times of slow workers, simulated in blocks on an engine; more blocks need no more memory.

    block 0 draws from the seed itself, block b > 0 from its own child of the seed (`simulate/failures/blocks.py`)
    mean      sum n_b m_b / n          spread^2 = (sum (n_b - 1) s_b^2 + sum n_b (m_b - mean)^2) / (n - 1)

n_b independent means with mean m_b and deviation s_b in block b. Quantiles are those of the steps of a single block;
of several, of counts in bins of BIN_FRAC, which add up. Blocks are merged in their order, so the answer is the same on
every engine and with any number of workers.

Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", Stanford 1979.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from lockstep.base.engines import Engine, Questions, Serial, SweepFile, silent
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, plain
from lockstep.base.types.progress import Progress
from lockstep.simulate.failures.blocks import block_seed, each_block
from lockstep.simulate.failures.stragglers.mitigation import Mitigation
from lockstep.simulate.play import Law, Sample, mean_interval_s, unseen

BLOCK = 4_000_000
"""Random numbers of a block: a second on one core, and intervals of some tenths of a percent."""
BIN_FRAC = 0.001
NOTHING = -(2**31)
"""The bin of steps that take no time."""
FRACTIONS = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is kept of simulated steps."""

    means: int
    """Independent means of steps."""
    mean_s: float
    std_s: float
    """Of one of the means."""
    quantiles_s: tuple[float, ...]
    """At FRACTIONS, of single steps."""

    def interval_s(self) -> tuple[float, float]:
        """Between which the mean lies with a confidence of 95 %."""
        return mean_interval_s(self.mean_s, self.std_s, self.means)


def simulate_steps(
    mitigation: Mitigation, law: Law, factor: Floats, comm_s: float, numbers: int, seed: int, *,
    engine: Engine | None = None, file: SweepFile | None = None, progress: Progress = unseen,
) -> Simulated:  # fmt: skip
    """The steps of `mitigation.steps_s`, from about `numbers` random numbers; blocks in `file` are not drawn again.

    Raises RunFailed when the engine did not answer all blocks.
    """
    sizes = [min(BLOCK, numbers - begin) for begin in range(0, numbers, BLOCK)]
    if len(sizes) == 1 and file is None:
        return _merged([(0, _block(mitigation, law, factor, comm_s, seed, (0, numbers), progress))])
    about = {
        "mitigation": [type(mitigation).__name__, plain(mitigation)], "law": [type(law).__name__, plain(law)],
        "factor": hashlib.sha256(factor.tobytes()).hexdigest(), "comm_s": comm_s, "seed": seed,
    }  # fmt: skip
    ask = partial(_block, mitigation, law, factor, comm_s, seed)
    questions = Questions(ask, list(enumerate(sizes)), {"stragglers": about}, name=_named)
    return _merged(each_block(questions, engine or Serial(), file, silent if progress is unseen else progress))


def _block(
    mitigation: Mitigation, law: Law, factor: Floats, comm_s: float, seed: int, block: tuple[int, int],
    progress: Progress = unseen,
) -> Json:  # fmt: skip
    """What is kept of one block, (number, random numbers)."""
    number, numbers = block
    generator = np.random.Generator(np.random.PCG64(block_seed(seed, number)))
    means, singles = mitigation.steps_s(law, factor, comm_s, numbers, generator, progress)
    sample, timed = Sample(means), singles > 0
    bins = np.full(len(singles), NOTHING)
    bins[timed] = np.floor(np.log(singles[timed]) / math.log1p(BIN_FRAC))
    places, counts = np.unique(bins, return_counts=True)
    return {
        "means": len(means),
        "mean_s": sample.mean_s,
        "std_s": sample.std_s,
        "quantiles_s": [float(np.quantile(singles, frac)) for frac in FRACTIONS],
        "bins": places.tolist(),
        "counts": counts.tolist(),
    }


def _merged(blocks: Iterable[tuple[int, Json]]) -> Simulated:
    """All blocks as one; three numbers of each are kept until the last has come, and one account of bins."""
    known: dict[int, tuple[int, float, float]] = {}
    counts, one = Counter[int](), dict[str, Any]()
    for number, one in blocks:
        known[number] = one["means"], one["mean_s"], one["std_s"]
        counts.update(dict(zip(one["bins"], one["counts"], strict=True)))
    if len(known) == 1:
        return Simulated(*known[0], tuple(one["quantiles_s"]))
    ordered = [known[number] for number in sorted(known)]
    means = sum(count for count, _, _ in ordered)
    mean_s = math.fsum(count * here_s for count, here_s, _ in ordered) / means
    within = math.fsum((count - 1) * std_s**2 for count, _, std_s in ordered)
    between = math.fsum(count * (here_s - mean_s) ** 2 for count, here_s, _ in ordered)
    return Simulated(means, mean_s, math.sqrt((within + between) / (means - 1)), _quantiles_s(counts))


def _quantiles_s(counts: Counter[int]) -> tuple[float, ...]:
    """Middles of the bins in which the quantiles lie: right to half of BIN_FRAC."""
    places = sorted(counts)
    reached = np.cumsum([counts[place] for place in places]) / counts.total()
    found = (places[int(np.searchsorted(reached, frac))] for frac in FRACTIONS)
    return tuple(0.0 if one == NOTHING else math.exp((one + 0.5) * math.log1p(BIN_FRAC)) for one in found)


def _named(block: tuple[int, int]) -> str:
    return f"block {block[0]} of simulated steps"
