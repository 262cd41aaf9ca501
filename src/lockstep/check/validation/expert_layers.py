"""Experts by themselves: DeepEP's exchange, and one layer of experts forward and backward.

DeepEP prints a logical bandwidth: bytes of tokens over the time of the kernel, where a token counts once for each
device (in one node) or node (across nodes) that has experts of its, its own included. Bytes over it are the seconds
that are compared. Its test chooses at most four of as many groups of experts as there are nodes.

Megatron's functional test times a layer of experts alone on eight devices, and torchao's benchmark one on a single
device, both with balanced routing. The dispatchers DeepEP and HybridEP send a token once to each device. The test sets
neither a gate nor a shared expert; torchao's layer has both. Nor does it set that the experts' function is fused with
the weights of their rows, which are fp32: GELU (2 passes), product (3), converted (3); backward converted (3), the
gradients of either factor (4 and 5), converted (3) and summed (2), GELU (3).

Sources: deepseek-ai/DeepEP, docs/legacy.md and tests/test_internode.py (num_rdma_token_sent); NVIDIA/Megatron-LM,
tests/functional_tests/test_cases/common/moe_perf (its TransformerConfig has no bias_activation_fusion) and
core/transformer/moe/experts.py (TEGroupedMLP.forward); pytorch/ao, torchao/prototype/moe_training.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import DEFAULT, stack
from lockstep.describe.workload import EXPERTS, Experts, Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import expert_work, layer_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import Job, Layout, Recipe, choices_of
from lockstep.price.step.network import Network
from lockstep.price.step.stage import layer_pieces
from lockstep.simulate.parallel.expert.spread import expected_units
from lockstep.simulate.play.law import Normal

DISPATCH_B = {"fp8": 1.0 + 4.0 / 128, "bf16": 2.0}
"""Bytes per element sent: fp8 with a scale for 128 elements (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)."""
NODE = 8
CLUSTERS = {"H100": "dgx-h100", "B200": "dgx-b200"}
EXPERTS_OF_TEST = 256
"""In DeepEP's tests, whose table prints none."""
WEIGHTED, FUSED = (8.0, 20.0), (2.0, 3.0)
"""Passes of a function without a gate and of its weights, forward and backward, and what of them fused kernels take."""
TORCHTITAN_TOP_K = 1
"""Default of torchtitan's MoEArgs, which torchao's benchmark does not set."""


def _job(hidden: int, moe: Experts, recipe: Recipe, devices: int) -> Job:
    """Layers of experts alone matter of this model."""
    known = model("mixtral-8x7b")
    if not isinstance(known, Transformer):
        raise TypeError(f"{known.name} is no transformer")
    return Job(replace(known, hidden=hidden, experts=moe), recipe, devices)


def _moe(case: Case) -> Experts:
    """The experts of a case."""
    found = case.job.transformer
    if found is None or found.experts is None:
        raise TypeError("a case of an expert layer has experts")
    return found.experts


def _shard(case: Case) -> Shard:
    recipe, known = case.job.recipe, case.job.transformer
    if known is None:
        raise TypeError("a case of an expert layer is of a transformer")
    return Shard(known, case.layout.grid(), recipe, Clock.of(case.cluster.device, recipe))


def exchange_s(case: Case) -> float:
    """Seconds of the dispatch or the combine of a layer, as the row says."""
    shard = _shard(case)
    pieces = layer_pieces(shard, Network(case.cluster, shard.grid), layer_work(shard, EXPERTS), EXPERTS)[0]
    flows = [one for piece in pieces if piece.part == "ep" for one in piece.flows]
    return float(flows[0 if "dispatch" in case.row else -1].seconds)


def layer_s(case: Case) -> float:
    """Seconds of an expert layer alone, forward and backward: its exchanges wait for the slowest device."""
    shard = _shard(case)
    work, kernels = layer_work(shard, EXPERTS), expert_work(shard) + _weighted(shard, _moe(case))
    sides = layer_pieces(shard, Network(case.cluster, shard.grid), work, EXPERTS)
    waits_s = sum(float(piece.exposed_s) for side in sides for piece in side if piece.part == "ep")
    passes = (kernels.forward, kernels.backward)
    slowest = Normal(1.0, case.cluster.rank_spread_frac or 1e-9).expected_max_s(case.job.devices)
    return waits_s + slowest * sum(float(one.seconds(shard.clock.launch_s, blocking=False)) for one in passes)


