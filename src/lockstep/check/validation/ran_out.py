"""Runs that are recorded to have run out of memory, by the table they stand in, and which of them would fit here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.check.validation import (
    bigscience_v100,
    fms_acceleration,
    fms_adapters,
    memory_finetune,
    prime_rl,
    vocabulary,
)
from lockstep.check.validation.case import Case
from lockstep.price.layout import Memory, memory

RAN_OUT: dict[str, Callable[[], tuple[Case, ...]]] = {
    "vocab_parallelism_memory": vocabulary.out_of_memory,
    "bigscience_v100_memory": bigscience_v100.out_of_memory,
    "fms_acceleration_memory": fms_acceleration.out_of_memory,
    "fms_adapters_memory": fms_adapters.out_of_memory,
    "memory_finetune": memory_finetune.out_of_memory,
    "prime_rl_memory": prime_rl.out_of_memory,
}


@dataclass(frozen=True, slots=True)
class RanOut:
    """Runs that ran out of memory."""

    runs: int
    tight: int
    """Those that would barely fit here (`Memory.tight`)."""
    accepted: int
    """Those that would fit with room to spare."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def ran_out(tables: Iterable[str]) -> RanOut:
    """Of these tables."""
    found = [one for table in tables if table in RAN_OUT for one in _predicted(table)]
    tight = sum(bool(one.tight) for one in found)
    return RanOut(len(found), tight, sum(bool(one.fits) for one in found) - tight)


@cache
def _predicted(table: str) -> tuple[Memory, ...]:
    return tuple(memory(case.job, case.cluster, case.layout.grid()) for case in RAN_OUT[table]())
