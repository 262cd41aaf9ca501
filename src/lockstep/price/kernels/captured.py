"""Seconds of a captured step: every call priced as kernels of its kind are, and the host ahead of the device.

    product      FLOPs and bytes of its operands (`Clock.product`), in the format that it reads
    attention    FLOPs by the rate of the card's kernel, half of them under a causal mask (`Clock.fused_attention`)
    view         nothing
    other        bytes that it reads and writes over the bandwidth, times MIXED or WIDENED where formats are mixed

The host launches a kernel every `Clock.launches_s`, forward and backward, and the device begins when it is free and
when the kernel was launched. Calls of many tensors launch one kernel for every CHUNK of them.

Source: rates and factors of `clock.py` and `describe/hardware/catalog`; none is fitted to captured steps. Of 32 steps
that were captured and measured on one H100 (`benchmarks/one_gpu.py`), all took longer than priced: LONGER.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from lockstep.describe.captured import COLLECTIVES, SIZES, Captured, Operation
from lockstep.describe.hardware import Device
from lockstep.describe.stacks import stack
from lockstep.price.kernels.clock import MIXED, OPERATIONS, WIDENED, Clock, Work

SOFTWARE = "hf-trainer-5"
"""Whose host times eager PyTorch has."""
FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
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
LONGER = "4 to 23 %, 9 % in the median"
"""By how much steps measured on one H100 took longer."""


@dataclass(frozen=True)
class Priced:
    """Every call of a step on a device."""

    works: list[Work]
    """By call; without kernels where it launches none."""
    whole: Work
    """All of them."""
    clock: Clock

    @property
    def step_s(self) -> float:
        """What a step takes besides."""
        return float(self.clock.step_s)

    def launch_s(self, one: Operation) -> float:
        """Seconds in which the host launches a kernel of a call."""
        return float(self.clock.launches_s[one.phase == "backward"])


def priced_calls(captured: Captured, device: Device) -> Priced:
    """Every call of the step on a device. Raises UnknownName for products in a format that the device does not have."""
    clocks = {name: Clock(device, name, stack=stack(SOFTWARE)) for name in ("bf16", "fp16", "fp32", "tf32")}
    works = [_work(one, clocks) for one in captured.operations]
    whole = sum(works, Work())
    clock = clocks["bf16"]
    factors = clock.factors_inside(whole)
    return Priced([work.inside(factors) for work in works], whole.inside(factors), clock)


def _work(one: Operation, clocks: dict[str, Clock]) -> Work:
    """What a call takes."""
    packet, _, overload = one.name.removeprefix("aten.").partition(".")
    if packet in VIEWS or one.is_order or one.name in COLLECTIVES:
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
