#!/usr/bin/env bash
# torch's selective checkpointing asks its policy in the forward pass alone: `is_recompute` is never true.
#
# The policy of `create_selective_checkpoint_contexts` gets a context that says whether an operation runs for the first
# time or again, and earlier releases asked it in both passes. So policies count operations by it, as torchtitan's does
# to keep every other product. In 2.13.0 what was decided in the forward pass is looked up when a region runs again: the
# policy is not asked, a count of what runs again stays at zero, and code that listens there hears nothing.
#
# Seen on 2026-11-29 with torch 2.13.0 and Python 3.11 on a CPU. Prints how often the policy is asked about products in
# either pass, and FLOPs that run again over those of the three products, and fails if they are others:
#   asked forward 3, again 0; run again 1 of 3 products
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat >"$work/count.py" <<'PYTHON'
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

asked = {False: 0, True: 0}


def policy(context, function, *arguments, **more):
    if function is torch.ops.aten.mm.default:
        asked[context.is_recompute] += 1
        if asked[context.is_recompute] % 2:
            return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


layers = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(3))


def block(x):
    for layer in layers:
        x = torch.tanh(layer(x))
    return x


def flops(run):
    x = torch.ones(8, 64, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        run(x).sum().backward()
    return counter.get_total_flops()


def selective(x):
    return checkpoint(block, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))


again = (flops(selective) - flops(block)) / (2 * 8 * 64 * 64)
print(f"asked forward {asked[False]}, again {asked[True]}; run again {again:g} of 3 products")
assert (asked[False], asked[True], again) == (3, 0, 1), (asked, again)
PYTHON
"$work/env/bin/python" "$work/count.py"
