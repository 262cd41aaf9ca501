"""Options of the recipe, as on the command line, and the `Recipe` that they describe."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_count, parse_frac, parse_integer
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import Quantity, Size
from lockstep.show.verbs.words.stack_file import STACK, WAY, read_stack

if TYPE_CHECKING:
    from lockstep.describe.hardware import Cluster
    from lockstep.describe.workload import Model
    from lockstep.price.layout import Recipe

MOST_B = 8.0
"""Bytes of the widest number, fp64."""
MOST_STEPS = 10**9


@dataclass(frozen=True, slots=True)
class Field:
    """The field of `Recipe` or of `Options` that a word sets, and how it is read; as it is without."""

    name: str
    read: Callable[[Any, str], object] = lambda value, where: value


def _gradient_B(value: Quantity, where: str) -> float:
    """Bytes per accumulated gradient."""
    size_B = parse_count(value, where)
    if size_B not in (2.0, 4.0):
        raise BadInput(f"gradients are kept in 4 bytes (Megatron) or 2, got {value}", where)
    return size_B


def _number_B(value: Quantity, where: str) -> float:
    """Bytes of one number, its share of a scale included."""
    size_B = parse_count(value, where)
    if not 0 < size_B <= MOST_B:
        raise BadInput(f"must be above 0 and at most {MOST_B:g} bytes per number, got {value}", where)
    return size_B


def _device_frac(value: Quantity, where: str) -> float:
    frac = parse_frac(value, where)
    if not frac < 1:
        raise BadInput(f"must be below 1: some of the device must keep computing, got {frac:g}", where)
    return frac


def _factor_law(value: str, where: str) -> str:
    """A law of factors, as text."""
    from lockstep.simulate.parallel.waiting import factor_law

    factor_law(value, where)
    return value


def _trained(value: str, where: str) -> str:
    """What is trained, checked."""
    from lockstep.describe.workload import read_training

    read_training(value, where)
    return value


def _steps(value: Quantity, where: str) -> int:
    steps = parse_integer(value, where, minimum=1)
    if steps > MOST_STEPS:
        raise BadInput(f"must be at most {MOST_STEPS:,}, got {steps:,}", where)
    return steps


def _sample(value: Quantity, where: str) -> int:
    return parse_integer(value, where, minimum=1)


def _layers(value: Quantity, where: str) -> int | str:
    return "all" if value == "all" else parse_integer(value, where, minimum=0)


def _whole_layers(value: Quantity, where: str) -> int:
    return parse_integer(value, where, minimum=1)


def _modules(value: str, where: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(","))


class RecipeWords(TypedDict, total=False):
    """How a model is trained, whatever the layout."""

    dtype: Annotated[
        str | None, Option("T", "Number format of matrix products: bf16, fp16, fp8, mxfp8 or nvfp4.", default="bf16")
    ]
    fp8_scaling: Annotated[
        str | None,
        Option(
            "W",
            "Scales of fp8: delayed (of earlier steps), current (of the tensor at hand) or rows (one for each row, as "
            "in torchao's rowwise recipe).",
            default="as the software",
        ),
        Field("scaling"),
    ]
    stack: Annotated[str | Path | Mapping[str, Any] | None, STACK]
    way: Annotated[str | Mapping[str, str] | None, WAY]
    attention_kernel: Annotated[
        str | None,
        Option(
            "W",
            "Fused attention kernel: cudnn, flash3, flash2, flash1, triton or splash.",
            default="the one that the software prefers of those measured on the device",
        ),
        Field("attention_kernel"),
    ]
    mfu_convention: Annotated[
        str | None,
        Option(
            "W", "What MFU counts: full (attention against all keys), causal (half of it) or 6n (none).", default="full"
        ),
        Field("mfu_convention"),
    ]
    sample_tokens: Annotated[
        Quantity | None,
        Option(
            "N",
            "Mean length of the samples packed into each sequence, which do not attend to one another; without it a "
            "sample fills its sequence.",
        ),
        Field("sample_tokens", _sample),
    ]
    train: Annotated[
        str | None,
        Option(
            "WHAT",
            "What is trained: full, or adapters: lora:r=16,targets=all-linear (or attention, mlp, q_proj+v_proj), "
            "with dropout=0.05 if their inputs have one, and save=lm_head+embed_tokens trained whole; dora=yes, "
            "rslora=yes, init=pissa, parameters=gate_up_proj+down_proj of experts; or vera:r=256, oft:block=32, ia3, "
            "prompt:tokens=20, as PEFT runs them. Before it, how: "
            "dpo, kto, reward, rloo, ppo or grpo:beta=0.04,iterations=2, as in dpo,lora:r=16; generation=60% of the "
            "step, reference=none leaves the frozen model out, reference=apart and reward=apart leave models to other "
            "devices.",
            default="full",
        ),
        Field("train", _trained),
    ]
    base: Annotated[
        str | None,
        Option("W", "Of frozen matrices: nf4 (QLoRA), nf4-single, int8, gptq, fp8, mxfp8, nvfp4.", default="as others"),
        Field("base"),
    ]
    optimizer: Annotated[
        str | None,
        Option(
            "O", "Optimizer: adamw, adamw-8bit, adafactor, sgd, lion, muon ...", names="optimizers", default="adamw"
        ),
        Field("optimizer"),
    ]
    parameter_bytes: Annotated[
        Size | None, Option("B", "Bytes per working parameter.", default="2"), Field("parameter_B", _number_B)
    ]
    gradient_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per accumulated gradient: 4 (Megatron) or 2.", default="4"),
        Field("gradient_B", _gradient_B),
    ]
    reduce_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per gradient on the wire.", default="--gradient-bytes"),
        Field("reduce_B", _number_B),
    ]
    flash: Annotated[
        bool | None, Switch("Use fused attention (scores are not stored).", True), Field("flash_attention")
    ]
    dropout: Annotated[
        bool | None,
        Switch("Store dropout masks of attention and residuals (typical before 2022).", False),
        Field("dropout"),
    ]
    fused_elementwise: Annotated[
        bool | None, Switch("Run neighbouring elementwise operations as one kernel.", True), Field("fused_elementwise")
    ]
    cross_entropy: Annotated[
        str | None,
        Option(
            "W",
            "Cross entropy by kernel: returned (16 bytes per logit), eager (12; 16 sharded by DTensor), copied (10, "
            "BigScience's), upcast (8), in-place (6, Megatron's), fused (6), half (4), compiled (4), pieces (2.25, "
            "torchtune), or with the head chunked (Liger; a few tokens at a time) or tiled (TRL; and a few columns).",
            default="as the software has it",
        ),
        Field("cross_entropy"),
    ]
    fused_accumulation: Annotated[
        bool | None,
        Switch("Accumulate weight gradients inside the products that compute them.", True),
        Field("fused_accumulation"),
    ]
    sharding: Annotated[
        str | None,
        Option(
            "W",
            "Software whose traffic of sharded states is priced: any, megatron, fsdp2 or deepspeed.",
            default="any, what most do",
        ),
        Field("sharding"),
    ]
    gradient_sync: Annotated[
        str | None,
        Option(
            "W",
            "When ZeRO-2 and 3 reduce gradients: micro-batch or step.",
            default="micro-batch; step with pipeline stages",
        ),
        Field("gradient_sync"),
    ]
    update_in_backward: Annotated[
        bool | None,
        Switch(
            "Update each layer as soon as its gradients are there and free them (LOMO, torchtune's optimizer-in-"
            "backward): one micro-batch per step, no gradient clipping."
        ),
        Field("update_in_backward"),
    ]
    reshard: Annotated[
        bool | None,
        Switch("Free gathered parameters between the forward and the backward pass (ZeRO-3).", True),
        Field("reshard"),
    ]
    gather_limits: Annotated[
        str | None,
        Option(
            "W=N,...",
            "Limits of DeepSpeed's ZeRO in elements: reduce_bucket_size, and of stage 3 max_reuse_distance, "
            "max_live_parameters, prefetch_bucket_size, param_persistence_threshold.",
            default="those of DeepSpeed: 5e8, 1e9, 1e9, 5e7, 1e5",
        ),
        Field("gather_limits"),
    ]
    local_steps: Annotated[
        Quantity | None,
        Option(
            "K",
            "Steps that groups of ranks train apart before they average (DiLoCo): --shard groups, or single ranks "
            "without --zero.",
            default="1",
        ),
        Field("local_steps", _steps),
    ]
    overlap: Annotated[bool | None, Switch("Overlap data-parallel traffic with compute.", True), Field("overlap_dp")]
    overlap_tp: Annotated[
        str | None,
        Option(
            "W",
            "Tensor-parallel traffic overlapped with products: none, gradients (Megatron), all (userbuffers) or async "
            "(PyTorch).",
            default="gradients",
        ),
        Field("overlap_tp"),
    ]
    cp_kind: Annotated[
        str | None,
        Option("W", "Context parallelism by ring, gather, all-to-all (Ulysses) or mixed (both).", default="ring"),
        Field("cp_kind"),
    ]
    vocab_parallel: Annotated[
        str | None,
        Option(
            "W",
            "Embedding and head spread over pipeline stages: none, interlaced (all wait), vocab-1 (two barriers) or "
            "vocab-2 (one).",
            default="none",
        ),
        Field("vocab_parallel"),
    ]
    overlap_pp: Annotated[bool | None, Switch("Overlap pipeline sends with compute.", False), Field("overlap_pp")]
    overlap_ep: Annotated[
        str | None,
        Option(
            "W",
            "Expert exchange overlapped with compute: none, cells (of dualpipe), shared (experts) or passes (of "
            "another micro-batch).",
            default="cells",
        ),
        Field("overlap_ep"),
    ]
    cuda_graphs: Annotated[
        str | None,
        Option(
            "W",
            "Replayed from CUDA graphs instead of launched by the host: none, attention (of a layer all but its routed "
            "experts) or step.",
            default="none",
        ),
        Field("cuda_graphs"),
    ]
    overlap_device: Annotated[
        Quantity | None,
        Option(
            "FRAC",
            "Fraction of the device used by traffic beside compute.",
            default="as priced without it: 20 of 132 by the expert exchange, none by others",
        ),
        Field("overlap_device_frac", _device_frac),
    ]
    exchange: Annotated[
        str | None,
        Option(
            "W",
            "Tokens sent to experts: copy (each copy alone) or node (once to each node, copied there).",
            default="as the model: node with routing limited to groups, else copy",
        ),
        Field("exchange"),
    ]
    routing: Annotated[
        str | None,
        Option(
            "W",
            "How tokens choose experts: balanced; forced, the same; natural, as unequally as a measured load; "
            "natural:C, with popularities that differ by C times their mean; or skew:S, by a Zipf law with exponent S.",
            default="balanced",
        ),
        Field("routing"),
    ]
    dispatch_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per element sent to experts; 1.03125 in fp8.", default="as activations"),
        Field("dispatch_B", _number_B),
    ]
    cached_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per element that linear layers keep for the backward pass.", default="as activations"),
        Field("cached_B", _number_B),
    ]
    cached_attention_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per element kept of the attention output.", default="as activations"),
        Field("cached_attention_B", _number_B),
    ]
    offload_layers: Annotated[
        Quantity | None,
        Option(
            "N",
            "Layers of each stage whose kept activations wait in host memory for the backward pass, or all.",
            default="0",
        ),
        Field("offload_layers", _layers),
    ]
    recompute_modules: Annotated[
        str | None,
        Option(
            "W",
            "Modules that --recompute selective runs again: core_attn, layernorm, mla_up_proj, mlp, moe, "
            "shared_experts, moe_act (Megatron), context, out_proj, mlp_act (MaxText), op (torchtitan's selective).",
            default="core_attn",
        ),
        Field("recompute_modules", _modules),
    ]
    recompute_layers: Annotated[
        Quantity | None,
        Option("N", "Layers of each stage, or chunk, that --recompute full runs again.", default="all"),
        Field("recompute_layers", _whole_layers),
    ]
    jitter: Annotated[
        str | None,
        Option(
            "LAW",
            "Law of the factor on the kernels of each pass of each rank: lognormal:mean=1,cv=0.02 ... Ranks wait for "
            "the slowest.",
            default="all alike",
        ),
        Field("jitter", _factor_law),
    ]
    rank_jitter: Annotated[
        str | None,
        Option("LAW", "Law of the factor on all kernels of a rank: normal:mean=1,cv=0.01.", default="the cluster's"),
        Field("rank_jitter", _factor_law),
    ]


def read_recipe(
    machine: "Cluster", words: Mapping[str, Any], model: "Model", *, seq: int, batch: int, notes: tuple[str, ...] = ()
) -> "Recipe":
    """The recipe in words; what is not given is as the software has it. Raises BadInput."""
    from lockstep.decide.planner.software import of_class, usual_stack
    from lockstep.price.layout import Recipe

    given = {name: value for name, value in words.items() if value is not None}
    fields: Json = {
        field.name: field.read(given[name], f"--{name.replace('_', '-')}")
        for name, field in fields_of_words().items()
        if name in given
    }
    named, why = (given["stack"], ()) if "stack" in given else usual_stack(model, machine.device.vendor)
    fields["dtype"], notes = _dtype(machine, given.get("dtype")), (*notes, *why)
    found = Recipe.by(read_stack(named, given.get("way")), seq=seq, batch=batch, notes=notes, **fields)
    return found if "flash" in given else of_class(found, model)


@cache
def fields_of_words() -> dict[str, Field]:
    """Fields of the recipe by the word that sets each; `dtype` is read with the device."""
    kinds = RecipeWords.__annotations__.items()
    return {name: one for name, kind in kinds for one in kind.__metadata__ if isinstance(one, Field)}


def _dtype(machine: "Cluster", dtype: str | None) -> str:
    """The format asked for if the device computes in it; bf16 where there is bf16, else fp16 (V100)."""
    if dtype is None:
        return "bf16" if "bf16" in machine.device.peak_flops else "fp16"
    with located("--dtype"):
        machine.device.peak(dtype)
    return dtype
