"""`Target`: on how many tokens to train, and why.

    given        the tokens themselves
    a loss       D with L(N, D) = loss, by a scaling law
    compute      D*(N), the compute-optimal tokens of the model
A batch above the critical one spends more tokens for the same loss, in fewer steps (`methods/critical_batch.py`); the
tokens given are those of small batches, E_min.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lockstep.campaigns.scaling_law import ScalingLaw
from lockstep.errors import BadInput
from lockstep.methods.critical_batch import extra_examples_frac
from lockstep.units import format_count, format_frac
from lockstep.workload import Model, Transformer, parameters


@dataclass(frozen=True, slots=True)
class Target:
    """`tokens` to train on (images for a convolutional network)."""

    tokens: float
    loss: float | None = None
    """Predicted by the law, None without one."""
    critical_batch_tokens: float | None = None
    assumptions: tuple[str, ...] = ()

    def with_batch(self, batch_tokens: float) -> float:
        """Tokens to the same loss in steps of `batch_tokens`: `tokens` unless a critical batch is known."""
        if self.critical_batch_tokens is None:
            return self.tokens
        return self.tokens * (1 + float(extra_examples_frac(batch_tokens, self.critical_batch_tokens)))


def for_tokens(tokens: float) -> Target:
    """As many tokens as are given."""
    return Target(tokens)


def for_loss(law: ScalingLaw, model: Model, loss: float) -> Target:
    """The tokens after which `model` has `loss` nats per token. Raises BadInput for images, Infeasible when never."""
    size = _size(law, model)
    tokens = law.tokens_for_loss(size, loss)
    said = f"a loss of {loss:g} takes {format_count(tokens)} tokens by {law.source}"
    return Target(tokens, loss, assumptions=(said, *_caution(model)))


def for_compute(law: ScalingLaw, model: Model) -> Target:
    """The compute-optimal tokens of `model`. Raises BadInput for images."""
    size = _size(law, model)
    tokens = law.optimal_tokens(size)
    loss = law.loss(size, tokens)
    said = f"{format_count(tokens)} tokens ({tokens / size:.3g} per parameter), loss {loss:.4g}, by {law.source}"
    return Target(tokens, loss, assumptions=(said, *_caution(model)))


def in_batches(target: Target, critical_batch_tokens: float) -> Target:
    """`target`, its tokens taken as those of small batches; larger ones need more, as the module says."""
    said = f"critical batch {format_count(critical_batch_tokens)} tokens, held constant (it grows as the loss falls)"
    return replace(target, critical_batch_tokens=critical_batch_tokens, assumptions=(*target.assumptions, said))


def _size(law: ScalingLaw, model: Model) -> float:
    if not isinstance(model, Transformer):
        raise BadInput(f"{model.name} is not a language model; set the length with --tokens (in images)", "--loss")
    return law.size(model)


def _caution(model: Model) -> tuple[str, ...]:
    """What the law does not know about the model."""
    counted = parameters(model)
    if counted.active >= counted.total:
        return ()
    active = format_frac(counted.active / counted.total)
    return (f"scaling laws hold for dense models; here all parameters count, though a token uses {active} of them",)
