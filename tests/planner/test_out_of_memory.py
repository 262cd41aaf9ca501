"""Public reports of fine-tunes that ran out of memory, or did not: whether they are answered as they went.

The reports were chosen, and the file committed, before Lockstep was asked about any of them.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from lockstep.describe.workload import model

HERE = Path(__file__).parent
ROWS = tuple(csv.DictReader((HERE / "out_of_memory.csv").read_text(encoding="utf-8").splitlines()))
CONFIGS = json.loads((HERE / "out_of_memory_models.json").read_text(encoding="utf-8"))
DEVICES = {
    "a100-40gb": "a100-sxm-40gb", "a100-80gb": "a100-sxm-80gb", "h100-80gb": "h100-sxm", "v100-32gb": "v100-sxm-32gb",
    "h20": "h20", "rtx-3090": "rtx-3090", "rtx-4090": "rtx-4090", "rtx-a6000": "rtx-a6000",
    "a40": "rtx-6000-ada", "l20": "rtx-6000-ada",
}  # fmt: skip
"""A40 and L20 are not in the catalog; 44.4 GiB of them, as of the RTX 6000 Ada, can be used."""
NODES = {"h100-sxm": "dgx-h100"}
AUTO = "prefetch_bucket_size={},param_persistence_threshold={}"
"""What transformers makes of 'auto', by the width of the model (integrations/deepspeed.py)."""
PLAIN = ("stack", "train", "optimizer", "dtype", "recompute")
NUMBERS = ("micro_batch", "seq", "zero", "pp")
GIVEN = ("base", "offload", "parameter_bytes", "gradient_bytes", "reduce_bytes")


def words(row: dict[str, str], folder: Path) -> tuple[str, str, dict[str, Any]]:
    """The model, the machine and the options of a report."""
    cards = int(row["cards"])
    asked: dict[str, Any] = {word: row[word] for word in PLAIN} | {word: int(row[word]) for word in NUMBERS}
    asked |= {word: int(row[word]) if row[word].isdigit() else row[word] for word in GIVEN if row[word]}
    if row["train"].startswith("dpo"):
        asked["micro_batch"] *= 2  # a pair is two sequences
    if cards == 1:
        asked["zero"] = 0  # nobody to share with
    asked["batch"] = asked["micro_batch"] * int(row["accumulation"]) * cards // int(row["pp"])
    name = row["model"]
    if name in CONFIGS:
        path = folder / f"{name}.json"
        path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
        name = str(path)
    if row["attention"] == "eager":
        asked["flash"] = False
    elif row["attention"] != "fused":
        asked["attention_kernel"] = row["attention"]
    if row["gather"] and cards > 1:
        width = model(name).hidden
        asked["gather_limits"] = AUTO.format(int(0.9 * width**2), 10 * width)
    device = DEVICES[row["card"]]
    return name, f"{device}:{cards}" if cards <= 8 else f"{NODES[device]}:{cards // 8}", asked
