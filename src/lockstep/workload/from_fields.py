"""`build(fields)`: a model from plain fields, as the catalog's files and a user's own hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.workload.architecture import Attention, ConvNet, Experts, LatentAttention, Mlp, Model, Rotary, Transformer


def build(fields: Mapping[str, Any]) -> Model:
    """The model that plain `fields` describe, nested tables included. Raises BadInput."""
    given = dict(fields)
    if given.pop("kind", "transformer") == "convnet":
        given["blocks"] = tuple(given["blocks"])
        return ConvNet(**given)
    attention = dict(given.pop("attention"))
    if attention.get("latent"):
        attention["latent"] = LatentAttention(**attention["latent"])
    attention.setdefault("kv_heads", attention["heads"])
    experts = given.pop("experts", None)
    if experts:
        experts = Experts(**{**experts, "dense_layers": tuple(experts.get("dense_layers", ()))})
    mlp = given.pop("mlp", None)
    if given.get("rotary"):
        given["rotary"] = Rotary(**given["rotary"])
    return Transformer(attention=Attention(**attention), mlp=Mlp(**mlp) if mlp else None, experts=experts, **given)
