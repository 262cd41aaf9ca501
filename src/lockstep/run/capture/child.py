"""The process in which a program is captured: `python -m lockstep.run.capture.child question.json`.

The program runs as it would, with the card of the catalog in place of a GPU, until its first optimizer has made two
updates. What lies between the ends of these is a step as all later ones are; the file has its operations and tensors.
Where the model is evaluated between them, what lies between the next two is the step, if it is not evaluated there too.
"""

from __future__ import annotations

import gc
import json
import os
import random
import runpy
import shutil
import sys
import threading
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

from lockstep.base.units import format_size
from lockstep.describe.hardware.card import Card
from lockstep.run.capture.attention import Attention
from lockstep.run.capture.device import install, shapes_alone
from lockstep.run.capture.groups import CapturedGroup
from lockstep.run.capture.libraries import prepare
from lockstep.run.capture.real import data_is_real
from lockstep.run.capture.record import BUFFERS, GRADIENTS, PARAMETERS, STATES, Record, local
from lockstep.run.capture.refusals import Refused, refusal
from lockstep.run.capture.start import UPDATED, UPDATES
from lockstep.run.capture.streams import Order
from lockstep.run.capture.values import Values
from lockstep.run.capture.written import write


class Finished(BaseException):
    """The step is known; the program need not go on."""


class Steps:
    """Watches the updates of a program."""

    def __init__(self, record: Record, made: Path) -> None:
        self.made = made
        self.record, self.first, self.updates, self.start = record, None, 0, 0
        self.known = self.waits = False
        self.passes, self.before = 0, "forward"
        """Backward passes that run, one in the other, and the phase in which an update began."""
        self.left_out = ""
        """What is said of an evaluation that is no part of the step."""
        self.done: Callable[[], None] = lambda: None
        self.updated: dict[int, torch.Tensor] = {}
        """Parameters of all optimizers."""
        self.learns: set[int] = set()
        """Those of them that had gradients where an optimizer looked, as others may be frozen for a while."""

    def begins(self, optimizer: Any, args: Any, words: Any) -> Any:
        """Before an update: its gradients are there, or its closure makes them. Raises Refused for LBFGS."""
        if isinstance(optimizer, torch.optim.LBFGS):
            raise Refused("LBFGS evaluates the loss as often as its values need, and there are none: use another one")
        self._looks(optimizer)
        own, closure, *more = (*args, words.pop("closure", None)) if len(args) == 1 else args
        return None if closure is None else ((own, self._evaluates(optimizer, closure), *more), words)

    def _evaluates(self, optimizer: Any, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure that is no part of the update."""

        def evaluate() -> Any:
            self.record.phase = "forward"
            found = closure()
            self._looks(optimizer)
            return found

        return evaluate

    def _looks(self, optimizer: Any) -> None:
        self.before, self.record.phase = "backward" if self.passes else "forward", "optimizer"
        for one in _parameters(optimizer):
            self.record.name(one, STATES)  # Those of modules are named so at the end.
            self.record.name(one.grad, GRADIENTS)
            self.updated[id(one)] = one
            self.learns |= {id(one)} if one.requires_grad else set()

    def ends(self, optimizer: Any, *args: Any) -> None:
        """After an update. Raises Finished when a whole step is known."""
        self.record.phase = self.before
        self.record.name([list(state.values()) for state in optimizer.state.values()], STATES)
        self.first = self.first or optimizer
        if optimizer is self.first:
            self.waits = True
            self.passed()

    def passed(self) -> None:
        """After an update, and after the backward pass where that made it. Raises Finished."""
        if self.passes or not self.waits:
            return
        self.waits = False
        # What updates without a backward pass before it makes its states, as ZeRO does.
        self.updates += any(one.phase == "backward" for one in self.record.operations[self.start :])
        self.made.write_bytes(b"." * self.updates)
        if self.updates == UPDATES:
            self._step()
        gc.collect()
        self.start = len(self.record.operations)
        self.record.peak_B = self.record.live_B
        self.record.evaluated.clear()

    def _step(self) -> None:
        """After a step. Raises Finished, but for the first one in which the model is evaluated."""
        again, evaluated = self.known, self.evaluation
        if not (again and evaluated):
            self.done()  # Before the program is left: what it does then is no part of the step.
            self.known = True
        if again or not evaluated:
            raise Finished
        self.updates -= 1
        held = format_size(self.record.peak_B)
        self.left_out = f"left out, as it is not in every step: {evaluated} before, when tensors held up to {held}"

    @property
    def evaluation(self) -> str:
        """The evaluation that lies in the step, in words; empty where none does."""
        return ", ".join(
            f"an evaluation of {type(self.record.entered[number]).__name__} in {calls:,} calls"
            for number, calls in self.record.evaluated.items()
        )


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def name_modules(record: Record, updated: dict[int, torch.Tensor], learns: set[int]) -> dict[str, Any]:
    """Says which tensors are parameters and buffers of modules; how many parameters there are, and trained ones.

    Those count that are on the card or that an optimizer updates.
    """
    seen: dict[int, torch.Tensor] = {}
    names: dict[int, str] = {}
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    for module in modules:
        record.name(list(module._buffers.values()), BUFFERS)
        seen |= {id(one): one for one in module._parameters.values() if one is not None}
        names |= {id(one): f"{name} of {type(module).__name__}" for name, one in module._parameters.items()}
    # Those of no module, but not what an optimizer makes for itself.
    seen |= {key: one for key, one in updated.items() if isinstance(one, torch.nn.Parameter)}
    record.name([(one, getattr(one, "ds_tensor", None)) for one in seen.values()], PARAMETERS)
    seen = _flat(modules, seen)
    away = [one for one in updated.values() if not record.there(one)]
    there = [one for one in seen.values() if isinstance(local(one), FakeTensor) and record.there(one)]
    there += [one for one in away if id(one) in seen]
    own = all(one in seen for one in updated)  # Else what is updated are copies of parameters, as with ZeRO.
    trained = [one for one in there if (id(one) in learns if own else one.requires_grad)]
    left = [names[id(one)] for one in there if own and one.grad is not None and id(one) not in updated]
    return {
        "without_update": left,
        "untimed": ON_HOST if away else _foreign(record) if record.foreign else "",
        "parameters": sum(_whole(one) for one in there),
        "trained_parameters": sum(map(_whole, trained)),
    }


def _flat(modules: list[torch.nn.Module], seen: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Parameters with the flat ones of FSDP1 in place of those that are parts of them (`use_orig_params`)."""
    handles: list[Any] = [vars(one).get("_handle") for one in modules]
    flats = [one.flat_param for one in handles if hasattr(one, "flat_param")]
    parts = {id(part) for one in flats for part in one._params or ()}
    return {key: one for key, one in seen.items() if key not in parts} | {id(one): one for one in flats}


ON_HOST = "parameters are updated on the host, and how long that takes is not known"


def _foreign(record: Record) -> str:
    return f"{', '.join(record.foreign)}: no operations of PyTorch, whose time and FLOPs are not known"


def _whole(one: torch.Tensor) -> int:
    """Elements of a parameter on all ranks, also where it is a part of a flat one."""
    size: torch.Size = getattr(one, "_unpadded_unsharded_size", one.shape)
    return int(getattr(one, "ds_numel", size.numel()))


def _run(question: dict[str, Any], steps: Steps) -> None:
    sys.argv = [question["script"], *question["arguments"]]
    torch.manual_seed(0)
    random.seed(0)
    sys.path.insert(0, str(Path(question["script"]).resolve().parent))
    runpy.run_path(question["script"], run_name="__main__")
    raise Refused(
        f"the program ended after {steps.updates} optimizer steps, and a step is known after {UPDATES}: "
        "let it train for longer, or check that gradients reach an optimizer"
    )


def _phases(record: Record, steps: Steps) -> None:
    """Operations below the engine are backward ones; what runs forward there is recomputed."""
    from torch.autograd import graph

    engine = graph._engine_run_backward

    def backward(*args: Any, **words: Any) -> Any:
        record.phase = "backward"
        steps.passes += 1
        try:
            return engine(*args, **words)
        finally:
            steps.passes -= 1
            record.phase = "backward" if steps.passes else "forward"
            steps.passed()

    graph._engine_run_backward = backward
    torch.autograd._engine_run_backward = backward


CELLS = "recurrent layers: captured cell by cell, which cuDNN computes at once: it takes less time than is said"
UNSAVED = "torch.save: nothing is written, as there are no values"
KEPT = "record_stream: bytes that a stream keeps after their tensor is gone are not counted"


def _kept_by_stream(one: torch.Tensor, notes: list[str], stream: object) -> None:
    if KEPT not in notes:
        notes.append(KEPT)


def _resizing(record: Record) -> None:
    """Storages whose size changes, as sharded parameters' do, are counted again."""
    old = torch.UntypedStorage.resize_

    def resize(self: Any, size: int) -> Any:
        given = old(self, size)
        record.resized(self)
        return given

    torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]


