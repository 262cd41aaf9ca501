"""Measures real fine-tuning steps on the CPU: python tools/real_steps/measure.py settings.jsonl > rows.jsonl

Environment: python -m venv E; E/bin/pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 trl==1.16.0.
Each setting trains two steps in a process of its own through Trainer or a trainer of TRL; of the second, every storage
that operators make and free is tracked (temporaries inside one operator are not seen). What a CPU does otherwise than a
GPU is made alike (like_gpu.py). Answers are not generated: random ones come in their place (trainers.py).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import sys
import tempfile
import weakref
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from like_gpu import Autocast, like_a_gpu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count
from trainers import trainer_of

FUSED = "_scaled_dot_product_flash_attention_for_cpu"


class Live(TorchDispatchMode):
    """Live bytes by storage, the most of them at once with the phase, and FLOPs by kind of operator."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, tuple[int, str]] = {}
        self.total = self.most = 0
        self.phase, self.where, self.on = "forward", [""], False
        self.peak: tuple[str, dict[int, tuple[int, str]], set[int], set[int]] = ("", {}, set(), set())
        self.flops: Counter[str] = Counter()
        self.parameters: list[torch.nn.Parameter] = []
        self.optimizer: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in tree_leaves(out):
            if isinstance(one, torch.Tensor):
                self.see(one, str(func))
        if self.on:
            self._count(func, args, kwargs or {}, out)
        if self.on and self.total > self.most:
            self.most = self.total
            grads = {key_of(one.grad) for one in self.parameters if one.grad is not None}
            every = tree_leaves(list(self.optimizer.state.values()))
            states = {key_of(one) for one in every if isinstance(one, torch.Tensor)}
            self.peak = self.phase, dict(self.live), grads, states
        return out

    def see(self, one: torch.Tensor, name: str) -> None:
        storage = one.untyped_storage()
        key = storage._cdata
        if key not in self.live:
            self.live[key] = storage.nbytes(), f"{self.phase} {self.where[-1]} {name} {tuple(one.shape)} {one.dtype}"
            self.total += storage.nbytes()
            weakref.finalize(storage, self.gone, key)

    def gone(self, key: int) -> None:
        self.total -= self.live.pop(key, (0, ""))[0]

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        packet = func._overloadpacket
        name = packet.__name__
        if name == FUSED:
            self.flops["attention"] += sdpa_flop_count(*(one.shape for one in args[:3]))
        elif name == f"{FUSED}_backward":
            self.flops["attention backward"] += sdpa_backward_flop_count(*(one.shape for one in args[:4]))
        elif name == "_grouped_mm":
            # Rows x inner x columns, or inner x rows of all x columns: each row meets one expert's matrix.
            rows = args[0].shape[0] * args[0].shape[1] * args[1].shape[-1]
            self.flops["grouped"] += 2 * rows
        elif packet in flop_registry:
            self.flops[name] += flop_registry[packet](*args, **kwargs, out_val=out)


def key_of(one: torch.Tensor) -> int:
    return one.untyped_storage()._cdata


def watch(live: Live, trainer: Any, passed: Counter[str]) -> None:
    """Phases, modules by name, and sequences that pass through a decoder's layers."""
    optimizer_of, backward = trainer.create_optimizer, trainer.accelerator.backward

    def entered(module: Any, args: Any) -> None:
        live.where.append(type(module).__name__)

    def left(module: Any, args: Any, out: Any) -> None:
        live.where.pop()

    torch.nn.modules.module.register_module_forward_pre_hook(entered)
    torch.nn.modules.module.register_module_forward_hook(left, always_call=True)

    def run_backward(*args: Any, **words: Any) -> None:
        live.phase = "backward"
        backward(*args, **words)
        live.phase = "forward"

    def create(*args: Any) -> Any:
        made = live.optimizer = optimizer_of(*args)
        made.register_step_pre_hook(lambda *_: setattr(live, "phase", "optimizer"))
        made.register_step_post_hook(lambda *_: setattr(live, "phase", "forward"))
        return made

    trainer.accelerator.backward, trainer.create_optimizer = run_backward, create
    own = trainer.model.get_input_embeddings()

    def count(module: Any, args: Any) -> None:
        if live.on:
            passed["learning" if torch.is_grad_enabled() and module is own else "bare"] += args[0].shape[0]

    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            model.get_input_embeddings().register_forward_pre_hook(count)


class Second(transformers.TrainerCallback):
    """Measures the second step."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.live.on = state.global_step == 1
        self.live.most = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.live.on = False


def measured(one: dict[str, Any], where: str) -> dict[str, Any]:
    """The row of a setting."""
    random.seed(one["number"])
    torch.manual_seed(one["number"])
    live, passed = Live(), Counter()
    like_a_gpu(live)
    trainer = trainer_of(one, where)
    trainer.add_callback(Second(live))
    watch(live, trainer, passed)
    gc.collect()
    for found in gc.get_objects():
        if isinstance(found, torch.Tensor):
            live.see(found, "before")
    live.parameters = [each for each in trainer.model.parameters() if each.requires_grad]
    with Autocast(), live:
        trainer.train()
    phase, there, grads, states = live.peak
    models = [one for one in (trainer.model, getattr(trainer, "ref_model", None)) if one is not None]
    weights = {key_of(each) for model in models for each in (*model.parameters(), *model.buffers())}
    sizes: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for key, (size_B, name) in there.items():
        category = next((word for word, keys in (("parameters", weights), ("gradients", grads), ("optimizer", states))
                         if key in keys), "activations")  # fmt: skip
        sizes[category] += size_B
        if category == "activations":
            made[name] += size_B
    sequences = one["micro"] * one["accumulation"] * (2 if one["trainer"] in ("DPO", "Reward") else 1)
    return one | {
        "versions": {name: version(name) for name in ("torch", "transformers", "peft", "trl")},
        "measured": {
            "peak_B": live.most, "phase": phase, **{f"{name}_B": sizes[name] for name in sorted(sizes)},
            "flops": dict(live.flops), "forwards": sum(passed.values()) / sequences,
            "backwards": passed["learning"] / sequences, "trained": sum(each.numel() for each in live.parameters),
        },
        "largest": made.most_common(16),
    }  # fmt: skip


def main() -> None:
    import peft  # noqa: F401
    import trl.trainer.grpo_trainer
    import trl.trainer.rloo_trainer  # noqa: F401

    torch.set_num_threads(1)
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        with tempfile.TemporaryDirectory() as where:
            one = json.loads(line)
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    row = measured(one, where)
            except Exception as error:  # A setting that a library refuses is a row without numbers.
                if os.environ.get("RAISE"):
                    raise
                row = one | {"refused": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(row), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
