"""Kernel work of the calls of a captured step, each priced as kernels of its kind are in a described layer.

    product       FLOPs and bytes of its operands (`Clock.product`), in the format that it reads; of one with a side as
                  short as an adapter's rank no less than THIN times its bytes
    attention     FLOPs by the rate of the card's kernel, half of them under a causal mask (`Clock.fused_attention`)
    view          nothing
    many tensors  `optimizer.py`
    norm          passes of PyTorch's kernel (`norm.split` of `describe/stacks/ways.toml`), measured in half precision;
                  in fp32 its instructions take as long, unless the bytes of NORM_PASSES take longer
    softmax       reads a row once where it fits in shared memory, else three times; backward the gradient twice. That
                  of softmax, not of its logarithm, is multiplied by the result before, in a kernel of its own
    other         bytes that it reads and writes at the rate of PyTorch's own operations, times

        WIDENED   copies of half precision to fp32
        MIXED     operands of two formats, or one that is spread over rows or columns: not vectorised
        SPREAD    both at once (`scores.autocast`)
        turned    what a transpose has left out of order (`rotary.written`), and copies of it (`heads.gpt-neox`)

Which tensors lie turned is not in a capture: a shape is taken to, from the transpose that gave it until a product, a
view or a copy gives it in order.

Sources: PyTorch 2.13, aten/src/ATen/native/cuda: SoftMax.cu (host_softmax), Embedding.cu
(embedding_dense_backward_cuda), Loss.cu (nll_loss_backward), layer_norm_kernel.cu, Normalization.cu (batch_norm);
native/TensorShape.cpp (slice_backward), transformers/attention.cpp (_safe_softmax). No number is fitted to captured
steps: factors are those of described layers. Which of them apply where, and NORM_PASSES, were written down after steps
on one H100 had been seen beside their captures, and the profiles of two of them (tests/diagnosis/h100), in which
SORTED_KERNELS are counted; that a norm over images reads twice, after a profile on an A100.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import prod

from lockstep.base.records import dataclass, field, replace
from lockstep.describe.captured import COLLECTIVES, Operation, tensor_B
from lockstep.describe.stacks import find_way
from lockstep.price.kernels.adapters import THIN
from lockstep.price.kernels.clock import MIXED, WIDENED, Clock, Work
from lockstep.price.kernels.optimizer import many_work
from lockstep.price.kernels.slots import way_passes

FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
SLICES = frozenset(["slice", "select", "split", "split_with_sizes", "chunk", "unbind", "narrow"])
"""Calls that give a part of what they read as it lies."""
SAME = frozenset(["expand", "unsqueeze", "squeeze", "detach", "alias"])
TURNS = frozenset(["transpose", "permute", "movedim", "swapaxes"])
_VIEWS = """view _unsafe_view t as_strided unfold diagonal view_as_real real empty empty_like empty_strided new_empty
    new_empty_strided lift_fresh set_ resize_ reshape_alias _reshape_alias"""
VIEWS = SLICES | SAME | TURNS | frozenset(_VIEWS.split())
"""Calls that launch no kernel."""
ORDERED = frozenset(["clone", "bmm", "mm", "addmm"])
"""Calls that give in order what they read in any."""
MOVED = frozenset(["clone", "slice_backward", "select_backward"])
"""Calls that write the one tensor that they read to where it lies otherwise."""
SPREAD = 3.3
"""Times as long as its bytes that a sum of two formats takes where one of them is spread (`scores.autocast`)."""
THIN_SIDE = 64
"""The longest side of products that THIN was measured of (h100_kernels.csv, narrow)."""
SHARED_B = 48 * 1024
"""Bytes of shared memory in which softmax keeps a row (SoftMax.cu: sharedMemPerBlock)."""
FEW_TOKENS, SORTED_KERNELS = 3072, 19
"""Tokens up to which one kernel adds an embedding's gradient, and the kernels that sort and add more (Embedding.cu)."""
NORM_PASSES = 2, 5
"""Of a norm: it reads and writes; backward two kernels read the gradient and the input, and one writes."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call, and how what it reads and gives lies."""

    operation: Operation
    turned: bool = False
    """Whether some of it lies as a transpose has left it."""

    @cached_property
    def name(self) -> str:
        """Without its overload."""
        return self.operation.name.removeprefix("aten.").partition(".")[0]

    @cached_property
    def tensors(self) -> tuple[tuple[Shape, str], ...]:
        """Shapes and formats, read first."""
        return self.operation.tensors()

    @cached_property
    def sizes_B(self) -> list[int]:
        """Bytes of each."""
        return [tensor_B(*one) for one in self.tensors]

    @property
    def read_B(self) -> list[int]:
        """Bytes of each tensor that it reads."""
        return self.sizes_B[: self.operation.reads]

    @property
    def made_B(self) -> list[int]:
        """Bytes of each tensor that it gives."""
        return self.sizes_B[self.operation.reads :]

    @cached_property
    def formats(self) -> set[str]:
        """Formats of what it reads, but for single numbers."""
        read = self.tensors[: self.operation.reads]
        return {FORMATS[dtype] for shape, dtype in read if dtype in FORMATS and prod(shape) > 1}

    @property
    def side(self) -> int:
        """0 in the forward pass and in what is recomputed of it, 1 in the backward pass."""
        return int(self.operation.phase == "backward")


