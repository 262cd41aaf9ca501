#!/usr/bin/env bash
# Three keys of an MPT configuration that give its shape change nothing in the class that is built from it.
#
# `expansion_ratio` is the width of the feed-forward block over the hidden size, `no_bias` whether linear layers have
# biases, `learned_pos_emb` whether positions have an embedding. `MptConfig` takes and saves all three. The class always
# builds a block four times as wide, without biases and without an embedding of positions, so that the number of
# parameters, memory and time of such a model are not what its configuration says. Nothing is said.
#
# Seen on 2026-11-29 with transformers 5.24.0, torch 2.13.0 and Python 3.11. Prints the parameters of the same small
# model, as it is and with each key changed, and fails if one of them differs or the number is another:
#   as it is 106816
#   expansion_ratio 8 106816
#   no_bias False 106816
#   learned_pos_emb True 106816
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0
cat >"$work/count.py" <<'PYTHON'
import torch
from transformers import MptConfig, MptForCausalLM


def parameters(**changed):
    config = MptConfig(d_model=64, n_heads=4, n_layers=2, vocab_size=128, max_seq_len=64, **changed)
    assert all(getattr(config, name) == value for name, value in changed.items())
    with torch.device("meta"):
        return sum(one.numel() for one in MptForCausalLM(config).parameters())


print("as it is", parameters())
for name, value in (("expansion_ratio", 8), ("no_bias", False), ("learned_pos_emb", True)):
    print(name, value, parameters(**{name: value}))
PYTHON
seen=$("$work/env/bin/python" "$work/count.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "as it is 106816
expansion_ratio 8 106816
no_bias False 106816
learned_pos_emb True 106816" ]
