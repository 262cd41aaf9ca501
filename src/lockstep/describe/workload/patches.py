"""`Patches`: an image as a sequence, in place of a vocabulary.

A square image of side I is cut into n^2 squares of side P, n = floor(I/P); each is projected to the model's width:

    s = n^2 (+ 1 with a class token)        values per patch = c P^2 for c channels

What leaves the last layer is read in one of two ways: a classifier reads one vector per image, or a projection makes
`outputs` channels of every pixel of every patch.

Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1; outputs: Peebles and Xie 2022 (arXiv 2212.09748),
section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.describe.workload.checks import divisors_near, flags, whole
from lockstep.describe.workload.piece import FULL, Piece, Row
from lockstep.describe.workload.weight import Weight

MOST_SIDE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """A square image cut into square patches, each of which becomes a token."""

    image: int
    """Side of the image in pixels; of what an autoencoder makes of it, where that is what the model reads."""
    patch: int
    """Side of a patch."""
    channels: int = 3
    class_token: bool = True
    """A learned token before the patches, which the classifier reads."""
    classes: int = 0
    """Number of classes of the classifier; 0 without a classifier."""
    outputs: int = 0
    """Channels predicted for every pixel of every patch; 0 where none are."""

    def __post_init__(self) -> None:
        for name in ("image", "patch", "channels"):
            whole("patches", name, getattr(self, name), MOST_SIDE)
        whole("patches", "classes", self.classes, 10_000_000, 0)
        whole("patches", "outputs", self.outputs, MOST_SIDE, 0)
        flags("patches", self, "class_token")
        if self.patch > self.image:
            raise BadInput(f"patch={self.patch} is larger than the image of side {self.image}", "patches.patch")
        if self.classes and self.outputs:
            raise BadInput("an image has a classifier or predicted pixels; give classes or outputs", "patches")
        if self.outputs and self.image % self.patch:
            tries = " or ".join(str(number) for number in divisors_near(self.image, self.patch))
            raise BadInput(f"patch={self.patch} does not divide the image of side {self.image}; try {tries}", "patches")

    @property
    def side(self) -> int:
        """Patches along a side; what is left over at the edge is not read."""
        return self.image // self.patch

    @property
    def count(self) -> int:
        """Patches of an image."""
        return self.side**2

    @property
    def tokens(self) -> int:
        """Tokens of an image, the class token included."""
        return self.count + self.class_token

    @property
    def share(self) -> float:
        """Patches over tokens."""
        return self.count / self.tokens

    @property
    def values(self) -> int:
        """Numbers in a patch."""
        return self.channels * self.patch**2

    @property
    def predicted(self) -> int:
        """Numbers predicted for a patch."""
        return self.outputs * self.patch**2

    def weights(self, hidden: int) -> Iterator[Weight]:
        """The projection, which is a convolution, and the class token."""
        yield Weight("patch projection", "embedding", (hidden, self.channels, self.patch, self.patch))
        yield Weight("patch projection bias", "embedding", (hidden,))
        if self.class_token:
            yield Weight("class token", "embedding", (hidden,))

    def head_weights(self, hidden: int) -> Iterator[Weight]:
        """The classifier, or the projection onto pixels."""
        if self.classes:
            yield Weight("classifier", "head", (hidden, self.classes), per_sequence=True)
            yield Weight("classifier bias", "head", (self.classes,))
        if self.outputs:
            yield Weight("patch output", "head", (hidden, self.predicted))
            yield Weight("patch output bias", "head", (self.predicted,))

    def rows(self, piece: Piece) -> Iterator[Row]:
        """What the projection keeps where it is trained: its pixels, on every tensor-parallel rank."""
        if piece.adapters is None:
            yield Row("patches", self.share * self.values * piece.input_B, "kv", FULL, most=1)

    def logits(self) -> float:
        """Numbers per token that the loss reads."""
        return self.classes / self.tokens + self.share * self.predicted

    def describe(self) -> str:
        """A short description, as answers print it."""
        token = " and a class token" if self.class_token else ""
        size = f"{self.image} x {self.image}"
        return f"an image of {size} is one sequence of {self.tokens:,} tokens: {self.side} x {self.side} patches{token}"