def _weighted(shard: Shard, moe: Experts) -> Passes:
    """What Megatron's test, alone without a gate, does to the experts' rows beyond fused kernels."""
    rows = shard.routed_tokens * moe.top_k * (0 if moe.gated else moe.ffn)
    kernels = 0 if moe.gated else 4
    apart = shard.operations(rows, *WEIGHTED, kernels, kernels)
    return apart + shard.elementwise(rows, -FUSED[0], -FUSED[1], kernels=0)


def exchange_cases() -> tuple[Case, ...]:
    """One case per row of DeepEP's table."""
    return tuple(_exchange_case(row) for row in read_rows("deepep_all_to_all.csv"))


def _exchange_case(row: dict[str, str]) -> Case:
    ep, tokens, hidden, top_k = (int(row[name]) for name in ("ep", "tokens_per_rank", "hidden", "top_k"))
    nodes = -(-ep // NODE)
    moe = Experts(experts=EXPERTS_OF_TEST, top_k=top_k, ffn=2048, groups=nodes, top_groups=min(nodes, 4))
    each_B = DISPATCH_B[row["dtype"]]
    recipe = Recipe(seq=tokens, batch=ep, exchange="node", dispatch_B=each_B, overlap_ep="none")
    units = expected_units(choices_of(moe), nodes if nodes > 1 else ep)
    return Case(
        row=f"{row['row_id']} {row['op']} ep{ep} {row['dtype']}",
        quantity="exchange_s",
        measured=tokens * hidden * each_B * units / (float(row["bottleneck_GBps"]) * 1e9),
        job=_job(hidden, moe, recipe, ep),
        cluster=cluster("hgx-h800", gpus=ep),
        layout=Layout(dp=ep, ep=ep),
        predict=exchange_s,
    )


def layer_cases() -> tuple[Case, ...]:
    """One case per row of the tables of single layers."""
    return tuple(_layer_case(row) for row in read_rows("moe_layer_perf.csv"))


def _layer_case(row: dict[str, str]) -> Case:
    ep, devices, width = int(row["ep"]), int(row["n_gpus"]), int(row["expert_ffn"])
    gated = row["gated"] == "1"
    moe = Experts(
        experts=int(row["experts"]), top_k=int(row["topk"] or TORCHTITAN_TOP_K), ffn=width, gated=gated,
        activation="silu" if gated else "gelu", shared_ffn=width if row["shared_expert"] == "1" else 0,
    )  # fmt: skip
    micro_batch = int(row["mbs"])
    padding = "copied" if "HybridEP" not in row["dispatcher"] and devices > 1 else "none"
    recipe = Recipe(
        seq=int(row["seq_len"]), batch=devices * micro_batch, dtype="bf16" if row["precision"] == "bf16" else "fp8",
        exchange="copy" if row["dispatcher"] == "all-to-all" else "node", overlap_ep="none",
        stack=stack(DEFAULT).having(experts="grouped", expert_padding=padding),
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} {row['model_proxy']} {row['gpu']} {row['precision']} {row['dispatcher']}",
        quantity="layer_s",
        measured=float(row["fwd_bwd_ms"]) * 1e-3,
        job=_job(int(row["hidden"]), moe, recipe, devices),
        cluster=cluster(CLUSTERS[row["gpu"]], gpus=devices),
        layout=Layout(dp=devices, ep=ep, micro_batch=micro_batch),
        predict=layer_s,
    )


EXCHANGE = Table("deepep_all_to_all", "exchange_s", "deepseek-ai/DeepEP, docs/legacy.md", 0.15, exchange_cases)
LAYER = Table(
    "moe_layer_perf",
    "layer_s",
    "NVIDIA/Megatron-LM, moe_perf/baseline.json; pytorch/ao, moe_training",
    0.30,
    layer_cases,
)
