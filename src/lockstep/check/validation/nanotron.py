"""nanotron on 2 to 512 H100 of a cloud: the best layout found per model and number of nodes, and tensor parallelism
of 2 to 32 ranks at the largest micro-batch (Hugging Face, The Ultra-Scale Playbook).

Step times are those behind the printed tokens/s per GPU or, in the figure, behind the printed MFU. nanotron's get_flops
(models/llama.py) counts attention in full and the head, which gives the TFLOP/s that are printed beside tokens/s; the
peak is taken as 989.5 TFLOP/s. A row is one step, the third of its job (trainer.py), of the layout that was fastest.

Nodes are taken as AWS p5 with EFA; none are named. Their network is what the same jobs measured before they trained, as
the playbook shows it (pp_comm_bandwidth.html: collectives of 256 MB on one to 64 nodes): rings inside a node are slower
than those that the catalog's NVLink was fitted to (`RING_FRAC`), and the link of p5 is fitted to those between nodes.

Of nanotron (src/nanotron at commit 67c5ebb, which has the benchmark's base configuration): without ZeRO gradients are
all-reduced in fp32 beside the last backward pass; at ZeRO-1 the model is not wrapped in DDP (trainer.py, _init_model),
so whole fp32 gradients are all-reduced when all passes have ended, and parameters are gathered after the update, both
beside nothing: DeepSpeed's traffic without its overlap. fp32 gradients are added by passes of their own
(optim/gradient_accumulator.py). Stages send and receive one message at a time and wait (state.py of its
pipeline_parallel); layers are placed by their FLOPs and the head's (models/base.py). Of linear layers the reduction of
an input's gradient overlaps the product for the weight's (functional.py of its tensor_parallel). Norms, rotary
embedding and attention are single kernels, the rest PyTorch's own (models/llama.py), with copies around attention and a
gate over halves of one tensor (`price/kernels/copies.py`); what a rank's products gather is gathered again in the
backward pass (tp_recompute_allgather), and at ZeRO-1 every tensor is copied from every rank's part by itself
(distributed.py, all_gather_coalesced). Sequences are cut over tensor-parallel ranks and nothing is recomputed, as the
base configuration has it (examples/config_tiny_llama_bench.yaml); the figure prints neither.

Two things in the rows contradict that code. 1.3B in two stages: eleven layers, which it places first, take 202 ms alone
for four sequences on one H100 (`price/kernels/copies.py`), 3.2 s for the 16 micro-batches of a step of 2.9 s, and no
other division takes less; its four rows come out 19 to 26 % too slow. 80B on 32 GPUs took 0.29 s more per micro-batch
than is predicted: the stored p2p.py looks every 0.1 s whether one of its messages of sizes has come, which rows of
other pipelines, with less than 0.1 s for a micro-batch, cannot have run.

Memory is the allocator's peak on rank 0, of the first stage, in GiB (helpers.py, log_throughput). Which of its two
columns the figure shows, bytes of tensors or bytes reserved, is not printed; those reserved are taken, since 26 peaks
had come out a fifth above what tensors take. Nothing of it was fitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.decide.planner.utilisation import model_flops
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Job, Layout, Recipe, stage_memory

SOURCE = "huggingface/nanotron, docs/benchmark_summary.svg and scripts/scaling_benchmarks.py (February 2025)"
FILE = "nanotron_ultrascale.csv"
PEAK_FLOPS = 989.5e12
RING_FRAC = 0.57
"""Of NVLink's wire rate what rings in a node reach: gathers of 256 MB on eight ranks, at 250 GB/s of bus bandwidth."""


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows(FILE))


def memory_cases() -> tuple[Case, ...]:
    """One case per row of the figure, for the memory of rank 0."""
    return tuple(_memory_case(row) for row in read_rows(FILE) if row["mem_gb"])


def left_out() -> Counter[str]:
    """How many rows are left out, by reason: none of the step times."""
    return Counter()


