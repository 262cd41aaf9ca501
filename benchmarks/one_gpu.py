"""Training steps on one GPU beside what Lockstep says of them: seconds, bytes, and where they go.

    python benchmarks/one_gpu.py -o steps.json                 every case
    python benchmarks/one_gpu.py -o steps.json --only 3b       those whose names match
    python benchmarks/one_gpu.py -o steps.json --keep traces   also profiles and memory snapshots of the cases marked so

Models are those of Hugging Face transformers with random weights, trained as its Trainer trains them: parameters and
AdamW in fp32, products under autocast in bf16, or bf16 weights frozen below LoRA adapters of PEFT. Steps are timed with
the host's clock, their parts by CUDA events, after `WARM_UP`; memory is the most that tensors took
(`max_memory_allocated`). The prediction is computed before the measurement and from nothing that was measured here.
Needs transformers, and peft for adapters.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import pickle
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import lockstep
from lockstep.price.layout.memory import FRAMEWORK_B, SLACK_FRAC

WARM_UP, STEPS = 4, 8
CLUSTERS = {"NVIDIA H100 80GB HBM3": "dgx-h100:1", "NVIDIA H200": "dgx-h200:1"}


@dataclass(frozen=True)
class Case:
    """One model and how it is trained."""

    name: str
    model: str
    micro_batch: int
    seq: int | None
    build: Callable[[], Any]
    words: dict[str, Any] = field(default_factory=dict)
    """What the prediction is asked besides."""
    accumulate: int = 1
    recompute: bool = False
    compiled: bool = False
    kept: bool = False
    """Whether its profile and memory are kept."""
    pause_s: float = 0.0
    """The host does nothing for this long in every step: an injected fault, not predicted."""


def causal(kind: str, attention: str = "sdpa", **config: Any) -> Callable[[], Any]:
    """A language model of transformers with random weights, made on the GPU."""

    def build() -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        made = AutoConfig.for_model(kind, use_cache=False, **config)
        return AutoModelForCausalLM.from_config(made, attn_implementation=attention)

    return build


def adapted(build: Callable[[], Any]) -> Callable[[], Any]:
    """The same in bf16 and frozen, below adapters of rank 16 on every matrix."""

    def with_adapters() -> Any:
        from peft import LoraConfig, get_peft_model

        torch.set_default_dtype(torch.bfloat16)
        base = build()
        torch.set_default_dtype(torch.float32)
        base.enable_input_require_grads()
        made = get_peft_model(base, LoraConfig(r=16, target_modules="all-linear", lora_dropout=0.0))
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        return made

    return with_adapters


def vision(**config: Any) -> Callable[[], Any]:
    """A vision transformer on images of 224 x 224 and 1,000 classes."""

    def build() -> Any:
        from transformers import ViTConfig, ViTForImageClassification

        made = ViTConfig(**config)
        made.num_labels = 1000
        return ViTForImageClassification._from_config(made, attn_implementation="sdpa")

    return build


def sized(hidden: int, ffn: int, layers: int, heads: int, kv_heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    """A configuration of a model like Llama."""
    return {
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": 131072, **more,
    }  # fmt: skip


TIED = {"tie_word_embeddings": True}
_1B = sized(2048, 8192, 16, 32, 8, 128256, **TIED)
_3B = sized(3072, 8192, 28, 24, 8, 128256, **TIED)
_8B = sized(4096, 14336, 32, 32, 8, 128256)
_GPT2 = {"n_embd": 1600, "n_layer": 48, "n_head": 25, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
_MEDIUM = {**_GPT2, "n_embd": 1024, "n_layer": 24, "n_head": 16}
_VIT_L = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_VIT_H = {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16, "intermediate_size": 5120}
llama_1b, llama_3b, llama_8b = causal("llama", **_1B), causal("llama", **_3B), causal("llama", **_8B)
qwen_half = causal("qwen2", **sized(896, 4864, 24, 14, 2, 151936, **TIED))
qwen_1b5 = causal("qwen2", **sized(1536, 8960, 28, 12, 2, 151936, **TIED))
qwen_3b = causal("qwen2", **sized(2048, 11008, 36, 16, 2, 151936, **TIED))
qwen3_1b7 = causal("qwen3", **sized(2048, 6144, 28, 16, 8, 151936, head_dim=128, **TIED))
smol_1b7 = causal("llama", **sized(2048, 8192, 24, 32, 32, 49152, **TIED))
smol_360m = causal("llama", **sized(960, 2560, 32, 15, 5, 49152, **TIED))
mistral_7b = causal("mistral", **sized(4096, 14336, 32, 32, 8, 32000, sliding_window=None))
qwen3_600m = causal("qwen3", **sized(1024, 3072, 28, 16, 8, 151936, head_dim=128, **TIED))
qwen3_4b = causal("qwen3", **sized(2560, 9728, 36, 32, 8, 151936, head_dim=128, **TIED))
qwen_7b = causal("qwen2", **sized(3584, 18944, 28, 28, 4, 152064))
tiny_1b = causal("llama", **sized(2048, 5632, 22, 32, 4, 32000))
llama2_7b = causal("llama", **sized(4096, 11008, 32, 32, 32, 32000))
gemma_2b = causal("gemma", **sized(2048, 16384, 18, 8, 1, 256000, head_dim=256, **TIED))
_PYTHIA = {"vocab_size": 50304, "max_position_embeddings": 2048, "rotary_pct": 0.25}
pythia_410m = causal("gpt_neox", hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
                     num_attention_heads=16, **_PYTHIA)  # fmt: skip
pythia_1b4 = causal("gpt_neox", hidden_size=2048, intermediate_size=8192, num_hidden_layers=24,
                    num_attention_heads=16, **_PYTHIA)  # fmt: skip
_LARGE = {**_GPT2, "n_embd": 1280, "n_layer": 36, "n_head": 20}
_VIT_B = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
FULL, LORA, COMPILED = {"recompute": "full"}, {"train": "lora:r=16,targets=all-linear"}, {"stack": "fsdp-compile"}

CASES = (
    Case("qwen2.5-0.5b", "qwen2.5-0.5b", 4, 2048, qwen_half),
    Case("llama3.2-1b", "llama3.2-1b", 4, 2048, llama_1b, kept=True),
    Case("llama3.2-1b at 8192", "llama3.2-1b", 1, 8192, llama_1b),
    Case("llama3.2-1b recomputed", "llama3.2-1b", 8, 2048, llama_1b, FULL, recompute=True),
    Case("llama3.2-1b accumulated", "llama3.2-1b", 2, 2048, llama_1b, accumulate=4),
    Case("llama3.2-1b short", "llama3.2-1b", 1, 256, llama_1b),
    Case("llama3.2-1b compiled", "llama3.2-1b", 4, 2048, llama_1b, COMPILED, compiled=True),
    Case("llama3.2-1b paused", "llama3.2-1b", 4, 2048, llama_1b, kept=True, pause_s=0.1),
    Case("llama3.2-1b eager attention", "llama3.2-1b", 2, 2048, causal("llama", "eager", **_1B), kept=True),
    Case("llama3.2-3b recomputed", "llama3.2-3b", 2, 2048, llama_3b, FULL, recompute=True),
    Case("llama3.1-8b lora", "llama3.1-8b", 1, 2048, adapted(llama_8b), LORA, kept=True),
    Case("llama3.1-8b lora recomputed", "llama3.1-8b", 2, 4096, adapted(llama_8b), LORA | FULL, recompute=True),
    Case("gpt2-medium", "gpt2-medium", 8, 1024, causal("gpt2", **_MEDIUM)),
    Case("gpt2-xl", "gpt2-xl", 4, 1024, causal("gpt2", **_GPT2)),
    Case("vit-l-16", "vit-l-16", 64, None, vision(**_VIT_L)),
    Case("smollm2-360m", "smollm2-360m", 8, 2048, smol_360m),
    Case("smollm2-1.7b", "smollm2-1.7b", 2, 2048, smol_1b7),
    Case("smollm2-1.7b recomputed", "smollm2-1.7b", 8, 2048, smol_1b7, FULL, recompute=True),
    Case("qwen2.5-1.5b accumulated", "qwen2.5-1.5b", 2, 2048, qwen_1b5, accumulate=2),
    Case("qwen2.5-3b lora", "qwen2.5-3b", 2, 2048, adapted(qwen_3b), LORA),
    Case("qwen3-1.7b", "qwen3-1.7b", 2, 2048, qwen3_1b7),
    Case("llama3.2-1b compiled at 8192", "llama3.2-1b", 1, 8192, llama_1b, COMPILED, compiled=True),
    Case("llama3.2-3b lora", "llama3.2-3b", 4, 2048, adapted(llama_3b), LORA),
    Case("mistral-7b lora recomputed", "mistral-7b", 4, 4096, adapted(mistral_7b), LORA | FULL, recompute=True),
    Case("llama3.1-8b lora at 8192", "llama3.1-8b", 1, 8192, adapted(llama_8b), LORA | FULL, recompute=True),
    Case("vit-h-14", "vit-h-14", 32, None, vision(patch_size=14, **_VIT_H)),
    Case("qwen3-0.6b", "qwen3-0.6b", 8, 1024, qwen3_600m),
    Case("tinyllama-1.1b", "tinyllama-1.1b", 4, 2048, tiny_1b),
    Case("pythia-410m", "pythia-410m", 8, 2048, pythia_410m),
    Case("pythia-1.4b recomputed", "pythia-1.4b", 4, 2048, pythia_1b4, FULL, recompute=True),
    Case("gemma-2b recomputed", "gemma-2b", 2, 2048, gemma_2b, FULL, recompute=True),
    Case("gpt2-large", "gpt2-large", 4, 1024, causal("gpt2", **_LARGE)),
    Case("vit-b-16", "vit-b-16", 128, None, vision(**_VIT_B)),
    Case("smollm2-1.7b lora", "smollm2-1.7b", 4, 2048, adapted(smol_1b7), LORA),
    Case("qwen3-4b lora", "qwen3-4b", 2, 2048, adapted(qwen3_4b), LORA),
    Case("qwen2.5-7b lora recomputed", "qwen2.5-7b", 2, 4096, adapted(qwen_7b), LORA | FULL, recompute=True),
    Case("llama2-7b lora recomputed", "llama2-7b", 4, 2048, adapted(llama2_7b), LORA | FULL, recompute=True),
    Case("qwen3-0.6b short", "qwen3-0.6b", 1, 512, qwen3_600m),
)
FIRST = 15
"""Cases of the first day: what the prediction says of software was mended after they had been seen."""


def predicted(case: Case, cluster: str) -> dict[str, Any]:
    """What Lockstep says: seconds, the interval's ends, bytes of tensors."""
    words = {"stack": "hf-trainer-5", "gpus": 1, "micro_batch": case.micro_batch, **case.words}
    words["batch"] = case.micro_batch * case.accumulate
    if case.seq:
        words["seq"] = case.seq
    said = lockstep.estimate(case.model, cluster, **words).to_dict()
    return {
        "step_s": said["step_time_s"],
        "interval_s": [said["interval"]["low"], said["interval"]["high"]],
        "memory_B": (said["memory"]["total_B"] - FRAMEWORK_B) / (1.0 + SLACK_FRAC),
        "breakdown_s": said["breakdown_s"],
        "memory": said["memory"],
    }


