#!/usr/bin/env bash
# Megatron Core's token drop policy "position" does not drop the tokens at the end of a batch: it keeps some in the middle.
#
# The setting's documentation says that with moe_token_drop_policy "position" tokens at the end of each batch are
# dropped. apply_router_token_dropping chooses those that stay with torch.topk of ones and zeros, whose order among
# equal numbers is not defined: of 64 tokens that all choose one expert, of which eight fit, those from 40 to 47 stay.
# As many are kept as should be; the first tokens of a sequence lose their experts where the last should.
#
# Seen on 2026-12-01 with megatron-core 0.16.1, torch 2.13.0, Python 3.11, on a CPU. Sends all tokens to the first of four
# experts, prints the places of those that stay, and fails if that changes:
#   16 [10, 11]
#   64 [40, 41, 42, 43, 44, 45, 46, 47]
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 megatron-core==0.16.1
cat >"$work/drop.py" <<'PYTHON'
import torch
from megatron.core.transformer.moe.moe_utils import apply_router_token_dropping

for tokens in (16, 64):
    chosen = torch.zeros(tokens, 4, dtype=torch.bool)
    chosen[:, 0] = True
    _, kept = apply_router_token_dropping(
        chosen * 0.5, chosen, router_topk=1, capacity_factor=0.5, drop_policy="position"
    )
    print(tokens, kept[:, 0].nonzero().flatten().tolist())
PYTHON
seen=$("$work/env/bin/python" "$work/drop.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "16 [10, 11]
64 [40, 41, 42, 43, 44, 45, 46, 47]" ]
