"""Layers of transformers' classes pass tensors without storage forward, and autograd is asked what it keeps of each;
Lockstep reads the same configuration, and its answer is what it says a layer keeps.

Numbers of a token, such as the scale of its norm, and tables that some classes make for rotary embedding in every layer
are left out by Lockstep: with rows as short as here up to 0.5 %. One sequence alone would leave heads as views of what
they were cut from; several are copied by head.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from torch._subclasses.fake_tensor import FakeTensorMode

from lockstep.describe.workload.huggingface import config_of
from lockstep.price.layout import Job, Layout
from lockstep.price.layout.kept import activations_B
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
WITHIN = 0.005
LAYERS = 3
DENSE = (
    "arcee", "bert", "biogpt", "codegen", "cohere", "cohere2", "ernie4_5", "exaone4", "gemma", "gemma2", "glm", "glm4",
    "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "granite", "helium", "jais2", "llama", "ministral3", "mistral",
    "nanochat", "nemotron", "olmo", "olmo2", "opt", "phi", "phi3", "qwen2", "qwen3", "roberta", "seed_oss", "smollm3",
    "stablelm", "starcoder2", "vaultgemma",
)  # fmt: skip
LATENT = ("deepseek_v3", "minicpm3", "youtu")
EXPERTS = (
    "ernie4_5_moe", "flex_olmo", "glm4_moe", "gpt_oss", "granitemoe", "granitemoeshared", "mixtral", "olmoe", "phimoe",
    "qwen2_moe", "qwen3_moe", "solar_open",
)  # fmt: skip
ALONE = {"gemma2", "gpt_oss", "vaultgemma"}
"""Types that have no other attention than the one that is written out."""
CAPPED = "scores under a soft cap are kept once more, which Lockstep does not describe"
WIDE = "parts of these classes work in fp32, which Lockstep does not describe"
SCORES = "on a CPU values of another width than keys have no kernel that keeps no scores"
WHY = {
    "codegen": WIDE, "ernie4_5_moe": WIDE, "gemma2": CAPPED, "gpt_oss": WIDE, "gptj": WIDE, "helium": WIDE,
    "nanochat": WIDE, "vaultgemma": CAPPED,
}  # fmt: skip
NONE_OF = ("attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout", "layerdrop",
           "hidden_dropout_prob", "attention_probs_dropout_prob", "resid_dropout", "embed_dropout", "residual_dropout",
           "embedding_dropout", "activation_dropout")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Layers of a class, and how they are passed."""

    kind: str
    half: bool
    written: bool
    again: bool

    @property
    def passed(self) -> tuple[int, int]:
        """Sequences, and their tokens."""
        return 8, Random(self.kind).choice([128, 192, 256])

    def config(self) -> Any:
        """The configuration, of transformers."""
        from transformers import AutoConfig

        random, usual = Random(f"{self.kind} sizes"), AutoConfig.for_model(self.kind)
        heads, inner = 8, 64 * random.choice([16, 22, 32])
        wanted = {
            "vocab_size": 64, "tie_word_embeddings": False, "hidden_size": 64 * heads, "intermediate_size": inner,
            "ffn_hidden_size": inner, "ffn_dim": inner, "num_attention_heads": heads, "num_key_value_heads": heads,
            "head_dim": 64, "num_hidden_layers": LAYERS, "max_position_embeddings": 1024, "pad_token_id": 0,
            "bos_token_id": 1, "eos_token_id": 2, "sliding_window": None, "layer_types": ["full_attention"] * LAYERS,
            **dict.fromkeys(NONE_OF, 0.0),
        }  # fmt: skip
        there = usual.to_dict()
        given = {
            name: value
            for name, value in wanted.items()
            if (name in there or name in usual.attribute_map or hasattr(usual, name))
            and not (name == "head_dim" and there.get(name, 0) is None)
        }
        return AutoConfig.for_model(self.kind, **given)

    def why(self) -> str:
        """Why this one differs."""
        if self.again:
            return ""
        if self.kind in LATENT:
            return "" if self.written else SCORES
        reason = WHY.get(self.kind, "")
        if reason == WIDE and (not self.half or (self.kind in ("codegen", "gptj") and not self.written)):
            return ""  # Nothing is wider than fp32, and their attention is fp32 alone.
        return reason


