"""`LayerKind`: what one layer of a model is, and the words by which a model lists its layers.

    mixer    attention, nope (attention without positions, "NoPE"), recurrent, or none; of a model with an encoder and
             a decoder: encoder (attention in both directions), or decoder (causal attention, then attention over the
             encoder's output)
    block    dense, experts, or none
    window   keys that a query of the layer sees; 0 where it sees all

A pattern is a tuple of words MIXER or MIXER/BLOCK, repeated over the layers. Its mixers are those above, where
`attention` follows the window rule of the model's attention, and `local` and `global`, which have its window and
none. Without a block, the model's rule of experts says which one there is.

    ("recurrent", "recurrent", "recurrent", "global")           Qwen3-Next
    ("recurrent/none", "none/dense", "global/none")             layers with one block each, as in Nemotron-H

A model with an encoder has no pattern: its first layers are the encoder, all others the decoder.
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass

MIXERS = ("attention", "local", "global", "nope", "recurrent", "none")
BLOCKS = ("dense", "experts", "none")


@dataclass(frozen=True, slots=True, order=True)
class LayerKind:
    """What distinguishes one layer of a model from another."""

    block: str = "dense"
    window: int = 0
    mixer: str = "attention"
    """attention, nope, recurrent, encoder, decoder or none."""

    @property
    def experts(self) -> bool:
        """Whether its feed-forward block is a mixture of experts."""
        return self.block == "experts"

    @property
    def attends(self) -> bool:
        """Whether it has attention."""
        return self.mixer in ("attention", "nope", "encoder", "decoder")

    @property
    def crosses(self) -> bool:
        """Whether its own attention is followed by attention over an encoder's output."""
        return self.mixer == "decoder"

    @property
    def residual_blocks(self) -> int:
        """Blocks that add to the residual stream: of two, attention and feed-forward."""
        return (self.mixer != "none") + self.crosses + (self.block != "none")

    @property
    def whole(self) -> bool:
        """Whether it has both a mixer and a feed-forward block."""
        return self.mixer != "none" and self.block != "none"

    @property
    def stored(self) -> LayerKind:
        """The kind that stands for all with its parameters and kept bytes: windows and positions change neither."""
        return LayerKind(self.block, 0, "attention" if self.attends and not self.crosses else self.mixer)


DENSE = LayerKind()
EXPERTS = LayerKind("experts")


def read_word(word: object) -> tuple[str, str | None]:
    """Mixer and block of a pattern's word, None where it names no block. Raises UnknownName, BadInput."""
    mixer, slash, block = word.partition("/") if isinstance(word, str) else ("", "", "")
    if mixer not in MIXERS:
        raise UnknownName("mixer", str(word)[:40], MIXERS, "pattern")
    if slash and block not in BLOCKS:
        raise UnknownName("block", block[:40], BLOCKS, "pattern")
    if (mixer, block) == ("none", "none"):
        raise BadInput("a layer has a mixer, a feed-forward block, or both; got none/none", "pattern")
    return mixer, block or None


def kinds_of(
    layers: int,
    pattern: tuple[str, ...],
    window: int | None,
    window_of: Callable[[int], int | None],
    has_experts: Callable[[int], bool],
    encoder_layers: int = 0,
) -> tuple[LayerKind, ...]:
    """The kind of every layer: of the `pattern`, and of the rules for windows and experts where it leaves them open."""
    found = []
    for layer in range(layers):
        mixer, block = read_word(pattern[layer % len(pattern)]) if pattern else ("attention", None)
        if encoder_layers:
            mixer = "encoder" if layer < encoder_layers else "decoder"
        reach = {"attention": window_of(layer), "local": window}.get(mixer) or 0
        name = "attention" if mixer in ("local", "global") else mixer
        found.append(LayerKind(block or ("experts" if has_experts(layer) else "dense"), reach, name))
    return tuple(found)
