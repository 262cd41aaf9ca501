"""Independent random streams: one per repetition, the same for the same seed on every machine."""

from __future__ import annotations

from numpy.random import PCG64, Generator, SeedSequence


def streams(seed: int, count: int) -> list[Generator]:
    """That many independent generators."""
    return [Generator(PCG64(child)) for child in SeedSequence(seed).spawn(count)]
