"""ResNets of Hugging Face configs: `modeling_resnet.py` of github.com/huggingface/transformers, 5.24."""

from __future__ import annotations

from lockstep.errors import BadInput
from lockstep.workload.config_reader import ConfigReader
from lockstep.workload.convnet import ConvNet

WIDER = {"bottleneck": 4, "basic": 1}
"""Channels that leave a block, over those inside it."""


def resnet(config: ConfigReader) -> ConvNet:
    """A ResNet with strides in its 3x3 convolutions, each stage twice as wide as the one before."""
    kind = config.data.get("layer_type", "bottleneck")
    if not isinstance(kind, str) or kind not in WIDER:
        config.refuse("layer_type", "blocks are bottleneck or basic")
    for name in ("downsample_in_first_stage", "downsample_in_bottleneck"):
        if config.flag(name):
            config.refuse(name, "strides are in the 3x3 convolutions, and the first stage has none")
    width = config.size("embedding_size", limit="hidden", default=64)
    blocks = _numbers(config, "depths", [3, 4, 6, 3])
    given = _numbers(config, "hidden_sizes", [256, 512, 1024, 2048])
    wanted = [WIDER[str(kind)] * width * 2**stage for stage in range(len(blocks))]
    if given != wanted:
        raise BadInput(f"hidden_sizes must be {wanted}, each stage twice the one before", config.where("hidden_sizes"))
    labels = config.data.get("id2label")
    return ConvNet(
        name="resnet",
        blocks=tuple(blocks),
        bottleneck=kind == "bottleneck",
        width=width,
        channels=config.size("num_channels", limit="hidden", default=3),
        classes=len(labels) if isinstance(labels, dict) else config.size("num_labels", limit="vocab", default=1000),
    )


def _numbers(config: ConfigReader, name: str, default: list[int]) -> list[int]:
    """A short list of whole numbers."""
    found = config.words(name) or default
    if len(found) > 8 or not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
        raise BadInput(f"{name} must list up to 8 whole numbers, got {str(found)[:40]}", config.where(name))
    return found