@dataclass
class Order:
    """Shapes of tensors that lie as a transpose has left them, whole or cut."""

    turned: dict[Shape, bool] = field(default_factory=dict)
    """Whether they are cut."""

    def seen(self, operation: Operation) -> Call:
        """The call as it finds its tensors; what it gives is known from here on."""
        call = Call(operation)
        shapes = [shape for shape, _ in call.tensors]
        read, given = shapes[: operation.reads], shapes[operation.reads :]
        found = [self.turned[shape] for shape in read if shape in self.turned]
        # One operand that has no gaps is read as it lies, whatever its order.
        turned = bool(found) and (len(read) > 1 or any(found) or call.name in MOVED)
        if call.name in TURNS:
            self.turned.pop(given[0], None)
            if read and _apart(read[0]) and read[0] != given[0]:
                self.turned[given[0]] = any(found)
        elif call.name in SLICES | SAME:
            cut = any(found) or (call.name in SLICES and given[0] != read[0])
            self.turned.update(dict.fromkeys(given if found else (), cut))
        elif call.name in VIEWS | ORDERED:
            for shape in given:
                self.turned.pop(shape, None)
        return Call(operation, turned) if turned else call


def _apart(shape: Shape) -> bool:
    """Whether a tensor has more than two ways of more than one number, so that its transpose is no matrix's."""
    return sum(size > 1 for size in shape) > 2


def call_works(
    operations: Iterable[Operation], clocks: Mapping[str, Clock], tf32: Collection[str] = ()
) -> Iterator[Work]:
    """The work of each call of a step, in order, one for all that are alike; `clocks` by the format of products.

    `tf32`: which of "products" and "convolutions" of fp32 run in TF32 (`torch.backends.cuda.matmul` and `cudnn`).
    """
    order, known = Order(), dict[object, Work]()
    for one in operations:
        call = order.seen(one)
        key = one.name, one.shapes, one.reads, one.flops, one.causal, one.phase, call.turned
        known[key] = known.get(key) or _work(call, clocks, tf32)
        yield known[key]


def _work(call: Call, clocks: Mapping[str, Clock], tf32: Collection[str]) -> Work:
    """What a call takes."""
    one, name = call.operation, call.name
    if name in VIEWS or one.is_order or one.name in COLLECTIVES:
        return Work()
    clock = clocks[_widest(call.formats)]
    if one.flops and ("attention" in name or "varlen_attn" in name):
        backward = "backward" in name
        (*_, tokens, head_dim), dtype = call.tensors[backward]
        if "varlen" in name:  # Sequences in one: of as many tokens as the mean token has in its own.
            tokens = round(one.flops / (VARLEN_FLOPS[backward] * prod(call.tensors[backward][0])))
        flops = one.flops * (0.5 if one.causal else 1.0)
        return clocks[FORMATS[dtype]].fused_attention(flops, tokens, head_dim, one.causal, backward)
    if one.flops:
        short = _widest(call.formats) == "fp32" and ("convolutions" if "convolution" in name else "products") in tf32
        return _product(call, clocks["tf32"] if short else clock)
    if name.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")):
        return many_work(one, call.sizes_B, clock)
    found = KINDS.get(name, _moved)
    return found(call, clock)


VARLEN_FLOPS = (4, 10)
"""For each number of a query and each key, forward and backward, as PyTorch counts them."""


def _widest(formats: set[str]) -> str:
    return next((name for name in ("fp32", "fp16", "bf16") if name in formats), "bf16")


def _product(call: Call, clock: Clock) -> Work:
    """A product; one that has a side as short as the rank of an adapter takes no less than THIN times its bytes."""
    size_B = sum(call.sizes_B)
    found = clock.product(call.operation.flops, size_B)
    sides = [side for shape, _ in call.tensors for side in shape if len(shape) == 2]
    if call.name not in ("mm", "addmm") or min(sides) > THIN_SIDE:
        return found
    least_s = clock.stream(clock.instruction_bound(THIN) * size_B).stream_s
    return replace(found, matmul_s=max(found.matmul_s, least_s))


def _moved(call: Call, clock: Clock) -> Work:
    """A call that reads each of its tensors once and writes what it gives, or the largest in place."""
    written_B = sum(call.made_B) or max(call.read_B, default=0) * call.name.endswith("_")
    return clock.operations((sum(call.read_B) + written_B) * _factor(call, clock))


