"""`python tools/fit/compiled_layers.py`: what elementwise kernels of torch.compile take over their bytes.

One layer of Llama after another, forward and backward, each compiled as FSDP2 programs compile theirs, on one H200
(PyTorch 2.11, 27 November 2026, `benchmarks/gpu_compiled.py`): compiled_layers.csv has the seconds of the kernels that
Inductor wrote, by torch's profiler, so that launches and products play no part, and those of products and attention,
which nothing here is fitted to (`power.py`). `written` layers convert to fp32 in
RMSNorm as transformers' do, which compiled code takes no longer for. The factor is the mean over layers and passes of

    seconds / (bytes of the layer's norms, gate, rotary embedding and sums / rate of a stream)

The same layers with torchao's linear ones in fp8 ran on two H100 (torchao 0.18.0, the same day): compiled_fp8.csv has
the kernels that are neither products nor attention. What they take longer than in bf16 is fitted, for each pass, by
bytes for each element of what is cast and of the weights (`casts`), by least squares of relative errors. Of one
sequence of Llama 3 8B a single kernel took five times as long as of two (`odd_us`): that pass is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import device
from lockstep.describe.workload import DENSE, Transformer, model
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import Layout, Recipe

FILE, DEVICE, STACK = "compiled_layers.csv", "h200", "fsdp-compile"
FP8_FILE, FP8_DEVICE, SCALINGS = "compiled_fp8.csv", "h100-sxm", {"tensorwise": "current", "rowwise": "rows"}


def factors() -> dict[tuple[str, str], float]:
    """Measured over priced seconds by row and pass, where kernels took no longer than streams of their bytes."""
    found = {}
    for row in read_rows(FILE):
        once, twice = (_passes(row, factor) for factor in (1.0, 2.0))
        for way in ("forward", "backward"):
            priced_s = getattr(twice, way).stream_s - getattr(once, way).stream_s
            found[row["row_id"], way] = float(row[f"{way}_us"]) * 1e-6 / float(np.asarray(priced_s).item())
    return found


def layer(row: dict[str, str]) -> Work:
    """Kernels of the row's layer as they run beside each other, forward and backward."""
    found = _passes(row, factor())
    whole = found.forward + found.backward
    return whole.inside(_clock(row).factors_inside(whole))


def _clock(row: dict[str, str]) -> Clock:
    return Clock.of(device(DEVICE), Recipe.by(STACK, seq=int(row["seq"]), batch=int(row["micro_batch"])))


def _passes(row: dict[str, str], factor: float) -> Passes:
    """Kernels of the row's layer in software whose elementwise ones take `factor` times as long as their bytes."""
    described, layout = model(row["model"]), Layout(micro_batch=int(row["micro_batch"]))
    if not isinstance(described, Transformer):
        raise TypeError(f"{described.name} is no transformer")
    recipe = Recipe.by(STACK, seq=int(row["seq"]), batch=layout.micro_batch)
    clock = _clock(row)
    clock = replace(clock, stack=replace(clock.stack, elementwise_factor=factor))
    work = layer_work(Shard(described, layout.grid(), recipe, clock), DENSE)
    return Passes(work.forward, work.backward)


def factor() -> float:
    """The mean over rows and passes."""
    return float(f"{np.mean(list(factors().values())):.3g}")


def casts() -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """By scaling, forward and backward: bytes for each element cast, and for each weight, by the kernels' seconds."""
    rows, found = read_rows(FP8_FILE), device(FP8_DEVICE)
    rate_Bps = found.memory_bandwidth_Bps * found.efficiency.stream_frac
    alone = {_shape(row): row for row in rows if row["recipe"] == "bf16"}
    fitted = {}
    for recipe, scaling in SCALINGS.items():
        passes = []
        for place, way in enumerate(("forward_us", "backward_us")):
            here = [row for row in rows if row["recipe"] == recipe and not (place and row["odd_us"])]
            longer_B = [(float(row[way]) - float(alone[_shape(row)][way])) * 1e-6 * rate_Bps for row in here]
            sides = np.array([_elements(row)[place::2] for row in here]) / np.array(longer_B)[:, None]
            each_B, weight_B = np.linalg.lstsq(sides, np.ones(len(here)), rcond=None)[0]
            passes.append((float(each_B), float(weight_B)))
        fitted[scaling] = passes[0], passes[1]
    return fitted


def _shape(row: dict[str, str]) -> tuple[str, ...]:
    return row["model"], row["seq"], row["micro_batch"]


def _elements(row: dict[str, str]) -> tuple[float, float, float, float]:
    """Inputs of a layer's products, gradients of what they give, and twice their weights."""
    described = model(row["model"])
    if not isinstance(described, Transformer) or described.mlp is None:
        raise TypeError(f"{described.name} is no transformer with a block of one kind")
    attention, h, ffn = described.attention, described.hidden, described.mlp.ffn
    queries, tokens = attention.heads * attention.head_dim, int(row["seq"]) * int(row["micro_batch"])
    joint = queries + 2 * attention.kv_heads * attention.head_dim
    weights = float(h * (joint + queries + 3 * ffn))
    return float(tokens * (2 * h + queries + ffn)), float(tokens * (joint + 2 * h + 2 * ffn)), weights, weights


def main() -> None:
    """Prints the factor of every row and pass, their mean, and bytes of casts."""
    for place, value in factors().items():
        print(*place, f"{value:.2f}")
    print(f"inductor.elementwise_factor = {factor():g}")
    for scaling, passes in casts().items():
        print(scaling, *(f"{each_B:.1f} {weight_B:.1f}" for each_B, weight_B in passes))


if __name__ == "__main__":
    main()
