"""Scripts that have options for LoRA beside TrainingArguments, as those of LLaVA, FastChat and Qwen have.

Their switches are lora_enable, use_lora and q_lora; FastChat's train_lora.py has none. Source: llava/train/train.py
(find_all_linear_names), fastchat/train/train_lora.py (LoraArguments) and finetune.py of QwenLM.
"""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import quantised, tell
from lockstep.decide.planner.imports.tuning.trainer import arguments
from lockstep.describe.workload import Model

ALWAYS = "train_lora.py"
"""The script that always trains adapters, of rank 8 on queries and values by itself."""


def trainer_lora(said: Said, name: str, model: Model | None) -> Imported:
    """What the options of such a script say."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "model_name_or_path")
    run = arguments(found, said, model)
    run.seq = said["model_max_length"] or said["block_size"]
    always = str(said.text.words.get("launcher.program", "")).endswith(ALWAYS)
    switches = [said[one] for one in ("lora_enable", "use_lora")]
    run.base = _base(said)
    if run.base is not None and found.stored is not None:
        # q_lora loads a checkpoint of four bits as it is.
        run.base = found.stored
    if always or any(switches):
        run.wide = run.dtype in ("fp32", "tf32")
        # The rank is another one in each script where nothing says it.
        said.values.setdefault("lora_r", 8 if always else 64)
        where = next((one for one in ("lora_target_modules", "lora_enable", "use_lora") if one in said), "lora_r")
        targets = said["lora_target_modules"] or (("q_proj", "v_proj") if always else "all-linear")
        run.adapters = lora(said, ("lora_r", "lora_dropout", where), targets, model)
        if said["use_lora"] and not said["q_lora"] and "chat" not in str(said["model_name_or_path"]).lower():
            said.leave("use_lora", "finetune.py trains embedding and head too where the model is no chat model")
    elif run.base is not None:
        raise said.refuse("bits" if "bits" in said else "q_lora", "needs adapters, which are off")
    if said["flash_attn"]:
        found.words["attention_kernel"] = "flash2"
    return tell(found, said, run, "optim")


def _base(said: Said) -> str | None:
    """The format of frozen matrices; q_lora has four bits."""
    bits = 4 if said["q_lora"] and "bits" not in said else said["bits"]
    if bits == 4:
        return quantised(said, said["quant_type"], said["double_quant"], "q_lora", "quant_type")
    return "int8" if bits == 8 else None
