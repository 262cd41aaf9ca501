#!/usr/bin/env bash
# Accelerate's Megatron-LM plugin splits every sequence over two ranks and recomputes every layer unless told otherwise.
#
# `MegatronLMPlugin()` is documented with None for both, and tensor and pipeline degrees of 1. The defaults that are
# filled in are a context-parallel size of 2 and full, uniform recomputation, while Megatron-LM's own are 1 and none. A
# configuration of four processes with a tensor-parallel degree of 2 has therefore one replica, not two: half the batch,
# and a third more work in the backward pass.
#
# Seen on 2026-11-29 with accelerate 1.15.0, torch 2.13.0 and Python 3.11. Prints the sizes and the recomputation that
# the plugin takes when only the tensor-parallel degree is given, and fails if they are others:
#   tensor 2 pipeline 1 context 2 recompute full uniform
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 accelerate==1.15.0
cat >"$work/defaults.py" <<'PYTHON'
from accelerate.utils import MegatronLMPlugin

one = MegatronLMPlugin(tp_degree=2)
print(
    f"tensor {one.tp_degree} pipeline {one.pp_degree} context {one.context_parallel_size} "
    f"recompute {one.recompute_granularity} {one.recompute_method}"
)
PYTHON
seen=$(env -u MEGATRON_LM_CONTEXT_PARALLEL_SIZE -u MEGATRON_LM_RECOMPUTE_GRANULARITY "$work/env/bin/python" "$work/defaults.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "tensor 2 pipeline 1 context 2 recompute full uniform" ]
