"""Memory and steps of fine-tuning as three programs publish them: torchtune, LitGPT and Answer.AI's FSDP-QLoRA.

**torchtune** prints the peak of active blocks. Rows of Llama 3.2 3B add one technique after another: packed samples,
torch.compile, a cross entropy in eight pieces, recomputation, updates inside the backward pass, offloaded activations
and 8-bit AdamW; LoRA and QLoRA drop the last but one and the update inside. Everything is bf16. Adapters are on query,
value, output and feed-forward matrices (recipes/configs: 3B_lora_single_device.yaml, rank 64; 405B_qlora.yaml, 16).
Two rows of Llama 3.1 8B with adapters differ by 14 GiB with one batch, so what they recompute is not printed.

**LitGPT** prints the peak of allocated tensors in GB of 10^9 bytes (finetune/lora.py: max_memory_allocated). One GPU,
bf16, nothing recomputed, no tied embeddings; a batch is padded to its longest sample, and the longest of Alpaca comes
first. Fabric returns logits in fp32; values are a view of the product of queries, keys and values (model.py). Adapters
pass through a dropout and are on query and value with rank 8, and 32 in its config hub (trainable parameters agree); on
every matrix with rank 8 for gemma-2b, phi-2 and phi-3. Quantised rows hold more, see `_quantised_B`: bitsandbytes was
older than 0.43.2, which kept inputs of quantised matrices that nothing needs (its pull request 1270), as attributes of
the graph, which the loop drops only when the loss of the next batch takes the place of its own (finetune/lora.py). So
two batches' inputs are there where batches as long follow one another: those cut at 512 tokens, and not the longest of
Alpaca. Fabric quantises the head too, from fp16 (plugins/precision/bitsandbytes.py, quantize and _convert_layers), so
that its product makes it again in fp16 and converts that to bf16.

**FSDP-QLoRA** prints what torch had reserved. Hugging Face's Llama on two cards, sharded, every layer recomputed;
adapters in bf16 of rank 64 with dropout on all matrices but the attention's output (train.py: lora_target_modules).
The loop holds the model's outputs, logits in fp32 among them.

`TIME` asks the steps of torchtune and of FSDP-QLoRA on two RTX 4090 with all lanes: one step is a batch of full
sequences. LitGPT's samples have different lengths; the two RTX 3090 were limited to 280 W and joined by an older board
with few lanes.

Left out, by `left_out` and `time_left_out`, with what is known of each. Nothing was fitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.vocabulary import allocated_B
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import Stack, stack
from lockstep.describe.workload import Transformer, head_weights, kept_tensors, model
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.price.layout.kept import piece

SOURCE = "pytorch/torchtune, README.md; Lightning-AI/litgpt, tutorials and config_hub; AnswerDotAI/fsdp_qlora"
FILE = "memory_finetune.csv"
UNIT_B = {"GB": 1e9, "GiB": 2.0**30}
BF16 = {"optimizer": "adamw-bf16", "gradient_B": 2.0, "reduce_B": 2.0}
CATALOG = {
    "Llama 2 7 B": "llama2-7b", "Llama 2 13 B": "llama2-13b", "Falcon 40 B": "falcon-40b", "falcon-7b": "falcon-7b",
    "gemma-2b": "gemma-2b", "gemma-7b": "gemma-7b", "gemma-2-9b": "gemma2-9b", "llama-2-7b": "llama2-7b",
    "llama-3-8b": "llama3-8b", "llama-3.1-8b": "llama3.1-8b", "llama-3.2-1b": "llama3.2-1b",
    "llama-3.2-3b": "llama3.2-3b", "mistral-7b-v0.2": "mistral-7b", "mistral-7b": "mistral-7b", "phi-2": "phi-2",
    "Phi-3-mini-4k-instruct": "phi3-mini", "tiny-llama": "tinyllama-1.1b", "Llama 3.2 3B": "llama3.2-3b",
    "Llama 3.1 8B": "llama3.1-8b", "Llama 3.1 405B": "llama3-405b", "Llama-2 7B": "llama2-7b",
    "Llama-2 70B": "llama2-70b", "Mistral 7B": "mistral-7b", "phi-1.5 1.3 B": "phi-2",
    "StableLM Alpha 3 B": "pythia-6.9b", "stablelm-base-alpha-3b": "pythia-6.9b",
}  # fmt: skip
SAMPLES = 1024
"""Sequences whose seconds FSDP-QLoRA prints."""
ON_ALL = ("gemma-2b", "gemma-7b", "phi-2", "Phi-3-mini-4k-instruct", "tiny-llama")
"""Models whose file in LitGPT's config hub puts adapters on every matrix."""
HUB_TOKENS = 512
"""Tokens at which LitGPT's config hub cuts samples."""
INPUTS = ("attention input", "mlp input", "attention output", "mlp down input")
"""Kept tensors of a layer that are inputs of its matrices."""
TORCHTUNE = "q+v+o+mlp"
COMPILED, EAGER = stack("torchtitan"), stack("hf-trainer")
STEPS = ("Packed", "Compile", "Chunked", "Checkpointing", "Fuse", "Offloading", "8-bit")
"""torchtune's techniques in the order in which they are added."""
CLUSTERS = {"A100-SXM4-40GB": "dgx-a100-40gb", "A10G": "aws-g5", "3090": "rtx-3090-8", "4090": "rtx-4090-8",
            "A6000": "rtx-a6000-8", "A100": "dgx-a100-80gb"}  # fmt: skip


