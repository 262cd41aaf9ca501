"""What a program does on the card, operation by operation, and the life of every tensor there."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, ClassVar, ParamSpec, TypeVar

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.flop_counter import flop_registry

from lockstep.base.records import dataclass, field
from lockstep.describe.captured import READ, blocks_B
from lockstep.run.capture.device import NAME
from lockstep.run.capture.groups import Functional
from lockstep.run.capture.kernels import of_lengths
from lockstep.run.capture.known import MOST, changes, forget, indexed, remember, sized, value
from lockstep.run.capture.streams import Order
from lockstep.run.capture.truths import follow
from lockstep.run.capture.values import Values

P = ParamSpec("P")
R = TypeVar("R")
PARAMETERS, GRADIENTS, STATES, BUFFERS, KEPT = "parameters", "gradients", "optimizer", "buffers", "activations"


@dataclass(slots=True)
class Life:
    """A tensor's bytes on the card, from one operation to another."""

    size_B: int
    born: int
    died: int | None = None
    category: str = KEPT


@dataclass(slots=True)
class Operation:
    """A call of the program."""

    name: str
    phase: str
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    """Of the tensors that it reads and then of those that it gives, with their formats."""
    reads: int
    flops: int = 0
    causal: bool = False
    """Whether it is attention under a causal mask."""
    stream: int = 0
    event: int = 0
    """What a row of streams records or waits for."""
    group: str = ""
    """The ranks of a collective."""
    module: int = 0
    """The module whose forward pass makes it, or made what it is the gradient of; 0 where none did."""


class Uncounted(Exception):
    """A product without a rule for its FLOPs, or of nothing."""


def counted_flops(function: Any, args: Any, kwargs: Any, given: Any) -> int:
    """FLOPs of a product or of attention, as PyTorch's counter has them; 0 of other operations. Raises Uncounted."""
    packet = _counted(function._overloadpacket)
    if packet in flop_registry:
        if any(not one.numel() for one in _tensors(args)):
            raise Uncounted(f"{function} of no elements: a value that does not exist was taken for a size")
        shaped = [_lengths(function, one) for one in args if not isinstance(one, torch.dtype)]
        with no_dispatch():
            return int(flop_registry[packet](*shaped, **kwargs, out_val=given))
    if not _is_product(packet):
        return 0
    name = _name(packet).removeprefix("aten.")
    if name == "_grouped_mm":
        (first, second), last = args[:2], args[1].shape[-1]
        batches = first.shape[0] if first.dim() == second.dim() == 3 else 1
        return int(2 * batches * first.shape[-2] * first.shape[-1] * last)
    raise Uncounted(f"{function} is a product without a rule for its FLOPs, so that the step would count too few")


def _lengths(function: Any, one: Any) -> Any:
    """An argument of a product, and where sequences of a batch end with its values. Raises Uncounted."""
    if not isinstance(one, FakeTensor) or one.dtype != torch.int32 or "att" not in function._opname:
        return one
    found = value(one)
    if found is None:
        raise Uncounted(f"{function} within sequences whose lengths depend on weights: its FLOPs cannot be known")
    return found


@cache
def _counted(packet: Any) -> Any:
    """The operation by whose rule one is counted: one that changes its first argument does what its other form does."""
    name = _name(packet).removeprefix("aten.")
    return getattr(torch.ops.aten, name[:-1], packet) if name.endswith("_") else packet


@cache
def _is_product(packet: Any) -> bool:
    name = _name(packet)
    return any(part in name for part in PRODUCTS) and not name.endswith("_for_cpu")


def _is_causal(function: Any, args: Any, kwargs: Any) -> bool:
    names = [one.name for one in function._schema.arguments]
    return bool((dict(zip(names, args, strict=False)) | kwargs).get("is_causal"))


PRODUCTS = ("mm", "conv", "dot_product_attention", "matmul", "linear_backward")
"""What names of products have in them."""
OWN = frozenset(
    ("aten", "prim", "prims", "c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp", "profiler")
)
"""Whose operations are PyTorch's own."""


