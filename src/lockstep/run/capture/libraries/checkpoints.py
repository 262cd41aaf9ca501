"""Checkpoints of programs of several ranks: nothing is gathered for them and nothing written, as there are no values.

Source: pytorch v2.13.0, torch/distributed/checkpoint/state_dict_saver.py, torch/distributed/fsdp.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any

from torch.distributed.fsdp import FullyShardedDataParallel

from lockstep.run.capture.libraries.after import After

SAVER = "torch.distributed.checkpoint.state_dict_saver"
UNSAVED = "checkpoints of several ranks: nothing is gathered for them or written, as there are no values"


def prepare(notes: list[str]) -> None:
    """What saves does nothing, which is said."""

    def instead(given: Callable[[], Any]) -> Callable[..., Any]:
        def saved(*args: Any, **words: Any) -> Any:
            notes.extend([UNSAVED] * (UNSAVED not in notes))
            return given()

        return saved

    def replaced(module: ModuleType) -> None:
        vars(module).update(save=instead(lambda: None), async_save=instead(_done))

    for name in ("optim_state_dict", "full_optim_state_dict", "sharded_optim_state_dict"):
        setattr(FullyShardedDataParallel, name, staticmethod(instead(dict)))
    sys.meta_path.insert(0, After(SAVER, replaced))
    for name in (SAVER, "torch.distributed.checkpoint"):
        if name in sys.modules:
            replaced(sys.modules[name])


def _done() -> Future[None]:
    made: Future[None] = Future()
    made.set_result(None)
    return made
