"""`read_config(path)`: a Hugging Face config.json as a `Transformer` or `ConvNet`, without the transformers library.

Each model type has its own key names, defaults (are embeddings tied?) and fixed habits (which biases there are): they
live in `huggingface_decoders.py` and its neighbours, one short function per family. Not read: towers for images and
sound, which the model's notes name, adapters and quantisation, which change no shape that matters here. Source: the
`configuration_*.py` and `modeling_*.py` files of github.com/huggingface/transformers, 4.57; of families that came
later, 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from lockstep.base.documents import Document, Locate, parse_json, read_json
from lockstep.base.errors import LONGEST, BadInput
from lockstep.base.types.plain import Json
from lockstep.base.vocabulary import architecture
from lockstep.describe.workload import huggingface_decoders as plain
from lockstep.describe.workload import huggingface_experts as mixtures
from lockstep.describe.workload import huggingface_gpt as gpt
from lockstep.describe.workload import huggingface_hybrids as hybrids
from lockstep.describe.workload import huggingface_layers as layered
from lockstep.describe.workload import huggingface_rarer as rarer
from lockstep.describe.workload.architecture import Model, Transformer
from lockstep.describe.workload.checks import shortened
from lockstep.describe.workload.config_reader import ConfigReader
from lockstep.describe.workload.huggingface_heads import with_head
from lockstep.describe.workload.huggingface_ignored import ignored, known
from lockstep.describe.workload.huggingface_images import dit, resnet, vit
from lockstep.describe.workload.huggingface_numbers import numerics
from lockstep.describe.workload.huggingface_pairs import t5
from lockstep.describe.workload.huggingface_recurrent import mamba, mamba2

LONGEST_NAME = 100
DIFFUSERS = ("DiTTransformer2DModel", "Transformer2DModel")
"""Classes of the diffusers library that are a DiT; the second with norms of its kind, in files of before 2024."""
TOWERS = {"vision_config": "vision", "audio_config": "audio"}
"""Tables of a config.json that describe what comes before the text model."""


FAMILIES: dict[str, Callable[[ConfigReader], Transformer]] = {
    "arcee": layered.arcee,
    "bamba": hybrids.bamba,
    "bert": gpt.bert,
    "biogpt": rarer.biogpt,
    "bloom": gpt.bloom,
    "codegen": gpt.gptj,
    "cohere": plain.cohere,
    "cohere2": layered.cohere2,
    "cwm": rarer.cwm,
    "dbrx": mixtures.dbrx,
    "deepseek_v2": mixtures.deepseek,
    "deepseek_v3": mixtures.deepseek,
    "dit": dit,
    "dots1": layered.glm4_moe,
    "ernie4_5": layered.ernie4_5,
    "ernie4_5_moe": rarer.ernie4_5_moe,
    "exaone4": layered.exaone4,
    "falcon": gpt.falcon,
    "flex_olmo": rarer.flex_olmo,
    "gemma": plain.gemma,
    "gemma2": plain.gemma2,
    "gemma3": plain.gemma3,
    "gemma3_text": plain.gemma3,
    "glm": rarer.glm,
    "glm4": layered.glm4,
    "glm4_moe": layered.glm4_moe,
    "gpt2": gpt.gpt2,
    "gpt_bigcode": gpt.gpt_bigcode,
    "gpt_neo": rarer.gpt_neo,
    "gpt_neox": gpt.gpt_neox,
    "gpt_oss": layered.gpt_oss,
    "gptj": gpt.gptj,
    "granite": plain.llama,
    "granitemoe": layered.granite_moe,
    "granitemoehybrid": hybrids.granite_hybrid,
    "granitemoeshared": layered.granite_moe,
    "helium": rarer.helium,
    "hunyuan_v1_dense": layered.hunyuan,
    "jais2": rarer.jais2,
    "jamba": hybrids.jamba,
    "kimi_k2": mixtures.deepseek,
    "llama": plain.llama,
    "llama4": layered.llama4,
    "llama4_text": layered.llama4,
    "mamba": mamba,
    "mamba2": mamba2,
    "minicpm3": rarer.youtu,
    "minimax_m2": layered.minimax_m2,
    "ministral3": plain.mistral,
    "mistral": plain.mistral,
    "mixtral": mixtures.mixtral,
    "mpt": gpt.mpt,
    "mt5": t5,
    "nanochat": rarer.nanochat,
    "nemotron": plain.nemotron,
    "nemotron_h": hybrids.nemotron_h,
    "olmo": plain.olmo,
    "olmo2": plain.olmo2,
    "olmo3": layered.olmo3,
    "olmoe": layered.olmoe,
    "opt": gpt.opt,
    "phi": plain.phi,
    "phi3": plain.phi3,
    "phimoe": layered.phimoe,
    "qwen2": plain.qwen2,
    "qwen2_5_vl": plain.qwen2,
    "qwen2_5_vl_text": plain.qwen2,
    "qwen2_moe": mixtures.qwen2_moe,
    "qwen2_vl": plain.qwen2,
    "qwen2_vl_text": plain.qwen2,
    "qwen3": plain.qwen3,
    "qwen3_5": hybrids.qwen3_next,
    "qwen3_5_moe": hybrids.qwen3_next,
    "qwen3_5_moe_text": hybrids.qwen3_next,
    "qwen3_5_text": hybrids.qwen3_next,
    "qwen3_moe": mixtures.qwen3_moe,
    "qwen3_next": hybrids.qwen3_next,
    "qwen3_vl": plain.qwen3,
    "qwen3_vl_moe": mixtures.qwen3_moe,
    "qwen3_vl_moe_text": mixtures.qwen3_moe,
    "qwen3_vl_text": plain.qwen3,
    "roberta": gpt.bert,
    "seed_oss": layered.seed_oss,
    "smollm3": layered.smollm3,
    "solar_open": rarer.solar_open,
    "stablelm": rarer.stablelm,
    "starcoder2": plain.starcoder2,
    "t5": t5,
    "vaultgemma": rarer.vaultgemma,
    "vit": vit,
    "youtu": rarer.youtu,
}


WRAPPERS = (
    "aya_vision", "gemma3", "idefics3", "internvl", "llama4", "llava", "llava_next", "llava_onevision", "mistral3",
    "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "smolvlm", "kimi_k25",
)  # fmt: skip
"""Model types whose text model has a table, and mostly a model type, of its own."""


TIED = "tie_word_embeddings"
TIED_OUTSIDE = ("aya_vision", "gemma3", "internvl", "kimi_k25", "mistral3", "paligemma")
"""Of WRAPPERS, whose class shares the two tables of tokens where the file does not say (transformers 5.24)."""


def _text(kind: str, config: ConfigReader) -> ConfigReader:
    """The table of the text model, tied as the file says outside of it where it does and the class looks there."""
    if not config.has("text_config"):
        return config
    text = config.table("text_config")
    return replace(text, data={**text.data, TIED: config.data[TIED]}) if config.has(TIED) and kind != "llama4" else text


def _family(kind: str, config: ConfigReader) -> tuple[str, ConfigReader]:
    """The model type that is read, and the table that it is read from."""
    if kind not in WRAPPERS:
        return kind, config
    text = _text(kind, config)
    inner = text.data.get("model_type") if config.has("text_config") else None
    return inner if isinstance(inner, str) and (inner in FAMILIES or kind not in FAMILIES) else kind, text


def read_config(path: str | Path) -> Model:
    """The model in a config.json. Raises BadInput at "file:line" for what cannot be read or is not supported."""
    return _read(*read_json(path), path)


def config_of(text: str, name: str) -> Model:
    """The model in the text of a config.json that is called `name`, of no folder. Raises BadInput likewise."""
    data, locate = parse_json(text, name)
    model = _read(data, locate, name)
    return replace(model, name=_name(data, PurePath(name)))


def model_of(data: Document, locate: Locate) -> Model:
    """The model in a table with the keys of a config.json. Raises BadInput at the line that `locate` has for a key."""
    return _read(data, locate, locate.file)


def _read(data: Document, locate: Locate, path: str | Path) -> Model:
    config = ConfigReader(data, locate)
    kind = data["model_type"] if "model_type" in data else _of_diffusers(config)
    if not isinstance(kind, str):
        got = "is missing" if kind is None else "must be text"
        raise BadInput(f"key model_type {got}; it names the architecture that the file describes", config.where())
    if kind == "resnet":
        return replace(resnet(config), name=_name(data, Path(path).absolute()))
    inner, text = _family(kind, config)
    family = FAMILIES.get(inner)
    if family is None:
        raise BadInput(_unsupported(kind), config.where("model_type"))
    try:
        made = family(known(inner, replace(text, data={**text.data, "model_type": inner})))
        notes = (*_left_out(config, made.tied_embeddings), *made.notes, *ignored(inner, text))
        named: Json = {"name": _name(data, Path(path).absolute()), "notes": notes, "model_type": inner}
        return with_head(replace(made, **named, **numerics(inner, text)), inner, config)
    except BadInput as error:
        if error.where and error.where.startswith(str(path)):
            raise
        raise BadInput(f"{error.where}: {error.message}", str(path)) from None


def _of_diffusers(config: ConfigReader) -> str | None:
    """The model type of a file of the diffusers library, which names a class instead."""
    given = config.data.get("_class_name")
    if given is None or given in DIFFUSERS:
        return None if given is None else "dit"
    raise BadInput(
        f"the diffusers class {shortened(given)} (_class_name) is not supported; supported: {', '.join(DIFFUSERS)}",
        config.where("_class_name"),
    )


def _unsupported(kind: str) -> str:
    """No similar name is suggested for an architecture: following the suggestion would give another model."""
    why = architecture(kind) or "a transformer can also be described in a YAML file of its own"
    return f"the architecture {kind[:LONGEST]!r} (model_type) is not supported: {why}; supported: {', '.join(FAMILIES)}"


def _left_out(config: ConfigReader, tied: bool) -> Iterator[str]:
    """A sentence per tower, and one where the class around a text model shares tables that the text model does not."""
    for key, tower in TOWERS.items():
        if config.has(key):
            yield f"the {tower} tower ({key}) is not counted: only the text model is priced, on text alone"
    text, kind = config.data.get("text_config"), config.data.get("model_type")
    if isinstance(text, dict):
        inside = bool(text.get(TIED)) if TIED in text or kind == "llama4" else tied
        outside = bool(config.data.get(TIED, kind in TIED_OUTSIDE))
        if inside != outside:
            words = [f"{TIED} is {inside} in text_config{_by_default(text)}",
                     f"{outside} outside of it{_by_default(config.data)}"]  # fmt: skip
            yield f"{' and '.join(words)}; releases differ in which they read"


def _by_default(table: Mapping[str, object]) -> str:
    return "" if TIED in table else " by default"


def _name(data: Mapping[str, object], path: PurePath) -> str:
    """What to call the model: the name in the file, else that of its folder, or of the file if that says more."""
    for key in ("_name_or_path", "name_or_path"):
        value = data.get(key)
        if isinstance(value, str) and value.strip("./ "):
            return value[:LONGEST_NAME]
    folder = next(one.name for one in path.parents if one.name != "transformer")
    return (path.stem if path.stem != "config" else folder or str(data.get("model_type", "model")))[:LONGEST_NAME]
