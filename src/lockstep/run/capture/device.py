"""The GPU that is not there: a device of PyTorch whose tensors have shapes and no bytes, and answers like a card.

PyTorch lets Python be the third-party device (PrivateUse1): forward and backward passes then run with the shapes that
kernels give alone, also in a build without CUDA. What programs see is a GPU: "cuda" in arguments becomes that device,
that device in answers becomes "cuda", and `torch.cuda` says what the catalog knows of the card. All of it is for a
process of its own (`child.py`): it changes PyTorch itself.

Source: pytorch v2.13.0, torch/utils/backend_registration.py (_setup_privateuseone_for_python_backend),
torch/_subclasses/fake_tensor.py.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, update_wrapper
from typing import Any

import torch
import torch.utils.backend_registration as registration
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _device, _foreach_utils
from torch.utils._pytree import tree_leaves, tree_map

from lockstep.describe.hardware.card import Card
from lockstep.run.capture.autocast import Casts
from lockstep.run.capture.cuda import SEEN, Generator, answer, index
from lockstep.run.capture.kernels import ctc_loss, kernels, rms_norm
from lockstep.run.capture.moving import set_data, swapping
from lockstep.run.capture.real import Real, is_without, listed, loading, really, with_values
from lockstep.run.capture.values import no_told_size

NAME = "gpu_of_the_catalog"


class _Module(registration._DummyBackendModule):
    """What PyTorch asks of a device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16, torch.float32]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)


