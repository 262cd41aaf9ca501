"""Says which arguments of a fine-tuning software its table of words does not have.

    python tools/imported_fields.py FORMAT FOLDER

FORMAT is one of SOURCES; FOLDER is where its release and those of its bases lie unpacked, each beside the others. The
classes are read as text. Every field is printed that `planner/imports/formats/FORMAT.toml` puts in no class, with the
kind that the software gives it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from argument_tables import fields
from lockstep.decide.planner.imports.formats import format_of

HUGGING_FACE = ("transformers/training_args.py",)
SEQUENCES = ("transformers/training_args_seq2seq.py", *HUGGING_FACE)
FACTORY = tuple(
    f"llamafactory/hparams/{name}_args.py" for name in ("training", "model", "data", "finetuning", "generating")
)
SWIFT = tuple(
    f"swift/arguments/{name}.py"
    for name in (
        "rlhf_args", "sft_args", "pretrain_args", "tuner_args", "base_args/base_args", "base_args/model_args",
        "base_args/data_args", "base_args/template_args", "base_args/quant_args", "base_args/generation_args",
    )
)  # fmt: skip
SWIFT_MEGATRON = tuple(f"swift/megatron/arguments/{name}_args.py" for name in ("sft", "rlhf", "megatron"))
SOURCES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "trainer": (("TrainingArguments", HUGGING_FACE), ("Seq2SeqTrainingArguments", SEQUENCES)),
    "trl": (
        *(
            (f"{name}Config", (f"trl/trainer/{name.lower()}_config.py", "trl/trainer/base_config.py", *HUGGING_FACE))
            for name in ("SFT", "DPO", "GRPO", "KTO", "Reward", "RLOO")
        ),
        ("ModelConfig", ("trl/trainer/model_config.py",)),
        ("ScriptArguments", ("trl/scripts/utils.py",)),
    ),
    "llamafactory": tuple(
        (name, (*FACTORY, *SEQUENCES))
        for name in (
            "ModelArguments", "DataArguments", "FinetuningArguments", "GeneratingArguments", "TrainingArguments",
            "Seq2SeqTrainingArguments",
        )
    ),
    "axolotl": (
        (
            "AxolotlInputConfig",
            tuple(
                f"axolotl/utils/schemas/{name}.py"
                for name in (
                    "config", "model", "peft", "training", "datasets", "deprecated", "integrations", "multimodal",
                    "quantization", "fsdp", "trl", "vllm", "dynamic_checkpoint", "fp8",
                )
            ),
        ),
    ),
    "swift-megatron": tuple(
        (name, (*SWIFT_MEGATRON, *SWIFT))
        for name in ("MegatronRLHFArguments", "MegatronSftArguments", "MegatronArguments", "BaseArguments")
    ),
    "swift": tuple(
        (name, (*SWIFT, "swift/trainers/arguments.py", "swift/rlhf_trainers/arguments.py", *SEQUENCES))
        for name in ("RLHFArguments", "SftArguments", "TrainArgumentsMixin", "Seq2SeqTrainingArguments")
    ),
}  # fmt: skip


def main(key: str, folder: str) -> int:
    """Prints what is missing. Returns how many fields are."""
    known, missing = format_of(key), 0
    for wanted, files in SOURCES[key]:
        there = [path for file in files if (path := Path(folder, file)).is_file()]
        for name, kind in fields(wanted, there):
            if known.kind_of(name)[0] == "unknown":
                missing += 1
                print(f"{name}\t{kind}")
    return missing


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
