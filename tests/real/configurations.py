"""Counts parameters of the classes of the `transformers` package while one key of config.json changes at a time.

Every family starts from a small config.json, `base`. A change sets or removes one of: every key that the config class
writes, every alias that it accepts, every name that the source of its models reads from a configuration, and
`architectures`, with the number of labels beside it. The class is made on the meta device from exactly the file that
Lockstep reads. Changes that the class refuses are left out.

    PYTHONPATH=tests python tests/real/configurations.py tests/workload/oracle/sweep.json.gz

writes what a release counted, for tests where it is not installed. A group of that table holds the changes that give
one result: parameters, those among them that are stored but get no gradient (only corrections of routers are), and
whether the output table is the input table. `one` lists values of keys that change alone.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configuration_outcomes import REMOVED, changed
from lockstep.describe.workload.huggingface import FAMILIES, WRAPPERS

SMALL: dict[str, Any] = {
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "word_embed_proj_dim": 64, "d_kv": 16,
    "intermediate_size": 128, "ffn_dim": 128, "d_ff": 128, "intermediate_size_mlp": 160, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48, "moe_shared_expert_intermediate_size": 48, "shared_intermediate_size": 48,
    "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    "num_local_experts": 8, "num_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "max_position_embeddings": 128, "n_positions": 128, "max_seq_len": 128,
    "kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "mamba_n_heads": 8, "mamba_d_state": 8, "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 8,
}  # fmt: skip
"""Sizes of every family whose class has a key of the name."""
TIED = "tie_word_embeddings"
OWN: dict[str, dict[str, Any]] = {
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "hidden_size": 64, "num_attention_heads": 4}},
    "bamba": {"attn_layer_indices": [1]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 500000.0},
             "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2}},
    "deepseek_v2": {"first_k_dense_replace": 1, "n_shared_experts": 2},
    "deepseek_v3": {"first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 2, "topk_group": 1},
    "dots1": {"n_shared_experts": 2, "first_k_dense_replace": 1},
    "ernie4_5_moe": {"moe_num_experts": 8, "moe_k": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 3},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "helium": {"head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "jamba": {"num_hidden_layers": 8},
    "mamba": {"intermediate_size": None},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 8, "n_groups": 2},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "num_hidden_layers": None,
                   "n_groups": 2},
    "resnet": {"embedding_size": 8, "hidden_sizes": [32, 64], "depths": [2, 2]},
    "roberta": {"type_vocab_size": 1},
    "vit": {"image_size": 32, "patch_size": 8},
}  # fmt: skip
"""Keys of one family beside these; None leaves a key of SMALL out."""
WORDS: dict[str, list[str]] = {
    "hidden_act": ["relu", "gelu", "silu"],
    "activation_function": ["relu", "silu"],
    "feed_forward_proj": ["gated-gelu", "gated-silu", "gelu"],
    "position_embedding_type": ["rope", "relative_key", "absolute", "nope"],
    "attn_type": ["multiquery_attention"],
    "topk_method": ["greedy", "noaux_tc", "group_limited_greedy"],
    "scoring_func": ["sigmoid", "softmax"],
    "layer_type": ["basic"],
    "time_step_rank": [4],
    "mamba_dt_rank": [4],
    "mamba_d_head": [16],
    "norm_type": ["layernorm"],
    "hybrid_override_pattern": ["ME*-", "M-M-"],
}  # type: ignore[dict-item]  # fmt: skip
"""Words of keys that hold one, and numbers of those that hold one or "auto"."""
OTHERS: dict[str, list[Any]] = {
    "attention_bias": [True], "mlp_bias": [True], "use_bias": [True], "qkv_bias": [False], "bias": [True],
    "use_qk_norm": [True], "qk_layernorm": [True], "lm_head_bias": [True], "attention_out_bias": [True],
    "num_key_value_heads": [1], "head_dim": [32], "n_shared_experts": [2], "shared_intermediate_size": [16],
    "num_experts": [4], "n_routed_experts": [4], "moe_intermediate_size": [16], "intermediate_size": [96],
    "num_nextn_predict_layers": [1], "type_vocab_size": [3], "add_cross_attention": [True], "is_gated_act": [True],
    "sliding_window": [64], "layer_norm_elementwise_affine": [False], "tie_word_embeddings": [True, False],
    "position_embedding_type": ["absolute"], "embedding_size": [32], "kv_lora_rank": [16],
}  # fmt: skip
"""Keys of one family that its file may hold where another's class does not know them."""
HEADLESS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
"""Of WRAPPERS, whose text model is beside one of images, those where no class makes the text model with its head."""
IMAGES = ("resnet", "vit")
ENCODERS = ("bert", "roberta")
UNTRIED = {
    "transformers_version", "architectures", "model_type", "id2label", "label2id", "_name_or_path", "dtype",
    "torch_dtype", "rope_parameters", "num_labels", "quantization_config", "name_or_path", "output_hidden_states",
    "output_attentions", "return_dict", "problem_type", "use_cache", "initializer_range", "bos_token_id",
    "eos_token_id", "decoder_start_token_id", "chunk_size_feed_forward", "init_device",
}  # fmt: skip
"""Keys of every configuration that say nothing of the model's shape, and those that have rows of their own."""
COUNTED = ("count", "untrained", "tied")
"""What is asked of a class: parameters, those without gradient, whether the output table is the input table."""
LABELS: tuple[dict[str, Any], ...] = ({}, {"num_labels": 1}, {"id2label": {"0": "A", "1": "B", "2": "C"}})


