"""`Steady`: an engine that always has the same number of sequences in flight: closed forms.

    time per token        t = T(n, c) + (n / O) x(P)              T a decode step, x what one prompt adds to it
    first token           f = t / 2 + T(n, c) + x(P)              half a step until the next, which has the prompt in it
    context               c = P + O / 2                           of sequences at all points of their answers

In O steps each of n sequences ends once, so n / O prompts are filled in per step. n in flight, O tokens of an answer, P
of a prompt. Where the pool does not hold n sequences, as many as it holds are in flight and the others wait:
Little's law (J. Little, Operations Research 9, 1961) gives their wait.
"""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.price.generation.engine import Engine
from lockstep.price.generation.passes import Passes
from lockstep.price.generation.pool import pool_of


@dataclass(frozen=True, slots=True)
class Steady:
    """Times of an engine with a constant number of sequences."""

    sequences: int
    """In flight at most: asked, or as many as the pool holds."""
    step_s: float
    """A decode step alone."""
    prompt_s: float
    """What one prompt adds."""
    token_s: float
    """From one token of a sequence to its next, in the mean."""
    first_token_s: float
    """From the arrival of a prompt to its first token."""

    @property
    def tokens_per_s(self) -> float:
        """Tokens of answers per second, of all sequences."""
        return self.sequences / self.token_s


def steady(engine: Engine, sequences: int, prompt: int, response: float) -> Steady:
    """The engine with `sequences` in flight, prompts and answers of so many tokens."""
    passes = Passes(engine)
    most = min(sequences, engine.most_sequences)
    held = min(most, max(1, pool_of(engine).sequences(prompt + response / 2)))
    context = prompt + response / 2
    step_s = float(passes.equal_step_s(held, context))
    prompt_s = float(passes.prefill_s(1, prompt, held))
    token_s = step_s + held / response * prompt_s
    wait_s = (sequences - held) / held * response * token_s
    return Steady(held, step_s, prompt_s, token_s, token_s / 2 + step_s + prompt_s + wait_s)
