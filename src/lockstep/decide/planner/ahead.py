"""`ahead_s`: generation of a step's answers in the long run, where engines work ahead of training.

While step t is trained, engines have its weights, and may make answers for the k steps after it, which will be k
updates old at most when their turn comes. So k steps' answers are in flight at most, and an engine does not wait for
the longest of one step: as an answer ends, the next prompt begins. With T(R) seconds for R steps' answers one after
another,

    seconds of a step = (T(2 k) - T(k)) / k

so that the beginning, when all prompts come together, and the last tail, which the next steps fill, are not in it.
Engines are alike: at most MOST of them are simulated, and their mean is taken, as engines do not wait for one another.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.decide.planner.rollout import Rollout
from lockstep.price.generation import Passes, simulate_answers

MOST, MOST_STEPS = 8, 64


def ahead_s(found: Rollout, steps: int, seed: int = 0) -> float:
    """Seconds of a step's answers in the long run, where engines work `steps` (1 or more) ahead. Raises BadInput."""
    if steps > MOST_STEPS:
        raise BadInput(f"must be at most {MOST_STEPS}, got {steps}", "--staleness")
    engine, passes, group = found.engine, Passes(found.engine), found.group
    generator = np.random.default_rng(seed)
    prompts = max(1, round(found.prompts / found.engines))
    most = min(engine.most_sequences, steps * prompts * group)
    shares = []
    for _ in range(min(found.engines, MOST)):
        lengths = found.lengths.draw(generator, 2 * steps * prompts * group)
        ends = [
            simulate_answers(passes, found.pool, found.prompt_tokens, some, most, group).total_s
            for some in (lengths[: len(lengths) // 2], lengths)
        ]
        shares.append((ends[1] - ends[0]) / steps)
    return float(np.mean(shares)) * found.prompts / (found.engines * prompts)