def tables() -> tuple[Any, Any]:
    """The modules of `transformers` that map model types to classes."""
    folder = "transformers.models.auto"
    return importlib.import_module(f"{folder}.configuration_auto"), importlib.import_module(f"{folder}.modeling_auto")


def kinds() -> list[str]:
    """Model types that Lockstep reads, of which there are classes."""
    return sorted({*FAMILIES, *WRAPPERS, "resnet"} & {*tables()[0].CONFIG_MAPPING_NAMES})


def base_of(kind: str) -> dict[str, Any]:
    """The small config.json of a family."""
    if kind in WRAPPERS:
        text = base_of(tables()[0].CONFIG_MAPPING[kind]().text_config.model_type)
        return {"model_type": kind, TIED: False, "text_config": text, **OWN.get(kind, {})}
    written = tables()[0].CONFIG_MAPPING[kind]().to_dict()
    found = {key: value for key, value in SMALL.items() if key in written} | OWN.get(kind, {})
    pad = written.get("pad_token_id")
    if isinstance(pad, int) and pad >= SMALL["vocab_size"]:
        found["pad_token_id"] = 0
    bare = {"architectures": [class_of(kind)]} if kind.removesuffix("_text") in HEADLESS else {}
    return {"model_type": kind, **bare, **{key: value for key, value in found.items() if value is not None}}


def class_of(kind: str) -> str:
    """The class that makes a whole model of a family whose file names none."""
    models = tables()[1]
    if kind in WRAPPERS:
        whole = models.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    elif kind in IMAGES:
        whole = models.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    elif kind in ENCODERS or kind.removesuffix("_text") in HEADLESS:
        whole = models.MODEL_MAPPING_NAMES
    elif kind in ("t5", "mt5"):
        whole = models.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    else:
        whole = models.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return str(whole[kind])


def heads_of(kind: str) -> list[str]:
    """Every class of `transformers` that is a model of a family."""
    found = set()
    for name, table in vars(tables()[1]).items():
        if name.endswith("MAPPING_NAMES") and kind in table:
            found |= {table[kind]} if isinstance(table[kind], str) else set(table[kind])
    return sorted(found)


def counted(kind: str, file: dict[str, Any]) -> tuple[int, int, bool | None]:
    """(parameters, those without gradient, whether the output table is the input table) of the class of a file.

    Of a model with one of images beside it, those of the text model and of its head alone.
    """
    import torch
    import transformers

    config = tables()[0].CONFIG_MAPPING[kind].from_dict(json.loads(json.dumps(file)))
    name = file.get("architectures", [class_of(kind)])[0]
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    model.tie_weights()
    out = model.get_output_embeddings()
    tied = None if out is None else out.weight is model.get_input_embeddings().weight
    part = model.get_decoder() if kind in WRAPPERS else model
    inside = {id(one) for one in part.parameters()}
    beside = 0 if out is None or id(out.weight) in inside else out.weight.numel()
    buffers = {one: value.numel() for one, value in part.named_buffers() if one.endswith("correction_bias")}
    stored = sum(buffers[one] for one in part.state_dict() if one in buffers)
    total = sum(one.numel() for one in part.parameters()) + stored + beside
    frozen = stored + sum(v.numel() for n, v in part.named_parameters() if n.endswith("correction_bias"))
    return total, frozen, tied


