"""`read_config(path)`: a Hugging Face config.json as a `Transformer`, without the transformers library.

Each model type has its own key names, defaults (are embeddings tied?) and fixed habits (which biases there are): they
live in `huggingface_decoders.py` and `huggingface_experts.py`, one short function per family. Not read: towers for
images and sound, which the model's notes name, adapters and quantisation, which change no shape that matters here.
Source: the `configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 4.57.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockstep.documents import read_json
from lockstep.errors import LONGEST, BadInput
from lockstep.vocabulary import architecture
from lockstep.workload import huggingface_decoders as plain
from lockstep.workload import huggingface_experts as mixtures
from lockstep.workload.architecture import Transformer
from lockstep.workload.config_reader import ConfigReader
from lockstep.workload.huggingface_numerics import numerics

LONGEST_NAME = 100
FAMILIES: dict[str, Callable[[ConfigReader], Transformer]] = {
    "bert": plain.bert,
    "bloom": plain.bloom,
    "cohere": plain.cohere,
    "dbrx": mixtures.dbrx,
    "deepseek_v2": mixtures.deepseek,
    "deepseek_v3": mixtures.deepseek,
    "falcon": plain.falcon,
    "gemma": plain.gemma,
    "gemma2": plain.gemma2,
    "gemma3": plain.gemma3,
    "gemma3_text": plain.gemma3,
    "gpt2": plain.gpt2,
    "gpt_bigcode": plain.gpt_bigcode,
    "gpt_neox": plain.gpt_neox,
    "gptj": plain.gptj,
    "granite": plain.llama,
    "llama": plain.llama,
    "mistral": plain.mistral,
    "mixtral": mixtures.mixtral,
    "mpt": plain.mpt,
    "nemotron": plain.nemotron,
    "olmo": plain.olmo,
    "olmo2": plain.olmo2,
    "opt": plain.opt,
    "phi": plain.phi,
    "phi3": plain.phi3,
    "qwen2": plain.qwen2,
    "qwen2_moe": mixtures.qwen2_moe,
    "qwen3": plain.qwen3,
    "qwen3_moe": mixtures.qwen3_moe,
    "roberta": plain.bert,
    "starcoder2": plain.starcoder2,
}


def read_config(path: str | Path) -> Transformer:
    """The model in a config.json. Raises BadInput at "file:line" for what cannot be read or is not supported."""
    data, locate = read_json(path)
    config = ConfigReader(data, locate)
    kind = data.get("model_type")
    if not isinstance(kind, str):
        got = "is missing" if kind is None else "must be text"
        raise BadInput(f"key model_type {got}; it says which architecture the file describes", config.where())
    family = FAMILIES.get(kind)
    if family is None:
        raise BadInput(_unsupported(kind), config.where("model_type"))
    try:
        named: dict[str, Any] = {"name": _name(data, Path(path)), "notes": tuple(_left_out(config))}
        return replace(family(config), **named, **numerics(kind, config))
    except BadInput as error:
        if error.where and error.where.startswith(str(path)):
            raise
        raise BadInput(f"{error.where}: {error.message}", str(path)) from None


def _unsupported(kind: str) -> str:
    """An architecture is never taken for another that is spelled like it: whoever obeyed would get another model."""
    why = architecture(kind) or "a transformer can also be described in a YAML file of its own"
    return f"the architecture {kind[:LONGEST]!r} (model_type) is not supported: {why}; supported: {', '.join(FAMILIES)}"


TOWERS = {"vision_config": "vision", "audio_config": "audio"}
"""Tables of a config.json that describe what comes before the text model."""


def _left_out(config: ConfigReader) -> Iterator[str]:
    """A sentence per tower."""
    for key, tower in TOWERS.items():
        if config.has(key):
            yield f"the {tower} tower ({key}) is not counted: only the text model is priced, on text alone"


def _name(data: Mapping[str, Any], path: Path) -> str:
    """What to call the model: the name in the file, else that of its folder, or of the file if that says more."""
    for key in ("_name_or_path", "name_or_path"):
        value = data.get(key)
        if isinstance(value, str) and value.strip("./ "):
            return value[:LONGEST_NAME]
    folder = path.absolute().parent.name
    return (path.stem if path.stem != "config" else folder or str(data["model_type"]))[:LONGEST_NAME]
