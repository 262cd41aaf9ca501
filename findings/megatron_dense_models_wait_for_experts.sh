#!/usr/bin/env bash
# Megatron Core refuses dense models context parallelism with stages inside replicas, because of experts they lack.
#
# With the order tp-cp-ep-pp-dp (Megatron-LM's --use-tp-pp-dp-mapping) neighbouring nodes hold stages, not replicas.
# initialize_model_parallel makes groups of experts for every model, and counts context-parallel ranks among the
# replicas of experts. It then stops because attention and "moe layers" have other numbers of replicas, also with an
# expert-parallel size of 1: a model without experts can have such an order, or context parallelism, but not both.
#
# Seen on 2026-12-01 with megatron-core 0.16.1, torch 2.13.0 and Python 3.11 on a CPU. Prints what eight ranks are told
# with two stages and no experts, and fails if that is otherwise:
#   tp-cp-ep-dp-pp context 2: made
#   tp-cp-ep-pp-dp context 1: made
#   tp-cp-ep-pp-dp context 2: the data parallel size of the attention and moe layers must be the same
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 megatron-core==0.16.1
cat >"$work/groups.py" <<'PYTHON'
import torch
from megatron.core import parallel_state
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
for order, context in (("tp-cp-ep-dp-pp", 2), ("tp-cp-ep-pp-dp", 1), ("tp-cp-ep-pp-dp", 2)):
    try:
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=2, context_parallel_size=context, order=order, create_gloo_process_groups=False
        )
        told = "made"
    except AssertionError as error:
        told = str(error).split(", ")[-1]
    print(f"{order} context {context}: {told}")
    parallel_state.destroy_model_parallel()
PYTHON
seen=$("$work/env/bin/python" "$work/groups.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "tp-cp-ep-dp-pp context 2: made
tp-cp-ep-pp-dp context 1: made
tp-cp-ep-pp-dp context 2: the data parallel size of the attention and moe layers must be the same" ]