def stages(model: Transformer, pp: int) -> tuple[int, ...]:
    """Layers of every stage: a stage is closed by the first block whose FLOPs exceed its share of those up to there."""
    hidden = model.hidden
    ffn = model.mlp.ffn if model.mlp else 0
    layer, head = 4 * hidden * hidden + 3 * ffn * hidden, model.vocab * hidden
    total, at, found = model.layers * layer + head, 0, [0] * pp
    for number in range(1, model.layers + 1):
        found[at] += 1
        at += number * layer > total * ((at + 1) / pp)
    return tuple(found)


def first_stage_B(case: Case) -> float:
    """Bytes that the allocator holds on a rank of the first stage."""
    return float(stage_memory(case.job, case.cluster, case.layout.grid(), 0).reserved_B)


def _model(row: dict[str, str]) -> Transformer:
    hidden, heads = int(row["hidden"]), int(row["heads"])
    return Transformer(
        name=f"llama-{row['model_B']}b",
        layers=int(row["layers"]),
        hidden=hidden,
        vocab=int(row["vocab"]),
        attention=Attention(heads=heads, kv_heads=int(row["kv_heads"]), head_dim=hidden // heads),
        mlp=Mlp(ffn=int(row["ffn"]), gated=True, activation="silu"),
        positions="rotary",
        max_positions=int(row["seq_len"]),
        norm="rmsnorm",
        tied_embeddings=row["tied_embeddings"] == "1",
    )


def _step_s(row: dict[str, str], job: Job) -> float:
    """Seconds behind the printed rate."""
    if row["tokens_per_s_per_gpu"]:
        return job.recipe.batch_tokens / (float(row["tokens_per_s_per_gpu"]) * job.devices)
    return model_flops(job) / (float(row["mfu_pct"]) / 100.0 * PEAK_FLOPS * job.devices)


def _cluster(devices: int) -> Cluster:
    """Nodes of p5 whose rings are as fast as the authors measured them."""
    found = cluster("aws-p5", gpus=devices)
    node, *fabric = found.levels
    link = replace(node.link, achieved_frac=RING_FRAC)
    return replace(found, levels=(replace(node, link=link), *fabric))


def _layout(row: dict[str, str], model: Transformer) -> Layout:
    dp, tp, pp, zero = (int(row[name]) for name in ("dp", "tp", "pp", "zero_stage"))
    placed = stages(model, pp) if pp > 1 else ()
    return Layout(
        dp=dp, tp=tp, pp=pp, micro_batch=int(row["mbs"]), zero=zero, sequence_parallel=tp > 1, stages=placed
    )  # fmt: skip


def _recipe(row: dict[str, str], seq: int) -> Recipe:
    late: Json = {"sharding": "deepspeed", "overlap_dp": False} if row["zero_stage"] == "1" else {}
    return Recipe.by("nanotron", seq=seq, batch=int(row["gbs_tokens"]) // seq, **late)


def _case(row: dict[str, str]) -> Case:
    model, devices, seq = _model(row), int(row["n_gpus"]), int(row["seq_len"])
    layout, job = _layout(row, model), Job(model, _recipe(row, seq), devices)
    return Case(
        row=f"{row['row_id']} x{devices} {layout}",
        quantity="step_time_s",
        measured=_step_s(row, job),
        job=job,
        cluster=_cluster(devices),
        layout=layout,
        predict=step_time_s,
    )


def _memory_case(row: dict[str, str]) -> Case:
    timed = _case(row)
    return Case(
        timed.row, "allocated_B", float(row["mem_gb"]) * 2**30, timed.job, timed.cluster, timed.layout, first_stage_B
    )


TABLE = Table("nanotron_ultrascale", "step_time_s", SOURCE, 0.15, cases)
MEMORY = Table("nanotron_ultrascale_memory", "memory_B", SOURCE, 0.10, memory_cases)
