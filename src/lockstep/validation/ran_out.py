"""Runs that are recorded to have run out of memory, by the table they stand in, and which of them would fit here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from lockstep.layout import memory
from lockstep.types.plain import Json, picked
from lockstep.validation import (
    bigscience_v100,
    fms_acceleration,
    fms_adapters,
    memory_finetune,
    prime_rl,
    vocabulary,
)
from lockstep.validation.case import Case

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
    accepted: int
    """Those that would fit here."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def ran_out(tables: Iterable[str]) -> RanOut:
    """Of these tables."""
    found = [each for table in tables if table in RAN_OUT for each in _accepted(table)]
    return RanOut(len(found), sum(found))


@cache
def _accepted(table: str) -> tuple[bool, ...]:
    return tuple(bool(memory(case.job, case.cluster, case.layout.grid()).fits) for case in RAN_OUT[table]())
