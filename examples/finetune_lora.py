"""Fine-tunes adapters: torchrun --nproc-per-node 2 examples/finetune_lora.py MODEL SEQUENCE."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Texts(Dataset[dict[str, Tensor]]):
    """Random tokens in place of a data set."""

    def __init__(self, vocabulary: int, sequence: int) -> None:
        self.vocabulary, self.sequence = vocabulary, sequence

    def __len__(self) -> int:
        return 50_000

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        tokens = torch.randint(0, self.vocabulary, (self.sequence,))
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    """Trains with the Trainer."""
    name, sequence = sys.argv[1], int(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    arguments = TrainingArguments(
        "adapters",
        per_device_train_batch_size=1,
        gradient_checkpointing=True,
        learning_rate=2e-4,
        bf16=True,
        report_to=[],
    )
    Trainer(model=model, args=arguments, train_dataset=Texts(model.config.vocab_size, sequence)).train()


if __name__ == "__main__":
    main()
