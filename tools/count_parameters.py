"""Counts parameters of model classes of the `transformers` package, for tests/workload/oracle/parameters.json.

    python tools/count_parameters.py tests/workload/oracle/parameters.json

Needs torch, transformers and diffusers: run it in an environment of its own. Every entry of CONFIGURATIONS is a config
class with some values changed; its model is made on the meta device, where weights have shapes and no memory. A tied
tensor counts once; of stored buffers only those that balance experts do, which files of weights hold too. Values that
shape no weight are left out of the file; lists of layers, which the readers need, are kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

CONFIGURATIONS: dict[str, list[tuple[str, dict]]] = {
    "llama": [
        ("small", {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 640, "vocab_size": 1000}),
        ("grouped", {"num_key_value_heads": 8, "vocab_size": 128256, "intermediate_size": 14336}),
        ("biased", {"attention_bias": True, "mlp_bias": True, "num_hidden_layers": 3}),
    ],
    "mistral": [("default", {}), ("tied", {"tie_word_embeddings": True, "num_hidden_layers": 4})],
    "ministral3": [("default", {})],
    "mixtral": [("default", {})],
    "gpt_oss": [
        ("default", {}),
        ("20b", {"num_hidden_layers": 24, "num_local_experts": 32}),
        ("no biases", {"attention_bias": False, "num_hidden_layers": 2, "num_local_experts": 4}),
    ],
    "llama4_text": [
        ("default", {}),
        ("128 experts", {"num_local_experts": 128, "interleave_moe_layer_step": 2}),
        ("plain queries", {"use_qk_norm": False, "num_hidden_layers": 8, "interleave_moe_layer_step": 4}),
    ],
    "glm4_moe": [
        ("default", {}),
        ("355b", {"hidden_size": 5120, "num_hidden_layers": 92, "n_routed_experts": 160, "intermediate_size": 12288,
                  "moe_intermediate_size": 1536, "first_k_dense_replace": 3, "use_qk_norm": True, "head_dim": 128,
                  "attention_bias": True}),
    ],
    "glm4": [("default", {}), ("biased", {"attention_bias": True})],
    "dots1": [("small", {"num_hidden_layers": 6, "n_routed_experts": 16, "n_shared_experts": 2,
                         "first_k_dense_replace": 1, "moe_intermediate_size": 1408, "num_experts_per_tok": 6})],
    "deepseek_v2": [("default", {"num_experts_per_tok": 6}),
                    ("direct queries", {"q_lora_rank": None, "num_hidden_layers": 4, "num_experts_per_tok": 2})],
    "deepseek_v3": [
        ("default", {}),
        ("kimi", {"n_routed_experts": 384, "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 163840,
                  "first_k_dense_replace": 1}),
    ],
    "qwen2": [("default", {}), ("tied", {"tie_word_embeddings": True, "num_key_value_heads": 4})],
    "qwen2_moe": [("default", {}), ("some dense", {"mlp_only_layers": [0, 2], "num_hidden_layers": 5})],
    "qwen3": [("default", {}), ("grouped", {"num_key_value_heads": 8, "hidden_size": 2560,
                                            "tie_word_embeddings": True})],
    "qwen3_moe": [("default", {}), ("sparse", {"decoder_sparse_step": 2, "num_hidden_layers": 6})],
    "qwen3_next": [
        ("default", {}),
        ("every second", {"layer_types": ["linear_attention", "full_attention"] * 3, "num_hidden_layers": 6}),
        ("some dense", {"mlp_only_layers": [0], "num_hidden_layers": 4}),
    ],
    "qwen3_5_text": [("default", {}), ("tied", {"tie_word_embeddings": True, "num_hidden_layers": 8})],
    "qwen3_5_moe_text": [("default", {})],
    "olmo": [("default", {})],
    "olmo2": [("default", {}), ("grouped", {"num_key_value_heads": 8})],
    "olmo3": [("default", {}), ("grouped", {"num_key_value_heads": 8, "hidden_size": 5120, "num_attention_heads": 40,
                                            "num_hidden_layers": 64, "intermediate_size": 27648})],
    "olmoe": [("default", {})],
    "smollm3": [("default", {})],
    "granite": [("default", {})],
    "granitemoe": [("default", {})],
    "granitemoeshared": [("shared", {"shared_intermediate_size": 512, "num_hidden_layers": 4})],
    "granitemoehybrid": [
        ("default", {}),
        ("attention", {"layer_types": ["linear_attention"] * 5 + ["full_attention"], "num_hidden_layers": 6}),
        ("dense", {"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 8192,
                   "layer_types": ["linear_attention", "full_attention"] * 2, "num_hidden_layers": 4}),
        ("no recurrence", {"layer_types": ["full_attention"] * 4, "num_hidden_layers": 4, "num_local_experts": 0,
                           "position_embedding_type": "rope", "tie_word_embeddings": True}),
    ],
    "bamba": [("attention", {"attn_layer_indices": [9, 18, 27]}), ("biased", {"mamba_proj_bias": True,
              "attn_layer_indices": [1], "num_hidden_layers": 3, "mamba_n_groups": 4})],
    "jamba": [("default", {}), ("dense", {"num_experts": 1, "num_hidden_layers": 8}),
              ("plain", {"mamba_conv_bias": False, "mamba_proj_bias": True, "num_hidden_layers": 8, "num_experts": 4})],
    "nemotron_h": [
        ("default", {}),
        ("dense", {"layers_block_type": ["linear_attention", "mlp", "linear_attention", "full_attention", "mlp"],
                   "use_bias": True}),
        ("experts", {"layers_block_type": ["linear_attention", "moe"] * 3 + ["full_attention", "moe"],
                     "hidden_size": 2688, "n_routed_experts": 128, "moe_intermediate_size": 1856,
                     "moe_shared_expert_intermediate_size": 3712, "mamba_num_heads": 64}),
    ],
    "nemotron": [("grouped", {"num_key_value_heads": 8})],
    "gemma": [("default", {})],
    "gemma2": [("default", {})],
    "gemma3_text": [("default", {}), ("27b", {"hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
                    "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504})],
    "cohere": [("default", {}), ("normed", {"use_qk_norm": True, "num_hidden_layers": 2})],
    "cohere2": [("default", {})],
    "exaone4": [("default", {})],
    "seed_oss": [("default", {})],
    "ernie4_5": [("default", {})],
    "hunyuan_v1_dense": [("heads of 128", {"head_dim": 128})],
    "minimax_m2": [("default", {})],
    "phi": [("default", {})],
    "phi3": [("default", {})],
    "phimoe": [("default", {}), ("biased", {"lm_head_bias": True, "attention_bias": True, "num_hidden_layers": 2})],
    "gpt2": [("default", {})],
    "gpt_bigcode": [("default", {})],
    "gpt_neox": [("default", {})],
    "gptj": [("default", {})],
    "opt": [("default", {})],
    "bloom": [("default", {})],
    "falcon": [("default", {}), ("newer", {"new_decoder_architecture": True, "num_kv_heads": 8, "num_hidden_layers": 3,
                                                 "num_attention_heads": 64, "hidden_size": 4096})],
    "mpt": [("default", {})],
    "starcoder2": [("default", {})],
    "arcee": [("default", {})],
    "vit": [
        ("b-16", {"num_labels": 1000}),
        ("l-16 384", {"num_labels": 1000, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                      "intermediate_size": 4096, "image_size": 384}),
        ("h-14", {"num_labels": 21843, "hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16,
                  "intermediate_size": 5120, "patch_size": 14}),
        ("backbone", {"architectures": ["ViTModel"], "qkv_bias": False, "num_hidden_layers": 2}),
    ],
    "t5": [
        ("small", {}),
        ("base", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
        ("large", {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}),
        ("3b", {"d_model": 1024, "d_kv": 128, "d_ff": 16384, "num_layers": 24, "num_heads": 32}),
        ("11b", {"d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128}),
        ("v1.1 xxl", {"d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
                      "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        ("flan small", {"d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
                        "tie_word_embeddings": False}),
        ("deep encoder", {"num_layers": 10, "num_decoder_layers": 3}),
    ],
    "mt5": [("default", {}), ("xl", {"d_model": 2048, "d_ff": 5120, "num_layers": 24, "num_heads": 32})],
    "mamba": [("default", {}), ("2.8b", {"hidden_size": 2560, "num_hidden_layers": 64, "intermediate_size": 5120,
                                         "vocab_size": 50280, "time_step_rank": 160})],
    "mamba2": [("default", {}), ("untied", {"hidden_size": 1024, "num_heads": 32, "num_hidden_layers": 4,
                                            "n_groups": 1, "tie_word_embeddings": False, "use_bias": True})],
    "DiTTransformer2DModel": [
        ("xl-2", {"out_channels": 8}),
        ("b-4 512", {"num_attention_heads": 12, "attention_head_dim": 64, "num_layers": 12, "patch_size": 4,
                     "sample_size": 64, "attention_bias": False}),
    ],
    "resnet": [
        ("50", {"num_labels": 1000}),
        ("18", {"num_labels": 10, "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}),
    ],
}  # fmt: skip
"""Model type -> (name, values other than the class's own)."""
IMAGES = ("resnet", "vit")
SHAPELESS = (
    "id2label", "label2id", "transformers_version", "architectures", "dtype", "torch_dtype", "problem_type",
    "return_dict", "output_hidden_states", "output_attentions", "chunk_size_feed_forward", "is_encoder_decoder",
)  # fmt: skip


def counted(kind: str, changed: dict) -> tuple[int, str, dict]:
    """(parameters, class, its configuration) of a language model."""
    import torch
    from transformers import AutoConfig

    if kind.endswith("2DModel"):
        return counted_of_diffusers(kind, changed)
    config = AutoConfig.for_model(kind, **changed)
    with torch.device("meta"):
        model = auto_class(kind, changed).from_config(config)
    model.tie_weights()
    total = sum(one.numel() for one in model.parameters())
    stored = {name for name in model.state_dict() if name.endswith("correction_bias")}
    total += sum(one.numel() for name, one in model.named_buffers() if name in stored)
    plain = {name: value for name, value in config.to_dict().items() if name not in SHAPELESS and value is not None}
    labels = {"num_labels": config.num_labels} if kind in IMAGES else {}
    labels |= {"architectures": changed["architectures"]} if "architectures" in changed else {}
    empty = {name: None for name, value in changed.items() if value is None}
    return total, type(model).__name__, {"model_type": kind, **empty, **plain, **labels}


def auto_class(kind: str, changed: dict) -> type:
    """The class of `transformers` that makes a whole model of a type."""
    import transformers

    if "architectures" in changed:
        return transformers.AutoModel
    if kind in IMAGES:
        return transformers.AutoModelForImageClassification
    return transformers.AutoModelForSeq2SeqLM if kind.endswith("t5") else transformers.AutoModelForCausalLM


def counted_of_diffusers(kind: str, changed: dict) -> tuple[int, str, dict]:
    """The same of a class of the `diffusers` package, whose files name it instead of a model type."""
    import diffusers
    import torch

    with torch.device("meta"):
        model = getattr(diffusers, kind)(**changed)
    plain = {
        name: value for name, value in dict(model.config).items() if not name.startswith("_") and value is not None
    }
    return sum(one.numel() for one in model.parameters()), kind, {"_class_name": kind, **plain}


def main() -> None:
    """Writes the file."""
    import transformers

    rows = []
    for kind, cases in CONFIGURATIONS.items():
        for name, changed in cases:
            total, made, config = counted(kind, changed)
            rows.append({"name": f"{kind} {name}", "class": made, "changed": changed, "count": total, "config": config})
            print(f"{kind:20} {name:16} {total:,}", flush=True)
    lines = ",\n".join(json.dumps(row, default=str) for row in rows)
    head = json.dumps({"transformers": transformers.__version__})[:-1]
    Path(sys.argv[1]).write_text(f'{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
