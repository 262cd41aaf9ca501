#!/usr/bin/env bash
# A mixture-of-experts model that transformers 5 loads "in 4 bits" keeps its experts in bfloat16.
#
# transformers 5 holds the experts of a layer as two parameters of three dimensions. bitsandbytes' 4-bit quantisation
# replaces modules that are linear layers, which the experts no longer are. Nearly all parameters of such a model are
# its experts', so that it takes about as much memory as without quantisation, and nothing is said.
#
# Seen on 2026-11-30 with transformers 5.24.0, bitsandbytes 0.50.2, accelerate 1.15.0, torch 2.13.0, Python 3.11, on a
# CPU. Saves a small Qwen3-MoE, loads it with load_in_4bit, prints the type of a matrix of attention and of the experts,
# and the share of all bytes that experts take, and fails if that changes:
#   attention torch.uint8
#   experts torch.bfloat16
#   bytes of experts 0.96
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 \
    accelerate==1.15.0 bitsandbytes==0.50.2
cat >"$work/load.py" <<'PYTHON'
import sys

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Qwen3MoeConfig, Qwen3MoeForCausalLM

config = Qwen3MoeConfig(vocab_size=128, hidden_size=128, intermediate_size=256, moe_intermediate_size=128,
                        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                        num_experts=16, num_experts_per_tok=2)
Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
asked = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], quantization_config=asked, dtype=torch.bfloat16,
                                             device_map="cpu")
layer = model.model.layers[0]
print("attention", layer.self_attn.q_proj.weight.dtype)
print("experts", layer.mlp.experts.gate_up_proj.dtype)
sizes = {name: one.numel() * one.element_size() for name, one in model.named_parameters()}
print("bytes of experts", round(sum(size for name, size in sizes.items() if ".experts." in name) / sum(sizes.values()), 2))
PYTHON
seen=$("$work/env/bin/python" "$work/load.py" "$work/model" 2>/dev/null)
echo "$seen"
[ "$seen" = "attention torch.uint8
experts torch.bfloat16
bytes of experts 0.96" ]
