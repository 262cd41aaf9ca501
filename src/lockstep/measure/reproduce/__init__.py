"""Whether a run can be had again bit for bit, and what parts two that differ."""

from lockstep.measure.reproduce.reproduce import (
    SOURCES,
    Digests,
    Parting,
    Reproduction,
    Source,
    Trial,
    first_parting,
    reproduce,
)

__all__ = ["SOURCES", "Digests", "Parting", "Reproduction", "Source", "Trial", "first_parting", "reproduce"]
