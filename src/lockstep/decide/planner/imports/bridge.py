"""Overrides of a Megatron-Bridge recipe, or its whole configuration as YAML, as a question and a layout.

Its fields are Megatron Core's, so they are read as Megatron-LM's options; `export/bridge.py` is the same table in the
other direction, and `formats/bridge.toml` names the fields that are called otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lockstep.decide.planner.export.bridge import GRADIENT_B
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.interpolated import interpolated
from lockstep.decide.planner.imports.megatron_through import through
from lockstep.decide.planner.imports.named import catalogued
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text, Unset
from lockstep.describe.workload import Model

RECIPE = re.compile(
    r"(?:\w+?_)?(bf16|fp16)(?:_with_(?:fp8_(delayed|current|subchannel)_scaling|(mxfp8)|(nvfp4)))?_mixed"
)
RECIPES = ("use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather")
"""On in every recipe over which overrides stand; fine-tuning has the first alone (recipes/common.py)."""
SHAPE = ("num_layers", "hidden_size", "num_attention_heads", "num_moe_experts", "ffn_hidden_size", "num_query_groups")
"""Fields with which a recipe's model is another one."""
TOKENS = {"tokenizer-model": "tokenizer.tokenizer_model", "tokenizer-type": "tokenizer.tokenizer_type",
          "vocab-size": "tokenizer.vocab_size"}  # fmt: skip
"""Options that say the vocabulary of a model whose shape a file has, and their fields."""
PARTS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
"""Of a pipeline layout that is written as lists."""


def prepared(text: Text) -> Text:
    """A file with its references resolved; those to something else stay as they stand, and are values of no kind."""
    if text.shape != "yaml":
        return text
    found = interpolated(text)
    return replace(
        found, words={word: str(one) if isinstance(one, Unset) else one for word, one in found.words.items()}
    )


def bridge(said: Said, name: str, model: Model | None) -> Imported:
    """What overrides say."""
    names = dict(_options(said))
    if not said["model.cpu_offloading"]:
        names.pop("cpu-offloading-num-layers", None)
    words: dict[str, Any] = {option: _value(said, word) for option, word in names.items()}
    words = {option: value for option, value in words.items() if value is not None} | _precision(said)
    if not any(word.startswith("ddp._target_") for word in said.text.words):
        tunes = re.search(r"sft|peft|finetune", said["recipe"] or "") is not None
        words = {option: True for option in RECIPES[: 1 if tunes else None] if not _says(said, option)} | words
    activation = said["model.activation_func._target_"]
    if activation is not None and "squared_relu" in activation:
        words["squared-relu"] = True
    elif activation is not None and not activation.endswith("silu" if words.get("swiglu") else "gelu"):
        said.leave("model.activation_func._target_", "an activation that is not read")
    if "num-query-groups" in words:
        words["group-query-attention"] = True
    shaped = model is None and any(word.removeprefix("model.") in SHAPE for word in said.values)
    if shaped and "vocab-size" not in words:
        tokens = {option: field for option, field in TOKENS.items() if said[field] is not None}
        names |= tokens
        words |= {option: said[field] for option, field in tokens.items()}
    found, inner = through(said, name, model, words, names)
    if "attention-dropout" not in words and "hidden-dropout" not in words:
        # Recipes of today's models have none; the parser's default does not hold here.
        found.words.pop("dropout", None)
    if said["model.bias_activation_fusion"] is False and not inner["no-bias-dropout-fusion"]:
        said.leave("model.bias_activation_fusion", "kernels of the activation")
    if found.model is None and not shaped:
        found.model = _named(said)
    return found


def _named(said: Said) -> str | None:
    """The name in the catalog of the model that a recipe or the id of a hub names; None for others."""
    recipe = re.sub(r"_(pretrain|sft|peft|finetune)(_config)?$", "", said["recipe"] or "")
    for word, name in (("recipe", recipe), ("model.hf_model_id", said["model.hf_model_id"])):
        if name and (found := catalogued(name)) is not None:
            return found
        if name:
            said.open(word, "its shape stands in other files")
    return None


