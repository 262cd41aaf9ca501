"""`layer_operations`: what a layer of a model computes, operation by operation, whatever software runs it.

Attention reads the stream through products (with latents through two, one after another), turns queries and keys, and
ends in a product; a recurrent mixer is products around a scan; a layer of a decoder attends to an encoder's output too.
Then comes a dense feed-forward block, or a router and experts. Said with each operation is what waits for its backward
pass, which modules of selective recomputation run it again, and with each product whether tensor parallelism gathers
before or reduces after it.

Sources: Megatron-LM (arXiv 1909.08053) for tensor parallelism; Megatron Core, transformer_config.py
(recompute_modules), and torchtitan, distributed/activation_checkpoint.py (`op`), for what runs again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lockstep.describe.workload.adapters import ROWS
from lockstep.describe.workload.architecture import Attention, Experts, LatentAttention, Mlp, Transformer
from lockstep.describe.workload.kind import LayerKind
from lockstep.describe.workload.operation import Operation, Part, Rows, Spread, Tensor, Width
from lockstep.describe.workload.stream import kept_by_norms, read_by_products
from lockstep.describe.workload.weight import Weight
from lockstep.describe.workload.weights import layer_weights

QKV, KV, UP = "queries, keys and values", "keys and values", "up and gate"
NAMES = {"dense": "", "experts": "expert ", "shared": "shared "}
AGAIN = {"dense": ("mlp",), "experts": ("moe",), "shared": ("moe", "shared_experts")}
"""Modules of selective recomputation that everything inside a block belongs to."""
EXCHANGED = "rows to experts and back"
LABELS = {"dense": "mlp", "experts": "expert", "shared": "shared expert"}
"""Of blocks, what names of their operations and of what they keep begin with."""
ROWS_OF: dict[str, Rows] = {"experts": "experts"}
NORMS_OF_HEADS, NORMS_OF_LATENTS = "norms of queries and keys", "norms of latents"


@lru_cache(maxsize=256)
def layer_operations(model: Transformer, kind: LayerKind) -> tuple[Operation, ...]:
    """Every operation of a layer, in the order of its forward pass but for norms and residual sums, which lead."""
    products = {one.name: one for one in layer_weights(model, kind) if _multiplies(one)}
    found = [*_stream(model, kind)]
    if kind.attends:
        latent = model.attention.latent
        found += _latent(model, latent, products, kind) if latent else _attention(model, products, kind)
        if kind.crosses:
            found += _crossing(model, products, kind)
    elif kind.mixer == "recurrent":
        found += _recurrent(products, read_by_products(model, kind, "attention"))
    inputs = read_by_products(model, kind, "mlp")
    if kind.experts and model.experts:
        found += _experts(model, model.experts, products, inputs)
    elif kind.block == "dense" and model.mlp:
        found += _feed_forward(model.mlp, model.mlp.ffn, "dense", products, inputs)
    biased = {one.name.removesuffix(" bias") for one in layer_weights(model, kind) if one.name.endswith(" bias")}
    return (*_counted(found, biased),) if model.attention.latent is None else tuple(found)


def _counted(operations: Iterable[Operation], biased: Collection[str]) -> Iterator[Operation]:
    """The operations, with the products that recomputation per operation runs again: every second one, in order. One
    with a bias is torch's `addmm`, which is neither kept nor counted; experts' and a router's are not either.
    """
    count = 0
    for one in operations:
        if one.does == "product" and one.part in ("mixer", "crossing", "dense"):
            count += one.name not in biased
            again = one.name in biased or count % 2 == 0
            yield replace(one, modules=(*one.modules, "op")) if again else one
        else:
            yield one


def _multiplies(weight: Weight) -> bool:
    """Whether it is a matrix of a product with rows; what weighs a shared expert is next to none."""
    other = weight.per_sequence or (weight.category == "router" and weight.name != "router")
    return weight.is_matrix and not other


def _stream(model: Transformer, kind: LayerKind) -> Iterator[Operation]:
    """Norms, and a residual sum for each block."""
    stream = (Width(model.hidden),)
    yield Operation(
        name="norm", does="norm", part="stream", rows="stream", widths=stream * model.norms_of(kind),
        modules=("layernorm", "op"), reads=kept_by_norms(model, kind),
    )  # fmt: skip
    blocks = stream * kind.residual_blocks
    yield Operation(name="residual sum", does="residual", part="stream", rows="stream", widths=blocks)


def _product(weight: Weight, part: Part, rows: Rows = "tokens", **said: Any) -> Operation:
    inputs, outputs = weight.shape
    by_rows = weight.name in ROWS or weight.name == "expert down"
    found = Operation(
        name=weight.name, does="product", part=part, rows=rows, weight=weight, beside=weight.name,
        widths=(Width(outputs, "none" if by_rows else weight.cut, weight.kv_heads),),
        inner=Width(inputs, weight.cut if by_rows else "none"),
    )  # fmt: skip
    return replace(found, **said)


def _heads(attention: Attention) -> tuple[Width, Width]:
    """Widths of queries, and of keys or values."""
    keys = Width(attention.kv_heads * attention.head_dim, "kv", attention.kv_heads)
    return Width(attention.heads * attention.head_dim, "tensor"), keys


def _attention(model: Transformer, products: dict[str, Weight], kind: LayerKind) -> Iterator[Operation]:
    """Attention over the stream, with keys and values of their own."""
    attention, (queries, keys) = model.attention, _heads(model.attention)
    read = read_by_products(model, kind, "attention")
    for name in ("query", "key", "value"):
        yield _product(products[name], "mixer", beside=QKV, edge="first", reads=read)
    if attention.gated:
        read = tuple(Tensor(name, attention.out_width, "tp") for name in ("attention gate", "attention out input"))
        yield Operation(name="gate of the output", does="output gate", part="mixer", widths=(queries,), reads=read)
    yield Operation(name="joined gradients", does="joined gradients", part="mixer", widths=(queries, keys, keys))
    normed = attention.qk_norm != "none"
    if normed:
        read = (
            Tensor("query norm input", queries.numbers, "tp", "query"),
            Tensor("key norm input", keys.numbers, "kv", "key"),
        )
        yield Operation(
            name=NORMS_OF_HEADS, does="head norms", part="mixer", widths=(queries, keys), modules=("op",), reads=read
        )
    yield from _turned(model, queries, keys, kind.mixer != "nope")
    yield Operation(name="copies of heads", does="copied heads", part="mixer", widths=(queries, keys, keys))
    yield _core(
        "attention",
        Tensor("query", queries.numbers, "tp", NORMS_OF_HEADS if normed else "query"),
        Tensor("key", keys.numbers, "kv", NORMS_OF_HEADS if normed else "key"),
        Tensor("value", keys.numbers, "kv", "value"),
    )
    yield _product(products["attention out"], "mixer", modules=("out_proj",), edge="last")


def _core(name: str, *reads: Tensor) -> Operation:
    """Attention itself, which keeps more than it reads (`activations.py`)."""
    crosses = name == "cross attention"
    return Operation(
        name=name, does="crossing core" if crosses else "core", part="crossing" if crosses else "mixer",
        modules=("core_attn", "context"), reads=reads,
    )  # fmt: skip


def _turned(model: Transformer, queries: Width, keys: Width, rotary: bool) -> Iterator[Operation]:
    """What turns queries and keys over to attention."""
    if model.attention.kv_heads < model.attention.heads:
        yield Operation(
            name="repeated keys and values",
            does="repeated heads",
            part="mixer",
            widths=(queries, keys),
            modules=("op",),
        )
    if rotary and model.positions == "rotary":
        yield Operation(name="rotary embedding", does="rotary", part="mixer", widths=(queries, keys), modules=("op",))


def _latent(
    model: Transformer, latent: LatentAttention, products: dict[str, Weight], kind: LayerKind
) -> Iterator[Operation]:
    """Multi-head latent attention: low-rank products on every rank, then products split by heads."""
    attention = model.attention
    for name in ("query down", "query", "key-value down"):
        if name in products:
            rows: Rows = "tokens" if name == "query" else "stream"
            yield _product(products[name], "mixer", rows, reads=read_by_products(model, kind, "attention"))
    yield _latent_norms(latent)
    for name in ("query up", "key-value up"):
        if name in products:
            rank = latent.kv_rank if name == "key-value up" else latent.q_rank or 0
            normed = Tensor(f"{name.removesuffix(' up')} latent normed", rank, "sequence", NORMS_OF_LATENTS, "input")
            yield _product(products[name], "mixer", modules=("mla_up_proj",), edge="first", reads=(normed,))
    yield Operation(
        name="rotary embedding", does="latent rotary", part="mixer", modules=("mla_up_proj",),
        widths=(Width(attention.heads * latent.rope_dim, "tensor"),),
    )  # fmt: skip
    yield _core(
        "attention",
        Tensor("query", attention.query_width, "tp", "key-value up"),
        Tensor("key", attention.query_width, "tp", "key-value up"),
        Tensor("value", attention.out_width, "tp", "key-value up"),
    )
    yield _product(products["attention out"], "mixer", modules=("out_proj",), edge="last")


def _latent_norms(latent: LatentAttention) -> Operation:
    """Norms of what low-rank products give, split as the stream is: only then do ranks gather it."""
    ranks = {"query": latent.q_rank, "key-value": latent.kv_rank}
    beside = {"key-value": latent.rope_dim}
    widths = {name: rank for name, rank in ranks.items() if rank}
    return Operation(
        name=NORMS_OF_LATENTS, does="head norms", part="mixer", rows="stream", modules=("layernorm", "op"),
        widths=tuple(map(Width, widths.values())),
        reads=tuple(Tensor(f"{name} latent", rank + beside.get(name, 0), "sequence") for name, rank in widths.items()),
    )  # fmt: skip


def _crossing(model: Transformer, products: dict[str, Weight], kind: LayerKind) -> Iterator[Operation]:
    """Attention over the encoder's output, whose gradients of all layers add up."""
    queries, keys = _heads(model.attention)
    yield _product(products["cross query"], "crossing", reads=read_by_products(model, kind, "cross attention"))
    for name in ("cross key", "cross value"):
        yield _product(products[name], "crossing", beside=KV)
    yield Operation(name="joined gradients", does="joined gradients", part="crossing", widths=(keys, keys))
    yield Operation(
        name="sum of the encoder's gradients", does="crossing sum", part="crossing", rows="stream",
        widths=(Width(model.hidden),),
    )  # fmt: skip
    yield _core(
        "cross attention",
        Tensor("cross query", queries.numbers, "tp", "cross query"),
        Tensor("cross key", keys.numbers, "kv", "cross key"),
        Tensor("cross value", keys.numbers, "kv", "cross value"),
    )
    yield _product(products["cross attention out"], "crossing")


