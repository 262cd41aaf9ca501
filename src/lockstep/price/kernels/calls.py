"""Kernel work of the calls of a captured step, each priced as kernels of its kind are.

    product      FLOPs and bytes of its operands (`Clock.product`), in the format that it reads
    attention    FLOPs by the rate of the card's kernel, half of them under a causal mask (`Clock.fused_attention`)
    view         nothing
    other        bytes that it reads and writes over the bandwidth, times MIXED or WIDENED where formats are mixed

Calls of many tensors launch one kernel for every CHUNK of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, prod

from lockstep.describe.captured import Operation
from lockstep.price.kernels.clock import MIXED, OPERATIONS, WIDENED, Clock, Work

FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2,
}  # fmt: skip
_VIEWS = """view _unsafe_view t transpose permute expand slice select unsqueeze squeeze detach alias as_strided split
    split_with_sizes chunk unfold unbind narrow diagonal view_as_real real empty empty_like empty_strided new_empty
    new_empty_strided lift_fresh set_ resize_ reshape_alias _reshape_alias"""
VIEWS = frozenset(_VIEWS.split())
"""Calls that launch no kernel."""
LISTS = {"add_.List": 2, "copy_.default": 2, "lerp_.Scalar": 2, "mul_.List": 2, "div_.List": 2, "addcmul_.Scalar": 3,
         "addcdiv_.Scalar": 3, "addcdiv_.ScalarList": 3}  # fmt: skip
"""Lists that calls of many tensors read, where they are more than the one that is written."""
CHUNK = 30
"""Tensors that one kernel of many takes: assumed."""


def call_works(operations: Iterable[Operation], clocks: Mapping[str, Clock]) -> Iterator[Work]:
    """The work of each call of a step, in order; `clocks` by the format of products."""
    for one in operations:
        yield _work(one, clocks)


def _work(one: Operation, clocks: Mapping[str, Clock]) -> Work:
    """What a call takes."""
    packet, _, overload = one.name.removeprefix("aten.").partition(".")
    if packet in VIEWS:
        return Work()
    tensors = one.tensors()
    sizes_B = [prod(shape) * SIZES.get(dtype, 1) for shape, dtype in tensors]
    formats = {FORMATS[dtype] for shape, dtype in tensors[: one.reads] if dtype in FORMATS and prod(shape) > 1}
    clock = clocks[_widest(formats)]
    if one.flops and "attention" in packet:
        (*_, tokens, head_dim), dtype = tensors["backward" in packet]
        flops = one.flops * (0.5 if one.causal else 1.0)
        return clocks[FORMATS[dtype]].fused_attention(flops, tokens, head_dim, one.causal, "backward" in packet)
    if one.flops:
        return clock.product(one.flops, sum(sizes_B))
    if packet.startswith("_foreach_") or packet.startswith("_fused_"):
        return _of_many(packet.removeprefix("_foreach_"), overload, one, sizes_B, clock)
    size_B = _moved_B(packet, one, sizes_B)
    widened = packet == "_to_copy" and formats & {"bf16", "fp16"} and "float32" in {d for _, d in tensors[one.reads :]}
    mixed = len(formats) > 1 and min(sizes_B[: one.reads]) * 4 >= max(sizes_B)
    factor = clock.instruction_bound(WIDENED if widened else MIXED if mixed else OPERATIONS)
    return clock.stream(size_B * factor)


def _widest(formats: set[str]) -> str:
    return next((name for name in ("fp32", "fp16", "bf16") if name in formats), "bf16")


def _of_many(name: str, overload: str, one: Operation, sizes_B: list[int], clock: Clock) -> Work:
    """A call of many tensors: what it reads, and what it writes in place or anew."""
    read_B, made_B = sum(sizes_B[: one.reads]), sum(sizes_B[one.reads :])
    lists = LISTS.get(f"{name}.{overload}", 1)
    written_B = made_B or (read_B / lists if name.endswith("_") else 0)
    if name.startswith("_fused_"):  # Parameters and two states of four lists.
        lists, written_B = 4, 0.75 * read_B
    return clock.operations(read_B + written_B, ceil(one.reads / lists / CHUNK))


def _moved_B(packet: str, one: Operation, sizes_B: list[int]) -> float:
    """Bytes that a call reads and writes, where these are not all of its tensors."""
    read, made = sizes_B[: one.reads], sizes_B[one.reads :]
    if packet in ("fill_", "zero_", "zeros", "ones", "zeros_like", "ones_like", "full", "full_like"):
        return sum(made) or sum(read)
    if packet in ("embedding", "index", "gather", "index_select"):
        return sum(read[1:]) + 2 * sum(made)
    if packet == "copy_":
        return 2 * min(sizes_B)
    return sum(read) + (sum(made) or max(read, default=0) * packet.endswith("_"))
