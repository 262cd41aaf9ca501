"""Published serving runs as questions to an engine: `decode_rows`, `serving_rows`, of tables that are not packaged.

Both were asked at first sight as they are read here (`first_sight.toml`), but for what is said where it stands: half
of the answer before a token, steady concurrency, and of settings that differ in nothing but the release of the
framework the slowest, as others may draft tokens.

`rl_decode_mlenergy.csv`: the median time between tokens beside a decode step with the mean batch (and the prompts that
come with half of the steps, which the first sight left out); prompts, which rows do not say, of 256 tokens. A row that
names experts' parallelism without tensor parallelism cuts attention over all its devices, or repeats it where it says
dp.
`rl_serving_silicon.csv`: the time per token, and to the first, of a steady engine. Its dump multiplies widths: tp 64
with experts 8 x 8 is one node of 8 (the same figures stand there as tp 8, ep 8). Rows of more devices than a node are
of engines that prefill apart, and are left out; R1 and V3 are one model under two names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from lockstep.base.records import dataclass
from lockstep.check.validation.served_models import served_model
from lockstep.describe.hardware import cluster
from lockstep.price.generation import Engine, Passes, pool_of, simulate_answers, steady

CLUSTERS = {
    "h100": "dgx-h100",
    "h200": "dgx-h200",
    "b200": "dgx-b200",
    "b300": "dgx-b300",
    "gb200": "gb200-nvl72",
}
HALF = 0.5
REQUESTS, SHORTEST_FRAC = 10, 0.8
"""Of InferenceMAX: prompts of each user, and the shortest length over the longest (SemiAnalysisAI/InferenceMAX,
benchmarks, `--num-prompts`, `--random-range-ratio`)."""
PROMPT = 256
SERVER_HOST_S = 80e-6
"""Of vLLM without asynchronous scheduling behind a server of its own process, per sequence and step: what rows of dense
models on H100 take beyond kernels, within 5 % in the median, and those of hybrid models and of the other task there
within 1 % with 80 to 95 us. Chosen after the table was asked first; rows on B200 and of experts had no part in it."""
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
    median: bool = False
    """Whether `token_s` is the median from a token to the next, not the mean."""

    def predicted_s(self) -> float:
        """Seconds from a token to the next.

        Prompts of a step are as if drawn by themselves: with n / O of them in the mean, half of the steps have at most
        the median of Poisson's law.
        """
        found = steady(self.engine, self.sequences, self.prompt, self.response)
        return found.step_s + _median(self.sequences / self.response) * found.prompt_s if self.median else found.token_s


def closed_loop_s(case: Served, seed: int = 0) -> float:
    """Mean seconds to the first token where so many users each send a prompt when they have their answer.

    As InferenceMAX asks: REQUESTS for each user, lengths of 80 to 100 % of those printed, so that the first prompts
    come together and later ones in bursts. A prompt that comes while a step runs waits for its end.
    """
    users, shortest = case.sequences, round(SHORTEST_FRAC * case.response)
    lengths = np.random.default_rng(seed).integers(shortest, round(case.response), REQUESTS * users, endpoint=True)
    passes, pool = Passes(case.engine), pool_of(case.engine)
    prompt = round(case.prompt * (1 + SHORTEST_FRAC) / 2)
    found = simulate_answers(passes, pool, prompt, lengths, min(users, case.engine.most_sequences))
    sent_s = np.append(np.zeros(users), np.sort(found.end_s)[: len(lengths) - users])
    step_s = float(passes.equal_step_s(min(users, case.engine.most_sequences), prompt + case.response / 2))
    return float(np.mean(found.first_s - sent_s)) + step_s / 2


def _median(mean: float) -> int:
    """The median of Poisson's law."""
    number, share = 0, math.exp(-mean)
    below = share
    while below < HALF:
        number += 1
        share *= mean / number
        below += share
    return number


def decode_rows(rows: Iterable[dict[str, str]]) -> list[Served]:
    """The rows of `rl_decode_mlenergy.csv`."""
    return [_decoded(row) for row in rows]


def _decoded(row: dict[str, str]) -> Served:
    devices, dp = int(row["n_gpus"]), int(row["dp"])
    weights, experts = FORMATS[row["weights"]]
    engine = Engine(
        model=served_model(row["model"]),
        cluster=cluster(f"{CLUSTERS[row['gpu'].lower()]}:1"),
        tp=devices // dp,
        dp=dp,
        ep=int(row["ep"]),
        weights_dtype=weights,
        experts_dtype=experts,
        most_sequences=int(row["max_num_seqs"]),
        host_s=SERVER_HOST_S,
    )
    kind = "experts" if row["architecture"] == "MoE" else "dense"
    group = f"{row['gpu']}, {row['task']}, {'hybrid' if 'Hybrid' in row['architecture'] else kind}"
    sequences = max(1, round(float(row["avg_batch_size"])))
    response = float(row["avg_output_tokens"])
    return Served(
        _name(row), group, engine, sequences, PROMPT, response, float(row["median_itl_ms"]) / 1e3, median=True
    )


def _cache_dtype(row: dict[str, str], gpu: str) -> str:
    """Format of keys and values: fp8 in TensorRT-LLM with NVIDIA's quantised weights, which carry their scales, and in
    vLLM as InferenceMAX starts it on Blackwell. The first sight took bf16 for all.
    """
    narrow = row["framework"] == "trtllm" or (row["framework"] == "vllm" and "b" in gpu)
    return "fp8" if narrow and row["gemm_quant"] else "bf16"


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
        tp=tp,
        dp=dp,
        ep=ep if model.experts else 1,
        weights_dtype=QUANTS[row["gemm_quant"]],
        experts_dtype=QUANTS[row["moe_quant"]] if model.experts else "",
        kv_dtype=_cache_dtype(row, gpu),
    )
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