def _recurrent(products: dict[str, Weight], inputs: tuple[Tensor, ...]) -> Iterator[Operation]:
    """A scan between products."""
    for name, weight in products.items():
        if weight.category == "recurrent" and name.startswith("recurrent in"):
            yield _product(weight, "mixer", beside="recurrent in", edge="first", reads=inputs)
    yield Operation(name="scan", does="scan", part="mixer")
    for name, weight in products.items():
        if weight.category == "recurrent" and not name.startswith("recurrent in"):
            yield _product(weight, "mixer", edge="last" if name == "recurrent out" else "")


def _feed_forward(
    block: Mlp | Experts, ffn: int, part: Part, products: dict[str, Weight], inputs: tuple[Tensor, ...]
) -> Iterator[Operation]:
    """Products of a block, and the function between them."""
    prefix, rows = NAMES[part], ROWS_OF.get(part, "tokens")
    routed, again = part != "dense", AGAIN[part]
    for name in ("gate", "up") if block.gated else ("up",):
        read = () if part == "experts" else inputs  # Experts read rows that are brought to them.
        found = _product(products[prefix + name], part, rows, beside=prefix + UP, modules=again, reads=read)
        yield replace(found, edge="" if routed else "first")
    kept, down = _inside(block, ffn, part)
    yield Operation(
        name=f"{prefix}activation", does="gate" if block.gated else "activation", part=part, rows=rows,
        widths=(Width(ffn, "expert" if rows == "experts" else "tensor"),),
        modules=(*again, "moe_act") if routed else (*again, "mlp_act", "op"), reads=kept,
    )  # fmt: skip
    yield _product(products[f"{prefix}down"], part, rows, modules=again, edge="" if routed else "last", reads=down)


