"""Models of images in Hugging Face configs: ResNets and ViTs of github.com/huggingface/transformers, 5.24; DiTs of
github.com/huggingface/diffusers, 0.42.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.errors import BadInput
from lockstep.describe.workload.architecture import Attention, Mlp, Transformer
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.convnet import ConvNet
from lockstep.describe.workload.huggingface_heads import head_of, is_bare, labels, refuse_head
from lockstep.describe.workload.modulation import Modulation
from lockstep.describe.workload.patches import Patches

WIDER = {"bottleneck": 4, "basic": 1}
"""Channels that leave a block, over those inside it."""


def resnet(config: ConfigReader) -> ConvNet:
    """A ResNet with strides in its 3x3 convolutions, each stage twice as wide as the one before."""
    name = head_of(config)
    if name and not name.endswith("ForImageClassification"):
        refuse_head(name, config)
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
    return ConvNet(
        name="resnet",
        blocks=tuple(blocks),
        bottleneck=kind == "bottleneck",
        width=width,
        channels=config.size("num_channels", limit="hidden", default=3),
        classes=labels(config),
    )


def vit(config: ConfigReader) -> Transformer:
    """A ViT with its classifier, as `ViTForImageClassification`; without one, but with a pooler, as `ViTModel`."""
    hidden = config.size("hidden_size", limit="hidden", default=768)
    heads = config.size("num_attention_heads", limit="heads", default=12)
    image, patch = _side(config, "image_size", 224), _side(config, "patch_size", 16)
    if patch > image:
        config.refuse("image_size", f"it is smaller than a patch of side {patch}")
    bare = is_bare(head_of(config), "vit")
    return Transformer(
        name="vit",
        layers=config.size("num_hidden_layers", limit="layers", default=12),
        hidden=hidden,
        patches=Patches(
            image=image,
            patch=patch,
            channels=config.size("num_channels", limit="hidden", default=3),
            classes=0 if bare else labels(config, minimum=0),
        ),
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=config.head_dim(hidden, heads),
            qkv_bias=config.flag("qkv_bias", default=True),
            out_bias=True,
            causal=False,
        ),
        mlp=Mlp(
            ffn=config.size("intermediate_size", limit="ffn", default=3072),
            gated=False,
            activation=config.activation("hidden_act", default="gelu"),
            in_bias=True,
            out_bias=True,
        ),
        positions="learned",
        norm="layernorm",
        pooler=bare,
    )


def dit(config: ConfigReader) -> Transformer:
    """A DiT as diffusers builds it: `transformer_2d.py` and `dit_transformer_2d.py`, 0.42. Every layer embeds time step
    and label for itself.
    """
    heads = config.size("num_attention_heads", limit="heads", default=16)
    head_dim = config.size("attention_head_dim", limit="head_dim", default=72)
    channels = config.size("in_channels", limit="hidden", default=4)
    if config.data.get("norm_type", "ada_norm_zero") != "ada_norm_zero":
        config.refuse("norm_type", "only a DiT's layers, ada_norm_zero, are read")
    if config.data.get("activation_fn", "gelu-approximate") not in ("gelu", "gelu-approximate"):
        config.refuse("activation_fn", "the blocks of a DiT have gelu")
    if config.flag("norm_elementwise_affine"):
        config.refuse("norm_elementwise_affine", "the norms of a DiT have no weights of their own")
    return Transformer(
        name="dit",
        layers=config.size("num_layers", limit="layers", default=28),
        hidden=heads * head_dim,
        patches=Patches(
            image=_side(config, "sample_size", 32),
            patch=_side(config, "patch_size", 2),
            channels=channels,
            class_token=False,
            outputs=config.size("out_channels", limit="hidden", default=channels),
        ),
        modulation=Modulation(labels=config.size("num_embeds_ada_norm", limit="vocab", default=1000) + 1, own=True),
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            qkv_bias=config.flag("attention_bias", default=True),
            out_bias=True,
            causal=False,
        ),
        mlp=Mlp(ffn=4 * heads * head_dim, gated=False, activation="gelu", in_bias=True, out_bias=True),
        positions="none",
        norm="nonparametric",
    )


def _side(config: ConfigReader, name: str, default: int) -> int:
    """Side of a square, which may be given as both of its sides."""
    value = config.data.get(name)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        return replace(config, data={name: value[0]}).size(name, limit="hidden")
    return config.size(name, limit="hidden", default=default)


def _numbers(config: ConfigReader, name: str, default: list[int]) -> list[int]:
    """A short list of whole numbers."""
    found = config.words(name) or default
    if len(found) > 8 or not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
        raise BadInput(f"{name} must list up to 8 whole numbers, got {str(found)[:40]}", config.where(name))
    return found
