#!/usr/bin/env bash
# `target_modules="all-linear"` puts no adapter on the shared expert of Qwen3-Next, nor on the shared expert and the
# dense layer of DeepSeek-V3, though these are linear layers. On Qwen2-MoE it is the other way round: the shared expert
# has adapters, and the routed experts have none.
#
# transformers 5 holds routed experts as parameters of three dimensions. For types in its list of converted models, peft
# rewrites targets: gate_proj, up_proj and down_proj, which "all-linear" contains by their last names, become the
# parameters of the routed experts, and are taken off the list of modules, so that every other module of that name loses
# its adapter. Qwen2-MoE, whose name the rule has, is not itself in the list. Nothing is said in either case: fine-tunes
# of related models train different parts, and the number of trained parameters is not what the words suggest.
#
# Seen on 2026-11-30 with peft 0.21.2, transformers 5.24.0, torch 2.13.0 and Python 3.11. Prints, for a small model of
# each type, how many linear layers of shared experts and of dense layers, and how many layers of routed experts, have
# adapters, and fails if that changes:
#   deepseek_v3 shared 0 of 6, dense 0 of 3, layers of routed experts 2 of 2
#   qwen3_next shared 0 of 12, dense 0 of 0, layers of routed experts 4 of 4
#   qwen2_moe shared 9 of 9, dense 0 of 0, layers of routed experts 0 of 3
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 peft==0.21.2
cat >"$work/count.py" <<'PYTHON'
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, num_experts_per_tok=2, moe_intermediate_size=32)
MODELS = {
    "deepseek_v3": dict(COMMON, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1,
                        n_group=1, topk_group=1, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8,
                        qk_nope_head_dim=16, v_head_dim=16),
    "qwen3_next": dict(COMMON, num_hidden_layers=4, num_experts=4, shared_expert_intermediate_size=32,
                       linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
                       linear_value_head_dim=16),
    "qwen2_moe": dict(COMMON, num_experts=4, shared_expert_intermediate_size=48, decoder_sparse_step=1),
}


def adapted(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **MODELS[name]))
    linear = [one for one, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    shared = [one for one in linear if "shared_expert" in one and one.endswith("_proj")]
    dense = [one for one in linear if ".mlp." in one and one.endswith("_proj") and one not in shared]
    experts = [one for one, module in model.named_modules() if one.endswith(".mlp.experts")]
    model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = [one for one, value in model.named_parameters() if value.requires_grad]

    def of(names):
        return f"{sum(any(f'.{name}.' in f'.{one}' for one in trained) for name in names)} of {len(names)}"

    return f"shared {of(shared)}, dense {of(dense)}, layers of routed experts {of(experts)}"


for name in MODELS:
    print(name, adapted(name))
PYTHON
seen=$("$work/env/bin/python" "$work/count.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "deepseek_v3 shared 0 of 6, dense 0 of 3, layers of routed experts 2 of 2
qwen3_next shared 0 of 12, dense 0 of 0, layers of routed experts 4 of 4
qwen2_moe shared 9 of 9, dense 0 of 0, layers of routed experts 0 of 3" ]
