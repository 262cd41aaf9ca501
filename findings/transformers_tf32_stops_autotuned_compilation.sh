#!/usr/bin/env bash
# Once transformers has enabled TF32, torch.compile with mode="max-autotune" raises an error in place of a kernel. The
# Trainer enables TF32 with `tf32=True`, and by itself with `torch_compile=True` on GPUs since Ampere.
#
# transformers says it in the words that PyTorch has since 2.9 (`torch.backends.fp32_precision`). PyTorch's older
# question, `torch.get_float32_matmul_precision()`, then raises that both ways were mixed, and Inductor asks just this
# when it looks up what it measured of a product. Asking for `torch.backends.cuda.matmul.allow_tf32` raises as well.
# Setting `torch.set_float32_matmul_precision("high")` afterwards makes both answer again.
#
# Seen on 2026-12-01 with transformers 5.24.0, torch 2.13.0 and Python 3.11, on the processor, where Inductor measures
# products of frozen weights; needs a C++ compiler. Prints what each did, and fails if that changes:
#   before: highest, False, compiled
#   transformers enables TF32: RuntimeError, RuntimeError, InductorError
#   the older words after it: high, True, compiled
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0
cat >"$work/run.py" <<'PYTHON'
import torch
import torch._inductor.config
from transformers.utils.import_utils import enable_tf32

torch._inductor.config.freezing = True


def compiled():
    torch._dynamo.reset()
    layer = torch.compile(torch.nn.Linear(256, 256).eval(), mode="max-autotune")
    with torch.no_grad():
        layer(torch.randn(64, 256))
    return "compiled"


def asked(question):
    try:
        return str(question())
    except Exception as error:
        return type(error).__name__


def say(when):
    questions = torch.get_float32_matmul_precision, lambda: torch.backends.cuda.matmul.allow_tf32, compiled
    print(f"{when}: {', '.join(map(asked, questions))}")


say("before")
enable_tf32(True)
say("transformers enables TF32")
torch.set_float32_matmul_precision("high")
say("the older words after it")
PYTHON
seen=$(cd "$work" && TORCHINDUCTOR_CACHE_DIR="$work/cache" "$work/env/bin/python" "$work/run.py" 2>/dev/null | grep -E "^(before|transformers enables|the older)")
echo "$seen"
[ "$seen" = "before: highest, False, compiled
transformers enables TF32: RuntimeError, RuntimeError, InductorError
the older words after it: high, True, compiled" ]
