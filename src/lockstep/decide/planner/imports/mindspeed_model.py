"""The model and the stages that MindSpeed's own settings describe, as Megatron-LM's options."""

from __future__ import annotations

from typing import Any

from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, Transformer

SAME = {
    "multi-head-latent-attention": "multi-latent-attention",
    "qk-rope-head-dim": "qk-pos-emb-head-dim",
    "qk-nope-head-dim": "qk-head-dim",
    "moe-intermediate-size": "moe-ffn-hidden-size",
    "shared-expert-gate": "moe-shared-expert-gate",
    "routed-scaling-factor": "moe-router-topk-scaling-factor",
}
SPECS = ("deepseek_spec", "qwen3_spec")
"""Functions that build what the other settings describe."""
GROUPED = ("group_limited_greedy", "noaux_tc")
"""Kinds of routing that choose groups of experts first."""
TARGETS = {"linear_qkv": "q_proj+k_proj+v_proj", "linear_proj": "o_proj", "linear_fc1": "gate_proj+up_proj",
           "linear_fc2": "down_proj"}  # fmt: skip
"""Joint matrices of Megatron Core as those that they join."""
Options = dict[str, tuple[Any, str]]
"""Option of Megatron-LM to its value and the setting that it comes from."""


def model_options(said: Said) -> Options:
    """Options of the model."""
    found: Options = {option: (said[word], word) for word, option in SAME.items() if word in said}
    if said["tokenizer-name-or-path"]:
        found["tokenizer-model"] = (" ".join(said["tokenizer-name-or-path"]), "tokenizer-name-or-path")
    if said["num-experts"]:
        found |= _experts(said)
    if said["sliding-window"]:
        found["window-size"] = (f"{said['sliding-window'] - 1},0", "sliding-window")
    kind, factor = said["rope-scaling-type"], said["rope-scaling-factor"]
    if kind == "yarn" and said["multi-head-latent-attention"]:
        found |= {
            "rope-type": ("yarn", "rope-scaling-type"),
            "rotary-scaling-factor": (factor, "rope-scaling-factor"),
            "mscale": (said["rope-scaling-mscale"], "rope-scaling-mscale"),
            "mscale-all-dim": (said["rope-scaling-mscale-all-dim"], "rope-scaling-mscale-all-dim"),
        }
    elif kind == "llama3":
        found |= {
            "use-rope-scaling": (True, "rope-scaling-type"),
            "rope-scaling-factor": (factor, "rope-scaling-factor"),
        }
    elif kind is not None:
        said.leave("rope-scaling-type", "rotary positions, stretched")
    if said["spec"] and not any(one in said["spec"][0] for one in SPECS):
        said.leave("spec", "a model that is built by a function")
    return found


def _experts(said: Said) -> Options:
    found: Options = {}
    width = said["moe-intermediate-size"] or said["moe-ffn-hidden-size"] or said["ffn-hidden-size"]
    if said["moe-intermediate-size"] and said["moe-ffn-hidden-size"] not in (None, said["moe-intermediate-size"]):
        why = f"--moe-intermediate-size is {said['moe-intermediate-size']}, which counts"
        said.contradiction("moe-ffn-hidden-size", why)
    if said["n-shared-experts"] and width:
        found["moe-shared-expert-intermediate-size"] = (said["n-shared-experts"] * width, "n-shared-experts")
    if said["moe-router-load-balancing-type"] in GROUPED and said["topk-group"]:
        # Without a number of groups there is one for every expert-parallel rank (router.py, group_limited_greedy).
        groups = said["n-group"] or said["expert-model-parallel-size"]
        found["moe-router-num-groups"] = (groups, "n-group" if said["n-group"] else "topk-group")
        found["moe-router-group-topk"] = (said["topk-group"], "topk-group")
    if not said["norm-topk-prob"] and said["moe-router-score-function"] == "softmax":
        found["moe-router-pre-softmax"] = (True, "norm-topk-prob")
    return found | _where(said)


def _where(said: Said) -> Options:
    """Which layers have experts: all behind the first, every Nth."""
    every, first = said["moe-layer-freq"], said["first-k-dense-replace"]
    if isinstance(every, str) or first is None or said["num-layers"] is None:
        return {} if every in (None, -1) else {"moe-layer-freq": (str(every), "moe-layer-freq")}
    every = max(1, every or 1)
    empty = len(_numbers(said, "noop-layers"))
    has = [place >= first and place % every == 0 for place in range(said["num-layers"] - empty)]
    said.asked.add("moe-layer-freq")
    return {"moe-layer-freq": (str([int(one) for one in has]), "first-k-dense-replace")}


def layers(said: Said, model: Model | None) -> Options:
    """The number of layers without those that are empty, and how many stand on each stage."""
    total = said["num-layers"] or (model.layers if isinstance(model, Transformer) else 0)
    pp, listed = said["pipeline-model-parallel-size"], _numbers(said, "num-layer-list")
    if listed:
        if len(listed) != pp or sum(listed) != total:
            raise said.refuse("num-layer-list", f"must have {pp} numbers that add up to {total} layers")
        return {"pipeline-model-parallel-layout": (_drawn(listed), "num-layer-list")}
    empty = set(_numbers(said, "noop-layers"))
    if not empty or not total:
        return {}
    if not all(0 <= one < total for one in empty):
        raise said.refuse("noop-layers", f"must be layers from 0 to {total - 1}")
    found: Options = {"num-layers": (total - len(empty), "noop-layers")}
    chunks = total // (said["num-layers-per-virtual-pipeline-stage"] or max(1, total // pp))
    if pp == 1 or total % chunks or said["schedules-method"]:
        return found
    each = total // chunks
    held = [each - sum(one // each == place for one in empty) for place in range(chunks)]
    found["pipeline-model-parallel-layout"] = (_drawn(held), "noop-layers")
    return found | {"num-layers-per-virtual-pipeline-stage": (None, "num-layers-per-virtual-pipeline-stage")}


def _drawn(held: list[int]) -> str:
    return "|".join(("E" if not place else "") + "t" * one + ("L" if place == len(held) - 1 else "")
                    for place, one in enumerate(held))  # fmt: skip


def _numbers(said: Said, word: str) -> list[int]:
    """Numbers that are separated by commas."""
    parts = str(said[word] or "").strip("\"' ").split(",")
    if parts == [""]:
        return []
    if len(parts) > 10_000 or not all(one.strip().isdecimal() and len(one) < 7 for one in parts):
        raise said.refuse(word, f"must be numbers that are separated by commas, got {str(said[word])[:40]!r}")
    return [int(one) for one in parts]


def adapters(said: Said) -> str | None:
    """What is trained, where adapters are asked for."""
    names = said["lora-target-modules"]
    if not names:
        return None
    if any(one not in TARGETS for one in names):
        said.leave("lora-target-modules", "adapters on matrices that are not described")
    targets = "+".join(TARGETS[one] for one in names if one in TARGETS)
    return f"lora:r={said['lora-r']},targets={targets or 'all-linear'}"
