#!/usr/bin/env bash
# torch's ColwiseParallel sums its input's gradient once for every product, though several read the same input.
#
# Tensor parallelism needs one sum of the gradient of what a gated block reads. With the plan `{"gate": ColwiseParallel(),
# "up": ColwiseParallel(), "down": RowwiseParallel()}` each product makes a DTensor of the same plain tensor, and each
# sums that one's gradient by itself: two all-reduces of the whole input where one would do, and three before attention.
# Where the block's input is made a DTensor first (PrepareModuleInput), there is one.
#
# Seen on 2026-12-01 with torch 2.13.0 and Python 3.11 on a CPU. Prints all-reduces of the backward pass of either plan,
# and fails if they are others:
#   plain 2, prepared 1
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat >"$work/count.py" <<'PYTHON'
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
mesh = dist.init_device_mesh("cpu", (4,))


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(64, 128, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(128, 64, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def all_reduces(prepared):
    plan = {"block.gate": ColwiseParallel(), "block.up": ColwiseParallel(), "block.down": RowwiseParallel()}
    if prepared:
        plan["block"] = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    model = parallelize_module(torch.nn.ModuleDict({"block": Gated()}), mesh, plan)
    found = model["block"](torch.randn(8, 64, requires_grad=True))
    with CommDebugMode() as counted:
        found.sum().backward()
    return sum(counted.get_comm_counts().values())


plain, prepared = all_reduces(False), all_reduces(True)
print(f"plain {plain}, prepared {prepared}")
assert (plain, prepared) == (2, 1), (plain, prepared)
dist.destroy_process_group()
PYTHON
"$work/env/bin/python" "$work/count.py"
