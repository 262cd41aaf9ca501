"""`simulate_blocks`: more campaigns than one process should hold in its rounds, cut into blocks for an engine.

    block 0 draws from the seed itself, block b > 0 from SeedSequence(seed, spawn_key=(BLOCK, b))
so a block depends on its number alone: the same campaigns on every engine, and the first block's are those of a run
that needs no other.

Source: numpy.org, "Parallel random number generation", SeedSequence spawning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from lockstep.base.engines import Asking, Engine, Questions, Serial, SweepFile, silent
from lockstep.base.errors import RunFailed
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import plain
from lockstep.base.types.progress import Progress
from lockstep.simulate.failures.laws import GapLaw
from lockstep.simulate.failures.losses import Campaigns
from lockstep.simulate.failures.pattern import Pattern
from lockstep.simulate.failures.pool import Pool
from lockstep.simulate.failures.simulation import simulate_campaigns

BLOCK = 10_000
"""Campaigns of a block: a fraction of a second of numpy rounds."""
COLUMNS = tuple(one.name for one in fields(Campaigns) if one.name != "work_s")
COUNTS = tuple(name for name in COLUMNS if name.startswith("failures"))


def simulate_blocks(
    pattern: Pattern, work_s: float, interval_s: float, law: GapLaw, *, pool: Pool | None = None,
    campaigns: int = 1000, seed: int = 0, engine: Engine | None = None, file: SweepFile | None = None,
    progress: Progress = silent,
) -> Campaigns:  # fmt: skip
    """`simulate_campaigns` in blocks on an engine, by default in this process; those in `file` are not drawn again.

    Raises what it does, and RunFailed when the engine did not answer all blocks.
    """
    words: dict[str, Any] = {"pattern": pattern, "work_s": work_s, "interval_s": interval_s, "law": law, "pool": pool}
    sizes = [min(BLOCK, campaigns - begin) for begin in range(0, campaigns, BLOCK)]
    about = {"simulate": {**plain(words), "of": type(law).__name__, "seed": seed}}
    questions = Questions(partial(_block, seed, words), list(enumerate(sizes)), about, name=_named)
    # Ten values of each run, once: a million runs are 80 MB.
    columns = {name: np.empty(campaigns, np.int64 if name in COUNTS else np.float64) for name in COLUMNS}
    for place, found in each_block(questions, engine or Serial(), file, progress):
        for name, values in zip(COLUMNS, found, strict=True):
            columns[name][place * BLOCK : place * BLOCK + sizes[place]] = values
    return Campaigns(work_s, **columns)


def each_block(
    questions: Questions, engine: Engine, file: SweepFile | None, progress: Progress
) -> Iterator[tuple[int, Any]]:
    """(number, answer) of all blocks in any order. Raises RunFailed when the engine did not answer all of them."""
    asking, known, blocks = Asking(questions, engine, file, progress), 0, len(questions.tasks)
    for found in asking:
        known += 1
        yield found
    if known < blocks:
        lost = "; ".join(f"{one.name} {one.why}" for one in asking.left_out)
        raise RunFailed(lost or f"{asking.stopped or 'not simulated yet'}: {known} of {blocks} blocks are known")


def block_seed(seed: int, number: int) -> np.random.SeedSequence:
    """What a block draws from: the seed itself, or a child of its own."""
    return np.random.SeedSequence(seed, spawn_key=(BLOCK, number)) if number else np.random.SeedSequence(seed)


def _block(seed: int, words: dict[str, Any], block: tuple[int, int]) -> Floats:
    """The columns of one block, (column, campaign)."""
    number, campaigns = block
    found = simulate_campaigns(**words, campaigns=campaigns, seed=block_seed(seed, number))
    return np.array([getattr(found, name) for name in COLUMNS], dtype=np.float64)


def _named(block: tuple[int, int]) -> str:
    return f"block {block[0]} of simulated runs"
