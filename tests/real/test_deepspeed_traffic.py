"""DeepSpeed's engine trains small models of transformers on ranks without other ranks, and is asked what a step sends,
by its own JSON; Lockstep reads the same JSON, and its answer are the collectives of a step's trace.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from llama_of_ranks import traffic_B
from recorded import Collectives, Sent, ranks_of

from effort import share
from lockstep.decide.planner.imports import recognised
from lockstep.describe.workload import Transformer
from lockstep.describe.workload.huggingface import config_of
from lockstep.price.layout import Job, Layout
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
LIMITS = {
    "stage3_max_reuse_distance": (0, 30_000, 10**9),
    "stage3_max_live_parameters": (20_000, 10**9),
    "stage3_prefetch_bucket_size": (0, 10_000, 40_000, 5 * 10**7),
    "stage3_param_persistence_threshold": (0, 100, 5_000, 10**5),
}
WORDS = {"gradient_bytes": "gradient_B", "reduce_bytes": "reduce_B"}
SAID = ("dtype", "gather_limits")
STEPS = 3
"""The last is asked for: by then the order of all fetches is known."""


@pytest.fixture(scope="module")
def deepspeed() -> Iterator[Any]:
    """The package, for a CPU, whose ranks do not compare numbers, as there is one."""
    known = dict(os.environ)
    os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0", "RANK": "0"}
    import deepspeed
    from deepspeed.runtime.zero import partitioned_param_coordinator, stage3

    for module in (partitioned_param_coordinator, stage3):
        if hasattr(module, "assert_ints_same_as_other_ranks"):
            module.assert_ints_same_as_other_ranks = lambda *_: None
    yield deepspeed
    os.environ.clear()
    os.environ.update(known)


@dataclass(frozen=True)
class Case:
    """A model of transformers, and the JSON of DeepSpeed."""

    config: dict[str, Any]
    data: dict[str, Any]
    ranks: int
    seq: int

    @classmethod
    def drawn(cls, seed: int) -> Case:
        """One of them."""
        random = Random(seed)
        ranks, micro, passes = random.choice([2, 4, 8]), random.randint(1, 3), random.randint(1, 3)
        stage = seed % 4
        zero: dict[str, Any] = {"stage": stage, "overlap_comm": random.random() < 0.5}
        if stage == 3:
            zero |= {name: random.choice(values) for name, values in LIMITS.items()}
        data: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": micro,
            "gradient_accumulation_steps": passes,
            "train_batch_size": micro * passes * ranks,
            "zero_optimization": zero,
        }
        if random.random() < 0.8:
            data["bf16"] = {"enabled": True}
            if random.random() < 0.3:
                data["communication_data_type"] = random.choice(["fp32", "bf16"])
        hidden, kv_heads = 16 * random.choice([2, 3, 4]), random.choice([1, 2, 4])
        config = {
            "model_type": "llama", "hidden_size": hidden, "intermediate_size": 8 * random.choice([8, 11, 16]),
            "num_hidden_layers": random.randint(1, 4), "num_attention_heads": 4, "num_key_value_heads": kv_heads,
            "head_dim": 8, "vocab_size": 32 * random.choice([3, 8]), "max_position_embeddings": 64,
            "tie_word_embeddings": False,
        }  # fmt: skip
        return cls(config, data, ranks, 4 * random.randint(1, 4))

    def sent(self, deepspeed: Any) -> list[Sent]:
        """What a step sends."""
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(**self.config)
        net = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        optimizer = torch.optim.AdamW(net.parameters())
        data = {**self.data, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
        engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=data, dist_init_required=False)
        words = torch.randint(config.vocab_size, (self.data["train_micro_batch_size_per_gpu"], self.seq))
        for _ in range(STEPS):
            with Collectives() as found:
                for _ in range(self.data["gradient_accumulation_steps"]):
                    engine.backward(engine(input_ids=words, use_cache=False).logits.float().square().mean())
                    engine.step()
        engine.destroy()
        return found.sent

    def said(self) -> Counter[str]:
        """The same as Lockstep has it."""
        model = config_of(json.dumps(self.config), "small")
        assert isinstance(model, Transformer)
        found = recognised(json.dumps(self.data), "ds.json", model)
        assert found is not None
        words = {name: found.words[name] for name in SAID if name in found.words}
        words |= {name: float(found.words[word]) for word, name in WORDS.items() if word in found.words}
        half = "bf16" in self.data
        recipe = recipe_by(
            "deepspeed", seq=self.seq, batch=self.data["train_batch_size"], parameter_B=2.0 if half else 4.0,
            overlap_dp=found.words.get("overlap", True), **words,
        )  # fmt: skip
        layout = Layout(
            dp=self.ranks, zero=found.layout.get("zero", 0), micro_batch=self.data["train_micro_batch_size_per_gpu"]
        )
        return traffic_B(Job(model, recipe, self.ranks), layout, "dp")


def forget(deepspeed: Any) -> None:
    """Groups of ranks of the case before."""
    importlib.reload(deepspeed.utils.groups)
    deepspeed.comm.comm.cdb = None


def test_a_step_of_an_engine(asked: Asker, deepspeed: Any) -> None:
    """Of tensors; numbers on which ranks agree are left out."""
    with asked("deepspeed", "bytes of all-gathers and reductions of a step, ZeRO 0 to 3, by its JSON") as answers:
        for seed in share(range(96), 4):
            case = Case.drawn(seed)
            with warnings.catch_warnings(), ranks_of(case.ranks):
                warnings.simplefilter("ignore")
                forget(deepspeed)
                theirs: Counter[str] = Counter()
                for one in case.sent(deepspeed):
                    theirs[one.op] += one.size_B if one.size_B > 8 else 0
            ours = case.said()
            answers.compare(f"{case}", dict(ours), dict(+theirs))
