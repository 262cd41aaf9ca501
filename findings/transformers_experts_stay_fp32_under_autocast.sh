#!/usr/bin/env bash
# The experts of a Mixtral whose weights are fp32 compute in fp32 under `torch.autocast(..., torch.bfloat16)`, which is
# what the Trainer's `bf16=True` is, while every linear layer of the same model computes in bf16. Most FLOPs of such a
# model are in its experts, so that mixed precision leaves most of it as slow and as large as fp32.
#
# transformers 5 runs all experts of a layer by torch's grouped product (`grouped_mm`), the default where torch has it.
# That operation is in none of autocast's lists, so its inputs stay as they are: hidden states and weights of fp32.
#
# Seen on 2026-11-30 with transformers 5.24.0, torch 2.13.0 and Python 3.11. Prints in which formats the products of a
# layer's attention and of its experts ran, and fails if that changes:
#   linear layers of attention: bfloat16
#   experts: float32
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0
cat >"$work/formats.py" <<'PYTHON'
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

config = AutoConfig.for_model("mixtral", vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                              num_attention_heads=4, num_key_value_heads=4, num_local_experts=4)
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)


class Formats(TorchDispatchMode):
    found = set()
    inside = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if self.inside and function._overloadpacket.__name__ in ("mm", "addmm", "bmm", "_grouped_mm"):
            self.found.add(str(args[0].dtype).removeprefix("torch."))
        return function(*args, **(kwargs or {}))


def formats(parts):
    mode, ends = Formats(), []
    mode.found = set()
    for part in parts:
        ends.append(part.register_forward_pre_hook(lambda *_: setattr(mode, "inside", True)))
        ends.append(part.register_forward_hook(lambda *_: setattr(mode, "inside", False)))
    with mode, torch.autocast("cpu", torch.bfloat16):
        model(input_ids=torch.arange(32).view(1, 32))
    for end in ends:
        end.remove()
    return ", ".join(sorted(mode.found))


layers = model.model.layers
print("linear layers of attention:", formats(one for layer in layers for one in (layer.self_attn.q_proj, layer.self_attn.o_proj)))
print("experts:", formats(layer.mlp.experts for layer in layers))
PYTHON
seen=$("$work/env/bin/python" "$work/formats.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "linear layers of attention: bfloat16
experts: float32" ]
