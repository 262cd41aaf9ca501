"""`Run`: what a fine-tuning configuration comes to; `tell` puts it in Lockstep's terms.

    what is trained  format of its weights      stack                 optimizer states
    adapters         fp32 beside frozen ones    hf-trainer, trl       of the adapters
    adapters, TRL    half, above a 4-bit base   trl                   of half weights, fp32 of those named _32bit
    all              fp32, under autocast       hf-trainer-5, trl     beside them
    all              half, without sharding     hf-trainer            of half weights, no master copy
    all              sharded by FSDP            hf-trainer            with an fp32 master, no half copy
    all              DeepSpeed                  deepspeed             with an fp32 master

Sources: transformers 5.24 (trainer.py, integrations/deepspeed.py), accelerate 1.15 (accelerator.py: FSDP upcasts what
it trains where precision is mixed), peft 0.21 (autocast_adapter_dtype); torch's AdamW keeps moments in the format of
the parameters, bitsandbytes' in fp32 or in eight bits.
"""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import NOTHING_BESIDE, Said
from lockstep.price.layout import OPTIMIZERS as KNOWN

OPTIMIZERS = {
    **dict.fromkeys(("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_torch_xla", "adamw_torch_npu_fused",
                     "adamw_apex_fused", "adamw", "adam", "optimi_adamw", "stable_adamw"), "adamw"),
    **dict.fromkeys(("adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"), "adamw-8bit"),
    **dict.fromkeys(("adamw_torch_8bit", "ao_adamw_8bit"), "adamw-8bit-torchao"),
    "adamw_torch_4bit": "adamw-4bit-torchao:block=256", "ao_adamw_4bit": "adamw-4bit-torchao",
    "ao_adamw_fp8": "adamw-fp8-torchao", "paged_adamw": "adamw", "paged_adamw_32bit": "adamw",
    "adafactor": "adafactor", "sgd": "sgd", "lion_32bit": "lion", "lion_pytorch": "lion", "paged_lion_32bit": "lion",
    "lion_8bit": "lion-8bit", "paged_lion_8bit": "lion-8bit", "muon": "muon", "galore_adamw": "galore",
    "galore_adamw_layerwise": "galore", "schedule_free_adamw": "schedule-free-adamw",
    "schedule_free_radam": "schedule-free-adamw",
}  # fmt: skip
"""Names of `optim`; those that begin with paged_ keep states that find no room in host memory."""
FP32_STATES = ("adamw-8bit", "lion-8bit", "adafactor")
"""Optimizers that keep no moments in the format of half-precision parameters; nor do those named _32bit."""
ARGUMENTS = {"r": "rank", "block": "block_size"}
"""Settings of optimizers here, and in `optim_args`."""
KERNELS = {"flash_attention_2": "flash2", "fa2": "flash2", "flash_attn": "flash2", "flash_attention": "flash2",
           "flash_attention_3": "flash3", "fa3": "flash3"}  # fmt: skip
PLAIN_ATTENTION = ("sdpa", "auto", "true", "false")
"""What the stack does by itself."""


@dataclass(slots=True)
class Run:
    """What the readers of fine-tuning software find; `tell` turns it into settings."""

    micro: int
    steps: int
    seq: int | None = None
    dtype: str = "fp32"
    """Of the products."""
    wide: bool = True
    """Weights are loaded, and trained, in fp32."""
    adapters: str = ""
    objective: str = ""
    base: str | None = None
    optimizer: str = "adamw_torch"
    arguments: str = ""
    """Of the optimizer: names and values, as in rank=64,scale=0.25."""
    recompute: bool = False
    offload_inputs: bool = False
    sharded: str = ""
    """By what: fsdp, deepspeed, or nothing."""
    tiled: bool = False
    """TRL's loss computes logits tile by tile."""

    @property
    def pair(self) -> int:
        """Sequences of one sample: a chosen and a rejected answer."""
        return 2 if self.objective.startswith(("dpo", "reward")) else 1