def cases() -> tuple[Case, ...]:
    """One case per row that ran and is described."""
    return tuple(_case(row, _peak_B(row)) for row in _rows(""))


def time_cases() -> tuple[Case, ...]:
    """One case per row whose steps are described."""
    rows = [row for row in read_rows(FILE) if not _time_why_not(row)]
    return tuple(replace(_case(row, _step_s(row)), quantity="step_time_s", predict=step_time_s) for row in rows)


def out_of_memory() -> tuple[Case, ...]:
    """Rows that are described and did not fit."""
    return tuple(_case(row, float("inf")) for row in _rows("out of memory"))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def time_left_out() -> Counter[str]:
    """How many rows have no step asked, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _time_why_not(row)))


def reserved_B(case: Case) -> float:
    """Bytes that the allocator holds on the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).reserved_B)


def _quantised_B(case: Case) -> float:
    """Bytes that LitGPT holds of quantised matrices beside what a library that is up to date would."""
    model, recipe = case.job.transformer, case.job.recipe
    if model is None or not recipe.habits.base_inputs_kept:
        return 0.0
    head = float(sum(one.elems for one in head_weights(model) if one.is_matrix))
    one, twice = piece(recipe, case.layout.grid(), model), recipe.seq == HUB_TOKENS
    inputs_B = sum(
        float(kept.size_B) for kind in model.kinds for kept in kept_tensors(model, one, kind) if kept.name in INPUTS
    )
    return head * (2.0 * recipe.element_B + recipe.base_B - recipe.parameter_B) + twice * inputs_B


def _peak_allocated_B(case: Case) -> float:
    return allocated_B(case) + _quantised_B(case)


def _rows(why: str) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if _why_not(row) == why]


def _why_not(row: dict[str, str]) -> str:
    if "torchtune" in row["source"]:
        return "what is recomputed is not printed" if row["row_id"] == "mf004" else ""
    if "litgpt" not in row["source"]:
        return ""
    if row["method"].startswith("Adapter"):
        return "prompt adapters"
    if "Default" in row["technique"]:
        return "mixed precision of Fabric, whose copies are not described"
    if row["source_table"] == "LoRA settings":
        return "a row of another table once more"
    if row["n_gpus"] != "1":
        hub = row["source_table"] == "config hub"
        # The page says that all its runs are of one GPU, and prints the same time and memory for four.
        return "number of GPUs contradicts the page" if hub else "whole model on each GPU while it is loaded"
    if row["method"].startswith("Full") and row["oom"] == "0":
        # torch's AdamW alone holds 4 of the 8 bytes per parameter that its file makes: more than is printed.
        return "less than the states of its own configuration"
    return "out of memory" if row["oom"] == "1" else ""


def _time_why_not(row: dict[str, str]) -> str:
    if "litgpt" in row["source"]:
        return "tokens of a step not fixed"
    return "link and clock of the machine not known" if "3090" in row["hardware"] else _why_not(row)


def _step_s(row: dict[str, str]) -> float:
    """Seconds of a step: from tokens per second, or from seconds of SAMPLES sequences."""
    sequences = int(row["n_gpus"]) * int(row["micro_batch_seqs"])
    if row["tokens_per_s"]:
        return sequences * int(row["seq_len"]) / float(row["tokens_per_s"])
    return float(row["time"]) * sequences / SAMPLES


def _peak_B(row: dict[str, str]) -> float:
    return float(row["peak_memory"]) * UNIT_B[row["peak_memory_unit"].split()[0]]


def _software(name: str, like: Stack, **habits: bool) -> Stack:
    """A program of the table, whose kernels are those of another and whose host times all software shares; its GELU is
    one kernel (LitGPT, litgpt/model.py, GptNeoxMLP), it rotates real numbers (torchtune, position_embeddings.py), and
    adapters are as other parameters.
    """
    found = replace(like, name=name, software=name, kind="shared", source=SOURCE)
    rotary = "one" if like is COMPILED else "written"
    return found.having(
        activation="one", scores="kernel", rotary=rotary, half_adapters=True, wide_tables=False, **habits
    )


def transformer(row: dict[str, str]) -> Transformer:
    """The model of a row: Phi-1.5 is a narrower Phi-2, StableLM Alpha a wider GPT-NeoX (their config.json)."""
    found = model(CATALOG[row["model"]])
    if not isinstance(found, Transformer):
        raise TypeError(row["model"])
    if found.name == "phi-2" and "1.5" in row["model"]:
        attention, mlp = replace(found.attention, head_dim=64), replace(found.mlp, ffn=8192)  # type: ignore[type-var]
        return replace(found, name="phi-1.5", layers=24, hidden=2048, attention=attention, mlp=mlp)
    if found.name == "pythia-6.9b":
        return replace(found, name="stablelm-alpha-3b", layers=16, vocab=50688)
    return replace(found, tied_embeddings=False) if "litgpt" in row["source"] else found


