#!/usr/bin/env bash
# Falcon with one key head for all queries (Falcon-7B: `multi_query`) never runs a fused attention kernel in
# transformers, whatever `attn_implementation="sdpa"` says: scores of every head are made whole, so that memory and
# traffic grow with the square of the sequence. Llama with one key head is fused, and so is Falcon whose new decoder
# repeats its key heads (Falcon-40B).
#
# FalconAttention hands one key head to torch's scaled_dot_product_attention and lets it spread over the queries, without
# `enable_gqa`. Fused kernels require as many key heads as query heads unless that is set, and the function falls back.
#
# Seen on 2026-11-30 with transformers 5.24.0, torch 2.13.0 and Python 3.11, on the processor; on GPUs torch asks the
# same of its fused kernels. Prints the operation that each model's attention ran, and fails if that changes:
#   falcon, one key head: _scaled_dot_product_attention_math
#   falcon, new decoder: _scaled_dot_product_flash_attention_for_cpu
#   llama, one key head: _scaled_dot_product_flash_attention_for_cpu
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0
cat >"$work/run.py" <<'PYTHON'
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
MODELS = {
    "falcon, one key head": ("falcon", {"multi_query": True}),
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "llama, one key head": ("llama", {"num_key_value_heads": 1, "intermediate_size": 96}),
}
for name, (kind, own) in MODELS.items():
    config = AutoConfig.for_model(kind, **SIZES, **own)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()
    with torch.profiler.profile() as seen:
        model(input_ids=torch.arange(32).view(1, 32), use_cache=False).logits.sum().backward()
    names = {one.key.removeprefix("aten::") for one in seen.key_averages()}
    forward = (one for one in names if one.startswith("_scaled_dot_product_") and not one.endswith("backward"))
    print(f"{name}: {', '.join(sorted(forward))}")
PYTHON
seen=$("$work/env/bin/python" "$work/run.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "falcon, one key head: _scaled_dot_product_attention_math
falcon, new decoder: _scaled_dot_product_flash_attention_for_cpu
llama, one key head: _scaled_dot_product_flash_attention_for_cpu" ]
