"""bitsandbytes, PEFT and transformers are asked what a layer keeps of LoRA above a base in nf4.

Small Llamas are quantised and run forward on the processor under autocast. What autograd saves is counted by storage,
of 4 and of 2 layers, so that the difference is that of layers. PEFT leaves adapters in fp32; TRL casts them to bf16.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import Asker
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

from lockstep.describe.hardware import cluster
from lockstep.describe.workload.huggingface import read_config
from lockstep.price.layout import Job, Layout, Recipe, memory

MACHINE = cluster("dgx-h200", gpus=1)
NF4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
SEQ, BATCH = 256, 2
STACKS = {"hf-trainer-5": False, "trl": True}
"""Software, and whether it casts adapters."""


def drawn(seed: int) -> tuple[LlamaConfig, int]:
    """A configuration and a rank."""
    draw = random.Random(seed)
    heads = draw.choice((2, 4))
    return (
        LlamaConfig(
            hidden_size=heads * 64, num_attention_heads=heads, num_key_value_heads=draw.choice((1, heads)),
            intermediate_size=64 * draw.randint(4, 12), num_hidden_layers=4, vocab_size=512,
            max_position_embeddings=512,
        ),
        draw.choice((4, 8, 16)),
    )  # fmt: skip


def kept_B(folder: Path, layers: int, rank: int, cast: bool) -> int:
    """Bytes that autograd saves in a forward pass, parameters apart."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, num_hidden_layers=layers, quantization_config=NF4, dtype=torch.bfloat16, device_map={"": "cpu"}
    )
    model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear"))
    for parameter in model.parameters():
        if cast and parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}
    saved: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    tokens = torch.randint(0, 512, (BATCH, SEQ))
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        model(input_ids=tokens, labels=tokens)
    return sum(one.untyped_storage().nbytes() for where, one in saved.items() if where not in own)


def described_B(file: Path, layers: int, rank: int, software: str) -> float:
    """Bytes of activations that Lockstep counts."""
    model = replace(read_config(file), layers=layers)
    recipe = Recipe.by(software, seq=SEQ, batch=BATCH, train=f"lora:r={rank},targets=all-linear", base="nf4")
    found = memory(Job(model, recipe, 1), MACHINE, Layout(micro_batch=BATCH, recompute="none").grid())
    return float(found.activations_B)


@pytest.mark.parametrize("software", STACKS)
def test_layers_keep_what_they_are_said_to(software: str, asked: Asker, tmp_path: Path) -> None:
    with asked("bitsandbytes", "bytes that a layer keeps of adapters above nf4, in fp32 and cast") as answers:
        for seed in range(25):
            config, rank = drawn(seed)
            LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
            theirs = [kept_B(tmp_path, layers, rank, STACKS[software]) for layers in (4, 2)]
            ours = [described_B(tmp_path / "config.json", layers, rank, software) for layers in (4, 2)]
            answers.compare(f"{software}, seed {seed}", ours[0] - ours[1], theirs[0] - theirs[1], within=0.02)