def marked() -> torch.cuda.Event:
    """An event on the GPU, recorded now."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class Run:
    """A model on the GPU that trains step by step."""

    def __init__(self, case: Case) -> None:
        self.case = case
        with torch.device("cuda"):
            self.model = case.build()
        self.model.train()
        if case.recompute:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        if case.compiled:
            for layer in self.model.model.layers:
                layer.compile()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5, foreach=True)
        self.batch = self._data()

    def _data(self) -> dict[str, torch.Tensor]:
        size = self.case.micro_batch
        if self.case.seq is None:
            labels = torch.randint(0, 1000, (size,), device="cuda")
            return {"pixel_values": torch.randn(size, 3, 224, 224, device="cuda"), "labels": labels}
        tokens = torch.randint(0, 30000, (size, self.case.seq), device="cuda")
        return {"input_ids": tokens, "labels": tokens}

    def step(self) -> None:
        """One optimizer step."""
        self.marks = [marked()]
        time.sleep(self.case.pause_s)
        for _ in range(self.case.accumulate):
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.model(**self.batch).loss / self.case.accumulate
            loss.backward()
        self.marks.append(marked())
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        self.marks.append(marked())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.marks.append(marked())
        loss.item()


def timed(run: Run) -> dict[str, Any]:
    """Seconds of each step, and the most bytes that tensors and the allocator took."""
    for _ in range(WARM_UP):
        run.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times_s, parts_s = list[float](), list[list[float]]()
    for _ in range(STEPS):
        began_s = time.perf_counter()
        run.step()
        torch.cuda.synchronize()
        times_s.append(time.perf_counter() - began_s)
        parts_s.append([one.elapsed_time(next_one) / 1e3 for one, next_one in pairwise(run.marks)])
    passes_s, clip_s, update_s = (statistics.median(column) for column in zip(*parts_s, strict=True))
    return {
        "step_s": statistics.median(times_s),
        "times_s": times_s,
        "passes_s": passes_s,
        "clip_s": clip_s,
        "update_s": update_s,
        "memory_B": torch.cuda.max_memory_allocated(),
        "reserved_B": torch.cuda.max_memory_reserved(),
        "parameters": sum(p.numel() for p in run.model.parameters()),
    }


def keep(run: Run, folder: Path) -> None:
    """A Kineto profile of two steps and a memory snapshot of one."""
    from torch.profiler import ProfilerActivity, profile, record_function

    name = run.case.name.replace(" ", "-")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as profiler:
        for number in range(2):
            with record_function(f"ProfilerStep#{number}"):
                run.step()
    profiler.export_chrome_trace(str(folder / f"{name}.json.gz"))
    if run.case.pause_s:
        return
    torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python", context=None)
    run.step()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with gzip.open(folder / f"{name}.pickle.gz", "wb") as file:
        pickle.dump(snapshot, file)


def measured(case: Case, folder: Path | None) -> dict[str, Any]:
    """The case, run; the reason where it cannot be."""
    try:
        run = Run(case)
        said = timed(run)
        if folder and case.kept:
            keep(run, folder)
    except torch.OutOfMemoryError:
        said = {"error": "out of memory"}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"[:400]}
    return said


def rows(only: str, cluster: str, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Each case, predicted and then measured."""
    for case in CASES:
        if re.search(only, case.name):
            row = {"case": case.name, "predicted": predicted(case, cluster), "measured": measured(case, folder)}
            gc.collect()
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            yield row


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    said, found = row["predicted"], row["measured"]
    if "error" in found:
        return f"{row['case']:<30}{found['error']}"
    time_frac, memory_frac = (said[key] / found[key] - 1 for key in ("step_s", "memory_B"))
    pair = f"{said['step_s'] * 1e3:8.1f}{found['step_s'] * 1e3:8.1f} ms{time_frac:+7.1%}"
    return (
        f"{row['case']:<30}{pair}{said['memory_B'] / 2**30:9.2f}{found['memory_B'] / 2**30:7.2f} GiB{memory_frac:+7.1%}"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="JSON file of all figures")
    parser.add_argument("--only", default="", help="pattern of the names of cases to run")
    parser.add_argument("--keep", type=Path, help="folder for profiles and memory snapshots")
    asked = parser.parse_args()
    device = torch.cuda.get_device_name()
    if asked.keep:
        asked.keep.mkdir(exist_ok=True)
    print(f"{device}, torch {torch.__version__}: predicted, measured, error")
    kept = []
    for row in rows(asked.only, CLUSTERS[device], asked.keep):
        kept.append(row)
        print(line(row), flush=True)
        asked.out.write_text(json.dumps({"device": device, "torch": torch.__version__, "rows": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
