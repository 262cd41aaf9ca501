"""The real trainer of a setting, with a small model, data and adapters: `trainer_of(setting, folder)`."""

from __future__ import annotations

import random
from typing import Any

import torch
import transformers

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def tokenizer(vocab: int) -> Any:
    """One token for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{one}": one for one in range(3, vocab)}
    made = Tokenizer(models.WordLevel(words, unk_token="w3"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", bos_token="<s>"
    )


def data(trainer: str, seq: int, vocab: int) -> Any:
    """Sequences of just `seq` tokens; prompts have one."""
    from datasets import Dataset

    def text(count: int) -> str:
        return " ".join(f"w{random.randrange(3, vocab)}" for _ in range(count))

    def row(number: int) -> dict[str, Any]:
        ids = [random.randrange(3, vocab) for _ in range(seq)]
        if trainer == "Trainer":
            return {"input_ids": ids, "labels": ids}
        if trainer == "SFT":
            return {"input_ids": ids}
        if trainer == "Reward":
            return {"chosen_ids": ids, "rejected_ids": ids[::-1]}
        if trainer == "KTO":
            return {"prompt": "w3", "completion": f" {text(seq - 2)} </s>", "label": bool(number % 2)}
        if trainer == "DPO":
            return {"prompt": "w3", **{name: f" {text(seq - 2)} </s>" for name in ("chosen", "rejected")}}
        return {"prompt": "w3"}

    return Dataset.from_list([row(number) for number in range(64)])


def arguments(one: dict[str, Any], where: str) -> dict[str, Any]:
    """Arguments of the run."""
    found = {
        "output_dir": where, "per_device_train_batch_size": one["micro"], "max_steps": 2, "use_cpu": True,
        "gradient_accumulation_steps": one["accumulation"], "gradient_checkpointing": one["checkpointing"],
        "bf16": one["bf16"], "optim": one["optimizer"], "report_to": [], "save_strategy": "no", "disable_tqdm": True,
        "logging_strategy": "no", "learning_rate": 1e-4,
    }  # fmt: skip
    if one["trainer"] in ("SFT", "DPO", "KTO", "Reward"):
        found |= {"max_length": one["seq"]}
    if one["trainer"] == "SFT":
        found |= {"dataset_kwargs": {"skip_prepare_dataset": True}}
    if one["trainer"] in ("GRPO", "RLOO"):
        found |= {"num_generations": 2, "max_completion_length": one["seq"] - 1, "beta": one["beta"]}
    return found


def trainer_of(one: dict[str, Any], where: str) -> Any:
    """The trainer of a setting, with its model."""
    import peft
    import trl

    kind, settings = one["trainer"], dict(one["config"])
    config = transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    auto = transformers.AutoModelForCausalLM
    if kind == "Reward":
        config.num_labels, auto = 1, transformers.AutoModelForSequenceClassification
    model = auto.from_config(config, dtype=DTYPES[one["load"]])
    if one["lora"] is None:
        model.save_pretrained(where)  # The reference is loaded from there.
        model.config._name_or_path = where
    lora = one["lora"]
    adapters = lora and peft.LoraConfig(
        r=lora["r"], target_modules=lora["targets"], lora_dropout=lora["dropout"],
        task_type="SEQ_CLS" if kind == "Reward" else "CAUSAL_LM",
    )  # fmt: skip
    rows, words = data(kind, one["seq"], config.vocab_size), arguments(one, where)
    if kind == "Trainer":
        model = peft.get_peft_model(model, adapters) if adapters else model
        return transformers.Trainer(model, transformers.TrainingArguments(**words), train_dataset=rows,
                                    data_collator=transformers.default_data_collator)  # fmt: skip
    more = {"reward_funcs": lambda completions, **_: [random.random() for _ in completions]} if "beta" in words else {}
    made = getattr(trl, f"{kind}Trainer")(
        model, args=getattr(trl, f"{kind}Config")(**words), train_dataset=rows, peft_config=adapters,
        processing_class=tokenizer(config.vocab_size), **more,
    )  # fmt: skip
    if more:

        def answers(prompts: Any, *_: Any) -> Any:
            ids = [[random.randrange(3, config.vocab_size) for _ in range(one["seq"] - 1)] for _ in prompts]
            return (ids, None) if kind == "GRPO" else ids

        made._generate_single_turn = answers
    return made
