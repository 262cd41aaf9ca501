"""What is said of stacks against captures of layers that are written as their software writes them (`layers.py`): bytes
that wait for the backward pass, bytes that are moved, kernels and FLOPs of a layer. What differs is told with the rows
of the description and the tensors or operations of the capture.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import layers as program
import pytest

import lockstep
from lockstep.describe.captured import SIZES, Captured, Operation, tensor_B
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import own_stack, stack
from lockstep.describe.stacks.derived import derived
from lockstep.describe.workload import Attention, Experts, Mlp, Transformer, kept_tensors, layer_weights
from lockstep.describe.workload.architecture import Rotary
from lockstep.price.kernels import calls, slots
from lockstep.price.kernels.calls import VIEWS, call_works
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import embedding_work, logits_work
from lockstep.price.kernels.loss import loss_work
from lockstep.price.kernels.rows import layer_rows
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.layout.kept import piece
from recipes import recipe_by

CASES = program.CASES
TOKENS = program.SEQUENCES * program.SEQ
KEPT, MOVED, KERNELS, FEW = 0.005, 0.03, 0.15, 3
"""How far bytes that are kept, bytes that are moved, and kernels may be off, and how many of these in any case: numbers
of a row or a head, and what works on them, are left out."""
TYPES = {
    "gpt2": "gpt2", "neox": "gpt_neox", "mixtral": "mixtral", "qwen3": "qwen3", "olmo2": "olmo2", "exaone4": "exaone4",
    "cohere": "cohere", "phi": "phi", "nemotron": "nemotron", "olmo": "olmo",
}  # fmt: skip
GROUPS = {
    "norms and sums": "norm|residual sum|sums of gradients of one input",
    "heads and casts": "norms of queries and keys|rotary embedding|joined gradients|repeated keys and values|"
    "copies of heads|attention|casts of autocast",
    "activation": "activation",
    "biases": "sums of biases' gradients",
}
"""Rows of a layer between its products. Those of experts are not here: their kernels were measured one by one."""
ADAPTED = {"norms and sums": f"{GROUPS['norms and sums']}|adapters"}


class Moved(Clock):
    """Counts bytes where a clock has seconds, as if every kernel took as long as its bytes."""

    def stream(self, size_B: Any, kernels: Any = 1) -> Work:
        return Work(stream_s=size_B, kernels=kernels)

    operations = elementwise = stream

    def instruction_bound(self, factor: float) -> float:
        return 1.0


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    out = tmp_path_factory.mktemp("layers") / "step.capture"
    return lockstep.capture(str(Path(program.__file__)), cluster="h100-sxm:1", out=out).captured


def described(name: str) -> Transformer:
    """The model of a case."""
    case, of = program.ALL[name], name.partition("_")[0]
    plain, experts = "plain" in case, "experts" in case
    turned, norms = case.get("turned", 1.0), {"normed_heads": "head", "normed_rows": "full"}
    placed = "output" if "normed_outputs" in case else "sandwich" if "sandwiched" in case else "pre"
    written = "relu2" if "squared" in case else "gelu" if "parallel" in case else "gelu_new"
    activation = written if plain else "silu"
    return Transformer(
        name=name, layers=program.LAYERS, hidden=program.HIDDEN, vocab=program.VOCAB, model_type=TYPES.get(of, "llama"),
        attention=Attention(
            heads=program.HEADS, kv_heads=program.HEADS if "joint" in case else program.KV_HEADS,
            head_dim=program.HEAD, qkv_bias=plain, out_bias=plain,
            qk_norm=next((kind for word, kind in norms.items() if word in case), "none"),
        ),
        mlp=None if experts else Mlp(
            ffn=program.FFN, gated=not plain, in_bias=plain, out_bias=plain,
            activation=activation,
        ),
        experts=Experts(experts=program.EXPERTS, top_k=program.TOP_K, ffn=program.FFN) if experts else None,
        norm="layernorm" if plain or {"centred", "copied"} & {*case} else "rmsnorm", norm_placement=placed,
        parallel_block=bool({"parallel", "shared"} & {*case}), parallel_norms=1 if "shared" in case else 2,
        max_positions=program.SEQ,
        positions="rotary" if turned else "learned", rotary=Rotary(share_frac=turned) if turned else None,
    )  # fmt: skip


@cache
def question(name: str) -> tuple[Transformer, Any, Any]:
    """(model, layout, recipe) of a case."""
    case, model = program.ALL[name], described(name)
    half = {"optimizer": "adamw-bf16", "gradient_B": 2.0, "parameter_B": 2.0} if "half" in case else {}
    if "wide" in case:
        half = {"dtype": "fp32", "optimizer": "adamw-no-master", "gradient_B": 4.0, "parameter_B": 4.0}
    if "adapted" in case:
        half = {"train": f"lora:r={program.RANK},targets=all-linear"}
    norms = {"norm": "split", "norm_weight": "one"} if "fused" in case else {}
    recipe = recipe_by(
        stack("hf-trainer-5").having(autocast="half" not in case, **norms), seq=program.SEQ, batch=program.SEQUENCES,
        flash_attention="written" not in case, **half,
    )  # fmt: skip
    grid = Layout(micro_batch=program.SEQUENCES, recompute="full" if "again" in case else "none").grid()
    return model, grid, recipe


def moved_clock(recipe: Recipe) -> Moved:
    """The clock of a recipe that counts bytes."""
    clock = Clock.of(cluster("h100-sxm:1").device, recipe)
    return Moved(**{one.name: getattr(clock, one.name) for one in fields(Clock)})


def rows(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Passes]:
    """Bytes, kernels and FLOPs of the rows of a layer."""
    model, grid, recipe = question(name)
    monkeypatch.setattr(slots, "_factor", lambda *_: 1.0)
    monkeypatch.setattr(slots, "_taken", lambda _, way, side: way.passes[side])
    moved = moved_clock(recipe)
    found: dict[str, Passes] = defaultdict(lambda: Passes(Work(), Work()))
    (kind,) = set(Job(model, recipe, 1).kinds)
    for row in layer_rows(Shard(model, grid, recipe, moved), kind):
        found[row.name] += row.passes
    return found


def inside(captured: Captured, name: str) -> list[tuple[str, Operation]]:
    """The operations of the second layer, each with its module there."""
    prefix = f"{name}.layers.1"
    whole = [replace(one, shapes=_unspread(before, one)) for before, one in _pairs(captured.operations)]
    return [(one.module.removeprefix(prefix)[1:], one) for one in whole if one.module.startswith(prefix)]


def _pairs(operations: Iterable[Operation]) -> Iterator[tuple[Operation | None, Operation]]:
    before = None
    for one in operations:
        yield before, one
        before = one


def _unspread(before: Operation | None, one: Operation) -> str:
    """The shapes of an operation, the first as it lies in memory where it was spread just before."""
    first, _, rest = one.shapes.partition(";")
    if before is None or before.name != "aten.expand.default" or not before.shapes.endswith(f";{first}"):
        return one.shapes
    return f"{before.shapes.partition(';')[0]};{rest}"


def weights_of(name: str) -> set[tuple[int, ...]]:
    """Shapes of parameters, matrices either way."""
    model = program.Model(program.ALL[name])
    found = {tuple(one.shape) for one in model.parameters()}
    return found | {shape[::-1] for shape in found}


def group_of(name: str, module: str, one: Operation) -> str:
    """The group of rows that an operation is of; nothing of products, views, and casts of parameters and gradients."""
    (shape, _), kind = one.tensors()[0], one.name.removeprefix("aten.").partition(".")[0]
    last = module.rpartition(".")[2]
    if module in ("", "norm_1", "norm_2") or ("adapted" in CASES[name] and last in ("a", "b", *PRODUCTS)):
        return "norms and sums"
    if one.flops:
        return "heads and casts" if module == "attention" else ""
    if kind in VIEWS or (kind == "_to_copy" and shape in weights_of_cached(name)):
        return ""
    if last == "base":
        return "norms and sums"
    if last in PRODUCTS:
        casts = "activation" if module == "block.down" else "heads and casts"
        return {"_to_copy": casts, "add": "norms and sums", "sum": "biases"}[kind]
    if module.startswith("attention"):
        return "heads and casts"
    return "experts" if "experts" in CASES[name] else "activation"


PRODUCTS = ("query", "key", "value", "query_key_value", "out", "gate", "up", "down", "router")
weights_of_cached = cache(weights_of)


@pytest.mark.parametrize("name", [name for name, case in program.ALL.items() if "wide" not in case])
def test_what_waits_for_the_backward_pass(captured: Captured, name: str) -> None:
    model, grid, recipe = question(name)
    (kind,) = set(Job(model, recipe, 1).kinds)
    operations = captured.operations
    own = [at for at, one in enumerate(operations) if one.module.startswith(f"{name}.")]
    back = next(at for at in own if operations[at].phase == "backward")
    kept: Counter[tuple[str, str, str]] = Counter()
    for one in captured.lives:
        made = operations[one.born]
        if one.category == "activations" and own[0] <= one.born < back <= (one.died or back):
            shape, dtype = (*made.tensors(), ((), ""))[made.reads]
            if made.module.startswith(f"{name}.layers.1") and shape not in weights_of_cached(name):
                kept[made.module, made.name, f"{shape}:{dtype}"] += one.size_B
    mode = int(grid.recompute)
    said = {one.name: float(one.size_B) for one in kept_tensors(model, piece(recipe, grid, model), kind)}
    if mode:
        said = {name: size_B for name, size_B in said.items() if name.startswith("layer input")}
    assert sum(said.values()) == pytest.approx(sum(kept.values()), rel=KEPT), f"{said}\n{dict(kept)}"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "again" not in case])
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_what_a_layer_moves(captured: Captured, name: str, phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, found = rows(name, monkeypatch), inside(captured, name)
    # What tensors take that lie turned, and fills of zeros, are in factors of rows.
    monkeypatch.setitem(calls.KINDS, "clone", lambda call, clock: clock.operations(2 * min(call.sizes_B)))
    monkeypatch.setitem(calls.KINDS, "slice_backward", lambda call, clock: clock.operations(sum(call.sizes_B), 2))
    clocks = {one: Moved(cluster("h100-sxm:1").device, "bf16", stack=stack("hf-trainer-5")) for one in ("bf16", "fp32")}
    works = list(call_works([one for _, one in found], clocks))
    wrong = []
    groups = GROUPS | (ADAPTED if "adapted" in CASES[name] else {})
    if "wide" in CASES[name]:
        del groups["heads and casts"]  # Which kernel attends in fp32 is not described.
    for group, names in groups.items():
        ours = {row: getattr(said[row], phase) for row in names.split("|") if row in said}
        theirs: dict[tuple[str, str], Work] = defaultdict(Work)
        for (module, one), work in zip(found, works, strict=True):
            if one.phase == phase and group_of(name, module, one) == group:
                theirs[module, one.name] += replace(work, attention_s=0.0, matmul_s=0.0)
        two = [sum(one.values(), Work()) for one in (ours, theirs)]
        (size_B, kernels), (moved_B, launched) = ((float(one.stream_s), float(one.kernels)) for one in two)
        if abs(size_B - moved_B) > MOVED * moved_B or abs(kernels - launched) > max(FEW, KERNELS * launched):
            wrong.append(
                f"{group}: {size_B / TOKENS:,.0f} B a token, {kernels:g} kernels, captured "
                f"{moved_B / TOKENS:,.0f} and {launched:g}\n" + _told(ours) + _told(theirs)
            )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_parameters_are_cast_once_and_their_gradients_brought_back(captured: Captured, name: str) -> None:
    """Norms and biases are no operands of products in GPT-2's layers alone: their biases are cast with its matrices."""
    model, grid, recipe = question(name)
    (kind,) = set(Job(model, recipe, 1).kinds)
    clock, weights = moved_clock(recipe), [one for one in layer_weights(model, kind) if "norm" not in one.name]
    said = states_work(Shard(model, grid, recipe, clock), kind, sum(prod(one.shape) for one in weights))
    shapes = weights_of_cached(name)
    casts = [one for _, one in inside(captured, name) if "_to_copy" in one.name and one.tensors()[0][0] in shapes]
    for phase in ("forward", "backward"):
        moved_B = sum(
            prod(shape) * SIZES[dtype] for one in casts if one.phase == phase for shape, dtype in one.tensors()
        )
        assert float(getattr(said, phase).stream_s) == pytest.approx(moved_B)


