"""ResNets: weights, forward FLOPs and kept activations, from one list of their convolutions.

Source: He et al. 2015 (arXiv 1512.03385), table 1; stride in the 3x3 convolution of a bottleneck and the projection
shortcut as in torchvision ("v1.5"). ResNet-50 has 25,557,032 parameters and 4.09 GMAC per 224 x 224 image.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Number
from lockstep.base.types.brief import Brief
from lockstep.describe.workload.checks import flags, whole
from lockstep.describe.workload.weight import Weight

STEM = "stem"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConvNet(Brief):
    """A residual network of the ResNet family on square images (He et al. 2015, stride in the 3x3 convolution)."""

    name: str
    blocks: tuple[int, ...]
    """Residual blocks in each stage."""
    bottleneck: bool = True
    width: int = 64
    """Channels of the stem and of the first stage; each later stage doubles them."""
    image: int = 224
    """Side of the image in pixels."""
    channels: int = 3
    classes: int = 1000
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.blocks) <= 8:
            raise BadInput(f"blocks must list 1 to 8 stages, got {len(self.blocks)}", "model")
        for count in self.blocks:
            whole("model", "blocks", count, 1_000)
        for name, limit in (("width", 10_000), ("image", 100_000), ("channels", 1_000), ("classes", 10_000_000)):
            whole("model", name, getattr(self, name), limit)
        flags("model", self, "bottleneck")


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution, its batch norm behind it; `side` is the side of its square output."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    side: int
    stride: int = 1
    is_shortcut: bool = False
    ends_block: bool = False
    """Whether the shortcut is added to its normalised output."""

    @property
    def is_stem(self) -> bool:
        """Whether it reads the images, and max pooling follows."""
        return self.name == STEM

    @property
    def macs(self) -> int:
        """Multiply-accumulates per image: k^2 * c_in * c_out per output pixel."""
        return self.kernel**2 * self.inputs * self.outputs * self.side**2


def convolutions(model: ConvNet) -> Iterator[Convolution]:
    """Every convolution in order: the stem (7x7, then max pooling), then the residual blocks."""
    side = _strided(model.image, 2)
    yield Convolution(STEM, model.channels, model.width, 7, side, 2)
    side, inputs = _strided(side, 2), model.width
    for stage, blocks in enumerate(model.blocks):
        inner = model.width * 2**stage
        outputs = inner * (4 if model.bottleneck else 1)
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            yield from _block(f"stage {stage + 1} block {block + 1}", model.bottleneck, inputs, inner, side, stride)
            side, inputs = _strided(side, stride), outputs


def _block(name: str, bottleneck: bool, inputs: int, inner: int, side: int, stride: int) -> Iterator[Convolution]:
    """The convolutions of one residual block; the shortcut is projected where its shape changes."""
    after = _strided(side, stride)
    outputs = inner * (4 if bottleneck else 1)
    if bottleneck:
        yield Convolution(f"{name} reduce", inputs, inner, 1, side)
        yield Convolution(f"{name} spatial", inner, inner, 3, after, stride)
        yield Convolution(f"{name} expand", inner, outputs, 1, after, ends_block=True)
    else:
        yield Convolution(f"{name} first", inputs, inner, 3, after, stride)
        yield Convolution(f"{name} second", inner, outputs, 3, after, ends_block=True)
    if stride > 1 or inputs != outputs:
        yield Convolution(f"{name} shortcut", inputs, outputs, 1, after, stride, is_shortcut=True)


def _strided(side: int, stride: int) -> int:
    """Side of a padded convolution's or pooling's output: ceil(side / stride)."""
    return -(-side // stride)


def features(model: ConvNet) -> int:
    """Channels that enter the classifier."""
    return int(model.width * 2 ** (len(model.blocks) - 1) * (4 if model.bottleneck else 1))


def convnet_weights(model: ConvNet) -> tuple[Weight, ...]:
    """Kernels, scale and bias of every batch norm, and the classifier."""
    found = []
    for conv in convolutions(model):
        found.append(Weight(conv.name, "mlp", (conv.outputs, conv.inputs, conv.kernel, conv.kernel)))
        found.append(Weight(f"{conv.name} norm", "norms", (conv.outputs,)))
        found.append(Weight(f"{conv.name} norm bias", "norms", (conv.outputs,)))
    found.append(Weight("classifier", "head", (features(model), model.classes)))
    found.append(Weight("classifier bias", "head", (model.classes,)))
    return tuple(found)


def convnet_forward_flops(model: ConvNet) -> int:
    """FLOPs of one image, forward: two per multiply-accumulate of convolutions and classifier."""
    macs = sum(conv.macs for conv in convolutions(model))
    return 2 * (macs + features(model) * model.classes)


def convnet_activation_B(model: ConvNet, images: Number, element_B: float = 2.0) -> Number:
    """Bytes kept for the backward pass of `images` images.

    Each batch norm keeps its input; each ReLU, in place, its output, which the next convolution or pooling reads. A
    projected shortcut has no ReLU of its own. Max pooling keeps 8-byte indices. Batch statistics are left out.
    """
    kept = model.channels * model.image**2 + features(model)
    for conv in convolutions(model):
        kept += conv.outputs * conv.side**2 * (1 if conv.is_shortcut else 2)
    pooled = model.width * _strided(model.image, 4) ** 2
    return images * (kept * element_B + pooled * (8 + element_B))
