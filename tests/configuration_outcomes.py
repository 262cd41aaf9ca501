"""How Lockstep reads a config.json in which one key was changed, held to what the class of `transformers` counts.

A file is read equally, refused at a line that says why, or read with a note that names the key; anything else is a
fault. Keys of nested tables have dots. REMOVED marks a key that is not there, which differs from null.
"""

from __future__ import annotations

import json
from typing import Any

from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.workload.huggingface import config_of

REMOVED = "<removed>"
NO_SIZE = (REMOVED, None, True, 0, 1, 3)
"""Values that a size refuses where it is missing, mistyped, empty, or divides nothing."""
REFUSED = {
    "dbrx": "d_model ffn_config.hidden_size",
    "bert": "is_decoder",
    "deepseek_v2": "n_group",
    "ernie4_5": "use_bias",
    "ernie4_5_moe": "use_bias",
    "exaone4": "layer_types",
    "falcon": "num_ln_in_parallel_attn",
    "gpt2": "add_cross_attention",
    "helium": "head_dim hidden_size num_attention_heads",
    "mpt": "attn_config.qk_ln",
    "mt5": "architectures head_dim",
    "nemotron_h": "layers_block_type moe_latent_size",
    "olmoe": "head_dim",
    "opt": "do_layer_norm_before hidden_size word_embed_proj_dim",
    "phi": "partial_rotary_factor",
    "resnet": "architectures depths downsample_in_bottleneck downsample_in_first_stage embedding_size hidden_sizes "
              "layer_type",
    "roberta": "is_decoder",
    "smollm3": "use_sliding_window",
    "stablelm": "partial_rotary_factor",
    "t5": "architectures head_dim",
    "vit": "architectures",
}  # fmt: skip
"""Keys of parts that are not described, and of sizes that others must agree with."""
DIFFER = "are names of one size, and differ"


def changed(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The file of a change; keys of nested tables have dots."""
    made: dict[str, Any] = json.loads(json.dumps(base))
    for key, value in change.items():
        *outer, name = key.split(".")
        table = made.setdefault(outer[0], {}) if outer else made
        table[name] = value
        if value == REMOVED:
            del table[name]
    return made


def names(change: dict[str, Any]) -> list[str]:
    return [key.rpartition(".")[2] for key in change]


def refusal_is_due(error: BadInput, change: dict[str, Any], kind: str) -> bool:
    """Whether it says at a line of the file what cannot be: a part that is not described, or a size that is none."""
    place, _, line = str(error.where).partition(":")
    if place != "config.json" or not line.isdigit():
        return False
    if any(value in NO_SIZE for value in change.values() if not isinstance(value, list)):
        return True
    return DIFFER in error.message or bool(set(REFUSED.get(kind, "").split()) & {*change})


def outcome(kind: str, file: dict[str, Any], change: dict[str, Any], group: dict[str, Any]) -> str:
    """equal, refused, or named in the notes as what the class does otherwise; anything else is a fault."""
    text = json.dumps(file, indent=1)
    try:
        model = config_of(text, "config.json")
    except BadInput as error:
        return "refused" if refusal_is_due(error, change, kind) else f"fault: {error}"
    counted = workload.parameters(model)
    tied = getattr(model, "tied_embeddings", None)
    if (counted.total, counted.untrained) == (group["count"], group["untrained"]) and group["tied"] in (None, tied):
        return "equal"
    said = " ".join(getattr(model, "notes", ()))
    named = bool(change) and any(name in said for name in names(change))
    return "named" if named else f"fault: {counted.total}, not {group['count']}"