def _inside(block: Mlp | Experts, ffn: int, part: Part) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What the function of a block reads in its backward pass, and what the down product reads: of ReLU the same."""
    prefix, label = NAMES[part], LABELS[part]
    spread: Spread = "inner" if part == "experts" else "tp"
    numbers = ffn * (block.top_k if part == "experts" and isinstance(block, Experts) else 1)
    undone = not block.gated and block.activation == "relu"
    made = ({"gate": "gate", "up": "up"} if block.gated else {"activation input": "up"}) if not undone else {}
    kept = tuple(
        Tensor(f"{label} {name}", numbers, spread, prefix + maker, "element" if part == "dense" else "inner")
        for name, maker in made.items()
    )
    down = Tensor(
        f"{label} down input", numbers, spread, f"{prefix}activation", "input",
        for_weights=not undone, stays=("mlp_act", "moe_act") if undone else (),
    )  # fmt: skip
    return kept, (down,)


def _experts(
    model: Transformer, moe: Experts, products: dict[str, Weight], inputs: tuple[Tensor, ...]
) -> Iterator[Operation]:
    """A router, experts that some rows visit, and those that all visit."""
    yield replace(_product(products["router"], "router", "stream"), reads=inputs, modules=("moe",))
    yield Operation(name="choice of experts", does="choice", part="router", modules=("moe",))
    yield from _feed_forward(moe, moe.ffn, "experts", products, inputs)
    if moe.out_bias:
        yield Operation(name="clamped gate and up", does="clamped", part="experts", modules=("moe", "moe_act"))
    yield Operation(
        name=EXCHANGED, does="exchanged rows", part="experts", rows="experts", modules=("moe",),
        widths=(Width(model.hidden),),
        reads=(Tensor("expert input", moe.top_k * model.hidden, "rows", EXCHANGED, "input", for_weights=True),),
    )  # fmt: skip
    if moe.shared_ffn:
        yield from _feed_forward(moe, moe.shared_ffn, "shared", products, inputs)
    if moe.shared_gate:
        yield Operation(
            name="gate of shared experts", does="output gate", part="shared", rows="stream",
            widths=(Width(model.hidden),), modules=AGAIN["shared"],
            reads=(Tensor("shared expert output", model.hidden, "sequence", "shared down"),),
        )  # fmt: skip


def has_gate(model: Transformer) -> bool:
    """Whether feed-forward blocks have a gate: models without one have one matrix for queries, keys and values."""
    block = model.mlp or model.experts
    return block is not None and block.gated


def run_again(operations: Iterable[Operation], modules: Iterable[str]) -> tuple[Operation, ...]:
    """Those of the operations that selective recomputation of `modules` runs again."""
    chosen = {*modules}
    return tuple(one for one in operations if chosen & {*one.modules})
