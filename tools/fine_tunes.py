"""The page of common fine-tunes: which fit on which machine, and how fast they are.

python tools/pages.py --write docs/use/fine-tunes.md
"""

from __future__ import annotations

from collections.abc import Iterator

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.base.units import format_count, format_size

MODELS = (
    "llama3.2-1b", "gemma-2b", "phi3-mini", "mistral-7b", "qwen2.5-7b", "llama3-8b", "gemma2-9b", "llama2-13b",
    "gemma2-27b", "mixtral-8x7b", "llama3-70b", "qwen2.5-72b",
)  # fmt: skip
METHODS = {
    "full": {"optimizer": "adamw-8bit-no-master", "gradient_bytes": 2},
    "LoRA": {"train": "lora:r=16,targets=all-linear"},
    "QLoRA": {"train": "lora:r=16,targets=all-linear", "base": "nf4"},
    "DPO, LoRA": {"train": "dpo,lora:r=16,targets=all-linear"},
}
WITH_PREFERENCES = ("llama3.2-1b", "qwen2.5-7b", "llama3-8b", "llama3-70b")
MACHINES = {
    "RTX 3090": "rtx-3090:1", "RTX 4090": "rtx-4090:1", "RTX 5090": "rtx-5090:1", "L40S": "l40s:1",
    "A100 80 GB": "a100-sxm-80gb:1", "H100": "h100-sxm:1", "8 H100": "h100-sxm:8",
}  # fmt: skip
QUESTION = {"stack": "hf-trainer", "seq": 2048, "batch": 16}
HEAD = """# Common fine-tunes

Tokens per second of the best layout that `lockstep plan` finds, or the memory that the smallest layout needs on each
device where none fits. Hugging Face's Trainer, packed sequences of 2,048 tokens, 16 of them per step; adapters of rank
16 on all linear layers. Full fine-tuning keeps bf16 weights without a master copy, and 8-bit AdamW. No number here is
measured; [how sure they are](fine-tune.md#how-sure-it-is). This page is written by `python tools/pages.py --write
docs/use/fine-tunes.md`; ask for another model, card or length with

    lockstep plan llama3-8b --cluster all --batch 16 --seq 2048 --train lora:r=16 --base nf4 --stack hf-trainer

"""


def page() -> str:
    """The page."""
    titles = " | ".join(MACHINES)
    lines = [f"| model | method | {titles} |", "|---" * 2 + "|--:" * len(MACHINES) + "|"]
    return HEAD + "\n".join([*lines, *_rows()]) + "\n"


def _rows() -> Iterator[str]:
    for model in MODELS:
        for method in METHODS:
            if method != "DPO, LoRA" or model in WITH_PREFERENCES:
                yield f"| {model} | {method} | " + " | ".join(cell(model, method, one) for one in MACHINES) + " |"


def cell(model: str, method: str, machine: str) -> str:
    """Tokens per second of a fine-tune, or what it lacks."""
    try:
        found = lockstep.plan(model, MACHINES[machine], **QUESTION, **METHODS[method])
    except Infeasible as error:
        missing = next(one for one in error.violations if one.why == "memory")
        return f"needs {format_size(missing.excess + missing.limit, 2)}"
    return format_count(found.best.tokens_per_s, 3)