@dataclass(slots=True)
class Holder:
    """What is known of the bytes of a storage, whose size may change."""

    life: Life | None = None


def local(one: torch.Tensor) -> torch.Tensor:
    """A tensor's part on this rank."""
    return getattr(one, "_local_tensor", one)


def _tensors(one: Any) -> list[torch.Tensor]:
    """The tensors in arguments or in what is given, which may be in lists."""
    if isinstance(one, torch.Tensor):
        return [one]
    return [found for each in one for found in _tensors(each)] if isinstance(one, tuple | list) else []


fake_tensor.CONSTANT_NUMEL_LIMIT = MOST
DEVICE, META = torch.ops.prim.device.default, torch.device("meta")
_name = cache(str)
_format = cache(lambda dtype: str(dtype).removeprefix("torch."))


@dataclass
class Record(TorchDispatchMode):
    """The operations of a program and the tensors on the card, until a step of it is known."""

    between: ClassVar[str] = ""
    """The phase of what is neither in a pass nor in an update, where a library says so."""
    answer: Values
    operations: list[Operation] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    phase: str = "outside"
    shapes: FakeTensorMode | None = None
    """The mode in which tensors have no bytes."""

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: weakref.WeakKeyDictionary[Any, Holder] = weakref.WeakKeyDictionary()
        self.functional = Functional()
        self.live_B = self.peak_B = 0
        self.inside: list[int] = []
        self.trained: set[int] = set()
        """Modules that ran to be trained."""
        self.evaluated: Counter[int] = Counter()
        """Calls by the outermost of such modules, while it was set to evaluate and without gradients."""
        self.evaluating = 0
        self.entered: dict[int, torch.nn.Module] = {}
        """Modules by number, also those of now."""
        self.foreign: dict[str, None] = {}
        """Operations on the card that are not PyTorch's own."""
        self.forward: dict[int, int] = {}
        """The module that each number of a gradient was drawn in."""
        register_module_forward_pre_hook(self._entered)
        register_module_forward_hook(self._left, always_call=True)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether calls go through what keeps a compiler away: there is none."""
        return False

    @classmethod
    def during(cls, phase: str, run: Callable[P, R]) -> Callable[P, R]:
        """`run`, whose calls that are neither in a pass nor in an update are of this phase."""

        @wraps(run)
        def phased(*args: P.args, **words: P.kwargs) -> R:
            before, cls.between = cls.between, phase
            try:
                return run(*args, **words)
            finally:
                cls.between = before

        return phased

    def _entered(self, module: torch.nn.Module, *args: Any) -> None:
        if module.training and torch.is_grad_enabled():
            self.trained.add(id(module))
        elif not (self.inside or module.training) and id(module) in self.trained:
            self.evaluating = id(module)
        self.inside.append(id(module))
        self.entered[id(module)] = module

    def _left(self, *args: Any) -> None:
        self.inside.pop()
        self.evaluating *= bool(self.inside)

    def _module(self) -> int:
        """The module that works now; in a backward pass the one whose gradients are made."""
        if self.phase == "backward" and not self.inside:
            node = torch._C._current_autograd_node()
            return 0 if node is None else self.forward.get(node._sequence_nr(), 0)
        module = self.inside[-1] if self.inside else 0
        # What is recorded for the backward pass is numbered before it runs.
        self.forward.setdefault(torch.autograd._get_sequence_nr() - 1, module)
        return module

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is DEVICE and isinstance(args[0], FakeTensor):
            return META if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
        if any(one is not FakeTensor and not issubclass(one, FakeTensor) for one in types):
            return NotImplemented  # A tensor of many ranks, which calls what it does on this one.
        kwargs = kwargs or {}
        found = self.answer(function, args)
        if found is not NotImplemented:
            if self.there(args[0]):
                self.noted(READ, Order.current.number)
            return found
        given = self._given(function, args, kwargs)
        if self.functional(function, args, given):
            return given
        if function.namespace == "prim":
            return given
        tensors, read = _tensors(given), _tensors((*args, *kwargs.values()))
        if any(self.there(one) for one in (*tensors, *read)):
            if function.namespace not in OWN:
                self.foreign[function._schema.name] = None
            flops = counted_flops(function, args, kwargs, given)
            causal = flops > 0 and _is_causal(function, args, kwargs)
            self._add(_name(function), read, tensors, flops=flops, causal=causal, stream=Order.current.number)
        return given

    def _add(self, name: str, read: Sequence[torch.Tensor], gives: Sequence[torch.Tensor], **words: Any) -> None:
        for one in gives:
            self.saw(one)
        shapes = tuple((tuple(one.shape), _format(one.dtype)) for one in (*read, *gives))
        phase = "recompute" if self.phase == "backward" and self.inside else self.phase
        if self.between and phase not in ("recompute", "backward", "optimizer"):
            phase = self.between
        if self.evaluating:
            self.evaluated[self.evaluating] += 1
        self.operations.append(Operation(name, phase, shapes, len(read), module=self._module(), **words))

    def noted(self, name: str, stream: int, event: int = 0) -> None:
        """Adds a row of streams."""
        self._add(name, (), (), stream=stream, event=event)

    def collective(self, op: str, reads: Any, gives: Any, group: str, stream: int) -> None:
        """Adds a collective of tensors on the card."""
        for one in () if gives or op == "broadcast" else reads:
            forget(one)
        if any(self.there(one) for one in (*reads, *gives)):
            self._add(op, reads, gives, stream=stream, group=group)

    def _given(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What an operation gives, and what is known of it."""
        there = getattr(kwargs.get("device"), "type", "") == NAME
        read = tree_map(self._unknown, args) if there else indexed(function, args, self.answer.size)
        given = sized(function, args, kwargs, self.answer.size)
        if given is None:
            given = of_lengths(function, args)
        if given is None:
            count = changes(function, args, kwargs)
            given = function(*read, **kwargs)
            remember(function, args, kwargs, given, count)
        follow(function, read, given)
        return given

    def _unknown(self, one: Any) -> Any:
        """A tensor of the processor without what is known of its values, as it is when it moves to the card."""
        if isinstance(one, FakeTensor):
            one.constant = None
        elif isinstance(one, torch.Tensor) and self.shapes is not None:
            one = self.shapes.from_tensor(one)
            one.constant = None
        return one

    def there(self, one: torch.Tensor) -> bool:
        """Whether a tensor is on the card."""
        return getattr(local(one), "fake_device", one.device).type == NAME

    def saw(self, one: torch.Tensor) -> None:
        """Counts the bytes of a tensor on the card from now on, once."""
        if not self.there(one):
            return
        storage = one.untyped_storage()
        if storage in self.known:
            return
        holder = self.known[storage] = Holder()
        self._begins(holder, storage.nbytes())
        weakref.finalize(storage, self._ends, holder)

    def _begins(self, holder: Holder, nbytes: int) -> None:
        if not nbytes:
            return
        life = holder.life = Life(nbytes, len(self.operations))
        self.lives.append(life)
        self.live_B += blocks_B(nbytes)
        self.peak_B = max(self.peak_B, self.live_B)

    def _ends(self, holder: Holder) -> None:
        if holder.life is not None:
            holder.life.died = len(self.operations)
            self.live_B -= blocks_B(holder.life.size_B)
            holder.life = None

    def resized(self, storage: Any) -> None:
        """Counts the bytes of a storage again, whose size was changed."""
        holder = self.known.get(storage)
        if holder is not None:
            category = KEPT if holder.life is None else holder.life.category
            self._ends(holder)
            self._begins(holder, storage.nbytes())
            if holder.life is not None:
                holder.life.category = category

    def name(self, tensors: Any, category: str) -> None:
        """Says what tensors are."""
        for one in tree_iter(tensors):
            if isinstance(one, torch.Tensor) and self.there(one):
                holder = self.known.get(local(one).untyped_storage())
                if holder is not None and holder.life is not None:
                    holder.life.category = category
