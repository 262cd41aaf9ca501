"""What one rank of a job with DTensor holds and moves, against torch's own count: FSDP2 and tensor parallelism over a
process group whose collectives return at once, so that one process is a rank of 32.

Layers, their plan and what selective recomputation keeps of their operations are written for this test from what
torchtitan does (models/llama3, infra/parallelize.py, distributed/activation_checkpoint.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import DENSE, Attention, Mlp, Transformer
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Job, Layout, LayoutGrid, Memory, memory
from lockstep.price.step.network import Network
from lockstep.price.step.stage import stage_pieces
from peak_tracker import peak_tracker
from recipes import recipe_by

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch.testing._internal.distributed.fake_pg", reason="this torch has no fake process group")
pytestmark = pytest.mark.filterwarnings("ignore")

HIDDEN, HEADS, KV_HEADS, HEAD, FFN, SEQ, SEQUENCES, DP = 256, 16, 8, 16, 896, 128, 16, 4
FEW, MORE, LOGITS, NARROW, STEPS = 2, 4, 4008, 256, 2
"""Layers; words with which the loss decides the peak, and with which a layer does; steps that are tracked."""
PER_OPERATION = "op"


def block() -> Any:
    """A layer of Llama in PyTorch's own kernels, with the names that the plan knows."""
    nn, functional = torch.nn, torch.nn.functional

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(HIDDEN))

        def forward(self, x: Any) -> Any:
            wide = x.float()
            return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    class Attended(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            linear = partial(nn.Linear, bias=False)
            self.query, self.out = linear(HIDDEN, HEADS * HEAD), linear(HEADS * HEAD, HIDDEN)
            self.key, self.value = (linear(HIDDEN, KV_HEADS * HEAD) for _ in range(2))

        def forward(self, x: Any) -> Any:
            query, key, value = (
                made(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for made in (self.query, self.key, self.value)
            )
            query, key = 1.0 * query, 1.0 * key  # Rotary embedding makes tensors of their own.
            key, value = (
                one[:, :, None].expand(-1, -1, HEADS // KV_HEADS, -1, -1).reshape(query.shape) for one in (key, value)
            )
            looked = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.out(looked.transpose(1, 2).flatten(2))

    class Gated(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = (nn.Linear(HIDDEN, FFN, bias=False) for _ in range(2))
            self.down = nn.Linear(FFN, HIDDEN, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down(functional.silu(self.gate(x)) * self.up(x))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2, self.attention, self.feed_forward = Norm(), Norm(), Attended(), Gated()

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm_1(x))
            return x + self.feed_forward(self.norm_2(x))

    return Block()


def parallelize(model: Any, mesh: Any) -> None:
    """Splits a model (embedding, layers, norm, head) over tensor-parallel ranks, sequences too."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    rows, whole, last = Shard(1), Replicate(), len(model) - 1
    gathered = PrepareModuleInput(input_layouts=(rows,), desired_input_layouts=(whole,))
    parallelize_module(model, mesh, {
        "0": RowwiseParallel(input_layouts=whole, output_layouts=rows),
        f"{last - 1}": SequenceParallel(),
        f"{last}": ColwiseParallel(input_layouts=rows, output_layouts=Shard(-1), use_local_output=False),
    })  # fmt: skip
    for one in model[1:-2]:
        parallelize_module(one, mesh, {
            "norm_1": SequenceParallel(), "norm_2": SequenceParallel(), "attention": gathered, "feed_forward": gathered,
            **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
            **{f"feed_forward.{name}": ColwiseParallel() for name in ("gate", "up")},
            "attention.out": RowwiseParallel(output_layouts=rows),
            "feed_forward.down": RowwiseParallel(output_layouts=rows),
        })  # fmt: skip


def saved_per_operation() -> Any:
    """Keeps every second product, attention and what reductions give."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    products = dict.fromkeys((False, True), 0)
    aten, collectives = torch.ops.aten, torch.ops._c10d_functional
    kept = aten._scaled_dot_product_flash_attention_for_cpu.default, collectives.reduce_scatter_tensor.default

    def policy(context: Any, function: Any, *_: Any, **__: Any) -> Any:
        saves = function in kept
        if function == aten.mm.default:
            products[context.is_recompute] += 1
            saves = products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def built(layers: int, vocab: int, tp: int, recompute: str) -> Any:
    """The rank's model."""
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    nn = torch.nn
    mesh = torch.distributed.init_device_mesh("cpu", (DP, tp), mesh_dim_names=("dp", "tp"))
    parts = [nn.Embedding(vocab, HIDDEN), *(block() for _ in range(layers))]
    model = nn.Sequential(*parts, nn.LayerNorm(HIDDEN, bias=False), nn.Linear(HIDDEN, vocab, bias=False))
    if tp > 1:
        parallelize(model, mesh["tp"])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    how = {"context_fn": saved_per_operation} if recompute == PER_OPERATION else {}
    for at in range(1, layers + 1):
        if recompute != "none":
            model[at] = checkpoint_wrapper(model[at], preserve_rng_state=False, **how)
        fully_shard(model[at], mesh=mesh["dp"], mp_policy=policy)
    return fully_shard(model, mesh=mesh["dp"], mp_policy=policy)


@contextmanager
def group(tp: int) -> Iterator[None]:
    """A process group of so many ranks, of which this process is the first."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=DP * tp, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def tracked_B(layers: int, vocab: int, tp: int, recompute: str) -> tuple[float, float]:
    """What waits for the backward pass, and the most that tensors hold at once."""
    from torch.distributed.tensor.parallel import loss_parallel

    with group(tp):
        model, tracker = built(layers, vocab, tp, recompute), peak_tracker()
        tracker.track_external(model)
        x = torch.randint(vocab, (SEQUENCES, SEQ))
        for _ in range(STEPS):
            with tracker, loss_parallel():
                logits = model(x)
                waits = tracker.get_tracker_snapshot("current")
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), x.flatten())
                del logits
                loss.backward()
                tracker.reset_mod_stats()
            for parameter in model.parameters():
                parameter.grad = None
    (waiting,), (peak,) = waits.values(), tracker.get_tracker_snapshot("peak").values()
    named = {getattr(name, "name", name): size for name, size in waiting.items()}
    return float(named["ACT"] + named["TEMP"]), float(peak["Total"])


def moved_B(layers: int, tp: int, recompute: str) -> Counter[tuple[str, str]]:
    """Bytes of tensor-parallel collectives, of all ranks together, by pass and kind."""
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.utils._python_dispatch import TorchDispatchMode

    found: Counter[tuple[str, str]] = Counter()
    ops = torch.ops._c10d_functional
    kinds = {
        ops.all_gather_into_tensor.default: ("all-gather", tp),
        ops.reduce_scatter_tensor.default: ("reduce-scatter", 1),
    }

    class Counted(TorchDispatchMode):  # type: ignore[misc, name-defined]
        way = "forward"

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in kinds:
                kind, parts = kinds[function]
                found[self.way, kind] += parts * args[0].numel() * args[0].element_size()
            return function(*args, **(kwargs or {}))

    with group(tp):
        model, x = built(layers, NARROW, tp, recompute), torch.randint(NARROW, (SEQUENCES, SEQ))
        with Counted() as counted, loss_parallel():
            logits = model(x)
            counted.way = "backward"
            torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), x.flatten()).backward()
    return found


def said(layers: int, vocab: int, tp: int, recompute: str) -> tuple[Job, LayoutGrid]:
    """The same as Lockstep has it."""
    attention = Attention(heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD)
    model = Transformer(
        name="llama-like", layers=layers, hidden=HIDDEN, vocab=vocab, attention=attention, mlp=Mlp(ffn=FFN),
        positions="rotary", max_positions=SEQ, norm="rmsnorm",
    )  # fmt: skip
    recipe = recipe_by(
        "torchtitan", seq=SEQ, batch=DP * SEQUENCES, fused_elementwise=False, norm="written",
        norm_weight="written",
        recompute_modules=(PER_OPERATION,),
    )  # fmt: skip
    mode = "selective" if recompute == PER_OPERATION else recompute
    layout = Layout(dp=DP, tp=tp, micro_batch=SEQUENCES, zero=3, sequence_parallel=tp > 1, recompute=mode)
    return Job(model, recipe, DP * tp), layout.grid()


def priced(layers: int, vocab: int, tp: int, recompute: str) -> Memory:
    """Memory of the rank."""
    job, grid = said(layers, vocab, tp, recompute)
    return memory(job, cluster("dgx-h100", gpus=job.devices), grid)


@pytest.mark.parametrize("tp", [1, 8])
@pytest.mark.parametrize(("recompute", "within"), [("none", 0.03), (PER_OPERATION, 0.005)])
def test_kept_activations_of_a_layer_match_torch(tp: int, recompute: str, within: float) -> None:
    few, more = (tracked_B(layers, LOGITS, tp, recompute)[0] for layers in (FEW, MORE))
    less, all_B = (float(priced(layers, LOGITS, tp, recompute).activations_B) for layers in (FEW, MORE))
    assert all_B - less == pytest.approx(more - few, rel=within)


@pytest.mark.parametrize(("vocab", "moment"), [(LOGITS, 0), (NARROW, 1)])
def test_peak_memory_of_a_rank_matches_torch(vocab: int, moment: int) -> None:
    """At a loss over parts of the vocabulary, and in the backward pass of a layer whose inputs stay gathered."""
    found = priced(MORE, vocab, 8, "full")
    held_B = (float(found.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC) - float(found.optimizer_B)
    assert int(found.moment) == moment
    assert held_B == pytest.approx(tracked_B(MORE, vocab, 8, "full")[1], rel=0.03)


@pytest.mark.parametrize("recompute", ["none", "full", PER_OPERATION])
def test_traffic_of_a_layer_matches_torch(recompute: str) -> None:
    """A recomputed layer gathers again, but does not add up what nothing reads; per operation it adds up nothing."""
    few, more = (moved_B(layers, 8, recompute) for layers in (FEW, MORE))
    job, grid = said(MORE, NARROW, 8, recompute)
    there = cluster("dgx-h100", gpus=job.devices)
    assert isinstance(job.model, Transformer)
    shard = Shard(job.model, grid, job.recipe, Clock.of(there.device, job.recipe))
    passes = stage_pieces(shard, Network(there, grid), {DENSE: MORE - FEW})
    found: Counter[tuple[str, str]] = Counter()
    for way, pieces in zip(("forward", "backward"), passes, strict=True):
        for flow in (flow for one in pieces if one.part == "tp" for flow in one.flows):
            found[way, flow.op] += int(flow.size_B)
    assert found == more - few
