#!/usr/bin/env bash
# DoRA holds every adapted matrix a second time until the backward pass as soon as `lora_dropout` is above 0, in fp32
# though the model is in bf16: a 7B model in half precision then keeps some 26 GB more. Without dropout it keeps none.
#
# With dropout, the layer can no longer reuse what the frozen layer gave, as that read the input before dropout. It
# computes the frozen product a second time from the dropped-out input, with the weight cast to that input's format,
# which is fp32 as the adapters are; autograd saves this cast for the gradient of the input.
#
# Seen on 2026-11-30 with peft 0.21.2, torch 2.13.0 and Python 3.11. Prints, for a frozen matrix of 3000 x 1000 in bf16,
# which tensors of its shape the forward pass saves, and fails if that changes:
#   dropout 0.0: 1 of bfloat16, 0 of float32
#   dropout 0.05: 1 of bfloat16, 1 of float32
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 peft==0.21.2
cat >"$work/saved.py" <<'PYTHON'
import torch
from peft import LoraConfig, get_peft_model


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Linear(1000, 3000, bias=False)

    def forward(self, x):
        return self.matrix(x)


for dropout in (0.0, 0.05):
    config = LoraConfig(r=16, target_modules=["matrix"], use_dora=True, lora_dropout=dropout)
    model = get_peft_model(Model().bfloat16(), config).train()
    saved = []

    def keep(tensor):
        if sorted(tensor.shape) == [1000, 3000]:
            saved.append(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(torch.randn(10, 1000, dtype=torch.bfloat16, requires_grad=True))
    counts = [f"{saved.count(dtype)} of {str(dtype).removeprefix('torch.')}" for dtype in (torch.bfloat16, torch.float32)]
    print(f"dropout {dropout}: {', '.join(counts)}")
PYTHON
seen=$("$work/env/bin/python" "$work/saved.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "dropout 0.0: 1 of bfloat16, 0 of float32
dropout 0.05: 1 of bfloat16, 1 of float32" ]
