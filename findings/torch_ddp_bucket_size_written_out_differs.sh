#!/usr/bin/env bash
# DistributedDataParallel(bucket_cap_mb=25) has other buckets than the default, which is 25.
#
# The documentation says "bucket_cap_mb ... (default: 25)". Left out, the first bucket is full at 1 MiB and those after it
# at 25 MiB, so that the first gradients travel early. With 25 written out, the first is full at 25 MiB too: of a model of
# 12 MiB nothing is reduced before its backward pass ends.
#
# Seen on 2026-12-01 with torch 2.13.0 and Python 3.11 on a CPU, one process with gloo. Prints the MiB of the buckets of
# a step, after they were rebuilt, and fails if they are others:
#   left out 1 11, written out 12
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat >"$work/count.py" <<'PYTHON'
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())


def buckets(**words):
    layers = (torch.nn.Linear(512, 512, bias=False) for _ in range(12))
    model = DistributedDataParallel(torch.nn.Sequential(*layers), **words)
    found = []

    def noted(_, bucket):
        found.append(bucket.buffer().numel() * 4 // 2**20)
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, noted)
    for _ in range(3):
        found.clear()
        model(torch.ones(2, 512)).sum().backward()
    return found


left, written = buckets(), buckets(bucket_cap_mb=25)
print(f"left out {' '.join(map(str, left))}, written out {' '.join(map(str, written))}")
assert (left, written) == ([1, 11], [12]), (left, written)
dist.destroy_process_group()
PYTHON
"$work/env/bin/python" "$work/count.py"
