#!/usr/bin/env bash
# torch's Schedule1F1B lists forward passes on its last stage that do not exist, and leaves out the first.
#
# `pipeline_order` of a schedule is what each rank computes, in order; it is printed, drawn and read by tools that make
# or check schedules. For 1F1B with m micro-batches the last stage is listed with forward passes 1 to m, where they are
# 0 to m - 1, and backward passes 0 to m - 1: a backward pass of micro-batch 0 without its forward pass, and a forward
# pass of a micro-batch that there is not. What the class runs is right; it does not read its own list.
#
# Seen on 2026-12-01 with torch 2.13.0 and Python 3.11 on a CPU. Prints the list of both stages of a pipeline with four
# micro-batches, and fails if it is another:
#   stage 0: F0 F1 B0 F2 B1 F3 B2 B3
#   stage 1: F1 B0 F2 B1 F3 B2 F4 B3
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat >"$work/listed.py" <<'PYTHON'
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
stage = PipelineStage(torch.nn.Linear(1, 1), 0, 2, torch.device("cpu"))
listed = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss).pipeline_order
for rank, actions in listed.items():
    computing = [one for one in actions if one is not None and one.computation_type.value in "FB"]
    print(f"stage {rank}:", *(f"{one.computation_type.value}{one.microbatch_index}" for one in computing))
PYTHON
seen=$("$work/env/bin/python" "$work/listed.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "stage 0: F0 F1 B0 F2 B1 F3 B2 B3
stage 1: F1 B0 F2 B1 F3 B2 F4 B3" ]
