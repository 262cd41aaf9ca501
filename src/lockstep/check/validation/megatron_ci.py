"""Megatron-LM's functional tests: bytes that PyTorch's allocator counts on the last rank, byte for byte.

`STATES`: allocated between steps, rows of at least 1 GiB. `PEAKS`: the most ever allocated, rows of at least 2 GiB.
`ABOVE`: their difference for the same rows, which needs no state and so no number of GPUs: recipes of the release tests
are not public. No step time is asked either: models of 7B and more are all release tests, without a number of GPUs, and
smaller ones wait for the host, in deterministic mode. Nothing was fitted but a margin (`SMALL_B`).

Software and switches, of NVIDIA/Megatron-LM where nothing else is named:
GPUs: `nodes` x `gpus` of tests/test_utils/recipes (8 for every test; 4 on GB200 where its name ends in 1node).
Vocabulary: GPT-2's 50,257, 256,000 (nemotron_2_256k) or Llama 2's 32,000, padded to a multiple of
make_vocab_size_divisible_by (128) times tp (megatron/training, _vocab_size_with_padding). Dropout is 0.1 unless set to
0 (megatron/training/arguments.py), as it is in tests with latent attention and releases; gradients of bf16 accumulate
in fp32 (the same file); the distributed optimizer is ZeRO-1. Latent widths, squared ReLU and norms: model_config.yaml.
pp_layout: E embedding, t layer, m prediction module, L loss, a chunk between two bars.

What libraries keep between steps besides is in `megatron_kept.py`. Workspaces of cuBLAS are in the allocator's count
and in no tensor of the model: PyTorch has one for each of the two threads that multiply, forward and backward
(aten/src/ATen/cuda/CublasHandlePool.cpp), Transformer Engine one more, and four for grouped products
(pytorch/module/base.py, get_multi_stream_cublas_workspace). Left out, see `_why_not`: Mamba, tests that hold more than
a step, fp8, values that contradict their configuration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache

from lockstep.check.validation.case import Case, Table, read_rows
from lockstep.check.validation.megatron_kept import always_B, batch_B, copies_B, inputs_B
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Experts, LatentAttention, Mlp, Transformer
from lockstep.price.layout import Job, Layout, Memory, Recipe, stage_memory

SOURCE = "NVIDIA/Megatron-LM, tests/functional_tests/test_cases, golden values; a part of its tests"
FILE = "megatron_ci_golden.csv"
CLUSTERS = {"A100": "dgx-a100-80gb", "H100": "dgx-h100", "GB200": "gb200-nvl72"}
VOCAB = {"GPTSentencePieceTokenizer": 256_000, "Llama2Tokenizer": 32_000, "": 50_257}
GIB = 2.0**30
STEADY, PEAK = "mem_allocated_bytes_steady", "mem_max_allocated_bytes"
COPIED = ("mci0007", "mci0008")
"""TP 4, PP 2 by name and configuration, but with the bytes and seconds of the A100 run with TP 8."""
# model_config.yaml: --overlap-moe-expert-parallel-comm, whose schedule runs one more chunk forward before it begins
# (pipeline_parallel/schedules.py, get_pp_rank_microbatches).
MERGED = ("gpt3_mcore_te_tp2_pp2_ep4_etp1_selective_recompute_experimental",)

Row = Mapping[str, str]


def states() -> tuple[Case, ...]:
    """One case per row whose states can be asked."""
    return tuple(_case(row, "state_B", float(row[STEADY]), _states_B) for row in _rows() if not _why_no_states(row))


def peaks() -> tuple[Case, ...]:
    """One case per row whose peak can be asked."""
    return tuple(_case(row, "allocated_B", float(row[PEAK]), _peak_B) for row in _rows() if not _why_no_peak(row))


def above() -> tuple[Case, ...]:
    """One case per row whose peak can be asked above its states."""
    rows = [row for row in _rows() if not _why_not_above(row)]
    return tuple(_case(row, "activations_B", float(row[PEAK]) - float(row[STEADY]), _above_B) for row in rows)


def left_out() -> dict[str, Counter[str]]:
    """How many rows each table leaves out, by reason."""
    whys = {"states": _why_no_states, "peaks": _why_no_peak, "above": _why_not_above, "times": _why_no_time}
    return {name: Counter(why(row) for row in _rows() if why(row)) for name, why in whys.items()}


@cache
def _rows() -> tuple[Row, ...]:
    return tuple(read_rows(FILE))


def _why_no_states(row: Row) -> str:
    if float(row[STEADY]) < GIB:
        return "below 1 GiB"
    return _why_not(row) or ("" if _devices(row) else "number of GPUs not printed")


def _why_no_time(row: Row) -> str:
    """Why the time of a row is not asked: there is a reason for every row."""
    return "bound by the host, below 7B" if _devices(row) else "number of GPUs not printed"


def _why_no_peak(row: Row) -> str:
    return _why_not_above(row) or ("" if _devices(row) else "number of GPUs not printed")


def _why_not_above(row: Row) -> str:
    """Why the peak of a row cannot be asked at all."""
    if float(row[PEAK]) < 2 * GIB:
        return "below 2 GiB"
    if why := _why_not(row):
        return why
    if "tunable_overlap" in row["test_case"]:
        return "rounds of more micro-batches than stages"
    if row["test_case"] in MERGED:
        return "passes merged across micro-batches"
    return "activations offloaded by module" if "offloading" in row["test_case"] else ""


def _why_not(row: Row) -> str:
    """Why a row cannot be asked for anything."""
    if row["family"] in ("hybrid", "nemotron"):
        return "Mamba layers"
    if "grpo" in row["test_case"] or "reruns" in row["test_case"]:
        return "more than a training step"
    if row["fp8"]:
        return "fp8 beside bf16 weights"
    if row["row_id"] in COPIED:
        return "values of another test"
    return "older than its configuration" if _is_outdated(row) else ""


def _is_outdated(row: Row) -> bool:
    """Whether an `lts` file peaks apart from the `dev` file of the same test on the same GPU: by the attention that is
    no longer configured.
    """
    newer = [
        float(other[PEAK])
        for other in _rows()
        if other["environment"].startswith("dev")
        and all(other[name] == row[name] for name in ("test_case", "gpu"))
    ]  # fmt: skip
    return row["environment"].startswith("lts") and any(abs(float(row[PEAK]) / one - 1.0) > 0.1 for one in newer)


def _number(text: str, unset: int = 0) -> int:
    return int(text) if text else unset


def _devices(row: Row) -> int:
    """GPUs of a test, 0 for a release test."""
    return 0 if "release" in row["test_case"] else _number(row["n_gpus"], 8)


def _flags(row: Row) -> list[str]:
    return row["flags"].split()


def _stages(row: Row) -> tuple[int, ...]:
    """Layers of every chunk, from Megatron's layout: (tt|)*2 is tt|tt| and t*2 is tt."""
    text = re.sub(r"\(([^)]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), row["pp_layout"])
    text = re.sub(r"(\w)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    return tuple(chunk.count("t") for chunk in text.split("|")) if text else ()


def _chunks(row: Row) -> int:
    """Chunks per pipeline stage."""
    pp, layers = int(row["pp"]), int(row["num_layers"])
    if row["pp_layout"]:
        return len(_stages(row)) // pp
    each = _number(row["vp_layers_per_stage"])
    return layers // pp // each if each else _number(row["vp"], 1)


def _attention(row: Row) -> Attention:
    hidden, heads, biased = int(row["hidden"]), int(row["heads"]), "disable-bias-linear" not in _flags(row)
    if "multi-latent-attention" in _flags(row):
        small = "deepseek_proxy_fsdp" in row["test_case"]
        latent = LatentAttention(
            q_rank=256 if small else 1536, kv_rank=128 if small else 512, nope_dim=128, rope_dim=64, value_dim=128
        )  # fmt: skip
        return Attention(heads=heads, kv_heads=heads, head_dim=192, latent=latent)
    return Attention(
        heads=heads,
        kv_heads=_number(row["kv_heads"], heads),
        head_dim=_number(row["kv_channels"], hidden // heads),
        qkv_bias=biased,
        out_bias=biased,
    )


def _model(row: Row) -> Transformer:
    flags, hidden = _flags(row), int(row["hidden"])
    gated, biased = "swiglu" in flags, "disable-bias-linear" not in flags
    activation = "silu" if gated else "relu2" if "squared-relu" in flags else "gelu"
    ffn, unit = _number(row["ffn"], 4 * hidden), _number(row["vocab_divisible_by"], 128) * int(row["tp"])
    dense = re.match(r"\(\[0\]\*(\d+)", row["moe_layer_freq"])
    experts = Experts(
        experts=int(row["experts"]),
        top_k=int(row["moe_topk"]),
        ffn=_number(row["moe_ffn"], ffn),
        gated=gated,
        activation=activation,
        shared_ffn=_number(row["moe_shared_ffn"]),
        first_dense=int(dense[1]) if dense else 0,
    ) if row["experts"] else None  # fmt: skip
    return Transformer(
        name=row["test_case"],
        layers=int(row["num_layers"]),
        hidden=hidden,
        vocab=-(-VOCAB[row["tokenizer"]] // unit) * unit,
        attention=_attention(row),
        mlp=Mlp(ffn=ffn, gated=gated, activation=activation, in_bias=biased, out_bias=biased),
        experts=experts,
        positions="learned" if row["position"] == "learned_absolute" else "rotary",
        max_positions=int(row["max_positions"]),
        norm="rmsnorm" if gated else "layernorm",
        tied_embeddings="untie-embeddings-and-output-weights" not in flags,
        mtp_layers=_number(row["mtp_layers"]),
    )


def _layout(row: Row, devices: int) -> Layout:
    tp, pp, cp, chunks = int(row["tp"]), int(row["pp"]), int(row["cp"]), _chunks(row)
    return Layout(
        dp=devices // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=int(row["ep"]),
        etp=_number(row["etp"]),
        vpp=chunks,
        schedule="interleaved" if chunks > 1 else "1f1b",
        micro_batch=int(row["mbs"]),
        zero=3 if row["sharding"] else int("use-distributed-optimizer" in _flags(row)),
        sequence_parallel=tp > 1 and "sequence-parallel" in _flags(row),
        stages=_stages(row),
        recompute=row["recompute_granularity"] or "none",
    )


def _recipe(row: Row) -> Recipe:
    """The batch of the releases of 15B is not printed: 384 by their schedule (--step-batch-size-schedule)."""
    modules = tuple(row["recompute_modules"].strip("[]").split())
    return Recipe(
        seq=int(row["seq_len"]),
        batch=_number(row["gbs_seqs"], 384),
        sharding="megatron",
        flash_attention=row["attention_backend"] != "unfused",
        dropout="release" not in row["test_case"] and "multi-latent-attention" not in _flags(row),
        recompute_modules=modules or ("core_attn",),
    )


def _last_stage(case: Case) -> Memory:
    return stage_memory(case.job, case.cluster, case.layout.grid(), case.layout.pp - 1)


def _states_B(case: Case, row: Row) -> float:
    found = _last_stage(case)
    states_B = float(found.parameters_B + found.gradients_B + found.optimizer_B)
    return states_B + _kept_B(case, row) + inputs_B(case.job, case.layout)


def _above_B(case: Case, row: Row) -> float:
    return _peak_B(case, row) - _states_B(case, row)


def _peak_B(case: Case, row: Row) -> float:
    return float(_last_stage(case).allocated_B) + _kept_B(case, row) + _passing_B(case, row)


def _passing_B(case: Case, row: Row) -> float:
    """What passes hold besides. FlashAttention runs where cuDNN's kernel is not deterministic or not there: on H100 it
    is both (the tests set NVTE_ALLOW_NONDETERMINISTIC_ALGO=0).
    """
    flash = case.job.recipe.flash_attention and row["gpu"] != "H100"
    return batch_B(case.job, case.layout) + (copies_B(case.job, case.layout) if flash else 0.0)


def _kept_B(case: Case, row: Row) -> float:
    """What libraries hold all the time."""
    accumulates = "no-gradient-accumulation-fusion" not in _flags(row) and "uninstall_te" not in row["test_case"]
    return workspaces_B(row) + always_B(case.job, case.layout, accumulates)


def workspaces_B(row: Row) -> int:
    """Bytes of cuBLAS workspaces: deterministic tests set CUBLAS_WORKSPACE_CONFIG to :4096:8 (model_config.yaml)."""
    newer = row["gpu"] != "A100"
    torch_B = 8 * 4096 * 1024 if newer or "deterministic-mode" in _flags(row) else 2 * 4096 * 1024 + 8 * 16 * 1024
    engine_B = (32 if newer else 4) * 2**20
    return 2 * torch_B + engine_B * (5 if "moe-grouped-gemm" in _flags(row) else 1)


def _case(row: Row, quantity: str, measured: float, asked_B: Callable[[Case, Row], float]) -> Case:
    # What is kept above the states depends on no number of replicas: 16 where it is not printed.
    devices = _devices(row) or 16 * int(row["tp"]) * int(row["pp"])
    layout = _layout(row, devices)
    return Case(
        row=f"{row['row_id']} {row['gpu']} {row['test_case']} {row['environment'].split('_')[0]}",
        quantity=quantity,
        measured=measured,
        job=Job(_model(row), _recipe(row), devices),
        cluster=cluster(CLUSTERS[row["gpu"]], gpus=devices),
        layout=layout,
        predict=lambda case: asked_B(case, row),
    )


STATES = Table("megatron_ci_states", "memory_B", SOURCE, 0.015, states)
PEAKS = Table("megatron_ci_peaks", "memory_B", SOURCE, 0.015, peaks)
ABOVE = Table("megatron_ci_activations", "memory_B", SOURCE, 0.02, above)
