"""`peft_config`: adapters as the call that makes their configuration in peft 0.21.2."""

from __future__ import annotations

import json

from lockstep.describe.workload import Adapters

NAMES = {"lora": "Lora", "vera": "Vera", "oft": "OFT", "ia3": "IA3", "prompt": "PromptTuning"}


def peft_config(adapters: Adapters, modules: str) -> str:
    """The call, with `modules` for the targets as they stand in it."""
    words = ", ".join(f"{name}={value}" for name, value in _words(adapters, modules).items())
    return f"{NAMES[adapters.method.name]}Config({words})"


def _words(adapters: Adapters, modules: str) -> dict[str, object]:
    method, dropout = adapters.method, adapters.dropout_frac
    if method.tokens:
        return {"task_type": '"CAUSAL_LM"', "num_virtual_tokens": method.tokens}
    found: dict[str, object] = {"r": adapters.rank} if method.name in ("lora", "vera") else {}
    if method.name == "oft":
        found = {"r": method.blocks, "oft_block_size": method.block}
    found["target_modules"] = modules
    if method.name == "ia3":
        found["feedforward_modules"] = json.dumps([one for one in json.loads(modules) if one == "down_proj"])
    if adapters.parameters:
        found["target_parameters"] = json.dumps([f"experts.{one}" for one in adapters.parameters])
    if dropout:
        found["vera_dropout" if method.name == "vera" else "lora_dropout"] = f"{dropout:g}"
    found |= {f"use_{name}": True for name in ("dora", "rslora") if getattr(method, name)}
    return found | ({"init_lora_weights": '"pissa"'} if method.pissa else {})
