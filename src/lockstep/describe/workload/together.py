"""Rules that join several fields of a `Transformer`; each raises BadInput at the field to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.describe.workload.checks import LIMITS, whole
from lockstep.describe.workload.kind import read_word

if TYPE_CHECKING:
    from lockstep.describe.workload.architecture import Transformer


def check_input(model: Transformer) -> None:
    """Text has a vocabulary and a longest sequence; images have neither, as their patches say both."""
    if model.patches is None:
        for name, limit in (("vocab", "vocab"), ("max_positions", "positions")):
            if not getattr(model, name):
                raise BadInput(f"key {name!r} is missing; a model that reads text has it", name)
            whole("model", name, getattr(model, name), LIMITS[limit])
        if model.modulation is not None:
            raise BadInput("modulation is of images; describe patches too", "modulation")
        return
    if model.vocab or model.mlm_head or model.token_types or model.mtp_layers or model.head_bias:
        raise BadInput("a model of patches reads no text: leave out vocab and what belongs to it", "patches")
    if model.classifier is not None:
        raise BadInput("a classifier of images is patches.classes", "classifier")
    if model.attention.causal:
        raise BadInput("patches attend to one another in both directions; set attention.causal to false", "patches")
    if model.modulation and (model.norm_placement != "pre" or model.parallel_block or model.pattern or model.experts):
        raise BadInput("modulation needs norm_placement pre, and neither parallel_block, pattern nor experts", "model")


def check_together(model: Transformer) -> None:
    """Rules that join several fields."""
    if model.parallel_block and model.norm_placement != "pre":
        raise BadInput(f"a parallel block needs norm_placement pre, got {model.norm_placement!r}", "model")
    if model.mlm_head and model.attention.causal:
        raise BadInput("mlm_head belongs to an encoder; set attention.causal to false", "model")
    if (model.head_bias or model.tied_embeddings) and model.attention.causal and not model.has_head:
        raise BadInput("without a projection onto the vocabulary, head_bias and tied_embeddings are false", "model")
    if model.headless and (model.classifier or model.mlm_head):
        raise BadInput("headless goes with neither classifier nor mlm_head", "headless")
    if model.encoder_layers:
        _check_encoder(model)
    _check_kinds(model)


def _check_encoder(model: Transformer) -> None:
    """An encoder has a decoder, and both are of T5's kind."""
    if model.encoder_layers >= model.layers:
        raise BadInput(
            f"encoder_layers={model.encoder_layers} of {model.layers} layers leave no decoder", "encoder_layers"
        )
    plain = model.attention.causal and model.attention.window is None and model.attention.latent is None
    if model.pattern or model.mtp_layers or not plain or model.patches or model.experts:
        raise BadInput(
            "an encoder with a decoder has causal attention without windows or latents, and neither pattern, "
            "experts, mtp_layers nor patches",
            "encoder_layers",
        )
    if model.norm_placement != "pre" or model.parallel_block:
        raise BadInput("an encoder with a decoder needs norm_placement pre, and no parallel_block", "encoder_layers")


def _check_kinds(model: Transformer) -> None:
    """Every layer's parts are described, and every part is some layer's."""
    if len(model.pattern) > model.layers:
        raise BadInput(f"the pattern has {len(model.pattern)} layers, the model {model.layers}", "pattern")
    kinds = model.kinds
    local = any(read_word(word)[0] == "local" for word in model.pattern)
    if local and model.attention.window is None:
        raise BadInput("the pattern has local layers; set attention.window", "pattern")
    if model.mlp is None and model.num_dense_layers:
        raise BadInput(f"mlp is missing, and {model.num_dense_layers} layers have no experts", "model")
    if model.experts is None and model.num_expert_layers:
        raise BadInput(f"experts are missing, and {model.num_expert_layers} layers have them", "model")
    if model.experts and not model.num_expert_layers:
        raise BadInput(f"experts are set, but none of the {model.layers} layers has them", "model")
    recurrent = any(kind.mixer == "recurrent" for kind in kinds)
    if recurrent != (model.recurrent is not None):
        wrong = "the pattern has recurrent layers; describe them under recurrent"
        raise BadInput(wrong if recurrent else "recurrent is set, but the pattern has no such layer", "pattern")
    whole_layers = all(kind.whole for kind in kinds)
    if not whole_layers and (model.norm_placement != "pre" or model.parallel_block):
        raise BadInput("layers with one block need norm_placement pre, and no parallel_block", "pattern")