class Pretence(TorchFunctionMode):
    """Calls of the program: the card in arguments, and in what is asked of tensors."""

    modes: tuple[Any, ...] = ()
    """Under which a program runs."""

    def __init__(self, attention: Callable[..., Any]) -> None:
        super().__init__()
        self.own: dict[Any, Callable[..., Any]] = {
            torch.nn.functional.scaled_dot_product_attention: attention,
            torch.nn.functional.rms_norm: rms_norm,
            torch.rms_norm: rms_norm,
            torch.nn.functional.ctc_loss: ctc_loss,
            torch.Tensor.is_cuda.__get__: lambda one: one.device.type == SEEN,  # type: ignore[attr-defined]
            torch.Tensor.to: _moved,
            torch.Tensor.cuda: lambda one, device=None, **words: one.to(_card(device), **words),
            torch.Tensor.pin_memory: lambda one, *args: one,
            torch.Tensor.data_ptr: address,
            torch.Tensor.__format__: _formatted,
            torch.Tensor.__getitem__: lambda one, at: one[listed(one, at)],
            torch.Tensor.__setitem__: lambda one, at, put: one.__setitem__(listed(one, at), put),
            torch.Tensor.__deepcopy__: _copied,
            torch.nn.functional.embedding: partial(_dense, torch.nn.functional.embedding),
            torch.nn.functional.embedding_bag: partial(_dense, torch.nn.functional.embedding_bag),
            torch.Tensor.data.__set__: set_data,  # type: ignore[attr-defined]
            **{make: partial(_lifted, make) for make in (torch.tensor, torch.as_tensor, torch.asarray)},
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.device:  # A number is that of a card.
            return function(*((SEEN, *args) if args and type(args[0]) is int else args), **(kwargs or {}))
        called, words = self.own.get(function, function), _inside(kwargs or {})
        if type(words.get("generator")) is Generator and words["generator"].drops:
            del words["generator"]  # There is nothing that it would draw.
        if type(words.get("device")) is int:
            words["device"] = _card(words["device"])
        if words.get("device") is None and _usual() and function in _device._device_constructors():
            words["device"] = _usual()
        args = _inside(tuple(args))
        no_told_size(getattr(function, "__name__", ""), (*args, *words.values()))
        if Real.depth:
            args, words = tree_map(with_values, (args, words))
        if not Real.depth or not any(map(is_without, tree_leaves((args, words)))):
            return called(*args, **words)
        with ExitStack() as modes:  # Data that is put on the card as it is read, or has no values.
            for one in self.modes:
                modes.enter_context(one)
            return called(*args, **words)


def _usual() -> torch.device | None:
    """The card, where a program makes tensors there without saying so: `torch.set_default_device("cuda")`."""
    found = _device.CURRENT_DEVICE
    return found if found is not None and found.type == NAME else None


def _moved(one: torch.Tensor, *args: Any, **words: Any) -> torch.Tensor:
    """`tensor.to(2)` too is a card."""
    return one.to(*((_card(args[0]), *args[1:]) if args and type(args[0]) is int else args), **words)


def _lifted(make: Callable[..., torch.Tensor], data: Any, *args: Any, device: Any = None, **words: Any) -> torch.Tensor:
    """A tensor of data: made by the processor, and then moved."""
    if isinstance(data, torch.Tensor):
        return make(data, *args, device=device, **words)
    made = make(data, *args, device="cpu", **words)
    return made if device is None else made.to(device)


class Sparse(Exception):
    """A gradient whose size depends on values."""


def _dense(embed: Callable[..., Any], *args: Any, **words: Any) -> Any:
    """Rows of a table whose gradient is dense. Raises Sparse for others."""
    if inspect.signature(embed).bind(*args, **words).arguments.get("sparse"):
        raise Sparse(
            "sparse=True gives gradients whose size depends on which rows are read: capture it with sparse=False"
        )
    return embed(*args, **words)


def _copied(one: torch.Tensor, known: dict[int, Any]) -> torch.Tensor:
    """`copy.deepcopy`, which else copies bytes."""
    if id(one) not in known:
        if not one.is_leaf:
            raise RuntimeError("only leaves of the graph are copied by copy.deepcopy: detach the tensor")
        made = one.detach().clone()
        made = torch.nn.Parameter(made) if isinstance(one, torch.nn.Parameter) else made
        known[id(one)] = made.requires_grad_(one.requires_grad)
        made.grad = None if one.grad is None else one.grad.clone()
    found: torch.Tensor = known[id(one)]
    return found


def _formatted(one: torch.Tensor, how: str) -> str:
    """A number in a text, which is asked for."""
    return format(one.item(), how) if one.dim() == 0 else object.__format__(one, how)


_ADDRESSES: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
APART_B = 1 << 40
"""Between the addresses of two storages."""


def address(one: torch.Tensor) -> int:
    """Where a tensor's bytes would be."""
    return _begin(one.untyped_storage()) + int(one.storage_offset()) * one.element_size()


def _begin(storage: torch.UntypedStorage) -> int:
    """Where a storage would begin: each at another number, those without bytes at 0."""
    return _ADDRESSES.setdefault(storage, APART_B * (len(_ADDRESSES) + 1)) if storage.nbytes() else 0


def _card(device: Any = None) -> torch.device:
    """The card, by whatever number it is called."""
    asked = device if isinstance(device, int) else getattr(torch.device(device or SEEN), "index", None)
    if asked not in (None, 0, index()):
        raise RuntimeError(f"the program uses {SEEN}:{asked}, and what is captured is the card {SEEN}:{index()} alone")
    return torch.device(NAME, 0)


def _inside(one: Any) -> Any:
    """A device or its name, also in lists and words of a call, as PyTorch's own code has it."""
    kind = type(one)
    if kind is torch.device:
        return _card(one) if one.type in (SEEN, NAME) else one
    if kind is str:
        return _card(one) if one == SEEN or one.startswith(f"{SEEN}:") else one
    if kind is tuple or kind is list:
        return kind([_inside(each) for each in one])
    return {name: _inside(each) for name, each in one.items()} if kind is dict else one


class _Depth:
    """How deep PyTorch's own code is below the program's."""

    inner = 0
    failed: BaseException | None = None
    """What an operation raised last, which the engine of the backward pass may lose."""


def _outside(one: FakeTensor) -> torch.device:
    """A tensor's device: for PyTorch's own code as it is, for the program as it sees it."""
    if one.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    found = one.fake_device
    return torch.device(SEEN, index()) if found.type == NAME and not _Depth.inner else found


def install(card: Card, held: tuple[Callable[[], int], Callable[[], int]], attention: Callable[..., Any]) -> Pretence:
    """Makes the card PyTorch's device; `held` say the bytes on it, now and at most. For a process of its own."""
    registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    FakeTensor.device = property(_outside, FakeTensor.device.fset)  # type: ignore[attr-defined, assignment]
    # What evaluates faster is a kernel for real bytes.
    torch.backends.mha.set_fastpath_enabled(False)
    # Without the wrappers that keep a compiler away, which load it and take longer than many a call.
    FakeTensorMode.__torch_dispatch__ = inspect.unwrap(FakeTensorMode.__torch_dispatch__)  # type: ignore[method-assign]
    _counted(FakeTensorMode, "__torch_dispatch__")
    _counted(FakeTensorMode, "from_tensor")
    # A copy of a tensor is of the same mode, not of a copy of it.
    FakeTensorMode.__deepcopy__ = lambda mode, known: mode  # type: ignore[attr-defined]
    _foreach_utils._foreach_supported_types.append(FakeTensor)
    sys.modules["torch.optim.optimizer"]._foreach_supported_types.append(FakeTensor)
    pretence = Pretence(attention)
    torch.UntypedStorage.data_ptr = _begin  # type: ignore[assignment, method-assign]
    # Functions of PyTorch that call it are run with the mode off.
    update_wrapper(attention, torch.nn.functional.scaled_dot_product_attention)
    torch.nn.functional.scaled_dot_product_attention = attention
    torch.utils.swap_tensors = swapping(torch.utils.swap_tensors)
    torch.load = loading(torch.load, NAME, lambda one: one.to(_card()))
    torch._utils._rebuild_tensor = really(torch._utils._rebuild_tensor)
    _autocast()
    _made_there()
    pretence.kernels = kernels()  # type: ignore[attr-defined]
    pretence.casts = Casts(NAME)  # type: ignore[attr-defined]
    _engine(pretence)
    answer(card, *held)
    return pretence


def _counted(owner: Any, name: str) -> None:
    old = getattr(owner, name)

    def counted(*args: Any, **words: Any) -> Any:
        _Depth.inner += 1
        try:
            return old(*args, **words)
        except Exception as error:
            _Depth.failed = error
            raise
        finally:
            _Depth.inner -= 1

    setattr(owner, name, counted)


def _made_there() -> None:
    """`torch.set_default_device("cuda")` and `with torch.device("cuda")` are the card, which is not said of it."""
    old, asked = _device.DeviceContext.__init__, torch.get_default_device
    _device.DeviceContext.__init__ = lambda self, device: old(self, _inside(device))  # type: ignore[method-assign]

    def default() -> torch.device:
        return torch.device(SEEN, index()) if _usual() else asked()

    torch.get_default_device = default


def _autocast() -> None:
    """torch.autocast("cuda") is of the card, and so is what is asked of it."""
    old = torch.amp.autocast_mode.autocast.__init__

    def begun(self: Any, device_type: Any, *args: Any, **words: Any) -> None:
        old(self, NAME if device_type == SEEN else device_type, *args, **words)

    torch.amp.autocast_mode.autocast.__init__ = begun  # type: ignore[method-assign]
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        asked = getattr(torch, name)

        def of_the_card(*args: Any, asked: Any = asked) -> Any:
            return asked(*(NAME if one == SEEN else one for one in args))

        setattr(torch, name, of_the_card)
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype(NAME)
    torch.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype(NAME, dtype)


def _engine(pretence: Pretence) -> None:
    """Code of the program that the backward pass calls sees the card too."""
    from torch.autograd import graph

    old = graph._engine_run_backward

    def run(*args: Any, **words: Any) -> Any:
        with pretence, torch.autograd.set_multithreading_enabled(False):
            try:
                return old(*args, **words)
            except SystemError as error:
                raise _Depth.failed or error from None

    graph._engine_run_backward = run
    torch.autograd._engine_run_backward = run


@contextmanager
def shapes_alone() -> Iterator[FakeTensorMode]:
    """A context in which tensors have shapes and no bytes, on every device."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode
