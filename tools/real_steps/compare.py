"""Holds predictions to measured steps: python tools/real_steps/compare.py rows.jsonl [--worst 10] [--show NUMBER]

A setting becomes a question as the readers of fine-tuning configurations would have it (`planner/imports/tuning/run.py`).
Of memory, tensors alone are compared: without what the framework and the allocator take. Of FLOPs, torch counts five
products of a fused attention's backward pass, of which one is recomputed; Lockstep counts four.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import lockstep
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.tuning.run import Run, tell
from lockstep.describe.workload import training_flops
from lockstep.describe.workload.huggingface import config_of
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Layout, trained_parameters

Row = dict[str, Any]
MACHINE = "dgx-h100:1"


def question(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words of the question, and of the layout."""
    adapters, lora = "", row["lora"]
    if lora:
        targets = "all-linear" if lora["targets"] == "all-linear" else "attention"
        adapters = f"lora:r={lora['r']},targets={targets}" + (f",dropout={lora['dropout']}" if lora["dropout"] else "")
    objective = {"Trainer": "", "SFT": ""}.get(row["trainer"], row["trainer"].lower())
    if row["beta"] is not None:
        objective += f":beta={row['beta']}"
    half = row["bf16"] or row["load"] == "bf16"
    run = Run(
        row["micro"], row["accumulation"], row["seq"], dtype="bf16" if half else "fp32", wide=row["load"] == "fp32",
        adapters=adapters, objective=objective, optimizer=row["optimizer"], recompute=row["checkpointing"],
        tiled=row["trainer"] not in ("Trainer",),
    )  # fmt: skip
    found = tell(Imported("a drawn setting"), None, run, "optim")  # type: ignore[arg-type]
    words = found.words | {"batch": found.words["batch"](1), "flash": row["config"]["model_type"] != "gpt_oss"}
    return words, {"recompute": "none"} | found.layout


def predicted(row: Row) -> Row:
    """The numbers of a row, as Lockstep has them."""
    words, layout = question(row)
    model = config_of(json.dumps(row["config"]), "config.json")
    found = lockstep.memory(model, MACHINE, gpus=1, **words, **layout)
    job, memory = found.job, found.stages[0]
    grid = Layout(**layout).grid()
    flops = training_flops(job.model, words["seq"], recompute=layout["recompute"], training=job.recipe.training_of(job.model))
    trained = trained_parameters(job, grid, Counter(job.model.kinds)).total_elems
    forwards, backwards = job.recipe.passes(grid)
    return {
        "peak_B": (float(memory.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC), "phase": memory.to_dict()["fullest_at"],
        **{f"{name}_B": float(getattr(memory, f"{name}_B")) for name in ("parameters", "gradients", "optimizer")},
        "flops": float(flops.hardware) * job.recipe.batch_tokens, "forwards": float(forwards),
        "backwards": float(backwards),
        "trained": float(trained or lockstep.describe.workload.parameters(job.model).total),
    }  # fmt: skip


def compared(row: Row) -> Row:
    """Both, and the errors."""
    measured, found = row["measured"], predicted(row)
    flops = dict(measured["flops"])
    counted = sum(flops.values()) - flops.get("attention backward", 0) / 5
    return {
        "memory": found["peak_B"] / measured["peak_B"] - 1, "flops": found["flops"] / counted - 1,
        "passes": found["forwards"] - measured["forwards"], "trained": found["trained"] - measured["trained"],
        "predicted": found,
    }  # fmt: skip


def title(row: Row) -> str:
    lora = row["lora"]
    how = f"lora {lora['targets'][0] if isinstance(lora['targets'], list) else 'all'} {lora['dropout']:g}" if lora else "full"
    return (f"{row['number']:4} {row['config']['model_type']:11} {row['trainer']:8}{how:15} {row['load']}"
            f"{'+autocast' if row['bf16'] else '':9} {row['optimizer']:18}{'ckpt' if row['checkpointing'] else '':5}"
            f"x{row['micro']} s{row['seq']:<4}a{row['accumulation']}")  # fmt: skip


def show(row: Row) -> None:
    """One row by category, with the largest storages at the peak."""
    measured, found = row["measured"], compared(row)["predicted"]
    config = row["config"]
    print(title(row), json.dumps(config))
    for name in ("phase", "peak_B", "parameters_B", "gradients_B", "optimizer_B"):
        print(f"  {name:14} measured {measured.get(name)!s:>12}  predicted {found[name]}")
    rest = [one["peak_B"] - sum(one.get(f"{name}_B", 0) for name in ("parameters", "gradients", "optimizer"))
            for one in (measured, found)]  # fmt: skip
    print(f"  rest           measured {rest[0]:12,.0f}  predicted {rest[1]:,.0f}")
    print("  flops", measured["flops"], f"{found['flops']:,.0f}", "passes", measured["forwards"], found["forwards"])
    for name, size_B in row["largest"]:
        print(f"    {size_B:12,} {name}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("rows", type=Path)
    words.add_argument("--worst", type=int, default=12)
    words.add_argument("--show", type=int, nargs="*", default=[])
    given = words.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    kept = [(row, compared(row)) for row in rows if "measured" in row and row["config"]["model_type"] != "falcon_h1"]
    for name in ("memory", "flops"):
        by: dict[str, list[float]] = defaultdict(list)
        for row, one in kept:
            for word in (row["config"]["model_type"], row["trainer"], "lora" if row["lora"] else "full",
                         f"{row['load']}{'+autocast' if row['bf16'] else ''}", row["optimizer"], "all"):  # fmt: skip
                by[word].append(abs(one[name]))
        for word, errors in by.items():
            print(f"{name:7} {word:18} {len(errors):4} median {statistics.median(errors):6.1%} worst {max(errors):6.1%}")
        for row, one in sorted(kept, key=lambda pair: -abs(pair[1][name]))[: given.worst]:
            print(f"  {one[name]:+7.1%} {title(row)} {row['measured']['phase']}/{one['predicted']['phase']}")
    for name in ("passes", "trained"):
        wrong = [(row, one) for row, one in kept if one[name]]
        print(f"{name}: {len(wrong)} of {len(kept)} differ")
        for row, one in wrong[: given.worst]:
            print(f"  {one[name]:+g} {title(row)}")
    for row, _ in kept:
        if row["number"] in given.show:
            show(row)


if __name__ == "__main__":
    main()
