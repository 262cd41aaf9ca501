"""Measures real fine-tuning steps on the CPU: python tools/real_steps/measure.py settings.jsonl > rows.jsonl

Environment: python -m venv E; E/bin/pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 trl==1.16.0 (CPU wheels).
Each setting trains two steps in a process of its own through Trainer or a trainer of TRL; of the second, every storage
that operators make and free is tracked (temporaries inside one operator are not seen). What a CPU does otherwise than a
GPU is made alike (`like_a_gpu`): multi-tensor updates; the formats of CUDA's autocast; TRL's loss folding each tile in
one kernel, over the tokens that count; attention whose values are narrower than its keys in one kernel. Answers are not
generated: random ones come in their place.
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
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

FUSED = "_scaled_dot_product_flash_attention_for_cpu"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
CLASSES = {"Trainer": "Trainer", **{name: f"{name}Trainer" for name in ("SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO")}}


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


class Autocast(torch.overrides.TorchFunctionMode):
    """CUDA's autocast runs these in fp32; the CPU's does not (PyTorch, aten/src/ATen/autocast_mode.h)."""

    WIDE = {torch.Tensor.pow, torch.pow, torch.rsqrt, torch.Tensor.rsqrt, torch.exp, torch.Tensor.exp, torch.log,
            torch.layer_norm, torch.nn.functional.layer_norm, torch.nn.functional.softplus,
            torch.Tensor.norm, torch.norm}  # fmt: skip

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.WIDE and torch.is_autocast_enabled("cpu"):
            args = [one.float() if isinstance(one, torch.Tensor) and one.dtype == torch.bfloat16 else one for one in args]
        return func(*args, **(kwargs or {}))


def like_a_gpu(live: Live) -> None:
    """Makes the CPU's libraries hold what they would hold on a GPU."""
    from torch.optim import adam, sgd

    for module in (adam, sgd):
        module._default_to_fused_or_foreach = lambda *args, **kwargs: (False, True)
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    utils._use_triton = lambda device: True

    def unseen(of: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return of(*args, **kwargs)

        return run

    def addmm(acc: Any, a: Any, b: Any) -> None:
        live.flops["addmm"] += 2 * a.shape[0] * a.shape[1] * b.shape[1] * live.on
        with _disable_current_modes():
            acc.addmm_(a.float(), b.float())

    for name in ("_forward_tile", "_backward_tile"):
        setattr(chunked_logprob, name, unseen(getattr(chunked_logprob, name)))
    chunked_logprob._addmm_fp32 = addmm
    plain = torch.nn.functional.scaled_dot_product_attention

    class Fused(torch.autograd.Function):
        """Attention that keeps what it reads, its output and a log-sum-exp; scores are its own affair."""

        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any, scale: Any) -> Any:
            ctx.scale, out = scale, query.new_empty(*query.shape[:-1], value.shape[-1])
            ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
            with _disable_current_modes():
                out.copy_(plain(query, key, value, is_causal=True, scale=scale))
            live.flops["attention"] += live.on * sdpa_flop_count(query.shape, key.shape, value.shape)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            saved = ctx.saved_tensors[:3]
            made = [torch.empty_like(one) for one in saved]
            with _disable_current_modes(), torch.enable_grad():
                inputs = [one.detach().requires_grad_() for one in saved]
                found = torch.autograd.grad(plain(*inputs, is_causal=True, scale=ctx.scale), inputs, grad)
                for one, other in zip(made, found, strict=True):
                    one.copy_(other)
            shapes = grad.shape, *(one.shape for one in saved)
            live.flops["attention backward"] += live.on * sdpa_backward_flop_count(*shapes)
            return *made, None

    def attention(query: Any, key: Any, value: Any, *args: Any, **words: Any) -> Any:
        if value.shape[-1] == key.shape[-1] or words.get("attn_mask") is not None:
            return plain(query, key, value, *args, **words)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (one.to(torch.bfloat16) for one in (query, key, value))
        return Fused.apply(query, key, value, words.get("scale"))

    torch.nn.functional.scaled_dot_product_attention = attention
    dropout = torch.nn.functional.dropout

    def masked(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(x, p, True)[0] if p and training else dropout(x, p, training, inplace)

    torch.nn.functional.dropout = masked


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
    made = getattr(trl, CLASSES[kind])(
        model, args=getattr(trl, f"{kind}Config")(**words), train_dataset=rows, processing_class=tokenizer(config.vocab_size),
        peft_config=adapters, **more,
    )  # fmt: skip
    if more:
        def answers(prompts: Any, *_: Any) -> Any:
            ids = [[random.randrange(3, config.vocab_size) for _ in range(one["seq"] - 1)] for _ in prompts]
            return (ids, None) if kind == "GRPO" else ids

        made._generate_single_turn = answers
    return made


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
    for model in {id(one): one for one in (trainer.model, getattr(trainer, "ref_model", None)) if one}.values():
        table = model.get_input_embeddings()

        def count(module: Any, args: Any) -> None:
            if live.on:
                passed["learning" if torch.is_grad_enabled() and module is own else "bare"] += args[0].shape[0]

        own = trainer.model.get_input_embeddings()
        table.register_forward_pre_hook(count)


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
        "versions": {each.__name__: each.__version__ for each in (torch, transformers, __import__("peft"), __import__("trl"))},
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