def values(key: str, value: Any) -> Iterator[Any]:
    """Other values of a key whose default is `value`."""
    if key in WORDS:
        yield from WORDS[key]
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (number for number in (0, 1, 2 * value, 3) if number != value)
    elif isinstance(value, float):
        yield value / 2 or 0.5
    elif value is None:
        yield from (True, 2, 16)
    elif isinstance(value, list):
        yield from ([], value[::-1], value[: len(value) // 2])
    if value is not None and not isinstance(value, dict):
        yield None


def changes(kind: str, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every change of one key of a family's file."""
    if kind in WRAPPERS:
        text = base["text_config"]
        inner = changes_of_text(text["model_type"], text) if kind in HEADLESS else ()
        yield from ({f"text_config.{key}": value for key, value in change.items()} for change in inner)
        for outside in (True, False, REMOVED):
            yield from ({TIED: outside, f"text_config.{TIED}": inside} for inside in (True, False))
            yield {TIED: outside}
        return
    yield from changes_of_text(kind, base)
    for name in heads_of(kind):
        yield from ({"architectures": [name], **labels} for labels in LABELS)
        yield from ({"architectures": [name], "tie_word_embeddings": tied} for tied in (True, False))


def changes_of_text(kind: str, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of keys that the class writes, accepts or reads, and of OTHERS."""
    config = tables()[0].CONFIG_MAPPING[kind].from_dict(dict(base))
    written = {key: value for key, value in config.to_dict().items() if key not in UNTRIED}
    for key, value in written.items():
        if isinstance(value, dict):
            inner = {one: it for one, it in value.items() if one not in UNTRIED}
            yield from ({f"{key}.{one}": other} for one, it in inner.items() for other in values(one, it))
        else:
            yield from ({key: other} for other in values(key, value))
    yield from ({key: REMOVED} for key in base if key not in ("model_type", "architectures"))
    for alias, key in (getattr(config, "attribute_map", None) or {}).items():
        if isinstance(written.get(key), int):
            yield {key: REMOVED, alias: 2 * written[key]}
    read = set(re.findall(r"config\.([a-z]\w+)|getattr\(\w*config, \"(\w+)\"", source_of(kind)))
    names = {one or other for one, other in read} - set(written) - set(OTHERS) - UNTRIED
    yield from ({name: other} for name in sorted(names) if not name.endswith("config") for other in (True, 16))
    yield from ({name: other} for name, its in OTHERS.items() if name not in written for other in its)


def source_of(kind: str) -> str:
    """The source of a family's models, and of the heads that families share; nothing where images are in it too."""
    import transformers

    if kind not in tables()[1].MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in (*ENCODERS, *IMAGES, "t5", "mt5"):
        return ""
    own = inspect.getmodule(getattr(transformers, class_of(kind)))
    shared = importlib.import_module("transformers.modeling_layers")
    return inspect.getsource(own) + inspect.getsource(shared) if own else ""


def swept(kind: str) -> Iterator[tuple[dict[str, Any], tuple[int, int, bool | None]]]:
    """The changes of a family that its class takes, and what it counts of each."""
    base = base_of(kind)
    for change in [{}, *changes(kind, base)]:
        try:
            yield change, counted(kind, changed(base, change))
        except Exception:  # Whatever a class raises of a value, it does not take it.
            continue


def table_of(kind: str) -> dict[str, Any]:
    """The same as a table in which changes of one result are a group."""
    groups: dict[tuple[int, int, bool | None], dict[str, Any]] = {}
    for change, found in swept(kind):
        group = groups.setdefault(found, {"one": {}, "several": []})
        if len(change) == 1:
            ((key, value),) = change.items()
            its = group["one"].setdefault(key, [])
            its += [] if any(value is it or (value == it and type(value) is type(it)) for it in its) else [value]
        else:
            group["several"].append(change)
    rows = [dict(zip(COUNTED, found, strict=True)) | group for found, group in groups.items()]
    return {"class": class_of(kind), "base": base_of(kind), "groups": rows}


def main() -> None:
    """Writes the table; kinds of models may follow its path."""
    import transformers

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    lines = []
    for kind in sys.argv[2:] or kinds():
        found = table_of(kind)
        groups = ",\n".join(json.dumps(group, separators=(",", ":")) for group in found.pop("groups"))
        lines.append(f'"{kind}": {json.dumps(found)[:-1]}, "groups": [\n{groups}\n]}}')
        print(f"{kind:20} {groups.count('{'):6}", flush=True)
    head = f'{{"transformers": "{transformers.__version__}", "families": {{\n'
    text = head + ",\n".join(lines) + "\n}}\n"
    Path(sys.argv[1]).write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


if __name__ == "__main__":
    main()