def capture(question: dict[str, Any]) -> dict[str, Any]:
    """Runs the program and writes the file; what went wrong, or nothing."""
    values = Values(question["answers"])
    record = Record(values)
    card = Card(**question["card"] | {"capability": tuple(question["card"]["capability"])})
    pretence = install(card, (lambda: record.live_B, lambda: record.peak_B), Attention(card.capability))
    pretence.own |= {torch.Tensor.numpy: values.array, torch.Tensor.tolist: values.list, torch.Tensor.item: values.item}
    steps = Steps(record, Path(question["result"]).with_name(UPDATED))
    Order.note, CapturedGroup.note = record.noted, record.collective
    _resizing(record)
    notes = prepare()
    torch.save = lambda *args, **words: notes.append(UNSAVED) if UNSAVED not in notes else None
    torch.Tensor.record_stream = partialmethod(_kept_by_stream, notes)  # type: ignore[assignment]
    register_optimizer_step_pre_hook(steps.begins)
    register_optimizer_step_post_hook(steps.ends)
    _phases(record, steps)
    data_is_real()

    def done() -> None:
        counts, said = name_modules(record, steps.updated, steps.learns), [*notes]
        if left := counts.pop("without_update"):
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            said.append(f"gradients that no optimizer uses: {left[0]}{more}")
        said += [CELLS] * any("_thnn_fused" in one.name for one in record.operations)
        inside = f"{steps.evaluation} counts into the step" if steps.evaluation else ""
        said += filter(None, (inside, steps.left_out))
        with _disable_current_modes():
            write(question, record, steps.start, values, counts, said)

    steps.done = done
    try:
        with shapes_alone() as record.shapes, record, pretence:
            pretence.modes = record.shapes, record
            _run(question, steps)
    except BaseException as error:  # SystemExit too: a program may end itself.
        return {} if steps.known else refusal(error)
    raise AssertionError("a program ends with an error")


def _end_with(parent: int, folder: Path) -> None:
    """Ends this process, and its folder, when the other end of a pipe is closed, as it is when its owner has ended."""
    os.read(parent, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main() -> None:
    """The command."""
    question, parent = json.loads(Path(sys.argv[1]).read_text("utf-8")), int(sys.argv[2])
    threading.Thread(target=_end_with, args=(parent, Path(sys.argv[1]).parent), daemon=True).start()
    Path(question["result"]).write_text(json.dumps(capture(question)), "utf-8")


if __name__ == "__main__":
    main()
