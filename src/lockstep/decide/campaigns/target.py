"""`Target`: on how many tokens to train, and why.

    given        the tokens themselves
    a loss       D with L(N, D) = loss, by a scaling law
    compute      D*(N), the compute-optimal tokens of the model
A batch above the critical one spends more tokens for the same loss, in fewer steps (`learn/methods/critical_batch.py`);
the tokens given are those of small batches, E_min.

`ScalingLaw`: laws of loss over parameters N and tokens D, for dense language models.

    Hoffmann   L = E + A / N^a + B / D^b                       N: all parameters
               D*(N) = (b B / (a A) N^a)^(1/b)                 compute-optimal: least L for the same 6 N D
    Kaplan     L = ((Nc / N)^(aN / aD) + Dc / D)^aD            N: without embeddings
               D*(N) = Dc (N / Nc)^(aN / aD) aD / aN
Losses are cross-entropies in nats per token on the authors' own data and tokenizer: differences carry over better than
levels. `besiroglu` is the same form as `hoffmann` fitted anew to the same runs, where the published numbers, rounded
and from an optimizer stopped early, are biased; it agrees with the other two approaches of Hoffmann et al. (about 20
tokens per parameter). Kaplan's runs were short and shared one learning-rate schedule, so his law asks for larger models
on fewer tokens; it is here for comparison.
"""

from __future__ import annotations

from typing import Protocol

from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.base.units import format_count, format_frac
from lockstep.describe.workload import Model, Transformer, parameters
from lockstep.learn.methods.critical_batch import extra_examples_frac

FLOPS_PER_PARAMETER_TOKEN = 6.0
"""Forward and backward, attention left out: Kaplan et al. 2020, section 2.1."""


