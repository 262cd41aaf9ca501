"""`python tools/fit/expert_code.py`: layers of experts in PyTorch's operations, priced and measured.

One layer alone, forward and backward in bf16, on one H100 SXM of 700 W (PyTorch 2.11.0, 27 November 2026;
`benchmarks/gpu_experts.py`): expert_code.csv has microseconds of its kernels, of the products among them and of the
wall. Rows of transformers 5.17 are halves of models of two layers with their attention, in sequences of 4,096 tokens,
and 1,024 words. The times of single operations of `price/kernels/permutation.py` are from the same profiles: those of
the rows of Qwen3 30B, and of transformers 5; the other rows tell whether they hold for other shapes. Of rows without
padding, torchtitan's before August 2025, the products are compared. Where much else runs they come out 11 to 15 % too
fast: torch's grouped kernel does not follow the clock (`describe/hardware/power.py`).
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import device
from lockstep.describe.stacks import stack
from lockstep.describe.workload import EXPERTS, Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import expert_work, layer_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import Layout, Recipe

FILE, DEVICE = "expert_code.csv", "h100-sxm"
EAGER, COMPILED = "hf-trainer-5", "torchtitan"
MODELS = {"768": "qwen3-30b-a3b", "14336": "mixtral-8x7b", "1408": "qwen3-30b-a3b"}
"""Of rows of so many numbers in an expert; DeepSeek-V2 Lite's experts in Qwen3's model, alone."""


def priced(row: dict[str, str]) -> tuple[Passes, Clock]:
    """Kernels of the row's layer as they run beside each other, and their clock."""
    whole, tokens = row["code"] == "transformers-5", int(row["tokens"])
    code = "torchtitan" if row["code"] == "unpadded" else row["code"]
    seq = 4096 if whole else tokens
    software = stack(COMPILED if row["compiled"] == "1" else EAGER).having(permutation=code, autocast=False)
    recipe = Recipe.by(software, seq=seq, batch=tokens // seq)
    clock, grid = Clock.of(device(DEVICE), recipe), Layout(micro_batch=tokens // seq).grid()
    found = model(MODELS[row["ffn"]])
    if not isinstance(found, Transformer) or found.experts is None:
        raise TypeError(f"{found.name} has no experts")
    number, top_k, ffn = (int(row[name]) for name in ("experts", "top_k", "ffn"))
    moe = replace(found.experts, experts=number, top_k=top_k, ffn=ffn, shared_ffn=0)
    shard = Shard(replace(found, hidden=int(row["hidden"]), experts=moe), grid, recipe, clock)
    layer = layer_work(shard, EXPERTS)
    work = Passes(layer.forward, layer.backward) if whole else expert_work(shard)
    return work.inside(clock.factors_inside(work.forward + work.backward)), clock


def wall_s(work: Passes, clock: Clock) -> float:
    """Seconds of both passes with the host that launches them."""
    sides = zip((work.forward, work.backward), clock.launches_s, strict=True)
    return sum(float(one.seconds(launch_s)) for one, launch_s in sides)


def errors() -> dict[str, float]:
    """Priced over measured seconds less one, by row and what is compared."""
    found = {}
    for row in read_rows(FILE):
        work, clock = priced(row)
        name = f"{row['row_id']} {row['code']} {'compiled ' if row['compiled'] == '1' else ''}{row['ffn']}"
        both = work.forward + work.backward
        if row["products_us"] and row["code"] != "transformers-4":
            found[f"{name} products"] = float(both.matmul_s) / (float(row["products_us"]) * 1e-6) - 1.0
        if row["code"] == "transformers-4":
            found[f"{name} wall"] = wall_s(work, clock) / (float(row["wall_both_us"]) * 1e-6) - 1.0
        elif row["code"] != "unpadded":
            found[f"{name} kernels"] = float(both.device_s) / (float(row["both_us"]) * 1e-6) - 1.0
    return found


def main() -> None:
    """Prints the error of every row."""
    for place, error in errors().items():
        print(f"{place}: {error:+.1%}")


if __name__ == "__main__":
    main()
