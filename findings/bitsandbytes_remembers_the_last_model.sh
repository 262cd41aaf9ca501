#!/usr/bin/env bash
# After a fine-tune with an 8-bit optimizer, the next one in the same process has fp32 states where the last model had
# its table of tokens, and that table is never freed.
#
# transformers' Trainer tells bitsandbytes' GlobalOptimManager, one object for the whole process, that embeddings have
# fp32 states. The manager keeps the modules themselves for ever, and remembers the settings by the place of a parameter
# in the optimizer. The parameter at that place of another model's optimizer gets them too. In a notebook that tunes one
# model after another, each table stays in memory, and the states of the next model may take up to four times as much
# for whatever parameter is there. Nothing is said.
#
# Seen on 2026-12-01 with bitsandbytes 0.50.2, transformers 5.24.0, accelerate 1.15.0, torch 2.13.0 and Python 3.11, on
# a CPU. Prints the format of the states of the first matrix of a Llama before and after a fine-tune of a GPT-2 in the
# same process, and whether GPT-2's table of tokens is still there once nothing names it, and fails if that changes:
#   before torch.uint8
#   after torch.float32
#   table of the last model is still there: True
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 \
    accelerate==1.15.0 bitsandbytes==0.50.2
cat >"$work/tune.py" <<'PYTHON'
import gc
import sys
import weakref

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def stepped(model):
    arguments = TrainingArguments(sys.argv[1], optim="adamw_8bit", use_cpu=True, report_to=[])
    optimizer = Trainer(model=model, args=arguments).create_optimizer()
    for one in model.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step()
    return optimizer


def format_of_states():
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                         num_attention_heads=4))
    return stepped(model).state[model.model.layers[0].self_attn.q_proj.weight]["state1"].dtype


print("before", format_of_states())
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=128, n_embd=64, n_layer=2, n_head=4))
table = weakref.ref(gpt2.transformer.wte.weight)
stepped(gpt2)
del gpt2
gc.collect()
print("after", format_of_states())
print("table of the last model is still there:", table() is not None)
PYTHON
seen=$("$work/env/bin/python" "$work/tune.py" "$work/out" 2>/dev/null)
echo "$seen"
[ "$seen" = "before torch.uint8
after torch.float32
table of the last model is still there: True" ]