class ScalingLaw(Protocol):
    """A loss over N and D that can be solved for D."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def source(self) -> str:
        """Paper and equation."""

    def size(self, model: Model) -> float:
        """N of a model, as the law counts it."""

    def loss(self, size: float, tokens: float) -> float:
        """Nats per token."""

    def tokens_for_loss(self, size: float, loss: float) -> float:
        """Tokens after which a model of N parameters has this loss. Raises Infeasible when it never does."""

    def optimal_tokens(self, size: float) -> float:
        """Tokens on which N parameters are the best use of 6 N D FLOPs."""

    def optimal_size(self, flops: float) -> float:
        """Parameters that make the best use of `flops`."""


@dataclass(frozen=True, slots=True)
class Hoffmann:
    """L = E + A / N^a + B / D^b."""

    name: str
    irreducible: float
    size_factor: float
    size_exponent: float
    tokens_factor: float
    tokens_exponent: float
    source: str

    def size(self, model: Model) -> float:
        """All parameters."""
        return float(parameters(model).total)

    def loss(self, size: float, tokens: float) -> float:
        """Nats per token."""
        return float(self._floor(size) + self.tokens_factor * tokens**-self.tokens_exponent)

    def tokens_for_loss(self, size: float, loss: float) -> float:
        """Tokens after which N parameters have this loss; Infeasible at or below E + A / N^a."""
        left = loss - self._floor(size)
        if left <= 0:
            raise _never(self.name, size, loss, self._floor(size))
        return float((self.tokens_factor / left) ** (1 / self.tokens_exponent))

    def optimal_tokens(self, size: float) -> float:
        """a A / N^a = b B / D^b, from setting the gradient along constant N D to zero."""
        ratio = self.tokens_exponent * self.tokens_factor / (self.size_exponent * self.size_factor)
        return float((ratio * size**self.size_exponent) ** (1 / self.tokens_exponent))

    def optimal_size(self, flops: float) -> float:
        """N = (a A / (b B))^(1/(a+b)) (C / 6)^(b/(a+b))."""
        ratio = self.size_exponent * self.size_factor / (self.tokens_exponent * self.tokens_factor)
        product = flops / FLOPS_PER_PARAMETER_TOKEN
        return float((ratio * product**self.tokens_exponent) ** (1 / (self.size_exponent + self.tokens_exponent)))

    def _floor(self, size: float) -> float:
        """Loss on endless tokens."""
        return float(self.irreducible + self.size_factor * size**-self.size_exponent)


@dataclass(frozen=True, slots=True)
class Kaplan:
    """L = ((Nc / N)^(aN / aD) + Dc / D)^aD."""

    name: str
    size_scale: float
    size_exponent: float
    tokens_scale: float
    tokens_exponent: float
    source: str

    def size(self, model: Model) -> float:
        """Parameters without embeddings."""
        return float(parameters(model).non_embedding)

    def loss(self, size: float, tokens: float) -> float:
        """Nats per token."""
        return float((self._size_part(size) + self.tokens_scale / tokens) ** self.tokens_exponent)

    def tokens_for_loss(self, size: float, loss: float) -> float:
        """Tokens after which N parameters have this loss; Infeasible at or below (Nc / N)^aN."""
        floor = self._size_part(size) ** self.tokens_exponent
        if loss <= floor:
            raise _never(self.name, size, loss, floor)
        return float(self.tokens_scale / (loss ** (1 / self.tokens_exponent) - self._size_part(size)))

    def optimal_tokens(self, size: float) -> float:
        """aN/aD (Nc / N)^(aN/aD) = Dc / D."""
        return self.tokens_scale / (self._ratio * self._size_part(size))

    def optimal_size(self, flops: float) -> float:
        """N from N D*(N) = C / 6."""
        product = flops / FLOPS_PER_PARAMETER_TOKEN
        power = product * self._ratio * self.size_scale**self._ratio / self.tokens_scale
        return float(power ** (1 / (1 + self._ratio)))

    @property
    def _ratio(self) -> float:
        return self.size_exponent / self.tokens_exponent

    def _size_part(self, size: float) -> float:
        return float((self.size_scale / size) ** self._ratio)


LAWS: dict[str, ScalingLaw] = {
    law.name: law
    for law in (
        Hoffmann(
            "besiroglu", 1.8172, 482.01, 0.3478, 2085.43, 0.3658,
            "Besiroglu, Erdil, Barnett and You 2024 (arXiv 2404.10102), equation 4: refit of Hoffmann's approach 3",
        ),
        Hoffmann(
            "hoffmann", 1.69, 406.4, 0.34, 410.7, 0.28,
            "Hoffmann et al. 2022 (arXiv 2203.15556), equation 10: approach 3, coefficients as printed",
        ),
        Kaplan(
            "kaplan", 6.4e13, 0.076, 1.8e13, 0.103,
            "Kaplan et al. 2020 (arXiv 2001.08361), equation 1.5 and table 2; superseded, for comparison",
        ),
    )
}  # fmt: skip


def scaling_law(name: str, where: str | None = None) -> ScalingLaw:
    """The law called `name`. Raises UnknownName."""
    if name not in LAWS:
        raise UnknownName("scaling law", name, LAWS, where)
    return LAWS[name]


def _never(law: str, size: float, loss: float, floor: float) -> Infeasible:
    return Infeasible(
        f"by the law of {law} a model of {format_count(size)} parameters never gets below a loss of {floor:.4g}, and"
        f" {loss:g} was asked for; use a larger model or a higher loss"
    )


@dataclass(frozen=True, slots=True)
class Target:
    """`tokens` to train on (images for a model that reads them)."""

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
    if not isinstance(model, Transformer) or model.patches is not None:
        raise BadInput(f"{model.name} is not a language model; set the length with --tokens (in images)", "--loss")
    return law.size(model)


def _caution(model: Model) -> tuple[str, ...]:
    """What the law does not know about the model."""
    counted = parameters(model)
    if counted.active >= counted.total:
        return ()
    active = format_frac(counted.active / counted.total)
    return (f"scaling laws hold for dense models; here all parameters count, though a token uses {active} of them",)