CASES = [
    Case(kind, half, written, again)
    for kind in (*DENSE, *LATENT, *EXPERTS)
    for half in (True, False)
    for written, again in ((False, False), (True, False), (True, True))
    # On a CPU products of experts run in bf16 alone.
    if (half or kind not in EXPERTS) and (written or kind not in ALONE)
]


def saved_B(case: Case) -> int:
    """Bytes that autograd keeps of the last of several layers, which the layer before does not keep too."""
    from transformers import AutoModelForCausalLM

    dtype, (sequences, tokens) = torch.bfloat16 if case.half else torch.float32, case.passed
    seen: dict[int, tuple[int, Any]] = {}
    sizes_B = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        how = "eager" if case.written else "sdpa"
        net = AutoModelForCausalLM.from_config(case.config(), dtype=dtype, attn_implementation=how).train()
        if case.again:
            net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        own = {one.untyped_storage()._cdata for one in (*net.parameters(), *net.buffers())}

        def pack(one: Any) -> Any:
            storage = one.untyped_storage()
            if storage._cdata not in own:
                seen[storage._cdata] = storage.nbytes(), storage
            return one

        x = torch.zeros(sequences, tokens, net.config.hidden_size, dtype=dtype, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            for layer, words in layers_of(net, x):
                given = layer(x, **words)
                x = given[0] if isinstance(given, tuple) else given
                sizes_B.append(sum(size_B for size_B, _ in seen.values()))
    return sizes_B[-1] - sizes_B[-2]


def layers_of(net: Any, x: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The layers of a model, and what else each is given: no mask, as all of a sequence attends causally."""
    body = getattr(net.base_model, "decoder", net.base_model)
    places = torch.arange(x.shape[1])[None]
    words: dict[str, Any] = {"attention_mask": None, "position_ids": places}
    if hasattr(body, "rotary_emb"):
        words["position_embeddings"] = body.rotary_emb(x, places)
    several = next(one for one in body.modules() if isinstance(one, torch.nn.ModuleList) and len(one) == LAYERS)
    known = inspect.signature(type(several[0]).forward).parameters
    if not any(one.kind == one.VAR_KEYWORD for one in known.values()):
        words = {name: value for name, value in words.items() if name in known}
    return [(one, words) for one in several]


def said_B(case: Case) -> float:
    """The same as Lockstep has it: of a layer more."""
    sequences, tokens = case.passed
    formats = {"dtype": "bf16", "optimizer": "adamw-bf16", "gradient_B": 2.0}
    if not case.half:
        formats = {"dtype": "fp32", "optimizer": "adamw-no-master", "gradient_B": 4.0, "parameter_B": 4.0}
    recipe = recipe_by(
        "hf-trainer-5", seq=tokens, batch=sequences, flash_attention=not case.written, autocast=False, **formats
    )
    model = config_of(json.dumps(case.config().to_dict(), default=str), "small")
    grid = Layout(micro_batch=sequences, recompute="full" if case.again else "none").grid()
    job = Job(model, recipe, 1)
    (held,) = job.device_layers(grid.stages, grid.placement, grid.split)
    kind = model.kinds[-1]
    sizes_B = [float(activations_B(job, grid, 0, held + Counter(more))[0]) for more in ({}, {kind: 1})]
    return sizes_B[1] - sizes_B[0]


def test_what_a_layer_keeps(asked: Asker) -> None:
    """Forward, with and without recomputation, attention written out or in one kernel."""
    with asked("transformers", "bytes that a layer keeps for its backward pass, or for recomputation") as answers:
        for case in CASES:
            answers.compare(f"{case}", said_B(case), saved_B(case), within=WITHIN, why=case.why())
