#!/usr/bin/env bash
# LoRA without target_modules is refused for Mixtral, though peft has targets for it: "No `target_modules` passed".
#
# peft's table of default targets has q_proj and v_proj for mixtral. With transformers 5, whose experts are parameters of
# three dimensions, peft rewrites the targets of such types before it looks at the table, and finds neither targets nor
# parameters there. The message asks for values that other types, as Mistral, do without. Naming the very targets of the
# table works.
#
# Seen on 2026-12-01 with peft 0.21.2, transformers 5.24.0, torch 2.13.0 and Python 3.11. Prints the targets in peft's
# table, and for no targets and for these the number of trained parameters of a small model or the error, and fails if
# that changes:
#   table ['q_proj', 'v_proj']
#   mistral without targets 3584
#   mixtral without targets NoMatchingPeftModuleError
#   mixtral with those of the table 3584
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 peft==0.21.2
cat >"$work/count.py" <<'PYTHON'
import torch
from peft import LoraConfig, get_peft_model
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2)


def trained(kind, targets):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES))
    try:
        found = get_peft_model(model, LoraConfig(r=4, target_modules=targets, task_type="CAUSAL_LM"))
    except ValueError as error:
        return type(error).__name__
    return sum(one.numel() for one in found.parameters() if one.requires_grad)


table = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING["mixtral"]
print("table", table)
print("mistral without targets", trained("mistral", None))
print("mixtral without targets", trained("mixtral", None))
print("mixtral with those of the table", trained("mixtral", table))
PYTHON
seen=$("$work/env/bin/python" "$work/count.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "table ['q_proj', 'v_proj']
mistral without targets 3584
mixtral without targets NoMatchingPeftModuleError
mixtral with those of the table 3584" ]
