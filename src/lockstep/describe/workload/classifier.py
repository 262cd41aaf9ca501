"""`Classifier`: labels that are read off the last layer, of every token or once per sequence.

A reward model or a critic has one label, and no projection onto the vocabulary. After a decoder the classes of Hugging
Face transformers multiply every token's hidden state, of which the loss of `...ForSequenceClassification` takes the
last token's; after an encoder they read one vector per sequence.

Source: `modeling_layers.py`, `modeling_bert.py`, `modeling_roberta.py` and `modeling_t5.py` of
github.com/huggingface/transformers, 5.24.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.checks import flags, whole
from lockstep.describe.workload.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A linear layer from the hidden state to labels, in place of the projection onto the vocabulary or beside it."""

    labels: int
    bias: bool = False
    per_sequence: bool = False
    """It reads one vector per sequence, not every token's."""
    dense: bool = False
    """A square layer with a bias, and tanh, before it (RoBERTa, T5)."""

    def __post_init__(self) -> None:
        whole("classifier", "labels", self.labels, 10_000_000)
        flags("classifier", self, "bias", "per_sequence", "dense")

    def weights(self, hidden: int) -> Iterator[Weight]:
        """Its matrices and biases; every tensor-parallel rank holds all of them."""
        if self.dense:
            yield Weight("classifier dense", "head", (hidden, hidden), per_sequence=self.per_sequence)
            yield Weight("classifier dense bias", "head", (hidden,))
        yield Weight("classifier", "head", (hidden, self.labels), per_sequence=self.per_sequence)
        if self.bias:
            yield Weight("classifier bias", "head", (self.labels,))

    def logits(self, seq: Number) -> Number:
        """Numbers that the loss reads, per token of sequences of `seq` tokens."""
        return self.labels / seq if self.per_sequence else self.labels