@pytest.mark.parametrize("name", ["llama", "llama_half", "llama_adapted", "llama_wide", "gpt2"])
def test_what_table_and_head_move(captured: Captured, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups, casts around the head, and sums of their gradients, of which a step of one micro-batch has none."""
    monkeypatch.setattr(slots, "_factor", lambda *_: 1.0)
    monkeypatch.setattr(slots, "_taken", lambda _, way, side: way.passes[side])
    model, grid, recipe = question(name)
    shard = Shard(model, grid, recipe, moved_clock(recipe))
    head, loss = logits_work(shard, 1), loss_work(shard, TOKENS * program.VOCAB)
    own = [one for one in captured.operations if one.module in (f"{name}.table", f"{name}.head")]
    for phase in ("forward", "backward"):
        moved = Counter[str]()
        for one in own:
            if one.phase == phase and not one.flops:
                moved[one.name] += sum(tensor_B(shape, of) for shape, of in one.tensors() if of != "int64")
        casts_B = moved["aten._to_copy.default"]
        assert float(getattr(head, phase).stream_s) - float(getattr(loss, phase).stream_s) == pytest.approx(casts_B)
        looked_B = float(getattr(embedding_work(shard), phase).stream_s)
        if phase == "backward":
            # The gradient is read, and as much of the table, which was filled before, read and written, out of order.
            dense_B = moved["aten.embedding_dense_backward.default"]
            assert looked_B == pytest.approx(dense_B + 3 * _stream_B(name) if dense_B else 0.0)
        else:
            assert looked_B == pytest.approx(2 * _stream_B(name))


def _stream_B(name: str) -> int:
    """Bytes of the residual stream after the lookup."""
    return TOKENS * program.HIDDEN * (2 if "half" in name or "adapted" in name else 4)


def test_a_loss_in_fp32_converts_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves what the same loss of half precision moves without its copies to fp32 and back, 6 bytes a logit each."""
    monkeypatch.setattr(slots, "_factor", lambda *_: 1.0)
    found = []
    for name in ("llama_wide", "llama_half"):
        model, grid, recipe = question(name)
        found.append(loss_work(Shard(model, grid, recipe, moved_clock(recipe)), 1.0))
    for phase in ("forward", "backward"):
        wide, half = (getattr(one, phase) for one in found)
        assert float(half.stream_s - wide.stream_s) == pytest.approx(6.0)
        assert half.kernels - wide.kernels == 1


def test_a_loss_whose_conversion_does_more_keeps_that_kernel_in_fp32() -> None:
    """Megatron Core's fused loss takes the maximum in the kernel that converts; backward it converts alone."""
    found = []
    for dtype in ("fp32", "bf16"):
        model, grid, _ = question("llama_wide")
        recipe = recipe_by(
            "megatron-te", seq=program.SEQ, batch=program.SEQUENCES, dtype=dtype, cross_entropy="in-parts"
        )
        found.append(loss_work(Shard(model, grid, recipe, moved_clock(recipe)), 1.0))
    wide, half = found
    assert (half.forward.kernels - wide.forward.kernels, half.backward.kernels - wide.backward.kernels) == (0, 1)


SHOWN = {
    "llama": {"norm": "written", "rotary": "written", "gate": "apart", "autocast": True, "own_projections": True,
              "recompute": "none", "repeated_heads": False, "foreach_update": False, "cross_entropy": "eager"},
    "llama_half": {"autocast": False, "attention": ["cudnn", "flash2"], "gradients_freed": True},
    "llama_again": {"recompute": "full", "recompute_stops": True, "autocast": True},
    "llama_written": {"scores": "written", "flash_attention": False, "repeated_heads": True},
    "llama_fused": {"norm": "split", "autocast": True},
    "gpt2": {"norm": "split", "activation": "autocast", "own_projections": False},
    "neox_half": {"norm": "split", "activation": "one", "rotary": "written", "autocast": False},
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_stack_is_derived_from_what_a_program_does(captured: Captured, name: str) -> None:
    own = tuple(
        one
        for one in captured.operations
        if name in (one.module, one.module.partition(".")[0]) or one.phase == "optimizer"
    )
    found = derived(replace(captured, operations=own), "step.capture")
    shown = {one.name: one.value for one in found.shown}
    assert SHOWN[name].items() <= shown.items()
    assert not {*shown} & {*found.unknown}
    # Its file is that of a stack which has all of this.
    made = own_stack(tomllib.loads(found.toml))
    assert made.like == found.like
    said = {**made.manner, **made.switches, "recompute": made.recompute, "attention": list(made.attention)}
    assert shown.items() <= said.items()


def _told(works: dict[Any, Work]) -> str:
    return "".join(
        f"    {' '.join(name) if isinstance(name, tuple) else name}: {float(one.stream_s) / TOKENS:,.0f} B a token, "
        f"{float(one.kernels):g} kernels\n"
        for name, one in works.items()
    )