def _factor(call: Call, clock: Clock) -> float:
    """Times as long as its bytes that a call takes, beside what all operations of PyTorch do."""
    bound, several, spread = clock.instruction_bound, len(call.formats) > 1, _spread(call)
    if call.name == "_to_copy":
        widened = call.formats & {"bf16", "fp16"} and "float32" in {one for _, one in call.tensors[1:]}
        return bound(WIDENED) if widened else 1.0
    if call.turned:
        slow = bound(find_way("rotary", "written").slow[call.side])
        return slow * bound(MIXED) if several else slow
    if several and spread:
        return bound(SPREAD)
    # A few numbers of another format cost nothing.
    mixed = several and min(call.read_B) * 4 >= max(call.read_B)
    return bound(MIXED) if mixed or spread else 1.0


def _spread(call: Call) -> bool:
    """Whether one of two operands is spread over the other's rows or columns."""
    if call.operation.reads != 2 or call.name == "cat":
        return False
    small, large = sorted((shape for shape, _ in call.tensors[:2]), key=prod)
    fits = all(one in (1, other) for one, other in zip(small[::-1], large[::-1], strict=False))
    return fits and 1 < prod(small) < prod(large)


def _written(call: Call, clock: Clock) -> Work:
    """A call that fills what it gives."""
    return clock.operations(sum(call.made_B) or sum(call.read_B))


def _gathered(call: Call, clock: Clock) -> Work:
    """A call that reads of its first tensor what it gives."""
    return clock.operations(sum(call.read_B[1:]) + 2 * sum(call.made_B))


def _copied(call: Call, clock: Clock) -> Work:
    """A copy, which puts in order what lies turned."""
    slow = find_way("heads", "gpt-neox").takes[call.side] if call.turned else 1.0
    return clock.operations(2 * min(call.sizes_B) * slow)


def _filled(call: Call, clock: Clock) -> Work:
    """Zeros into which what it reads is copied."""
    return clock.operations((sum(call.made_B) + 2 * call.read_B[0]) * _factor(call, clock), 2)


def _table(call: Call, clock: Clock) -> Work:
    """The gradient of a table: zeros, to whose rows what comes for tokens is added."""
    tokens = prod(call.tensors[1][0])
    return clock.operations(sum(call.made_B) + 2 * call.read_B[0], 1 + (SORTED_KERNELS if tokens > FEW_TOKENS else 1))


def _softmax(call: Call, clock: Clock) -> Work:
    """Softmax or its logarithm, over the last dimension."""
    read_B, rows = call.read_B[0], prod(call.tensors[0][0][:-1])
    if call.name.endswith("_data"):
        first = clock.operations(3 * read_B) if call.name == "_softmax_backward_data" else Work()
        return first + clock.operations((_times_read(read_B, rows, 2) + 1) * read_B + sum(call.made_B))
    found = clock.operations(_times_read(read_B, rows, 3) * read_B + sum(call.made_B))
    if call.name != "_safe_softmax":
        return found
    # Rows that are masked whole are looked for, a byte for each number, and replaced.
    return found + clock.operations(3 * read_B + 2 * prod(call.tensors[0][0]), 3)


def _times_read(size_B: int, rows: int, most: int) -> int:
    """How often a kernel of softmax reads what it sums over."""
    return 1 if size_B < SHARED_B * rows else most


def _norm(call: Call, clock: Clock) -> Work:
    """A norm in PyTorch's own kernels: as long as their instructions take over half precision, or else their bytes."""
    way, side = find_way("norm", "split"), int("backward" in call.name)
    (shape, _), least_B = call.tensors[0], NORM_PASSES[side] * call.read_B[0]
    size_B = max(way_passes(clock, way)[side] * prod(shape) * clock.element_B, least_B)
    return clock.elementwise(size_B, way.kernels[side])


def _batch_norm(call: Call, clock: Clock) -> Work:
    """A trained norm over all images: one kernel reads what it sums over, a second reads it again and writes."""
    return clock.operations(2 * sum(call.read_B) + sum(call.made_B), 2)


def _dropped(call: Call, clock: Clock) -> Work:
    """A dropout, which reads or writes a mask."""
    slow = find_way("adapters", "half").parts["dropout"].slow[int("backward" in call.name)]
    return clock.stream(sum(call.sizes_B) * clock.instruction_bound(slow))


_KINDS: dict[Callable[[Call, Clock], Work], str] = {
    _written: """fill_ zero_ zeros ones zeros_like ones_like full full_like new_zeros new_ones new_full
        nll_loss_backward nll_loss2d_backward""",
    _gathered: "embedding index gather index_select nll_loss_forward nll_loss2d_forward",
    _copied: "copy_ clone",
    _filled: "slice_backward select_backward",
    _table: "embedding_dense_backward",
    _softmax: "_softmax _safe_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data",
    _norm: "native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward",
    _batch_norm: "native_batch_norm native_batch_norm_backward",
    _dropped: "native_dropout native_dropout_backward",
}
KINDS = {name: price for price, names in _KINDS.items() for name in names.split()}
"""What prices a call that is no product, by its name; all others move their bytes."""
