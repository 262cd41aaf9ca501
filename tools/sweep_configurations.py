"""Counts parameters of the classes of the `transformers` package while one key of config.json changes at a time.

    python tools/sweep_configurations.py tests/workload/oracle/sweep.json

Needs torch and transformers: run it in an environment of its own. Every family starts from a small config.json, `base`.
A change sets or removes one of: every key that the config class writes, every alias that it accepts, every name that
the source of its models reads from a configuration, and `architectures`, with the number of labels beside it. The class
is made on the meta device from exactly the file that the test reads. Changes that the class refuses are left out.

A group of the table holds the changes that give one result: parameters, those among them that are stored but get no
gradient (only corrections of routers are), and whether the output table is the input table. REMOVED marks a key that is
not there, which differs from null.
"""

from __future__ import annotations

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

REMOVED = "<removed>"
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
OWN: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 500000.0},
             "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2}},
    "deepseek_v2": {"first_k_dense_replace": 1, "n_shared_experts": 2},
    "deepseek_v3": {"first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 2, "topk_group": 1},
    "dots1": {"n_shared_experts": 2, "first_k_dense_replace": 1},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
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
IMAGES = ("resnet", "vit")
ENCODERS = ("bert", "roberta")
UNTRIED = {
    "transformers_version", "architectures", "model_type", "id2label", "label2id", "_name_or_path", "dtype",
    "torch_dtype", "rope_parameters", "num_labels", "quantization_config", "name_or_path", "output_hidden_states",
    "output_attentions", "return_dict", "problem_type", "use_cache", "initializer_range", "bos_token_id",
    "eos_token_id", "decoder_start_token_id", "chunk_size_feed_forward", "init_device",
}  # fmt: skip
"""Keys of every configuration that say nothing of the model's shape, and those that have rows of their own."""
LABELS: tuple[dict[str, Any], ...] = ({}, {"num_labels": 1}, {"id2label": {"0": "A", "1": "B", "2": "C"}})


def tables() -> tuple[Any, Any]:
    """The modules of `transformers` that map model types to classes."""
    folder = "transformers.models.auto"
    return importlib.import_module(f"{folder}.configuration_auto"), importlib.import_module(f"{folder}.modeling_auto")


def base_of(kind: str) -> dict[str, Any]:
    """The small config.json of a family."""
    written = tables()[0].CONFIG_MAPPING[kind]().to_dict()
    found = {key: value for key, value in SMALL.items() if key in written} | OWN.get(kind, {})
    pad = written.get("pad_token_id")
    if isinstance(pad, int) and pad >= SMALL["vocab_size"]:
        found["pad_token_id"] = 0
    return {"model_type": kind, **{key: value for key, value in found.items() if value is not None}}


def class_of(kind: str) -> str:
    """The class that makes a whole model of a family whose file names none; without one for text, its bare model's."""
    models = tables()[1]
    if kind in IMAGES:
        whole = models.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    elif kind in ENCODERS:
        whole = models.MODEL_MAPPING_NAMES
    elif kind in ("t5", "mt5"):
        whole = models.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    else:
        whole = models.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return str(whole.get(kind) or models.MODEL_MAPPING_NAMES[kind])


def heads_of(kind: str) -> list[str]:
    """Every class of `transformers` that is a model of a family."""
    found = set()
    for name, table in vars(tables()[1]).items():
        if name.endswith("MAPPING_NAMES") and kind in table:
            found |= {table[kind]} if isinstance(table[kind], str) else set(table[kind])
    return sorted(found)


def counted(kind: str, file: dict[str, Any]) -> tuple[int, int, bool | None]:
    """(parameters, those without gradient, whether the output table is the input table) of the class of a file."""
    import torch
    import transformers

    config = tables()[0].CONFIG_MAPPING[kind].from_dict(json.loads(json.dumps(file)))
    name = file.get("architectures", [class_of(kind)])[0]
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    model.tie_weights()
    buffers = {one: value.numel() for one, value in model.named_buffers() if one.endswith("correction_bias")}
    stored = sum(buffers[one] for one in model.state_dict() if one in buffers)
    total = sum(one.numel() for one in model.parameters()) + stored
    frozen = stored + sum(v.numel() for n, v in model.named_parameters() if n.endswith("correction_bias"))
    out = model.get_output_embeddings()
    if out is not None:
        return total, frozen, out.weight is model.get_input_embeddings().weight
    if name.endswith("TextModel") and "architectures" not in file:
        # The head of a text model whose class has pictures before it: a table of its own, or the input's.
        return (
            total + (not getattr(config, "tie_word_embeddings", False)) * config.vocab_size * config.hidden_size,
            frozen,
            None,
        )
    return total, frozen, None


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
    config = tables()[0].CONFIG_MAPPING[kind].from_dict(dict(base))
    written = {key: value for key, value in config.to_dict().items() if key not in UNTRIED}
    for key, value in written.items():
        if isinstance(value, dict):
            own = base.get(key, {})
            inner = {one: it for one, it in value.items() if one not in UNTRIED}
            yield from ({key: own | {one: other}} for one, it in inner.items() for other in values(one, it))
        else:
            yield from ({key: other} for other in values(key, value))
    yield from ({key: REMOVED} for key in base if key != "model_type")
    for alias, key in (getattr(config, "attribute_map", None) or {}).items():
        if isinstance(written.get(key), int):
            yield {key: REMOVED, alias: 2 * written[key]}
    read = set(re.findall(r"config\.([a-z]\w+)|getattr\(\w*config, \"(\w+)\"", source_of(kind)))
    names = {one or other for one, other in read} - set(written) - UNTRIED
    yield from ({name: other} for name in sorted(names) if not name.endswith("config") for other in (True, 16))
    for name in heads_of(kind):
        yield from ({"architectures": [name], **labels} for labels in LABELS)
        yield {"architectures": [name], "tie_word_embeddings": not getattr(config, "tie_word_embeddings", False)}


def source_of(kind: str) -> str:
    """The source of a family's models, and of the heads that families share."""
    import transformers

    own = inspect.getmodule(getattr(transformers, class_of(kind)))
    shared = importlib.import_module("transformers.modeling_layers")
    return inspect.getsource(own) + inspect.getsource(shared) if own else ""


def swept(kind: str) -> dict[str, Any]:
    """The table of a family."""
    base, groups = base_of(kind), {}
    for change in [{}, *changes(kind, base)]:
        file = {key: value for key, value in (base | change).items() if value != REMOVED}
        try:
            found = counted(kind, file)
        except Exception:  # Whatever a class raises of a value, it does not take it.
            continue
        groups.setdefault(found, []).append(change)
    keys = ("count", "untrained", "tied", "changes")
    return {"class": class_of(kind), "base": base, "groups": [dict(zip(keys, (*found, its), strict=True))
                                                              for found, its in groups.items()]}  # fmt: skip


def main() -> None:
    """Writes the table; kinds of models may follow its path."""
    import transformers

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    lines = []
    for kind in sys.argv[2:] or KINDS.split():
        found = swept(kind)
        groups = ",\n".join(json.dumps(group, separators=(",", ":")) for group in found.pop("groups"))
        lines.append(f'"{kind}": {json.dumps(found)[:-1]}, "groups": [\n{groups}\n]}}')
        print(f"{kind:20} {groups.count('{'):6}", flush=True)
    head = f'{{"transformers": "{transformers.__version__}", "families": {{\n'
    Path(sys.argv[1]).write_text(head + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


KINDS = """arcee bamba bert bloom cohere cohere2 dbrx deepseek_v2 deepseek_v3 dots1 ernie4_5 exaone4 falcon gemma gemma2
gemma3_text glm4 glm4_moe gpt2 gpt_bigcode gpt_neox gpt_oss gptj granite granitemoe granitemoehybrid granitemoeshared
hunyuan_v1_dense jamba llama llama4_text mamba mamba2 minimax_m2 ministral3 mistral mixtral mpt mt5 nemotron nemotron_h
olmo olmo2 olmo3 olmoe opt phi phi3 phimoe qwen2 qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_5_moe_text
qwen3_5_text qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text resnet roberta seed_oss smollm3 starcoder2 t5 vit"""
"""Model types of `lockstep.workload.huggingface.FAMILIES` that have a class for text, or for images, alone."""

if __name__ == "__main__":
    main()
