"""Holds predictions to measured steps: python tools/real_steps/compare.py rows.jsonl [--worst 10] [--show NUMBER]

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

from lockstep.decide.planner.utilisation import layout_flops
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import parameters
from lockstep.describe.workload.huggingface import config_of
from lockstep.describe.workload.huggingface_heads import scored
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Job, Layout, Recipe, memory, trained_parameters
from lockstep.price.layout.trained import copied_elems

Row = dict[str, Any]
WITHOUT_DROPOUT = ("DPO", "KTO", "Reward")
"""Trainers of TRL that switch dropout off, that of adapters too (`disable_dropout`, true by itself)."""


def asked(row: Row) -> tuple[Job, Layout]:
    """The job of a setting and its layout: fp32 parameters under autocast, or all in the format of the weights."""
    lora, wide, kind = row["lora"], row["load"] == "fp32", row["trainer"]
    dropout = lora["dropout"] if lora and kind not in WITHOUT_DROPOUT else 0
    train = {"Trainer": "full", "SFT": "full"}.get(kind, kind.lower())
    if row["beta"] is not None:
        train += f":beta={row['beta']}"
    if lora:
        targets = "all-linear" if lora["targets"] == "all-linear" else "attention"
        adapters = f"lora:r={lora['r']},targets={targets}" + (f",dropout={dropout}" if dropout else "")
        train = adapters if train == "full" else f"{train},{adapters}"
    optimizer = {"sgd": "sgd", "adafactor": "adafactor"}.get(row["optimizer"], "adamw")
    if not wide and not lora:
        optimizer += "-no-master" if optimizer == "adafactor" else "-bf16"
    software = stack("hf-trainer-5" if kind == "Trainer" else "trl").having(
        autocast=row["bf16"] and (wide or bool(lora)), foreach_update=row["optimizer"] == "adamw_torch"
    )
    micro = row["micro"] * (2 if kind in ("DPO", "Reward") else 1)
    recipe = Recipe.by(
        software, seq=row["seq"], batch=micro * row["accumulation"], train=train, optimizer=optimizer,
        dtype="bf16" if row["bf16"] or not wide else "fp32", gradient_B=4.0 if wide else 2.0,
        parameter_B=4.0 if wide and lora else 2.0, flash_attention=row["config"]["model_type"] != "gpt_oss",
    )  # fmt: skip
    model = config_of(json.dumps(row["config"]), "config.json")
    layout = Layout(micro_batch=micro, recompute="full" if row["checkpointing"] else "none")
    return Job(scored(model) if kind == "Reward" else model, recipe, 1), layout


def predicted(row: Row) -> Row:
    """The numbers of a row, as Lockstep has them."""
    job, layout = asked(row)
    grid, recipe = layout.grid(), job.recipe
    found = memory(job, cluster("dgx-h200", gpus=1), grid)
    flops = layout_flops(job, job.model, layout, "full")
    counted = parameters(job.model)
    trained = trained_parameters(job, grid, Counter(job.model.kinds)).total_elems + copied_elems(job, grid, 0)
    forwards, backwards = recipe.passes(grid)
    return {
        "peak_B": (float(found.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC), "phase": found.to_dict()["fullest_at"],
        **{f"{name}_B": float(getattr(found, f"{name}_B")) for name in ("parameters", "gradients", "optimizer")},
        "flops": float(flops.hardware) * recipe.batch_tokens, "forwards": float(forwards),
        "backwards": float(backwards), "trained": float(trained or counted.total - counted.untrained),
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
    how = (
        f"lora {lora['targets'][0] if isinstance(lora['targets'], list) else 'all'} {lora['dropout']:g}"
        if lora
        else "full"
    )
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
    kept = [(row, compared(row)) for row in rows if "measured" in row and row["config"]["model_type"] != "bamba"]
    for name in ("memory", "flops"):
        by: dict[str, list[float]] = defaultdict(list)
        for row, one in kept:
            for word in (row["config"]["model_type"], row["trainer"], "lora" if row["lora"] else "full",
                         f"{row['load']}{'+autocast' if row['bf16'] else ''}", row["optimizer"], "all"):  # fmt: skip
                by[word].append(abs(one[name]))
        for word, errors in by.items():
            print(
                f"{name:7} {word:18} {len(errors):4} median {statistics.median(errors):6.1%} worst {max(errors):6.1%}"
            )
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
