"""Whether a run can be had again bit for bit, and what parts two that differ."""

from lockstep.measure.reproduce.digest import Digests, Parting, first_parting
from lockstep.measure.reproduce.reproduce import SOURCES, Reproduction, Source, Trial, reproduce

__all__ = ["SOURCES", "Digests", "Parting", "Reproduction", "Source", "Trial", "first_parting", "reproduce"]
