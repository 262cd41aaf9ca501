"""`Saved`: numbers that an operation keeps for its backward pass, for each number that it works on."""

from __future__ import annotations

from lockstep.base.records import dataclass

FORMATS = ("half", "fp32", "wider", "byte")
"""As activations are (`element_B`), fp32, what fp32 has beyond activations, and a byte."""
FP32_B = 4.0


@dataclass(frozen=True, slots=True)
class Saved:
    """So many numbers in one of `FORMATS`."""

    what: str
    numbers: float
    format: str = "half"

    def size_B(self, element_B: float) -> float:
        """Bytes, where an activation takes `element_B` bytes."""
        each_B = {"half": element_B, "fp32": FP32_B, "wider": FP32_B - element_B, "byte": 1.0}
        return self.numbers * each_B[self.format]

    @property
    def in_half(self) -> float:
        """Of the numbers those in the format of activations."""
        return self.numbers * (self.format == "half")

    def __str__(self) -> str:
        return f"{self.what} {self.numbers:g}" + ("" if self.format == "half" else f" {self.format}")
