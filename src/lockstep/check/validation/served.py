"""Published serving runs as questions to an engine: `decode_rows`, `serving_rows`, of tables that are not packaged.

Both were asked at first sight as they are read here (`first_sight.toml`): keys and values in bf16 and half of the
answer before a token where a row says neither, steady concurrency, and of settings that differ in nothing but the
release of the framework the slowest, as others may draft tokens.

`rl_decode_mlenergy.csv`: the median time between tokens beside a decode step with the mean batch; prompts, which rows
do not say, of 256 tokens. A row that names experts' parallelism without tensor parallelism cuts attention over all its
devices, or repeats it where it says dp.
`rl_serving_silicon.csv`: the time per token, and to the first, of a steady engine. Its dump multiplies widths: tp 64
with experts 8 x 8 is one node of 8 (the same figures stand there as tp 8, ep 8). Rows of more devices than a node are
of engines that prefill apart, and are left out; R1 and V3 are one model under two names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.check.validation.served_models import served_model
from lockstep.describe.hardware import cluster
from lockstep.price.generation import Engine

CLUSTERS = {
    "h100": "dgx-h100", "h200": "dgx-h200", "b200": "dgx-b200", "b300": "dgx-b300", "gb200": "gb200-nvl72",
}  # fmt: skip
PROMPT = 256
NODE = 8
SETTINGS = ("gpu", "framework", "gemm_quant", "moe_quant", "input_tokens", "output_tokens", "concurrency")
FORMATS = {"bfloat16": ("bf16", ""), "fp8": ("fp8", ""), "mxfp4": ("bf16", "mxfp4")}
"""Weights, and routed experts where they differ: gpt-oss is released with experts in mxfp4 alone."""
QUANTS = {"": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}


@dataclass(frozen=True, slots=True)
class Served:
    """A published run as a question, and what it answered."""

    name: str
    group: str
    engine: Engine
    sequences: int
    prompt: int
    response: float
    token_s: float
    first_token_s: float | None = None


def decode_rows(rows: Iterable[dict[str, str]]) -> list[Served]:
    """The rows of `rl_decode_mlenergy.csv`."""
    return [_decoded(row) for row in rows]


def _decoded(row: dict[str, str]) -> Served:
    devices, dp = int(row["n_gpus"]), int(row["dp"])
    weights, experts = FORMATS[row["weights"]]
    engine = Engine(
        model=served_model(row["model"]),
        cluster=cluster(f"{CLUSTERS[row['gpu'].lower()]}:1"),
        tp=devices // dp, dp=dp, ep=int(row["ep"]), weights_dtype=weights, experts_dtype=experts,
        most_sequences=int(row["max_num_seqs"]),
    )  # fmt: skip
    kind = "experts" if row["architecture"] == "MoE" else "dense"
    group = f"{row['gpu']}, {row['task']}, {'hybrid' if 'Hybrid' in row['architecture'] else kind}"
    sequences = max(1, round(float(row["avg_batch_size"])))
    response = float(row["avg_output_tokens"])
    return Served(_name(row), group, engine, sequences, PROMPT, response, float(row["median_itl_ms"]) / 1e3)


def _name(row: dict[str, str]) -> str:
    return f"{row['model']} on {row['n_gpus']} {row['gpu']}, {row['task']}, {row['max_num_seqs']}"


def serving_rows(rows: Iterable[dict[str, str]]) -> list[Served]:
    """The rows of `rl_serving_silicon.csv`, of equal settings the slowest."""
    found: dict[tuple[object, ...], tuple[float, dict[str, str]]] = {}
    for row in rows:
        layout = _layout(row)
        if layout is None:
            continue
        name = row["model"].replace("-R1", "-V3").partition("/")[2]
        says = (row[key] for key in SETTINGS)
        key, slow_s = (name, *says, layout), float(row["tpot_ms"])
        if key not in found or found[key][0] < slow_s:
            found[key] = slow_s, row
    return [_serving(row) for _, row in found.values()]


def _layout(row: dict[str, str]) -> tuple[int, int, int] | None:
    """Attention's tp and dp, and ep; None for engines of more than a node."""
    tp, dp = int(row["tp"]), int(row["attention_dp"] or 1) or 1
    inside, ep = int(row["moe_tp"] or 1) or 1, int(row["moe_ep"] or 1) or 1
    if inside == ep > 1:
        tp, dp = (1, ep) if dp > 1 else (ep, 1)
    elif tp > 1 and dp > 1:
        tp, dp, ep = 1, tp, tp
    return None if tp * dp > NODE else (tp, dp, ep)


def _serving(row: dict[str, str]) -> Served:
    layout = _layout(row)
    if layout is None:
        raise ValueError(f"{row['model']} is cut over more than a node")
    tp, dp, ep = layout
    gpu = row["gpu"].partition("_")[0]
    model = served_model(row["model"])
    engine = Engine(
        model=model,
        cluster=cluster(f"{CLUSTERS[gpu]}:1"),
        tp=tp, dp=dp, ep=ep if model.experts else 1,
        weights_dtype=QUANTS[row["gemm_quant"]], experts_dtype=QUANTS[row["moe_quant"]] if model.experts else "",
    )  # fmt: skip
    name = f"{row['model']} on {tp * dp} {gpu}, {row['framework']}, {row['concurrency']} in flight"
    return Served(
        name,
        f"{gpu.upper()}, {row['framework']}",
        engine,
        int(row["concurrency"]),
        int(row["input_tokens"]),
        float(row["output_tokens"]),
        float(row["tpot_ms"]) / 1e3,
        float(row["ttft_ms"]) / 1e3,
    )
