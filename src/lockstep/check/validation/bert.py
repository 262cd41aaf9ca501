"""NVIDIA's BERT-Large in PyTorch: pre-training on 1 to 256 A100 and 1 to 8 V100, strong scaling over batches of 65,536.

Asked is phase 1, samples of 128 tokens. The software (PyTorch/LanguageModeling/BERT) computes attention in PyTorch's
own products, softmax and dropout, with APEX's layer norm and bias and GELU in one TorchScript kernel, as Megatron-LM of
2021 does; gradients are all-reduced once, beside the last backward pass, in half precision under AMP. LAMB is priced as
Adam, whose states it has. The masked-language head is priced on every token, as it is of every such model here; the
software reads the 20 masked tokens of 128, which are 2 % of the products where every token's are 9 %.

Left out, by `left_out`: phase 2, whose samples of up to 512 tokens are binned by length (LDDL), so that a step has
fewer tokens than its shape: each row of it is faster per token than the row of phase 1, which longer attention can't
be; times to train; DeepSpeed's rows, of which a sequence length, a batch, a model or what is recomputed is not printed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import model, with_masked_language_head
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/README.md: pre-training, phase 1"
FILE = "bert_and_deepspeed.csv"
EAGER = stack("fsdp-eager")
STACK = replace(
    stack("megatron-2021"),
    name="nvidia-bert",
    software="NVIDIA's BERT in PyTorch",
    release="2022, with APEX",
    elementwise_factor=EAGER.elementwise_factor,
    kernels=EAGER.kernels,
    source="NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT: modeling.py, run_pretraining.py",
)
"""What it fuses is as in Megatron-LM of 2021; but for norms its kernels are PyTorch's."""
FULL: Json = {"optimizer": "adamw-no-master", "parameter_B": 4.0, "gradient_B": 4.0}
FORMATS: dict[str, Json] = {
    "fp16 mixed": {"dtype": "fp16", "gradient_B": 2.0},
    "TF32": {"dtype": "tf32", **FULL},
    "fp32": {"dtype": "fp32", **FULL},
}


def cases() -> tuple[Case, ...]:
    """One case per row of phase 1."""
    return tuple(_case(row) for row in read_rows(FILE) if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if not row["stack"].startswith("NVIDIA"):
        return "step not described"
    if not row["step_time_s"]:
        return "time to train"
    return "samples binned by length" if row["seq_len"] == "512" else ""


def _case(row: dict[str, str]) -> Case:
    devices, micro_batch = int(row["n_gpus"]), int(row["per_gpu_batch"])
    recipe = Recipe.by(
        STACK, seq=int(row["seq_len"]), batch=int(row["gbs_seqs"]), overlap_dp=True, **FORMATS[row["precision"]]
    )
    kind = row["gpu_type"].split("-")[0]
    return Case(
        row=f"{row['row_id']} bert-large seq {row['seq_len']} x{devices} {kind} {row['precision']}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(with_masked_language_head(model("bert-large")), recipe, devices),
        cluster=cluster("dgx-a100-80gb" if kind == "A100" else "dgx-v100", gpus=devices),
        layout=Layout(dp=devices, micro_batch=micro_batch),
        predict=step_time_s,
    )


TABLE = Table("bert", "step_time_s", SOURCE, 0.08, cases)
