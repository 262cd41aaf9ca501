"""`Recipe`: what is trained with, apart from where: sequence length, batch, number formats, optimizer, kernels."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, field, fields, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.brief import Brief
from lockstep.base.types.plain import Json, plain
from lockstep.base.types.saved import FP32_B
from lockstep.describe.stacks import ATTENTION_KERNELS, DEFAULT, OPTIONS, Habits, Stack, stack, stacks, ways
from lockstep.describe.workload import MODULES, PLAIN, Adapters, Objective, Training, Transformer, read_training
from lockstep.price.layout.formats import (
    ACTIVATION_B,
    ADAPTER_B,
    BASE_B,
    BITSANDBYTES,
    NARROW_B,
    NOT_TRAINED,
    ElementBytes,
)
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.losses import usual_loss
from lockstep.price.layout.optimizers import Optimizer, beside_half, optimizer
from lockstep.simulate.parallel.context import KINDS
from lockstep.simulate.parallel.data.coordinator import read_limits
from lockstep.simulate.parallel.data.sharing import SOFTWARE, SYNCS
from lockstep.simulate.parallel.expert.load import routing_load
from lockstep.simulate.parallel.pipeline.vocabulary import BARRIERS

TP_OVERLAPS = ("none", "gradients", "all", "async")
EP_OVERLAPS = ("none", "cells", "shared", "passes")
CUDA_GRAPHS, EXCHANGES = ("none", "attention", "step"), ("copy", "node")
SCALINGS = ("delayed", "current", "rows")
MFU_CONVENTIONS = ("full", "causal", "6n")


@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe(Brief):
    """How the model is trained, whatever the layout."""

    seq: int
    """Tokens per sequence."""
    batch: int
    """Sequences per optimizer step over all replicas."""
    sample_tokens: int | None = None
    """Length of packed samples that do not attend to one another; None means one sample per sequence."""
    dtype: str = "bf16"
    """Number format of the matrix products, a key of Device.peak_flops."""
    stack: str | Stack = DEFAULT
    """Training software by name, a user's own, or one with other `Options`: its attention kernel and host times."""
    attention_kernel: str | None = None
    """Fused attention kernel; None means the first that the software prefers and the device has been measured with."""
    mfu_convention: str = "full"
    """FLOPs that utilisation counts: full (attention against all keys), causal (what a causal mask leaves) or 6n (six
    per parameter that a token uses)."""
    optimizer: str = "adamw"
    train: str = "full"
    """What is trained: full, all parameters; or lora:r=16,targets=all-linear, adapters beside frozen ones; before them
    dpo, grpo or ppo with their settings (`describe/workload/objective.py`)."""
    base: str | None = None
    """Format in which frozen matrices are stored, a key of BASE_B; None means as other parameters."""
    parameter_B: float = 2.0
    """Bytes of a working parameter."""
    gradient_B: float = 4.0
    """Bytes of an accumulated gradient: 4 in Megatron (fp32 main gradients), 2 in plain bf16 FSDP or DeepSpeed."""
    reduce_B: float | None = None
    """Bytes per gradient on the wire; None means as accumulated."""
    flash_attention: bool = True
    """Attention in one kernel that keeps no sequence x sequence matrix; False keeps scores and dropout mask."""
    dropout: bool = False
    """Dropout on attention and residuals: masks cost memory and traffic (2019 to 2022 models)."""
    update_in_backward: bool = False
    """Every layer is updated as soon as its gradients are there, which are then freed (LOMO, arXiv 2306.09782): one
    micro-batch per step, and no clipping by the norm of all gradients."""
    scaling: str = "delayed"
    """Scales of fp8: delayed, of steps before; current, of the tensor at hand; or rows, one for each of its rows."""
    overlap_dp: bool = True
    """Data-parallel traffic overlaps with the backward pass (and FSDP's gathers with both passes)."""
    sharding: str = "any"
    """Whose traffic of sharded states is priced: any (ZeRO as most software does it), megatron, fsdp2 or deepspeed."""
    gradient_sync: str | None = None
    """When sharded gradients are reduced: after every micro-batch, or once per step; None means as that software."""
    reshard: bool = True
    """At zero 3, parameters are given up between a forward and a backward pass and gathered again."""
    local_steps: int = 1
    """Steps that groups of ranks train apart before they agree (DiLoCo): shard groups, or single ranks at zero 0."""
    overlap_tp: str = "gradients"
    """Tensor-parallel traffic overlapped with products: none; gradients, where the reduction of an input's gradient
    overlaps the product for the weight's (Megatron-LM since late 2021; arXiv 2205.05198 section 4.2.2); all, where
    products are cut in pieces that communicate while others compute (Transformer Engine's userbuffers); or async, where
    each collective overlaps with its own product alone (PyTorch's asynchronous tensor parallelism)."""
    cp_kind: str = "ring"
    """How context-parallel ranks share attention: ring, gather (keys and values of all, as in Llama 3), all-to-all (by
    heads, as in DeepSpeed-Ulysses) or mixed (all-to-all among neighbours, a ring across)."""
    overlap_ep: str = "cells"
    """The expert exchange overlapped with compute: none; cells, during the other pass where the schedule runs a forward
    and a backward pass as one cell (dualpipe, dualpipe-v); shared, during the same layer's shared experts; or passes,
    during another micro-batch's (Megatron Core's --moe-shared-expert-overlap, --overlap-moe-expert-parallel-comm)."""
    overlap_device_frac: float | None = None
    """Share of the device, arithmetic and memory bandwidth alike, that traffic takes from the kernels beside it. None:
    of the experts' exchange 20 of 132 multiprocessors, as DeepSeek-V3 gave it (arXiv 2412.19437, section 3.2.2), of
    other collectives what the device's curve says (`traffic_device_frac`). Messages between stages take none."""
    exchange: str | None = None
    """How tokens travel to their experts: copy, each of the k copies by itself; node, once to each node and device with
    experts of theirs and copied there (DeepEP); None: node where the model limits routing to groups, else copy."""
    routing: str = "balanced"
    """How evenly tokens choose experts: balanced, every expert as many, which forced balancing makes true (forced);
    natural, as measured loads (`routing.py`), or natural:C, with popularities that differ by C times their mean;
    skew:S, with popularities of a Zipf law of exponent S."""
    dispatch_B: float | None = None
    """Bytes per element of tokens sent to experts, and of gradients sent there; None means as activations."""
    recompute_modules: tuple[str, ...] = ("core_attn",)
    """What selective recomputation computes again: core_attn, layernorm, mla_up_proj, mlp, moe, shared_experts, moe_act
    (Megatron Core's words, see `describe/workload/piece.py`); a module that the model does not have changes nothing."""
    recompute_layers: int = 0
    """Layers of every stage, or chunk, that full recomputation runs again, the others keeping all (Megatron-LM's method
    block); 0 for all of them."""
    cached_B: float | None = None
    """Bytes per element in which linear layers, and activation functions of experts, keep their inputs for the backward
    pass: 1 + 4/128 in fp8 with a scale per 128 elements (DeepSeek-V3, section 3.3.3); None means as activations."""
    offload_layers: int | str = 0
    """Layers of every stage whose kept activations wait in host memory for their backward pass, the first ones; all."""
    cached_attention_B: float | None = None
    """The same for the attention's output, which its own backward pass reads too: 1.5 + 4/128 in DeepSeek's E5M6."""
    vocab_parallel: str = "none"
    """Embedding and head spread over pipeline stages: none, interlaced (all stages wait), vocab-1 or vocab-2 (two
    barriers or one, beside other passes; see `simulate/parallel/pipeline/vocabulary.py`)."""
    overlap_pp: bool = False
    """Pipeline sends overlap with compute."""
    cuda_graphs: str = "none"
    """What the host replays from CUDA graphs instead of launching it: none; attention, of a layer all but its routed
    experts (Megatron Core's scopes attn, moe_router and moe_preprocess); or step, everything."""
    jitter: str | None = None
    """Law of the factor by which the kernels of a pass differ from rank to rank and from pass to pass, in the words of
    `stragglers`; None means not at all."""
    rank_jitter: str | None = None
    """Law of the factor by which all kernels of a rank differ from those of others; None means as on the cluster."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What was chosen on the user's behalf, in words; part of the assumptions."""

    @classmethod
    def by(cls, name: str | Stack, **options: Any) -> Recipe:
        """The recipe of the stack called `name`: its switches, and `options` as in `having`, which go before."""
        switches = {word: value for word, value in stack(name).switches.items() if word not in OPTIONS}
        return cls(**_fields({**switches, "stack": name, **options}))

    def having(self, **options: Any) -> Recipe:
        """This recipe with other fields, or software that has them otherwise (`Stack.having`). Raises BadInput."""
        return replace(self, **_fields({"stack": self.stack, **options}))

    def __post_init__(self) -> None:
        for name in ("seq", "batch", "local_steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                flag = f"--{name.replace('_', '-')}"
                raise BadInput(f"{name} must be a whole number of at least 1, got {value!r}", flag)
        if self.sample_tokens is not None and not (isinstance(self.sample_tokens, int) and self.sample_tokens > 0):
            raise BadInput(f"sample_tokens must be at least 1, got {self.sample_tokens!r}", "--sample-tokens")
        for name, word in (("offload_layers", "all"), ("recompute_layers", None)):
            given, other = getattr(self, name), f", or {word}" if word else ""
            if given != word and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
                raise BadInput(f"{name} must be a count of layers{other}, got {given!r}", f"--{name.replace('_', '-')}")
        if self.dtype in NOT_TRAINED:
            raise BadInput(f"{self.dtype} is not a training format; {NOT_TRAINED[self.dtype]}", "--dtype")
        for what, said, words, flag in (
            ("overlap of tensor-parallel traffic", self.overlap_tp, TP_OVERLAPS, "--overlap-tp"),
            ("overlap of the experts' exchange", self.overlap_ep, EP_OVERLAPS, "--overlap-ep"),
            ("way of the experts' exchange", self.exchange, EXCHANGES, "--exchange"),
            ("kind of context parallelism", self.cp_kind, KINDS, "--cp-kind"),
            ("vocabulary parallelism", self.vocab_parallel, tuple(BARRIERS), "--vocab-parallel"),
            ("software that shards", self.sharding, SOFTWARE, "--sharding"),
            ("time to reduce gradients", self.gradient_sync, SYNCS, "--gradient-sync"),
            ("attention kernel", self.attention_kernel, ATTENTION_KERNELS, "--attention-kernel"),
            ("MFU convention", self.mfu_convention, MFU_CONVENTIONS, "--mfu-convention"),
            ("format of frozen matrices", self.base, tuple(BASE_B), "--base"),
            ("cross entropy", self.software.options.cross_entropy, tuple(ways()["loss"]), "--cross-entropy"),
            ("scaling of fp8", self.scaling, SCALINGS, "--fp8-scaling"),
            ("what CUDA graphs hold", self.cuda_graphs, CUDA_GRAPHS, "--cuda-graphs"),
        ):
            if said is not None and said not in words:
                raise UnknownName(what, str(said), words, flag)
        optimizer(self.optimizer)
        routing_load(self.routing)
        read_limits(self.software.options.gather_limits)
        if self.overlap_device_frac is not None and not 0 <= self.overlap_device_frac < 1:
            raise BadInput(f"overlap_device_frac must be at least 0 and below 1, got {self.overlap_device_frac}")
        for module in self.recompute_modules:
            if module not in MODULES:
                raise UnknownName("module to recompute", module, MODULES, "--recompute-modules")
        adapters, objective = self.adapters, self.objective
        if self.base is not None and adapters is None:
            raise BadInput(f"--base {self.base} is for frozen matrices; give --train lora:r=16 too", "--base")
        if adapters is not None and self.local_steps > 1:
            raise BadInput("adapters are not priced with --local-steps", "--local-steps")
        if adapters is not None:
            self._check_method(adapters)
        if self.update_in_backward and self.local_steps > 1:
            raise BadInput("--update-in-backward is not priced with --local-steps", "--update-in-backward")
        if objective.repeats and self.vocab_parallel != "none":
            raise BadInput(f"{objective.name} is not priced with --vocab-parallel", "--vocab-parallel")
        if self.batch % objective.pair:
            raise BadInput(f"{objective.name} trains on pairs: the batch of {self.batch} must be even", "--batch")

    def _check_method(self, adapters: Adapters) -> None:
        """Raises BadInput for adapters that are not priced so."""
        title = f"adapters on experts.{adapters.parameters[0]}" if adapters.parameters else adapters.method.title
        if adapters.method.plain and not adapters.parameters:
            return
        if self.habits.half_adapters or "again" in self.software.ways["adapters"].numbers:
            own = f"{title} is priced as PEFT runs it; {self.software.name} has adapters of its own"
            raise BadInput(f"{own}: give --stack trl or hf-trainer", "--train")
        if self.base is not None and not adapters.above_narrow:
            raise BadInput(f"{title} is not priced beside --base {self.base}; leave one of both out", "--base")
        if adapters.method.tokens and self.sample_tokens is not None:
            raise BadInput(
                "prompt tuning is not priced with --sample-tokens: peft drops the positions of packed samples",
                "--train",
            )

    @property
    def passed_seq(self) -> int:
        """Tokens of a sequence as it passes the model: those of prompt tuning, before it, too."""
        return self.seq + (0 if self.adapters is None else self.adapters.method.tokens)

    @cached_property
    def software(self) -> Stack:
        """The training software."""
        return stack(self.stack)

    @cached_property
    def habits(self) -> Habits:
        """What the training software does, whatever is asked for; products in fp32 need no autocast."""
        found = self.software.habits
        return replace(found, autocast=False) if found.autocast and self.element_B >= FP32_B else found

    @property
    def fused_elementwise(self) -> bool:
        """Whether neighbouring elementwise operations run as one kernel."""
        return self.software.options.fused_elementwise

    @property
    def options(self) -> Json:
        """All options of the run by name, those of its software among them."""
        return {one.name: getattr(part, one.name) for part in (self, self.software.options) for one in fields(part)}

    @property
    def attended_tokens(self) -> int:
        """Length of a sequence as attention sees it."""
        return self.passed_seq if self.sample_tokens is None else min(self.seq, self.sample_tokens)

    @cached_property
    def training(self) -> Training:
        """What is trained, and how."""
        return read_training(self.train, usual=tuple(self.software.train.items()))

    @cached_property
    def adapters(self) -> Adapters | None:
        """What is trained instead of the model's own weights; None where these are."""
        return self.training.adapters

    def adapters_on(self, model: Transformer) -> Adapters | None:
        """The adapters as the software puts them on a model: PEFT, which keeps them in fp32, follows its class."""
        found = self.adapters
        if found is None or self.habits.half_adapters:
            return found
        return found.of(model.model_type, 4 if self.software.ways["permutation"].name == "transformers-4" else 5)

    def training_of(self, model: Transformer) -> Training:
        """What is trained of a model, and how."""
        return replace(self.training, adapters=self.adapters_on(model))

    @cached_property
    def objective(self) -> Objective:
        """What a step does besides passing its sequences forward and back."""
        return self.training.objective

    def passes(self, grid: LayoutGrid) -> tuple[Number, int]:
        """(forward, backward) passes of every sequence of a step, through whichever model."""
        return self.objective.passes(self.batch, grid.microbatches(self.batch))

    @property
    def restores(self) -> bool:
        """Whether frozen matrices are brought to half precision for their products, which run in another format."""
        return self.base not in (None, self.dtype)

    @property
    def base_B(self) -> float:
        """Bytes per element of a matrix of a block, as it is stored."""
        return self.parameter_B if self.base is None else BASE_B[self.base]

    @property
    def casts_adapters(self) -> bool:
        """Whether adapters that PEFT makes in fp32 are cast to half precision."""
        return self.habits.casts_adapters and self.adapters is not None and self.base in BITSANDBYTES

    @property
    def of_adapters(self) -> ElementBytes:
        """Bytes of an adapter's element: as of other parameters, or without a master copy in PEFT's fp32 or cast."""
        if self.habits.half_adapters:
            return ElementBytes(self.working_B, self.gradient_B, self.wire_B, self.states.master_B)
        each_B = ADAPTER_B / 2 if self.casts_adapters else ADAPTER_B
        return ElementBytes(each_B, each_B, each_B, 0.0)

    def offloaded_of(self, layers: int) -> int:
        """Of so many layers of a stage, those whose kept activations wait in host memory."""
        return layers if self.offload_layers == "all" else min(layers, int(self.offload_layers))

    def recomputed_frac(self, layers: Number, chunks: Number) -> Number:
        """Of so many layers in so many chunks of a stage, the share that full recomputation runs again."""
        return np.minimum(1.0, self.recompute_layers * chunks / layers) if self.recompute_layers else 1.0

    @property
    def states(self) -> Optimizer:
        """The optimizer's bytes per parameter."""
        return beside_half(self.optimizer) if self.casts_adapters else optimizer(self.optimizer)

    @property
    def element_B(self) -> float:
        """Bytes of an activation element; half precision also where products run in a narrower format."""
        return ACTIVATION_B.get(self.dtype, 2.0)

    @property
    def loss_kind(self) -> str:
        """How the loss treats the logits: a way of the slot `loss`."""
        return self.software.options.cross_entropy or usual_loss(self.fused_elementwise, self.software.kernels)

    @property
    def input_B(self) -> float | None:
        """Bytes per element that linear layers keep of their inputs; None means as activations."""
        narrow = self.habits.narrow_inputs and self.dtype in NARROW_B
        return NARROW_B[self.dtype] if self.cached_B is None and narrow else self.cached_B

    @property
    def narrow_traffic(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Shares of an element's bytes in which tensor-parallel ranks gather, and reduce, forward and backward."""
        narrow = NARROW_B.get(self.dtype, self.element_B) / self.element_B
        gathered = narrow if self.habits.narrow_gathers and self.scaling != "rows" else 1.0
        return (gathered, narrow if self.habits.narrow_reductions and self.dtype == "fp8" else 1.0), (gathered, 1.0)

    @property
    def attention_output_B(self) -> float | None:
        """The same of the attention's output, which its own backward pass reads in half precision besides."""
        if self.cached_attention_B is None and self.habits.narrow_inputs and self.dtype in NARROW_B:
            return self.element_B + NARROW_B[self.dtype]
        return self.cached_attention_B

    def spreads(self, stages: int) -> bool:
        """Whether embedding and head are spread over so many pipeline stages."""
        return self.vocab_parallel != "none" and stages > 1

    @property
    def wire_B(self) -> float:
        """Bytes per gradient element when gradients are reduced."""
        return self.gradient_B if self.reduce_B is None else self.reduce_B

    def rank_law(self, spread_frac: float) -> str | None:
        """Law of the factor by which ranks differ, on devices whose speeds have this standard deviation."""
        if self.rank_jitter is not None or not spread_frac:
            return self.rank_jitter
        return f"normal:mean=1,cv={spread_frac:g}"

    def once_per_node(self, limited: bool) -> bool:
        """Whether a token crosses to each node once, in a model that limits its routing to groups or does not."""
        return limited if self.exchange is None else self.exchange == "node"

    @property
    def fine_tunes(self) -> bool:
        """Whether a model that was trained before is trained on: with adapters, a quantised base or an objective."""
        return self.adapters is not None or self.base is not None or self.objective != PLAIN

    @property
    def exchange_device_frac(self) -> float:
        """Share of the device that the experts' exchange takes from kernels beside it."""
        return 20 / 132 if self.overlap_device_frac is None else self.overlap_device_frac

    @property
    def dispatched_B(self) -> float:
        """Bytes per element of tokens on their way to experts."""
        return self.element_B if self.dispatch_B is None else self.dispatch_B

    @property
    def batch_tokens(self) -> int:
        """Tokens per optimizer step."""
        return self.batch * self.seq

    @property
    def passed_tokens(self) -> int:
        """The same as they pass the model."""
        return self.batch * self.passed_seq

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of a matrix parameter, its gradient and states when nothing is sharded: 2 + 2 + 12 with Adam (ZeRO
        paper), 18 with gradients in fp32 (Megatron's), or 20 with one in half precision beside them.
        """
        return self.working_B + self.gradient_B + self.states.matrix_B

    @property
    def working_B(self) -> float:
        """Bytes of a parameter beside its master copy; 0 where software casts the master when it is needed."""
        return self.parameter_B if self.habits.working_copy or not self.states.master_B else 0.0

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {**plain(self.options), "stack": self.software.name}


def _fields(options: Json) -> Json:
    """Fields of a recipe with these options; software that is as in the catalog stands there by its name."""
    own = {one.name: options.pop(one.name) for one in fields(Recipe) if one.name in options}
    software = stack(own["stack"]).having(**options)
    return own | {"stack": software.name if software == stacks().get(software.name) else software}
