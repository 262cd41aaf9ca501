#!/usr/bin/env bash
# With fp32 parameters, GaLore's projection of rank r holds the memory of every singular vector of the matrix.
#
# `GaLoreProjector.get_orthogonal_matrix` cuts the first r vectors off the result of an SVD with a slice, which is a
# view: as long as the projector lives, so does the storage of all of them, side x side numbers for the smaller side of
# the matrix in the place of side x r. Where gradients are in half precision the slice is converted, and only r vectors
# stay. A hidden size of 4,096 and rank 128 take 64 MiB a matrix, not 2 MiB. A `.clone()` of the slice would mend it.
#
# Seen on 2026-11-30 with galore-torch 1.0, torch 2.13.0 and Python 3.11. Prints the bytes of the projection's numbers and
# of the storage behind them, for a matrix of 512 x 256 at rank 8, and fails if they are others:
#   torch.float32 8192 262144
#   torch.bfloat16 4096 4096
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$work" galore-torch==1.0
cat >"$work/held.py" <<'PYTHON'
import importlib.util
import sys

import torch

# The projector alone: the package's other files import transformers and bitsandbytes.
spec = importlib.util.spec_from_file_location("projector", sys.argv[1])
projector = importlib.util.module_from_spec(spec)
spec.loader.exec_module(projector)
torch.manual_seed(0)
for dtype in (torch.float32, torch.bfloat16):
    found = projector.GaLoreProjector(8)
    found.project(torch.randn(512, 256, dtype=dtype), 0)
    kept = found.ortho_matrix
    print(dtype, kept.numel() * kept.element_size(), kept.untyped_storage().nbytes())
PYTHON
seen=$("$work/env/bin/python" "$work/held.py" "$work/galore_torch/galore_projector.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "torch.float32 8192 262144
torch.bfloat16 4096 4096" ]