def _options(said: Said) -> Iterator[tuple[str, str]]:
    """Option of Megatron-LM, and the equivalent field; a field of comm_overlap overrides the others."""
    taken: dict[str, str] = {}
    for word in sorted(said.values, key=lambda one: not one.startswith("comm_overlap.")):
        option, _ = said.format.options.get(word, ("", False))
        if not option or said.format.kind_of(word)[0] != "read" or word.startswith("mixed_precision"):
            continue
        if option not in taken:
            taken[option] = word
            yield option, word
        elif said.values[word] != said.values[taken[option]]:
            said.contradiction(word, f"{taken[option]} says otherwise, and counts")
        else:
            said.asked.add(word)


def _value(said: Said, word: str) -> Any:
    """The value of an option; None where it is off."""
    value, field = said.values[word], word.rpartition(".")[2]
    if said.format.options[word][1]:
        return None if value else True
    if value is False:
        return None
    if field == "attention_backend":
        return str(value).rpartition(".")[2]
    if field == "moe_layer_freq" and isinstance(value, tuple):
        return str(list(value))
    if field == "pipeline_model_parallel_layout" and isinstance(value, tuple):
        return "|".join("".join(PARTS.get(str(one), "?") for one in _listed(part)) for part in value)
    if field in ("window_size", "window_attn_skip_freq"):
        return ",".join(map(str, _listed(value)))
    return list(value) if isinstance(value, tuple) else value


def _says(said: Said, option: str) -> bool:
    return any(said.format.options.get(word, ("",))[0] == option for word in said.values)


def _listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _precision(said: Said) -> dict[str, object]:
    """Formats, by the name of a recipe or its fields."""
    if any(word.startswith("mixed_precision.") for word in said.values):
        narrow = "nvfp4" if said["mixed_precision.fp4"] else "fp8" if said["mixed_precision.fp8"] else None
        recipe = said["mixed_precision.fp8_recipe"]
        half = "fp16" if said["mixed_precision.fp16"] else None if said["mixed_precision.fp32"] else "bf16"
        if said["mixed_precision.bf16"] and half == "fp16":
            raise said.refuse("mixed_precision.fp16", "is on, and so is mixed_precision.bf16")
        whole = said["mixed_precision.grad_reduce_in_fp32"]
    else:
        match = RECIPE.fullmatch(str(said["mixed_precision"]).replace("-", "_"))
        if match is None:
            raise said.refuse(
                "mixed_precision", f"is not a recipe of {said.format.software}, got {said['mixed_precision']!r}"
            )
        half, narrow = match[1], "fp8" if match[2] or match[3] else match[4]
        recipe = {"current": "tensorwise", "subchannel": "blockwise"}.get(match[2], match[3] or match[2])
        whole = None
    found: dict[str, object] = {half: True} if half else {}
    if narrow == "nvfp4":
        found["fp4-format"] = "e2m1"
    elif narrow:
        found |= {"fp8-format": "hybrid", **({"fp8-recipe": recipe} if recipe else {})}
        if recipe in ("blockwise", "custom"):
            word = "mixed_precision" if "mixed_precision" in said else "mixed_precision.fp8_recipe"
            said.leave(word, "how fp8 is scaled")
    return found | _gradients(said, whole, GRADIENT_B.get(half or "", 4.0) == 4.0)


def _gradients(said: Said, whole: bool | None, usual: bool) -> dict[str, object]:
    """Whether gradients are reduced in fp32; the recipe of formats overrides the setting of the reducer."""
    own = said["ddp.grad_reduce_in_fp32"]
    if whole is not None and own is not None and whole != own:
        said.contradiction("ddp.grad_reduce_in_fp32", "mixed_precision.grad_reduce_in_fp32 counts")
    given = whole if whole is not None else own
    return {
        "accumulate-allreduce-grads-in-fp32" if (usual if given is None else given) else "grad-reduce-in-bf16": True
    }
