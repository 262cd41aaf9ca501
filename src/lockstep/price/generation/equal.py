"""Answers of equal lengths, closed form: full waves of as many as are in flight, and a last one of the rest.

    seconds of a wave of n     X(n) + (O - 1) A(n) + n sum over windows of s_w sum over 1 <= j < O of min(P + j, w)
    seconds of N answers       floor(N / F) T(F) + T(N mod F)

The prefill X makes the first token of each answer, every step one more. n sequences in flight, F of them at most, P
tokens of a prompt, O of an answer, A(n) a step without contexts, s_w seconds per token of context in layers with window
w (`passes.py`). Holds where the pool has room for F sequences of P + O tokens.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.price.generation.passes import Passes


def reach_sum(start: Number, steps: float, window: float) -> Number:
    """Sum of min(start + j, window) over j from 0 to steps - 1; window 0 is none. Broadcasts over `start`."""
    growing: Number = np.clip(window - start, 0.0, steps) if window else steps
    return growing * start + growing * (growing - 1) / 2 + (steps - growing) * window


def wave_s(passes: Passes, sequences: int, prompts: int, prompt: int, response: int) -> float:
    """Seconds of a wave of answers of which each reads one of `prompts` distinct prompts."""
    if not sequences:
        return 0.0
    steps = response - 1
    read_s = sum(rate * float(reach_sum(prompt + 1, steps, window)) for window, rate in passes.context_s.items())
    start_s = float(passes.prefill_s(prompts, prompt))
    return start_s + steps * float(passes.tokens_s(sequences)) + sequences * read_s


def equal_s(passes: Passes, answers: int, in_flight: int, prompt: int, response: int, group: int = 1) -> float:
    """Seconds of so many answers, `group` of them to each prompt, which is filled in once in every wave."""
    waves, rest = divmod(answers, in_flight)
    whole_s = wave_s(passes, in_flight, -(-in_flight // group), prompt, response) if waves else 0.0
    return waves * whole_s + wave_s(passes, rest, -(-rest // group), prompt, response)
