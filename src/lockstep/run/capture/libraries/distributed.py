"""torch.distributed: programs of several ranks are refused until their collectives are captured."""

from __future__ import annotations

from typing import Any

import torch.distributed


class DistributedProgram(Exception):
    """A program of several ranks."""


def prepare(notes: list[str]) -> None:
    """Refuses process groups."""

    def refused(*args: Any, **words: Any) -> None:
        raise DistributedProgram(
            "torch.distributed.init_process_group: programs of several ranks are not captured yet; run the script as "
            "one process, without torchrun's environment"
        )

    torch.distributed.init_process_group = refused
