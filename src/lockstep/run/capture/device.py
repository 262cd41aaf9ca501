"""The GPU that is not there: a device of PyTorch whose tensors have shapes and no bytes, and answers like a card.

PyTorch lets Python be the third-party device (PrivateUse1): forward and backward passes then run with the shapes that
kernels give alone, also in a build without CUDA. What programs see is a GPU: "cuda" in arguments becomes that device,
that device in answers becomes "cuda", and `torch.cuda` says what the catalog knows of the card. All of it is for a
process of its own (`child.py`): it changes PyTorch itself.

Source: pytorch v2.13.0, torch/utils/backend_registration.py (_setup_privateuseone_for_python_backend),
torch/_subclasses/fake_tensor.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils.backend_registration as registration
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils._pytree import tree_map

from lockstep.describe.hardware.card import Card
from lockstep.run.capture.autocast import Casts

NAME = "gpu_of_the_catalog"
SEEN = "cuda"
"""The device that programs see."""


class _Module(registration._DummyBackendModule):
    """What PyTorch asks of a device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16, torch.float32]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        pass


class Pretence(TorchFunctionMode):
    """Calls of the program: the card in arguments, and in what is asked of tensors."""

    def __init__(self, attention: Callable[..., Any]) -> None:
        super().__init__()
        self.own: dict[Any, Callable[..., Any]] = {
            torch.nn.functional.scaled_dot_product_attention: attention,
            torch.Tensor.is_cuda.__get__: lambda one: one.device.type == SEEN,  # type: ignore[attr-defined]
            torch.Tensor.cuda: lambda one, device=None, **words: one.to(_card(device), **words),
            torch.Tensor.pin_memory: lambda one, *args: one,
            **{make: partial(_lifted, make) for make in (torch.tensor, torch.as_tensor, torch.asarray)},
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        args, kwargs = tree_map(_inside, tuple(args)), tree_map(_inside, dict(kwargs or {}))
        if function in self.own:
            return self.own[function](*args, **kwargs)
        return function(*args, **kwargs)


def _lifted(make: Callable[..., torch.Tensor], data: Any, *args: Any, device: Any = None, **words: Any) -> torch.Tensor:
    """A tensor of data: made by the processor, and then moved."""
    if isinstance(data, torch.Tensor):
        return make(data, *args, device=device, **words)
    made = make(data, *args, device="cpu", **words)
    return made if device is None else made.to(device)


def _card(device: Any = None) -> torch.device:
    index = device if isinstance(device, int) else getattr(torch.device(device or SEEN), "index", None)
    return torch.device(NAME, index or 0)


def _inside(one: Any) -> Any:
    """A device or its name as PyTorch's own code has it."""
    if isinstance(one, torch.device) and one.type == SEEN:
        return _card(one)
    return _card(one) if isinstance(one, str) and (one == SEEN or one.startswith(f"{SEEN}:")) else one


class _Depth:
    """How deep PyTorch's own code is below the program's."""

    inner = 0


def _outside(one: FakeTensor) -> torch.device:
    """A tensor's device: for PyTorch's own code as it is, for the program as it sees it."""
    if one.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    found = one.fake_device
    return torch.device(SEEN, found.index or 0) if found.type == NAME and not _Depth.inner else found


def install(card: Card, held: tuple[Callable[[], int], Callable[[], int]], attention: Callable[..., Any]) -> Pretence:
    """Makes the card PyTorch's device; `held` say the bytes on it, now and at most. For a process of its own."""
    registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    FakeTensor.device = property(_outside, FakeTensor.device.fset)  # type: ignore[attr-defined, assignment]
    _counted(FakeTensorMode, "__torch_dispatch__")
    _counted(FakeTensorMode, "from_tensor")
    _foreach_utils._foreach_supported_types.append(FakeTensor)
    sys.modules["torch.optim.optimizer"]._foreach_supported_types.append(FakeTensor)
    pretence = Pretence(attention)
    torch.nn.Module._apply = _applied  # type: ignore[method-assign]
    _autocast()
    pretence.kernels = _kernels()  # type: ignore[attr-defined]
    pretence.casts = Casts(NAME)  # type: ignore[attr-defined]
    _engine(pretence)
    _answers(card, *held)
    return pretence


def _kernels() -> torch.library.Library:
    """Operations that a GPU has kernels for, and that other devices write out."""
    found = torch.library.Library("aten", "IMPL")
    for name in ("silu_backward", "mish_backward", "native_channel_shuffle"):
        found.impl(name, _never, "PrivateUse1")
    return found


def _never(*args: Any, **words: Any) -> Any:
    """Shapes alone answer before a kernel is called."""
    raise NotImplementedError


def _counted(owner: Any, name: str) -> None:
    old = getattr(owner, name)

    def counted(*args: Any, **words: Any) -> Any:
        _Depth.inner += 1
        try:
            return old(*args, **words)
        finally:
            _Depth.inner -= 1

    setattr(owner, name, counted)


def _applied(module: Any, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """`Module._apply` of tensors without bytes: parameters that change device are replaced, tied ones by the same."""
    for child in module.children() if recurse else ():
        child._apply(change)
    for name, one in module._parameters.items():
        if one is None:
            continue
        with torch.no_grad():
            made = change(one)
        if made is one:
            continue
        if one.device == made.device:
            one.data = made
        else:
            became = getattr(one, "_became", None)
            one._became = torch.nn.Parameter(made, one.requires_grad) if became is None else became
            module._parameters[name] = one._became
        if one.grad is not None:
            module._parameters[name].grad = change(one.grad)
    for name, one in module._buffers.items():
        if one is not None:
            module._buffers[name] = change(one)
    return module


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
            return old(*args, **words)

    graph._engine_run_backward = run
    torch.autograd._engine_run_backward = run


class Stream:
    """A stream or an event: work is in order."""

    def __init__(self, *args: Any, **words: Any) -> None:
        self.device, self.cuda_stream, self.priority = torch.device(SEEN, 0), 0, 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds: no time passes."""
        return 1.0

    def query(self) -> bool:
        """All is done."""
        return True

    def record(self, *args: Any) -> Stream:
        """Nothing to wait for."""
        return self

    record_event = record
    wait = wait_event = wait_stream = synchronize = record


PROCESSORS = 132
"""Of an H100, for every card: the catalog does not know them."""
SILENT = """init _lazy_init _lazy_call synchronize empty_cache set_device manual_seed manual_seed_all ipc_collect
    reset_peak_memory_stats reset_max_memory_allocated set_rng_state set_rng_state_all set_stream set_sync_debug_mode
    set_per_process_memory_fraction"""
"""What `torch.cuda` does without an answer."""


def _answers(card: Card, allocated: Callable[[], int], peak: Callable[[], int]) -> None:
    """What `torch.cuda` says."""
    properties = SimpleNamespace(
        name=card.name, total_memory=card.memory_B, major=card.capability[0], minor=card.capability[1],
        multi_processor_count=PROCESSORS, is_integrated=False, warp_size=32, gcnArchName="",
    )  # fmt: skip
    says: dict[str, Any] = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "get_device_name": card.name, "get_device_capability": card.capability, "get_device_properties": properties,
        "is_bf16_supported": card.capability >= (8, 0), "is_current_stream_capturing": False, "_is_in_bad_fork": False,
        "get_arch_list": ["sm_80", "sm_90"], "memory_stats": {}, "utilization": 0, "default_stream": Stream(),
        "current_stream": Stream(), "get_rng_state_all": [], "initial_seed": 0, "device_memory_used": 0,
        **dict.fromkeys(SILENT.split()),
    }  # fmt: skip
    cuda = torch.cuda
    for name, answer in says.items():
        setattr(cuda, name, lambda *args, answer=answer, **words: answer)
    for name in ("memory_allocated", "memory_reserved"):
        setattr(cuda, name, lambda *args: allocated())
    for name in ("max_memory_allocated", "max_memory_reserved"):
        setattr(cuda, name, lambda *args: peak())
    cuda.mem_get_info = lambda *args: (card.memory_B - allocated(), card.memory_B)
    cuda.get_rng_state = lambda *args: torch.zeros(16, dtype=torch.uint8)
    cuda.Stream = cuda.Event = Stream  # type: ignore[assignment, misc]
    cuda.stream = lambda stream: stream or Stream()  # type: ignore[assignment, return-value]
    torch.version.cuda = "13.0"
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda *args: True
        torch.accelerator.current_accelerator = lambda *args, **words: torch.device(SEEN)


@contextmanager
def shapes_alone() -> Iterator[FakeTensorMode]:
    """A context in which tensors have shapes and no bytes, on every device."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode
