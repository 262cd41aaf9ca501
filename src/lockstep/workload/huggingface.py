"""`read_config(path)`: a Hugging Face config.json as a `Transformer`, without the transformers library.

Each model type has its own key names, defaults (are embeddings tied?) and fixed habits (which biases there are): they
live in `huggingface_decoders.py` and `huggingface_experts.py`, one short function per family. Not read: towers for
images and sound, which the model's notes name, adapters and quantisation, which change no shape that matters here.
Source: the `configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 4.57.

`numerics`: what no count or time asks for, and other software has to be told: the epsilon of the norms, the base and
stretch of rotary positions, and multipliers on the residual stream. Configs leave out what equals their library's
default, so each family's stands here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lockstep.documents import read_json
from lockstep.errors import LONGEST, BadInput
from lockstep.types.plain import Json
from lockstep.vocabulary import architecture
from lockstep.workload import huggingface_decoders as plain
from lockstep.workload import huggingface_experts as mixtures
from lockstep.workload.architecture import Rotary, Transformer
from lockstep.workload.config_reader import ConfigReader

EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
MULTIPLIERS = ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
EPSILON = {
    "deepseek_v2": 1e-6, "deepseek_v3": 1e-6, "gemma": 1e-6, "gemma2": 1e-6, "gemma3_text": 1e-6, "gpt2": 1e-5,
    "gpt_bigcode": 1e-5, "gpt_neox": 1e-5, "granite": 1e-6, "llama": 1e-6, "mistral": 1e-6, "mixtral": 1e-5,
    "nemotron": 1e-5, "olmo2": 1e-5, "phi": 1e-5, "phi3": 1e-5, "qwen2": 1e-6, "qwen2_moe": 1e-6, "qwen3": 1e-6,
    "qwen3_moe": 1e-6, "starcoder2": 1e-5,
}  # fmt: skip
BASE = {"mixtral": 1e6}
"""Of rotary positions; 10,000 elsewhere."""
SHARE = {"nemotron": 0.5, "phi": 0.5, "gpt_neox": 0.25}
"""Share of a head that is rotated; all of it elsewhere."""
LONGEST_NAME = 100
TOWERS = {"vision_config": "vision", "audio_config": "audio"}
"""Tables of a config.json that describe what comes before the text model."""


def numerics(kind: str, config: ConfigReader) -> Json:
    """Fields of `Transformer` for a model type. Raises BadInput at "file:line"."""
    text = config.table("text_config") if config.has("text_config") else config
    given = {key: text.number(key) for key in MULTIPLIERS}
    return {
        "norm_epsilon": text.number(*EPSILONS, default=EPSILON.get(kind)),
        "rotary": _rotary(kind, text),
        "scaled_stream": kind == "granite" and any(value not in (None, 1.0) for value in given.values()),
    }


def _rotary(kind: str, config: ConfigReader) -> Rotary:
    """The base and the stretch of the angles, which a model without rotary positions does not use."""
    stretch = config.table("rope_scaling", "rope_parameters")
    own = config if config.has("rope_theta", "rotary_emb_base") else stretch
    scaling = stretch.data.get("rope_type", stretch.data.get("type", "none"))
    numbers = {
        "base": own.number("rope_theta", "rotary_emb_base", default=BASE.get(kind, 10_000.0)),
        "share_frac": config.number("partial_rotary_factor", "rotary_pct", default=SHARE.get(kind, 1.0)),
        "factor": stretch.number("factor", default=1.0),
        "low_freq_factor": stretch.number("low_freq_factor", default=1.0),
        "high_freq_factor": stretch.number("high_freq_factor", default=4.0),
        "beta_fast": stretch.number("beta_fast", default=32.0),
        "beta_slow": stretch.number("beta_slow", default=1.0),
        "mscale": stretch.number("mscale", default=1.0),
        "mscale_all_dim": stretch.number("mscale_all_dim", default=0.0) if stretch.data.get("mscale_all_dim") else 0.0,
    }
    original = "original_max_position_embeddings"
    return Rotary(
        scaling="none" if scaling == "default" else str(scaling)[:40],
        original_positions=stretch.size(original, limit="positions") if stretch.has(original) else None,
        **{name: value for name, value in numbers.items() if value is not None},
    )


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
        named: Json = {"name": _name(data, Path(path)), "notes": tuple(_left_out(config))}
        return replace(family(config), **named, **numerics(kind, config))
    except BadInput as error:
        if error.where and error.where.startswith(str(path)):
            raise
        raise BadInput(f"{error.where}: {error.message}", str(path)) from None


def _unsupported(kind: str) -> str:
    """An architecture is never taken for another that is spelled like it: whoever obeyed would get another model."""
    why = architecture(kind) or "a transformer can also be described in a YAML file of its own"
    return f"the architecture {kind[:LONGEST]!r} (model_type) is not supported: {why}; supported: {', '.join(FAMILIES)}"


def _left_out(config: ConfigReader) -> Iterator[str]:
    """A sentence per tower."""
    for key, tower in TOWERS.items():
        if config.has(key):
            yield f"the {tower} tower ({key}) is not counted: only the text model is priced, on text alone"


def _name(data: Mapping[str, object], path: Path) -> str:
    """What to call the model: the name in the file, else that of its folder, or of the file if that says more."""
    for key in ("_name_or_path", "name_or_path"):
        value = data.get(key)
        if isinstance(value, str) and value.strip("./ "):
            return value[:LONGEST_NAME]
    folder = path.absolute().parent.name
    return (path.stem if path.stem != "config" else folder or str(data["model_type"]))[:LONGEST_NAME]