def tell(found: Imported, said: Said, run: Run, optimizer: str) -> Imported:
    """Adds to `found` the settings of a run; `optimizer` is the setting of the file for it. Returns `found`."""
    micro, steps = run.micro * run.pair, run.steps
    if run.adapters and run.base is None:
        # The checkpoint's own quantisation counts where the file says none.
        run.base = found.stored
    found.layout["micro_batch"] = micro
    found.words["batch"] = lambda devices: micro * steps * found.replicas(devices)
    found.set(found.words, seq=run.seq, dtype=run.dtype, base=run.base)
    trained = ",".join(part for part in (run.objective, run.adapters) if part)
    found.set(found.words, train=trained or None)
    if run.recompute:
        found.layout["recompute"] = "full"
    if run.offload_inputs:
        found.words["offload_layers"] = "all"
    _formats(found, run)
    _optimizer(found, said, run, optimizer)
    return found


def _formats(found: Imported, run: Run) -> None:
    """The stack, and how many bytes weights and gradients take."""
    whole = not run.adapters
    if run.sharded == "deepspeed":
        software = "deepspeed"
    elif run.sharded or (whole and not run.wide) or not (whole or run.tiled):
        software = "hf-trainer"
    else:
        software = "trl" if run.tiled else "hf-trainer-5"
    found.words["stack"] = software
    if run.tiled and software != "trl":
        found.words.setdefault("cross_entropy", "tiled")
    if run.sharded == "fsdp" and run.dtype in ("fp32", "tf32"):
        found.words.pop("reduce_bytes", None)
    if whole and not run.wide and not run.sharded:
        found.words["gradient_bytes"] = 2
    if run.wide and not whole and run.sharded != "deepspeed":
        found.words["parameter_bytes"] = 4


def _optimizer(found: Imported, said: Said, run: Run, word: str) -> None:
    if run.optimizer not in OPTIMIZERS:
        said.leave(word, f"the states of {run.optimizer}; those of AdamW are taken")
    name, _, setting = OPTIMIZERS.get(run.optimizer, "adamw").partition(":")
    given = dict(one.partition("=")[::2] for one in run.arguments.replace(" ", "").split(","))
    own = KNOWN[name].setting
    if number := given.get(ARGUMENTS.get(own, "")):
        setting = f"{own}={number}"
    if run.optimizer.startswith("paged_"):
        found.layout.setdefault("offload", "paged")
    keeps_fp32 = run.optimizer.endswith("_32bit")
    if not run.adapters and not run.wide and not run.sharded:
        name += "-no-master" if name in FP32_STATES or keeps_fp32 else "-bf16"
    elif found.words["stack"] == "trl" and run.base is not None and keeps_fp32:
        name += "-no-master"
    found.words.setdefault("optimizer", f"{name}:{setting}" if setting else name)


def without_vllm(said: Said) -> None:
    """Notes that the settings of vLLM have no effect where it does not run."""
    if not said.values.get("use_vllm"):
        for word in said.values:
            if word.startswith("vllm_") or word == "sleep_level":
                said.noted[word] = ("harmless", NOTHING_BESIDE)


def attention(found: Imported, said: Said, word: str) -> None:
    """The attention kernel that a setting names."""
    name = str(said[word]).lower().rpartition("/")[2].replace("-", "_").replace("flash_attn2", "flash_attention_2")
    name = name.replace("flash_attn3", "flash_attention_3").removeprefix("vllm_")
    if name in KERNELS:
        found.words["attention_kernel"] = KERNELS[name]
    elif name in ("eager", "disabled"):
        found.words["flash"] = False
    elif name not in PLAIN_ATTENTION:
        said.leave(word, f"attention by {said[word]}; a fused kernel is taken")


def quantised(said: Said, kind: str, nested: bool, word: str, where: str) -> str | None:
    """The base format of four bits of a kind, with or without double quantisation."""
    if kind != "nf4":
        said.leave(where if where in said else word, "4-bit floats; NormalFloat of the same size is taken")
    return "nf4" if nested else "nf4-single"