def _torchtune(row: dict[str, str]) -> tuple[Recipe, Layout]:
    """Techniques up to the row's own; sequences of the README's first table are of 2,048 tokens."""
    devices, few = int(row["n_gpus"]), row["source_table"].startswith("memory")
    adapted = "LoRA" in row["method"]
    at = next((place for place, word in enumerate(STEPS) if word in row["technique"]), len(STEPS) - 1)
    with_it = dict(zip(STEPS, (at >= place for place in range(len(STEPS))), strict=True))
    rank = {"Llama 3.2 3B": 64, "Llama 3.1 8B": 8, "Llama 3.1 405B": 16}[row["model"]]
    eager = not with_it["Compile"]
    recipe = Recipe.by(
        _software("torchtune", EAGER if eager else COMPILED, foreach_update=False, recompute_stops=True),
        **{**BF16, "optimizer": "adamw-8bit-no-master" if with_it["8-bit"] and not adapted else "adamw-bf16"},
        seq=int(row["seq_len"]),
        batch=2 * devices,
        train=f"lora:r={rank},targets={TORCHTUNE}" if adapted else "full",
        base="nf4" if row["method"] == "QLoRA" else None,
        sharding="any" if devices == 1 else "fsdp2",
        cross_entropy="pieces" if with_it["Chunked"] else "eager",
        update_in_backward=with_it["Fuse"] and not adapted,
        offload_layers="all" if with_it["Offloading"] and not few else 0,
    )
    recompute = "full" if with_it["Checkpointing"] else "none"
    return recipe, Layout(dp=devices, micro_batch=2, zero=3 if devices > 1 else 0, recompute=recompute)


def _litgpt(row: dict[str, str]) -> tuple[Recipe, Layout]:
    """One GPU, nothing recomputed; samples of the config hub are cut at 512 tokens."""
    hub, micro_batch = row["source_table"] == "config hub", int(row["micro_batch_seqs"])
    where = "r=8,targets=all-linear" if row["model"] in ON_ALL else f"r={32 if hub else 8},targets=q+v"
    quantised = "nf4" in row["quantization"] or row["method"] == "QLoRA"
    recipe = Recipe.by(
        _software("litgpt", EAGER, base_inputs_kept=quantised, joint_qkv=True),
        **BF16,
        seq=HUB_TOKENS if hub else int(row["seq_len"].split()[2]),
        batch=micro_batch,
        train="full" if row["method"].startswith("Full") else f"lora:{where},dropout=0.05",
        base=("nf4" if "dq" in row["quantization"] else "nf4-single") if quantised else None,
        cross_entropy="upcast",
    )
    return recipe, Layout(micro_batch=micro_batch)


def _fsdp_qlora(row: dict[str, str]) -> tuple[Recipe, Layout]:
    """Two cards; `ddp` keeps everything on both."""
    devices, micro_batch = int(row["n_gpus"]), int(row["micro_batch_seqs"])
    recipe = Recipe.by(
        _software("fsdp-qlora", EAGER),
        **BF16,
        seq=int(row["seq_len"]),
        batch=devices * micro_batch,
        train="lora:r=64,targets=q+k+v+mlp,dropout=0.1",
        base="nf4" if row["method"] == "QLoRA" else None,
        cross_entropy="returned",
    )
    layout = Layout(
        dp=devices,
        micro_batch=micro_batch,
        zero=0 if row["ddp_instead_of_fsdp"] == "True" else 3,
        recompute="full",
        offload="parameters" if row["cpu_offload"] == "True" else "none",
    )
    return recipe, layout


def _case(row: dict[str, str], measured: float) -> Case:
    names = {"torchtune": _torchtune, "litgpt": _litgpt, "fsdp_qlora": _fsdp_qlora}
    of = next(read for name, read in names.items() if name in row["source"])
    recipe, layout = of(row)
    devices = int(row["n_gpus"])
    kind = " ".join(word for word in (row["method"].split(" (")[0], row["quantization"], row["technique"]) if word)
    return Case(
        row=f"{row['row_id']} {row['model']} x{devices} mb{row['micro_batch_seqs']} {kind}",
        quantity="reserved_B" if of is _fsdp_qlora else "allocated_B",
        measured=measured,
        job=Job(transformer(row), recipe, devices),
        cluster=cluster(next(name for word, name in CLUSTERS.items() if word in row["hardware"]), gpus=devices),
        layout=layout,
        predict=reserved_B if of is _fsdp_qlora else _peak_allocated_B,
    )


TIME = Table("memory_finetune_steps", "step_time_s", SOURCE, 0.07, time_cases)
TABLE = Table("memory_finetune", "memory_B", SOURCE, 0.04, cases)
