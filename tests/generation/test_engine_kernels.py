"""Kernels of engines alone, beside the prices that a pass adds up: products, attention to contexts, grouped experts.

Rows of ai-dynamo/aiconfigurator@095f58a, which are not packaged; every SAMPLED-th row. Products and experts are those
of the median of the engines that a row has.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model
from lockstep.describe.workload.architecture import Attention, Experts
from lockstep.describe.workload.kind import DENSE
from lockstep.price.generation import WEIGHT_FORMATS, Engine
from lockstep.price.generation import experts as priced
from lockstep.price.generation.attention import START_S, decode_s_per_token
from lockstep.price.generation.products import Product
from published_data import unpackaged

SAMPLED = 3
MACHINES = {
    "H100-SXM5-80GB": "dgx-h100:1",
    "B200-SXM": "dgx-b200:1",
    "B300-SXM6-AC": "dgx-b300:1",
    "GB300": "gb300-nvl72:1",
}
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}
FASTEST = ("trtllm_us", "vllm_us", "sglang_us")


def _model(**parts: object) -> Transformer:
    found = model("qwen3-30b-a3b")
    assert isinstance(found, Transformer)
    return replace(found, **parts)


def _engine(gpu: str, found: Transformer | None = None, **words: object) -> Engine:
    return Engine(model=found or _model(), cluster=cluster(MACHINES[gpu]), **words)  # type: ignore[arg-type]


def _times_us(row: dict[str, str]) -> list[float]:
    return [float(row[engine]) for engine in FASTEST if row.get(engine)]


def _median_errors(errors: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.median(np.abs(some))) for name, some in errors.items()}


def test_products_in_half_precision_take_what_engines_measured() -> None:
    """1 to 16,384 rows, on four devices."""
    errors: dict[str, list[float]] = defaultdict(list)
    rows = [row for row in unpackaged("aiconfigurator_gemm.csv") if row["gpu"] in MACHINES]
    for row in [row for row in rows if row["dtype"] == "bfloat16"][::SAMPLED]:
        m, n, k = (int(row[name]) for name in ("m", "n", "k"))
        found = float(Product(n * k, k, n, 2.0, "bf16").seconds(_engine(row["gpu"]), m))
        errors[row["gpu"]].append(found * 1e6 / float(np.median(_times_us(row))) - 1)
    assert len(errors) == len(MACHINES)
    assert max(_median_errors(errors).values()) < 0.1


def test_narrow_products_take_at_least_what_the_fastest_engine_does() -> None:
    """Casts are in these rows, which engines make apart or not: the fastest of them, within a quarter."""
    errors: dict[str, list[float]] = defaultdict(list)
    rows = [row for row in unpackaged("aiconfigurator_gemm.csv") if row["gpu"] in MACHINES]
    for row in [row for row in rows if row["dtype"] != "bfloat16"][::SAMPLED]:
        m, n, k = (int(row[name]) for name in ("m", "n", "k"))
        size_B, product = WEIGHT_FORMATS[DTYPES[row["dtype"]]]
        found = float(Product(n * k, k, n, size_B, product).seconds(_engine(row["gpu"]), m))
        errors[f"{row['gpu']} {row['dtype']}"].append(found * 1e6 / min(_times_us(row)) - 1)
    assert len(errors) == 11
    assert max(_median_errors(errors).values()) < 0.25


def test_attention_to_contexts_takes_what_engines_measured() -> None:
    """128 to 131k tokens of context, 1 to 512 sequences, keys and values in bf16."""
    errors: dict[str, list[float]] = defaultdict(list)
    rows = [
        row
        for row in unpackaged("aiconfigurator_attention.csv")
        if row["gpu"] in MACHINES and row["phase"] == "generation" and row["kv_dtype"] == "bfloat16"
    ]
    for row in [row for row in rows if int(row["heads"]) % int(row["kv_heads"]) == 0][::SAMPLED]:
        heads, kv_heads, head_dim = (int(row[name]) for name in ("heads", "kv_heads", "head_dim"))
        found = _model(attention=Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim))
        context = int(row["batch"]) * (int(row["past_tokens"]) + int(row["new_tokens"]))
        took_s = START_S + context * decode_s_per_token(_engine(row["gpu"], found), DENSE)
        errors[row["gpu"]].append(took_s * 1e6 / float(np.median(_times_us(row))) - 1)
    assert len(errors) == len(MACHINES)
    assert max(_median_errors(errors).values()) < 0.12


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8_block", "nvfp4"])
def test_grouped_experts_take_what_engines_measured(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 to 4,096 tokens of one rank with 1 to 64 ranks of experts, under balanced loads, which visit every expert that
    they can; tokens that choose by themselves visit fewer.
    """
    monkeypatch.setattr(priced, "visited", lambda moe, tokens: np.minimum(moe.experts, tokens * moe.top_k))
    times: dict[tuple[str, ...], list[float]] = defaultdict(list)
    keys = ("gpu", "hidden", "expert_ffn", "topk", "experts", "ep", "tokens")
    for row in unpackaged("aiconfigurator_moe.csv"):
        if row["gpu"] in MACHINES and row["dtype"] == dtype and row["balanced_us"] and int(row["tokens"]) <= 4096:
            times[tuple(row[key] for key in keys)].append(float(row["balanced_us"]))
    errors = []
    for (gpu, *sizes), took_us in list(times.items())[::SAMPLED]:
        hidden, ffn, top_k, experts, ep, tokens = map(int, sizes)
        found = _model(hidden=hidden, experts=Experts(experts=experts, top_k=top_k, ffn=ffn))
        machine = cluster("gb300-nvl72:1" if ep > 8 else MACHINES[gpu])
        engine = Engine(
            model=found, cluster=replace(machine, device=cluster(MACHINES[gpu]).device), dp=ep, ep=ep,
            experts_dtype=DTYPES[dtype],
        )  # fmt: skip
        errors.append(float(priced.experts_s(engine, np.float64(tokens))) * 1e6 / float(np.median(took_us)) - 1)
    assert len(errors) > 20
    assert np.median(np.abs(errors)) < 0.25
